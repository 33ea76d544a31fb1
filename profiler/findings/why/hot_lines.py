"""Lines of source, or instructions, at which warps could not issue."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from profiler.analyse.why.loads import LONG_SCOREBOARD, load_waited_for
from profiler.analyse.why.products import with_products_named

_SAMPLES, _EXECUTED = "samples_not_issued", "executed"
_STALL, _NOT_ISSUED = "stall_", "_not_issued"


@dataclass(frozen=True)
class HotLine:
    """One source line, or one instruction where the kernel has no line information."""

    file: str | None
    line: int | None
    text: str
    share: float
    """Of the samples in which the warp could not issue."""
    reason: str
    """What most of them waited for; empty where the page does not say."""
    samples: float = math.nan
    """Samples in which the warp could not issue."""
    executed: float = math.nan
    """Warp instructions."""
    loaded_at: str = ""
    """Another line that loads what most of them waited for from memory; empty where not known."""

    @property
    def place(self) -> str:
        """Name of the file and number of the line; empty of an instruction."""
        return "" if self.file is None else f"{file_name(self.file)}:{self.line}"


@dataclass(frozen=True, eq=False)
class ListedKernel:
    """One launch of a source page."""

    file: str
    """File that it stands in."""
    kernel: str
    has_lines: bool
    """Whether `lines` are source lines; else instructions."""
    lines: tuple[HotLine, ...]
    """Those with the most samples first."""
    executed: Mapping[str, float]
    """Warp instructions by class, the largest first."""


def file_name(path: str) -> str:
    """Name of a source file without its folder, which may name a person."""
    return path.replace("\\", "/").rpartition("/")[2]


def hot_lines(instructions: pd.DataFrame | None, most: int) -> tuple[HotLine, ...]:
    """Lines with most samples that could not issue; instructions where lines are not known.

    `instructions` has the columns of `parse.ncu_source`; None without a source page.
    """
    if instructions is None or _SAMPLES not in instructions:
        return ()
    total = float(instructions[_SAMPLES].sum())
    if not total > 0:
        return ()
    instructions = with_products_named(instructions)
    stalls = [
        str(name)
        for name in instructions.columns
        if str(name).startswith(_STALL) and str(name).endswith(_NOT_ISSUED)
    ]
    by_line = instructions["line"].notna().any()
    place = ["file", "line"] if by_line else ["address"]
    groups = instructions.groupby(place, sort=False)
    sums = groups[[_SAMPLES, _EXECUTED, *stalls]].sum(min_count=1).reset_index()
    texts = instructions.drop_duplicates(place)[[*place, "text" if by_line else "sass"]]
    hottest = sums.loc[sums[_SAMPLES] > 0].merge(texts, on=place).nlargest(most, _SAMPLES)
    lines = [_hot_line(row, stalls, total) for row in hottest.to_dict("records")]
    return tuple(replace(line, loaded_at=_loaded_at(line, instructions)) for line in lines)


def _loaded_at(line: HotLine, instructions: pd.DataFrame) -> str:
    """File and line of the load that a line waits for, if it is another one."""
    waits = f"{_STALL}{LONG_SCOREBOARD}{_NOT_ISSUED}"
    if line.file is None or line.reason != LONG_SCOREBOARD or waits not in instructions:
        return ""
    of_line = (instructions["file"] == line.file) & (instructions["line"] == line.line)
    samples = instructions[waits].where(of_line.fillna(value=False), 0.0).fillna(0.0)
    load = load_waited_for(instructions, int(samples.to_numpy().argmax()))
    if load is None or pd.isna(instructions["line"].iloc[load]):
        return ""
    file, number = (instructions[name].iloc[load] for name in ("file", "line"))
    place = f"{file_name(str(file))}:{number}"
    return "" if place == line.place else place


def _hot_line(row: Mapping[Hashable, object], stalls: Sequence[str], total: float) -> HotLine:
    counts = {name: count for name in stalls if (count := _number(row[name])) > 0}
    longest = max(counts, key=counts.__getitem__, default="")
    line = row.get("line")
    return HotLine(
        file=None if line is None else str(row["file"]),
        line=None if line is None else int(_number(line)),
        text=str(row.get("text") or row.get("sass") or "").strip(),
        share=_number(row[_SAMPLES]) / total,
        reason=longest.removeprefix(_STALL).removesuffix(_NOT_ISSUED),
        samples=_number(row[_SAMPLES]),
        executed=_number(row[_EXECUTED]),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan
