"""The same cells by several timers, side by side: what each says, and how far they are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.findings.findings import Findings
from profiler.findings.kinds.timers import TimerComparison, TimerError
from profiler.findings.values import NAN
from profiler.model import Cell
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers

_NAMES: Mapping[str, str] = {
    "ncu": "ncu",
    "timer": "event timer",
    "torch_kernels": "torch.profiler",
    "plain_timer": "plain timer",
    "nsys": "nsys timeline",
    "torch": "torch.profiler timeline",
}


PLAIN_HEADS = (
    *(
        "plain timer",
        "kernels by nsys",
        "ncu",
        "error",
        "of the host",
        "of caches, clocks, recording",
    ),
    "error in percent",
)


@dataclass(frozen=True)
class TimerRow:
    """One cell."""

    problem: str
    variant: str
    mark: int
    data: tuple[Datum, ...]
    """Time of the reference, then time and ratio of each other timer."""


@dataclass(frozen=True)
class Overall:
    """One timer over all cells."""

    timer: str
    mean: str
    """Geometric mean of its ratios."""
    least: str
    least_at: str
    most: str
    most_at: str
    cells: int


@dataclass(frozen=True)
class Furthest:
    """Where a timer is furthest from ncu, in words."""

    timer: str
    ratio: str
    """Its time by that of ncu, there."""
    where: str
    times: str
    """Both times."""
    parts: str
    """Of the plain timer: what the host and what caches, clocks and recording have in it; empty
    where that is not known."""


@dataclass(frozen=True)
class TimerTable:
    """What the section of timers shows."""

    reference: str
    timers: tuple[str, ...]
    rows: tuple[TimerRow, ...]
    overall: tuple[Overall, ...]
    plain: tuple[TimerRow, ...]
    """The plain timer's error and its parts, for `PLAIN_HEADS`; empty where they are not known."""
    furthest: Furthest | None
    """None where nothing was timed beside ncu."""


def timer_table(findings: Findings) -> TimerTable | None:
    """Compare the timers of a run; None where there are not two of them."""
    timers = findings.timers
    if timers is None:
        return None
    return TimerTable(
        reference=timer_name(timers.reference),
        timers=tuple(map(timer_name, timers.collectors)),
        rows=_rows(findings, timers.medians, timers.collectors),
        overall=_overall(findings, timers),
        plain=_plain_rows(findings, timers.plain),
        furthest=None if timers.furthest is None else _furthest(findings, timers.furthest),
    )


def timer_name(collector: str) -> str:
    """What a collector's timer is called on the page."""
    return _NAMES.get(collector, collector)


def _rows(
    findings: Findings, compared: pd.DataFrame, timers: Sequence[str]
) -> tuple[TimerRow, ...]:
    times = {
        (row["cell"], row["collector"]): (row["median"], row["reference"], row["ratio"])
        for row in compared.to_dict("records")
    }
    cells = set(compared["cell"])
    return tuple(
        _row(findings, cell, [times.get((cell.id, timer), (NAN, NAN, NAN)) for timer in timers])
        for cell in findings.distinct_cells
        if cell.id in cells
    )


def _row(findings: Findings, cell: Cell, values: Sequence[tuple[float, float, float]]) -> TimerRow:
    references = (reference for _, reference, _ in values if not numbers.is_missing(reference))
    data = [_time(next(references, NAN))]
    for median, _, ratio in values:
        data += [_time(median), _ratio(ratio)]
    mark = findings.marks[cell.variant.id]
    return TimerRow(cell.problem.name, cell.variant.name, mark, tuple(data))


def _time(value: float) -> Datum:
    return Datum.quantity(value, "ns", "not measured")


def _ratio(value: float) -> Datum:
    return Datum.times(value, "not measured")


def _plain_rows(findings: Findings, plain: pd.DataFrame) -> tuple[TimerRow, ...]:
    cells = {cell.id: cell for cell in findings.distinct_cells}
    rows = []
    for row in plain.to_dict("records"):
        cell = cells[row["cell"]]
        error = row["plain"] - row["reference"]
        times = (row["plain"], row["traced"], row["reference"])
        parts = (error, row["host"], row["caches"])
        data = (
            *map(_time, times),
            *map(_part, parts),
            Datum(f"{100 * (row['ratio'] - 1):+.0f}\u202f%", numbers.raw(row["ratio"])),
        )
        mark = findings.marks[cell.variant.id]
        rows.append(TimerRow(cell.problem.name, cell.variant.name, mark, data))
    return tuple(rows)


def _part(value: float) -> Datum:
    return Datum(_signed(value), numbers.raw(value))


def _signed(value: float) -> str:
    """A time with its sign: a part of an error may be below 0."""
    sign = "+" if value >= 0 else "\N{MINUS SIGN}"
    return f"{sign}{numbers.show(abs(value), 'ns')}"


def _furthest(findings: Findings, error: TimerError) -> Furthest:
    cell = findings.correct_cells[error.cell]
    parts = ""
    if error.host is not None and error.caches is not None:
        parts = (
            f"{_signed(error.host)} are no kernel time but the host's, "
            f"{_signed(error.caches)} come of caches, clocks and the recording"
        )
    return Furthest(
        timer=timer_name(error.collector),
        ratio=numbers.ratio(error.ratio),
        where=f"{cell.variant.name} at {cell.problem.name}",
        times=f"{numbers.show(error.median, 'ns')} for {numbers.show(error.reference, 'ns')}",
        parts=parts,
    )


def _overall(findings: Findings, timers: TimerComparison) -> tuple[Overall, ...]:
    names = {
        cell.id: f"{cell.variant.name} at {cell.problem.name}" for cell in findings.distinct_cells
    }
    return tuple(
        Overall(
            timer=timer_name(row["collector"]),
            mean=numbers.ratio(row["mean"]),
            least=numbers.ratio(row["least"]),
            least_at=names[row["least_at"]],
            most=numbers.ratio(row["most"]),
            most_at=names[row["most_at"]],
            cells=row["cells"],
        )
        for row in timers.overall.to_dict("records")
    )
