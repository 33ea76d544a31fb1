"""`--fail-on`: `regression[:PERCENT]` or `METRIC>NUMBER`, when numbers fail the command."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from profiler.errors import UsageError, close_hint
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import Verdict
from profiler.notices import counted

if TYPE_CHECKING:
    import pandas as pd

    from profiler.findings.cell_numbers import Value
    from profiler.findings.findings import Findings
    from profiler.findings.verdicts import PairVerdict
    from profiler.metrics.queries import Label
    from profiler.model import Cell

GATE_COLUMNS = ("cell", "verdict", "ratio", "ratio_low", "ratio_high")
"""Columns of the frames that a gate judges; ratios are candidate ÷ baseline."""

_FORM = re.compile(r"regression(?::\s*(?P<percent>\d+(?:\.\d*)?|\.\d+)\s*%?)?")
_BOUND = re.compile(
    r"(?P<metric>[A-Za-z]\w*)\s*(?P<sign>[<>])\s*(?P<number>\d+(?:\.\d*)?|\.\d+)\s*"
    r"(?P<unit>ns|[u\u00b5\u03bc]s|ms|s|%)?"
)
_NS = {"ns": 1.0, "us": 1e3, "\u00b5s": 1e3, "\u03bcs": 1e3, "ms": 1e6, "s": 1e9}
MOST_NAMED = 20


@dataclass(frozen=True)
class Gate:
    """Fail where a cell is SLOWER by more than `percent`."""

    percent: float = 0.0

    def __str__(self) -> str:
        return f"regression:{self.percent:g}%" if self.percent else "regression"

    @property
    def limit(self) -> float:
        """Ratio beyond which the near end of an interval trips it."""
        return 1 + self.percent / 100


@dataclass(frozen=True)
class Bound:
    """Fail where a cell has more of a metric (`>`), or less of it (`<`), than a number."""

    metric: str
    """Name as in `summary.csv`, or without its unit."""
    sign: str
    number: float
    unit: str

    @property
    def is_above(self) -> bool:
        """Whether numbers above it are beyond it."""
        return self.sign == ">"

    def __str__(self) -> str:
        return f"{self.metric}{self.sign}{self.number:g}{self.unit}"


@dataclass(frozen=True, eq=False)
class RevisionComparison:
    """One variant at one problem: the newest revision against the oldest."""

    variant: str
    """Name of the variant in the experiment."""
    problem: str
    old: Cell
    new: Cell
    pair: PairVerdict
    """Verdict with the ratio of the newest revision's duration to the oldest's."""
    failure: str
    """Why the newest has no right result where the oldest has one; else empty."""
    old_failure: str
    """Why the oldest has none; else empty."""

    @property
    def verdict(self) -> Verdict:
        """NO DATA where none was given."""
        return self.pair.verdict or Verdict.NO_DATA

    def trips(self, gate: Gate) -> bool:
        """Whether it trips a gate, by the near end of its interval, as cells of a run do."""
        return self.verdict is Verdict.SLOWER and self.pair.low > gate.limit


def parse_run_gate(text: str) -> Gate | Bound:
    """Read what may fail a run: what `parse_gate` takes, or `duration>120us`."""
    match = _BOUND.fullmatch(text.strip())
    if match is None:
        return parse_gate(text, also=" or, as a bound, like duration>120us or l2_hit_pct<60")
    return Bound(match["metric"], match["sign"], float(match["number"]), match["unit"] or "")


def parse_gate(text: str, *, also: str = "") -> Gate:
    """Read `regression`, `regression:2` or `regression:2%`; raises UsageError for all else.

    `also`: what else would have been taken.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"--fail-on {text}: must look like regression, regression:2 or regression:2.5%" + also,
            remedy="The number is how many percent slower a cell may be; 0 by default.",
        )
    return Gate(float(match["percent"] or 0))


def regressions(cells: pd.DataFrame, gate: Gate) -> pd.DataFrame:
    """The rows of a frame of `GATE_COLUMNS` that trip the gate, the slowest first.

    A row trips where its verdict is SLOWER and even the near end of its interval lies beyond the
    threshold: what a gate claims has to stand. UNCLEAR, no verdict and a missing interval never
    trip.
    """
    slower = cells["verdict"] == Verdict.SLOWER
    beyond = cells["ratio_low"].astype(float) > gate.limit
    return cells[slower & beyond].sort_values("ratio", ascending=False, kind="stable")


def not_judged(cells: pd.DataFrame, gate: Gate) -> str:
    """Sentence on the rows that a gate could not judge; empty where every row has a verdict."""
    if cells["verdict"].isna().all():
        return f"--fail-on {gate}: there are no verdicts here; nothing was judged."
    decided = cells["verdict"].isin([Verdict.FASTER, Verdict.SLOWER, Verdict.SAME])
    count = int((~decided).sum())
    if not count:
        return ""
    return f"--fail-on {gate}: {count} of {len(cells)} cells are undecided and do not trip it."


def tripped_message(regressed: pd.DataFrame, gate: Gate) -> str:
    """Name the cells that tripped a gate, one in a line; `regressed` is from `regressions`."""
    lines = [
        f"--fail-on {gate}: {counted(len(regressed), 'cell is', 'cells are')} "
        f"{Verdict.SLOWER.word} beyond the threshold:"
    ]
    columns = [regressed[name].tolist() for name in ("cell", "ratio", "ratio_low", "ratio_high")]
    for cell, ratio, low, high in list(zip(*columns, strict=True))[:MOST_NAMED]:
        lines.append(f"  {cell}: {ratio:.3f}\N{MULTIPLICATION SIGN} [{low:.3f}, {high:.3f}]")
    if len(regressed) > MOST_NAMED:
        lines.append(f"  and {len(regressed) - MOST_NAMED} more")
    return "\n".join(lines)


def require_known_metric(bound: Bound, requested: Iterable[str]) -> None:
    """Raise UsageError for a metric that no run of an experiment can have.

    `requested`: names of metrics that the experiment asks for beside those of the catalogue.
    """
    known_names = {form for name in (*CATALOGUE, *requested) for form in _forms(name)}
    if bound.metric not in known_names:
        hint = close_hint(bound.metric, known_names)
        raise UsageError(f"--fail-on {bound}: there is no metric '{bound.metric}'{hint}")


def _forms(name: str) -> tuple[str, str]:
    """A metric's name, and the name without its unit."""
    return name, name.rpartition("_")[0]


def beyond_bound(
    values: Iterable[tuple[Cell, Value]], label: Label, bound: Bound
) -> list[tuple[Cell, Value]]:
    """Cells whose number is beyond a bound, its interval included where it has one.

    A counter of a single sample has none: its number decides.
    """
    limit = bound.number * (_NS[bound.unit] if label.unit == "ns" else 1.0)
    sign = 1 if bound.is_above else -1
    return [of_cell for of_cell in values if sign * _near_end(of_cell[1], bound) > sign * limit]


def nearest_to_bound(
    values: Sequence[tuple[Cell, Value]], bound: Bound
) -> tuple[Cell, Value] | None:
    """The cell that is nearest to a bound that none is beyond; None without any number."""
    choose = max if bound.is_above else min
    return choose(values, key=lambda of_cell: _near_end(of_cell[1], bound), default=None)


def _near_end(value: Value, bound: Bound) -> float:
    """The end of an interval that is nearest to a bound; the number itself without an interval."""
    end = value.low if bound.is_above else value.high
    return value.median if math.isnan(end) else end


def gated_values(findings: Findings, label: Label) -> list[tuple[Cell, Value]]:
    """Cells that a bound judges, with their numbers; those without a number are left out."""
    values = [(cell, findings.numbers.value(cell, label.name)) for cell in gated_cells(findings)]
    return [(cell, value) for cell, value in values if not math.isnan(value.median)]


def gated_cells(findings: Findings) -> list[Cell]:
    """Correct cells without those of baseline and references: others are compared with these."""
    programs = findings.programs
    correct_cells = programs.correct_by_place.values()
    return [cell for cell in correct_cells if cell.variant.id not in programs.references]


def metric_of(findings: Findings, bound: Bound) -> Label:
    """The metric of a bound; raises UsageError where the run lacks it, or it has another unit."""
    labels = findings.numbers.metrics
    matching_labels = [label for label in labels if bound.metric in _forms(label.name)]
    if not matching_labels:
        names = ", ".join(label.name for label in labels[:MOST_NAMED])
        raise UsageError(f"--fail-on {bound}: this run has no {bound.metric}; it has {names}")
    metric = matching_labels[0]
    fits = bound.unit in _NS if metric.unit == "ns" else bound.unit in ("", metric.unit)
    if not fits:
        raise UsageError(
            f"--fail-on {bound}: {metric.name} comes in {metric.unit or 'no unit'}",
            remedy="Give times with ns, us, ms or s, all else as summary.csv has it.",
        )
    return metric
