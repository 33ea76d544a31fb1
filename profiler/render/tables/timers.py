"""The same cells by several timers, side by side: what each says, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.timers import (
    compare_timers,
    overall,
    reference_collector,
    split_plain,
)
from profiler.findings.lookup import Lookup
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
class Worst:
    """Where the plain timer is furthest off, in words."""

    ratio: str
    """Its time by that of the reference, there."""
    where: str
    times: str
    """Both times."""
    parts: str
    """What the host and what caches, clocks and recording have in it; empty where not known."""


@dataclass(frozen=True)
class TimerTable:
    """What the section of timers shows."""

    reference: str
    timers: tuple[str, ...]
    rows: tuple[TimerRow, ...]
    overall: tuple[Overall, ...]
    plain: tuple[TimerRow, ...]
    """The plain timer's error and its parts, for `PLAIN_HEADS`; empty where they are not known."""
    worst: Worst | None
    """None where the plain timer did not measure, or not beside ncu."""


def timer_table(lookup: Lookup) -> TimerTable | None:
    """Compare the timers of a run; None where there are not two of them."""
    reference = reference_collector(lookup.report.samples)
    compared = compare_timers(lookup.report.summary)
    correct = [cell.id for cell in lookup.report.plan.cells if lookup.correct(cell)]
    compared = compared[compared["cell"].isin(correct)]
    if reference is None or compared.empty:
        return None
    timers = tuple(dict.fromkeys(compared["collector"]))
    plain = split_plain(lookup.report.summary)
    plain = plain[plain["cell"].isin(correct)] if reference == "ncu" else plain.iloc[:0]
    return TimerTable(
        timer_name(reference),
        tuple(timer_name(one) for one in timers),
        _rows(lookup, compared, timers),
        _overall(lookup, compared),
        _plain_rows(lookup, plain[plain["traced"].notna()]),
        _worst(lookup, plain),
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
    return Datum.quantity(value, "ns", "not measured")


def _ratio(value: float) -> Datum:
    return Datum.times(value, "not measured")


def _plain_rows(lookup: Lookup, plain: pd.DataFrame) -> tuple[TimerRow, ...]:
    cells = {cell.id: cell for cell in lookup.report.plan.cells}
    found = []
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
        mark = lookup.marks[cell.variant.id]
        found.append(TimerRow(cell.problem.name, cell.variant.name, mark, data))
    return tuple(found)


def _part(value: float) -> Datum:
    return Datum(_signed(value), numbers.raw(value))


def _signed(value: float) -> str:
    """A time with its sign: a part of an error may be below 0."""
    sign = "+" if value >= 0 else "\N{MINUS SIGN}"
    return f"{sign}{numbers.show(abs(value), 'ns')}"


def _worst(lookup: Lookup, plain: pd.DataFrame) -> Worst | None:
    """Where the plain timer is off by the largest factor, in whichever direction."""
    if plain.empty:
        return None
    row = max(plain.to_dict("records"), key=lambda one: abs(math.log(one["ratio"])))
    cell = next(one for one in lookup.report.plan.cells if one.id == row["cell"])
    parts = ""
    if not numbers.is_missing(row["traced"]):
        host, caches = _signed(row["host"]), _signed(row["caches"])
        parts = (
            f"{host} are no kernel time but the host's, "
            f"{caches} come of caches, clocks and the recording"
        )
    return Worst(
        numbers.ratio(row["ratio"]),
        f"{cell.variant.name} at {cell.problem.name}",
        f"{numbers.show(row['plain'], 'ns')} for {numbers.show(row['reference'], 'ns')}",
        parts,
    )


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
