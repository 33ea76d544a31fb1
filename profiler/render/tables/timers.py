"""Tables of cells that several timers measured: times side by side, and ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

from profiler.findings.findings import Findings
from profiler.findings.kinds.timers import TimerComparison, TimerError
from profiler.findings.programs import Programs
from profiler.render.tables.rows import (
    Column,
    Datum,
    FrameRow,
    Row,
    SmallTable,
    T,
    cell_row,
    text_column,
)
from profiler.render.words import numbers
from profiler.render.words.counters import leader_roof_words
from profiler.render.words.sentences import Card, strong


def timer_parts(findings: Findings) -> dict[str, Any] | None:
    """Parts of the section of timers; None where there are not two of them."""
    programs, timers = findings.programs, findings.timers
    if timers is None:
        return None
    return {
        "reference": timers.title(timers.reference),
        "count": len(timers.collectors) + 1,
        "overall": overall_table(programs, timers),
        "wall_clock": _wall_clock_table(programs, timers),
        "cells": _cell_table(programs, timers),
    }


def overall_table(programs: Programs, timers: TimerComparison) -> SmallTable:
    """Geometric mean of the ratios of each timer, least and most with their cells, how many."""
    names = {cell.id: f"{cell.variant.label} at {cell.problem.name}" for cell in programs.cells}
    columns: tuple[Column[FrameRow], ...] = (
        Column("geometric mean", lambda row: Datum(numbers.ratio(row["mean"]))),
        Column("least", lambda row: Datum(numbers.ratio(row["least"]))),
        text_column("least at", lambda row: names[row["least_at"]]),
        Column("most", lambda row: Datum(numbers.ratio(row["most"]))),
        text_column("most at", lambda row: names[row["most_at"]]),
        Column("cells", lambda row: Datum(str(row["cells"]))),
    )
    return SmallTable.of(
        "Each timer over all cells",
        f"timer \u00f7 {timers.title(timers.reference)}",
        columns,
        timers.overall.to_dict("records"),
        lambda row: Row(timers.title(row["collector"])),
    )


def _cell_table(programs: Programs, timers: TimerComparison) -> SmallTable:
    """Table of the cells: time of the reference, then time and ratio of each other timer."""
    reference = timers.title(timers.reference)
    times: dict[str, dict[str, FrameRow]] = {}
    for row in timers.medians.to_dict("records"):
        times.setdefault(row["cell"], {})[row["collector"]] = row

    def of_reference(cell: str) -> Datum:
        references = (row["reference"] for row in times[cell].values())
        return _time(next((time for time in references if not numbers.is_missing(time)), math.nan))

    def columns_of_timer(timer: str) -> tuple[Column[str], Column[str]]:
        def number(cell: str, name: str) -> float:
            return float(times[cell].get(timer, {}).get(name, math.nan))

        title = timers.title(timer)
        return (
            Column(title, lambda cell: _time(number(cell, "median"))),
            Column(f"{title} \u00f7 {reference}", lambda cell: _ratio(number(cell, "ratio"))),
        )

    timed = chain.from_iterable(map(columns_of_timer, timers.collectors))
    columns = (Column(reference, of_reference), *timed)
    measured = [cell.id for cell in programs.cells if cell.id in times]
    return _table_of_cells(programs, "Each cell by every timer", columns, measured, lambda id_: id_)


def _table_of_cells(
    programs: Programs,
    caption: str,
    columns: Sequence[Column[T]],
    rows: Iterable[T],
    cell_of: Callable[[T], str],
) -> SmallTable:
    """Table with the problem and the variant of each row in front; `cell_of` gives their cell."""
    cells = {cell.id: cell for cell in programs.cells}

    def named(row: T) -> Row:
        cell = cells[cell_of(row)]
        return cell_row(programs, cell, cell.problem.name)

    variant: Column[T] = text_column("variant", lambda row: cells[cell_of(row)].variant.label)
    return SmallTable.of(caption, "problem", (variant, *columns), rows, named)


def _wall_clock_table(programs: Programs, timers: TimerComparison) -> SmallTable | None:
    """Error of the wall clock and its parts; None where these are not known."""
    if timers.wall_clock.empty:
        return None
    columns: tuple[Column[FrameRow], ...] = (
        Column("wall clock", lambda row: _time(row["wall_clock"])),
        Column("kernels by nsys", lambda row: _time(row["traced"])),
        Column("ncu", lambda row: _time(row["reference"])),
        Column("error", lambda row: _signed(row["wall_clock"] - row["reference"])),
        Column("host time", lambda row: _signed(row["host"])),
        Column("caches, clocks, recording", lambda row: _signed(row["caches"])),
        Column("wall clock \u00f7 ncu", lambda row: _ratio(row["ratio"])),
    )
    return _table_of_cells(
        programs,
        "The error of the wall clock and its parts",
        columns,
        timers.wall_clock.to_dict("records"),
        lambda row: row["cell"],
    )


def _time(value: float) -> Datum:
    return Datum.quantity(value, "ns", "not measured")


def _ratio(value: float) -> Datum:
    return Datum.times(value, "not measured")


def _signed(ns: float) -> Datum:
    return Datum(numbers.signed_time(ns), numbers.raw(ns))


def furthest_clause(
    programs: Programs, timers: TimerComparison, error: TimerError, parts: Iterable[str] = ()
) -> str:
    """Clause on how far from which timer another is, where, and with which times and `parts`."""
    times = f"{numbers.show(error.median, 'ns')} against {numbers.show(error.reference, 'ns')}"
    all_times = "; ".join(filter(None, (times, ", ".join(parts))))
    ratio = strong(numbers.ratio(error.ratio))
    return f"{timers.title(timers.reference)}: {ratio} at {_place(programs, error)} ({all_times})"


def _place(programs: Programs, error: TimerError) -> str:
    cell = programs.correct_cells[error.cell]
    return f"{cell.variant.label} at {cell.problem.name}"


def error_parts(error: TimerError) -> tuple[str, ...]:
    """Words on how much of the wall clock's error is host time, and how much has other causes.

    Empty where that is not known.
    """
    if error.host is None or error.caches is None:
        return ()
    return (
        f"{numbers.signed_time(error.host)} is host time",
        f"{numbers.signed_time(error.caches)} is due to caches, clocks and recording",
    )


# ---- the four cards where timers are what a run compares -----------------------------------------


def timer_cards(findings: Findings, timers: TimerComparison, evidence: Card) -> tuple[Card, ...]:
    """Cards on the timer nearest to the primary one, how far others are, evidence, and why."""
    return (
        _nearest_card(timers),
        _furthest_card(findings.programs, timers),
        evidence,
        _why_card(findings, timers.furthest),
    )


def _nearest_card(timers: TimerComparison) -> Card:
    reference = timers.title(timers.reference)
    if timers.nearest is None:
        return Card(f"Nearest to {reference}", "nothing", "no cell was timed twice")
    return Card(
        f"Nearest to {reference}",
        timers.title(timers.nearest),
        f"{_mean_words(timers, timers.nearest)} the time by {reference}",
    )


def _furthest_card(programs: Programs, timers: TimerComparison) -> Card:
    """Card: where any timer is furthest from ncu; without ncu, how far each is in the mean."""
    other_timers = [name for name in timers.collectors if name != timers.nearest]
    means = {name: f"{timers.title(name)} {_mean_words(timers, name)}" for name in other_timers}
    error = timers.furthest
    if error is not None:
        del means[error.collector]
        mean = _mean_words(timers, error.collector)
        by = f"by {timers.title(error.collector)}, {_place(programs, error)}, {mean}"
        return Card("By how much", numbers.ratio(error.ratio), "; ".join([by, *means.values()]))
    return Card("By how much", f"{len(other_timers)} others", "; ".join(means.values()))


def _mean_words(timers: TimerComparison, collector: str) -> str:
    """Geometric mean of a timer's ratios, with the least and the most."""
    rows = {row["collector"]: row for row in timers.overall.to_dict("records")}
    row = rows[collector]
    ends = f"{numbers.ratio(row['least'])} to {numbers.ratio(row['most'])}"
    return f"mean {numbers.ratio(row['mean'])} ({ends})"


def _why_card(findings: Findings, error: TimerError | None) -> Card:
    """The parts of the largest error where they are known, else what differs between timers."""
    answer = "what each one times"
    detail = "kernels alone, or launches and gaps too; caches and clocks differ"
    if error is not None and (parts := error_parts(error)):
        answer, detail = parts
    elif error is not None:
        difference = numbers.signed_time(error.median - error.reference)
        answer = f"{difference} there are not kernel time by ncu"
        detail = "but launches, gaps, caches and clocks together (a timeline of nsys splits them)"
    return Card("Why", answer, "; ".join(filter(None, [detail, leader_roof_words(findings)])))
