"""Lines of source, or instructions, at which warps could not issue."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from profiler.analyse.why.sass_code import LONG_SCOREBOARD, Code
from profiler.analyse.why.waited_for import PRODUCERS

_SAMPLES, _EXECUTED = "samples_not_issued", "executed"
_STALL, _NOT_ISSUED = "stall_", "_not_issued"
_NO_SOURCE = re.compile(r"|<(unable|failed|no|source)\b.*>", re.IGNORECASE)
"""Text of a line whose file ncu could not open: `<Unable to open source file>`."""


@dataclass(frozen=True)
class HotLine:
    """Source line, or instruction where the kernel has no line information."""

    file: str | None
    line: int | None
    text: str
    share: float
    """Share of the samples in which the warp could not issue."""
    reason: str
    """Stall reason of most samples; empty where the page does not say."""
    samples: float = math.nan
    """Samples in which the warp could not issue."""
    executed: float = math.nan
    """Warp instructions."""
    loaded_at: str = ""
    """Another line whose load from memory most samples waited for; empty where not known."""

    @property
    def place(self) -> str:
        """Name of the file and number of the line; empty of an instruction."""
        return "" if self.file is None else f"{file_name(self.file)}:{self.line}"


@dataclass(frozen=True, eq=False)
class ListedKernel:
    """Launch of a source page."""

    file: str
    """File that it stands in."""
    kernel: str
    has_lines: bool
    """Whether `lines` are source lines; else instructions."""
    lines: tuple[HotLine, ...]
    """Lines, the ones with the most samples first."""
    executed: Mapping[str, float]
    """Warp instructions by class, the largest first."""


def file_name(path: str) -> str:
    """Name of a source file without its folder, which may name a person."""
    return path.replace("\\", "/").rpartition("/")[2]


def hot_lines(instructions: pd.DataFrame | None, most: int) -> tuple[HotLine, ...]:
    """Lines with most samples that could not issue; instructions where lines are not known.

    `instructions` are those of `samples_by_wait`; None without a source page.
    """
    if instructions is None or _SAMPLES not in instructions:
        return ()
    total = float(instructions[_SAMPLES].sum())
    if not total > 0:
        return ()
    stalls = stall_columns(instructions)
    by_line = instructions["line"].notna().any()
    place = ["file", "line"] if by_line else ["address"]
    code = Code.of(instructions)
    counters = [_SAMPLES, _EXECUTED, *stalls]
    counts = instructions[counters].to_numpy(dtype="float64")
    lines = []
    for of_line in _hottest_places(instructions, place, most):
        first = int(of_line.argmax())
        names = (*place, "text" if by_line else "sass")
        row: dict[Hashable, object] = {name: instructions[name].iloc[first] for name in names}
        row |= zip(counters, _sums(counts[of_line]), strict=True)
        line = _hot_line(row, stalls, total)
        lines.append(_with_producer(line, instructions, code, of_line))
    return tuple(lines)


def stall_columns(instructions: pd.DataFrame) -> dict[str, str]:
    """Stall reason of each column of samples that could not issue for it."""
    names = (str(name) for name in instructions.columns)
    return {
        name: name.removeprefix(_STALL).removesuffix(_NOT_ISSUED)
        for name in names
        if name.startswith(_STALL) and name.endswith(_NOT_ISSUED)
    }


def _sums(counts: np.ndarray) -> list[float]:
    """Sums of columns; NaN of those without any number."""
    sums = np.nansum(counts, axis=0)
    sums[np.isnan(counts).all(axis=0)] = math.nan
    return [float(value) for value in sums]


def _hottest_places(
    instructions: pd.DataFrame, place: Sequence[str], most: int
) -> Iterator[np.ndarray]:
    """Masks of the instructions of each place with samples, places with most samples first."""
    groups = instructions.groupby([*place], sort=False).ngroup().fillna(-1).to_numpy(dtype="int64")
    has_place = groups >= 0
    samples = instructions[_SAMPLES].fillna(0.0).to_numpy(dtype="float64")
    sums = np.bincount(groups[has_place], samples[has_place])
    for group in np.argsort(-sums, kind="stable")[:most]:
        if sums[group] > 0:
            yield groups == group


def _with_producer(
    line: HotLine, instructions: pd.DataFrame, code: Code, of_line: np.ndarray
) -> HotLine:
    """The line with the place of the load that it waits for.

    Without a text, machine code is its text: its hottest instruction, and what gives it the result
    that it waits for.
    """
    hottest = _hottest(instructions, of_line, f"{_STALL}{line.reason}{_NOT_ISSUED}")
    reason = line.reason.partition(":")[0]
    producer = code.producer(hottest, PRODUCERS.get(reason, ()))
    if line.file is None or _NO_SOURCE.fullmatch(line.text):
        positions = [position for position in (hottest, producer) if position is not None]
        texts = instructions["sass"].iloc[positions].astype(str).str.strip()
        line = replace(line, text=" \u2190 ".join(texts))
    if line.file is None or producer is None or reason != LONG_SCOREBOARD:
        return line
    return replace(line, loaded_at=_other_place(instructions, producer, line))


def _hottest(instructions: pd.DataFrame, of_line: np.ndarray, waits: str) -> int:
    """Position of the instruction of a line with most samples of a wait, or of any."""
    column = waits if waits in instructions else _SAMPLES
    return int(np.where(of_line, instructions[column].fillna(0.0), -1.0).argmax())


def _other_place(instructions: pd.DataFrame, position: int, line: HotLine) -> str:
    """File and line of an instruction; empty where they are not known, or those of the line."""
    file, number = (instructions[name].iloc[position] for name in ("file", "line"))
    if pd.isna(number):
        return ""
    place = f"{file_name(str(file))}:{number}"
    return "" if place == line.place else place


def _hot_line(row: Mapping[Hashable, object], stalls: Mapping[str, str], total: float) -> HotLine:
    counts = {name: count for name in stalls if (count := _number(row[name])) > 0}
    longest = max(counts, key=counts.__getitem__, default="")
    line = row.get("line")
    return HotLine(
        file=None if line is None else str(row["file"]),
        line=None if line is None else int(_number(line)),
        text=str(row.get("text") or row.get("sass") or "").strip(),
        share=_number(row[_SAMPLES]) / total,
        reason=stalls.get(longest, ""),
        samples=_number(row[_SAMPLES]),
        executed=_number(row[_EXECUTED]),
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float | np.integer) else math.nan
