"""`--fail-on regression[:PERCENT]`: when a comparison fails the command that made it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profiler.errors import UsageError
from profiler.model import Verdict

if TYPE_CHECKING:
    import pandas as pd

JUDGED_COLUMNS = ("verdict", "ratio", "ratio_low", "ratio_high")
"""What a frame needs beside `cell` so that a gate can judge it."""

_FORM = re.compile(r"regression(?::\s*(?P<percent>\d+(?:\.\d*)?|\.\d+)\s*%?)?")
_MOST_NAMED = 20


@dataclass(frozen=True)
class Gate:
    """Fail where a cell is SLOWER by more than `percent`."""

    percent: float = 0.0

    def __str__(self) -> str:
        return f"regression:{self.percent:g}%" if self.percent else "regression"


def parse_gate(text: str) -> Gate:
    """Read `regression`, `regression:2` or `regression:2%`; raises UsageError for all else."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"--fail-on {text}: must look like regression, regression:2 or regression:2.5%",
            remedy="The number is how many percent slower a cell may be; 0 by default.",
        )
    return Gate(float(match["percent"] or 0))


def can_judge(cells: pd.DataFrame) -> bool:
    """Whether a frame has the columns that a gate reads."""
    return set(JUDGED_COLUMNS) <= set(cells.columns)


def regressions(cells: pd.DataFrame, gate: Gate) -> pd.DataFrame:
    """The rows of a frame that trip the gate, the slowest first.

    `cells` has `cell` and `JUDGED_COLUMNS`, ratios being candidate / baseline. A row trips where
    its verdict is SLOWER and even the near end of its interval lies beyond the threshold: what a
    gate claims has to stand. UNCLEAR, no verdict and a missing interval never trip. A frame without
    those columns has no regressions; `can_judge` tells the two apart.
    """
    if not can_judge(cells):
        return cells.iloc[:0]
    slower = cells["verdict"] == Verdict.SLOWER
    beyond = cells["ratio_low"].astype(float) > 1 + gate.percent / 100
    return cells[slower & beyond].sort_values("ratio", ascending=False, kind="stable")


def not_judged(cells: pd.DataFrame, gate: Gate) -> str:
    """Sentence on the rows that a gate could not judge; empty where every row has a verdict."""
    if not can_judge(cells) or cells["verdict"].isna().all():
        return f"--fail-on {gate}: there are no verdicts here; nothing was judged."
    decided = cells["verdict"].isin([Verdict.FASTER, Verdict.SLOWER, Verdict.SAME])
    count = int((~decided).sum())
    if not count:
        return ""
    return f"--fail-on {gate}: {count} of {len(cells)} cells are undecided and do not trip it."


def tripped_message(regressed: pd.DataFrame, gate: Gate) -> str:
    """Name the cells that tripped a gate, one in a line; `regressed` is from `regressions`."""
    noun = "cell is" if len(regressed) == 1 else "cells are"
    lines = [f"--fail-on {gate}: {len(regressed)} {noun} SLOWER beyond the threshold:"]
    columns = [regressed[name].tolist() for name in ("cell", "ratio", "ratio_low", "ratio_high")]
    for cell, *ratios in list(zip(*columns, strict=True))[:_MOST_NAMED]:
        lines.append(f"  {cell}: {_change_words(*map(float, ratios))}")
    if len(regressed) > _MOST_NAMED:
        lines.append(f"  and {len(regressed) - _MOST_NAMED} more")
    return "\n".join(lines)


def _change_words(ratio: float, low: float, high: float) -> str:
    """Times of the older time, with the interval."""
    return f"{ratio:.3f}\N{MULTIPLICATION SIGN} [{low:.3f}, {high:.3f}]"
