"""The same cells by several timers, side by side: what each says, and how far they are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.timers import compare_timers, overall, reference_collector
from profiler.model import Cell
from profiler.render import numbers
from profiler.render.lookup import Lookup
from profiler.render.tables import Datum
from profiler.render.values import NAN

_NAMES: Mapping[str, str] = {
    "ncu": "ncu",
    "timer": "event timer",
    "torch_kernels": "torch.profiler",
    "plain_timer": "plain timer",
    "nsys": "nsys timeline",
    "torch": "torch.profiler timeline",
}


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
class TimerTable:
    """What the section of timers shows."""

    reference: str
    timers: tuple[str, ...]
    rows: tuple[TimerRow, ...]
    overall: tuple[Overall, ...]


def timer_table(lookup: Lookup) -> TimerTable | None:
    """Compare the timers of a run; None where there are not two of them."""
    reference = reference_collector(lookup.report.samples)
    compared = compare_timers(lookup.report.summary)
    correct = [cell.id for cell in lookup.report.plan.cells if lookup.correct(cell)]
    compared = compared[compared["cell"].isin(correct)]
    if reference is None or compared.empty:
        return None
    timers = tuple(dict.fromkeys(compared["collector"]))
    return TimerTable(
        timer_name(reference),
        tuple(timer_name(one) for one in timers),
        _rows(lookup, compared, timers),
        _overall(lookup, compared),
    )


def timer_name(collector: str) -> str:
    """What a collector's timer is called on the page."""
    return _NAMES.get(collector, collector)


def _rows(lookup: Lookup, compared: pd.DataFrame, timers: Sequence[str]) -> tuple[TimerRow, ...]:
    found = {
        (row["cell"], row["collector"]): (row["median"], row["reference"], row["ratio"])
        for row in compared.to_dict("records")
    }
    cells = set(compared["cell"])
    return tuple(
        _row(lookup, cell, [found.get((cell.id, one), (NAN, NAN, NAN)) for one in timers])
        for cell in lookup.report.plan.cells
        if cell.id in cells
    )


def _row(lookup: Lookup, cell: Cell, values: Sequence[tuple[float, float, float]]) -> TimerRow:
    known = (reference for _, reference, _ in values if not numbers.is_missing(reference))
    data = [_time(next(known, NAN))]
    for median, _, ratio in values:
        data += [_time(median), _ratio(ratio)]
    mark = lookup.marks[cell.variant.id]
    return TimerRow(cell.problem.name, cell.variant.name, mark, tuple(data))


def _time(value: float) -> Datum:
    if numbers.is_missing(value):
        return Datum(title="not measured", css="none")
    return Datum(numbers.show(value, "ns"), numbers.raw(value))


def _ratio(value: float) -> Datum:
    if numbers.is_missing(value):
        return Datum(title="not measured", css="none")
    return Datum(numbers.ratio(value), numbers.raw(value))


def _overall(lookup: Lookup, compared: pd.DataFrame) -> tuple[Overall, ...]:
    names = {
        cell.id: f"{cell.variant.name} at {cell.problem.name}" for cell in lookup.report.plan.cells
    }
    return tuple(
        Overall(
            timer_name(row["collector"]),
            numbers.ratio(row["mean"]),
            numbers.ratio(row["least"]),
            names[row["least_at"]],
            numbers.ratio(row["most"]),
            names[row["most_at"]],
            row["cells"],
        )
        for row in overall(compared).to_dict("records")
    )
