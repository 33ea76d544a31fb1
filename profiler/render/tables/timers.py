"""Tables of cells that several timers measured: times side by side, and ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.findings.findings import Findings, Programs
from profiler.findings.kinds.timers import TimerComparison, TimerError
from profiler.findings.values import NAN
from profiler.model import Cell
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.counters import leader_roof_words
from profiler.render.words.sentences import Card

WALL_CLOCK_HEADS = (
    *("wall clock", "kernels by nsys", "ncu", "error"),
    *("host time", "caches, clocks, recording", "wall clock \u00f7 ncu"),
)


@dataclass(frozen=True)
class Furthest:
    """Where a timer is furthest from ncu, in words."""

    timer: str
    ratio: str
    """Its time by that of ncu, there."""
    where: str
    times: str
    """Both times."""
    difference: str
    """Time of the timer less that of the reference, signed."""
    parts: str
    """How much of the wall clock's error is host time, and how much is due to caches, clocks
    and recording; empty where that is not known."""
    host: str = ""
    caches: str = ""
    """Both parts by themselves."""


@dataclass(frozen=True)
class TimerTable:
    """Contents of the section of timers."""

    reference: str
    timers: tuple[str, ...]
    rows: tuple[Row, ...]
    """A row a cell: variant, time of the reference, then time and ratio of each other timer."""
    overall: tuple[Row, ...]
    """A row a timer: geometric mean of its ratios, least and most with their cells, how many."""
    wall_clock: tuple[Row, ...]
    """Error of the wall clock and its parts, for `WALL_CLOCK_HEADS`; empty where not known."""
    furthest: Furthest | None
    """None where nothing was timed beside ncu."""


def timer_table(findings: Findings) -> TimerTable | None:
    """Compare the timers of a run; None where there are not two of them."""
    programs = findings.programs
    timers = findings.timers
    if timers is None:
        return None
    return TimerTable(
        reference=timers.title(timers.reference),
        timers=tuple(map(timers.title, timers.collectors)),
        rows=_rows(programs, timers.medians, timers.collectors),
        overall=_overall(programs, timers),
        wall_clock=_wall_clock_rows(programs, timers.wall_clock),
        furthest=None if timers.furthest is None else _furthest(programs, timers, timers.furthest),
    )


def _rows(programs: Programs, compared: pd.DataFrame, timers: Sequence[str]) -> tuple[Row, ...]:
    times = {
        (row["cell"], row["collector"]): (row["median"], row["reference"], row["ratio"])
        for row in compared.to_dict("records")
    }
    cells = set(compared["cell"])
    return tuple(
        _row(programs, cell, [times.get((cell.id, timer), (NAN, NAN, NAN)) for timer in timers])
        for cell in programs.cells
        if cell.id in cells
    )


def _row(programs: Programs, cell: Cell, values: Sequence[tuple[float, float, float]]) -> Row:
    references = (reference for _, reference, _ in values if not numbers.is_missing(reference))
    data = [_time(next(references, NAN))]
    for median, _, ratio in values:
        data += [_time(median), _ratio(ratio)]
    return _timer_row(programs, cell, data)


def _timer_row(programs: Programs, cell: Cell, data: Iterable[Datum]) -> Row:
    return Row(
        cell.problem.name,
        (Datum(cell.variant.label, css="words"), *data),
        programs.marks[cell.variant.id],
        cell=programs.cell_numbers[cell.id],
    )


def _time(value: float) -> Datum:
    return Datum.quantity(value, "ns", "not measured")


def _ratio(value: float) -> Datum:
    return Datum.times(value, "not measured")


def _wall_clock_rows(programs: Programs, errors: pd.DataFrame) -> tuple[Row, ...]:
    cells = {cell.id: cell for cell in programs.cells}
    rows = []
    for row in errors.to_dict("records"):
        cell = cells[row["cell"]]
        error = row["wall_clock"] - row["reference"]
        times = (row["wall_clock"], row["traced"], row["reference"])
        parts = (error, row["host"], row["caches"])
        data = (
            *map(_time, times),
            *(Datum(numbers.signed_time(part), numbers.raw(part)) for part in parts),
            _ratio(row["ratio"]),
        )
        rows.append(_timer_row(programs, cell, data))
    return tuple(rows)


def _furthest(programs: Programs, timers: TimerComparison, error: TimerError) -> Furthest:
    cell = programs.correct_cells[error.cell]
    host = caches = ""
    if error.host is not None and error.caches is not None:
        host = f"{numbers.signed_time(error.host)} is host time"
        caches = f"{numbers.signed_time(error.caches)} is due to caches, clocks and recording"
    return Furthest(
        timer=timers.title(error.collector),
        ratio=numbers.ratio(error.ratio),
        where=f"{cell.variant.label} at {cell.problem.name}",
        times=f"{numbers.show(error.median, 'ns')} against {numbers.show(error.reference, 'ns')}",
        difference=numbers.signed_time(error.median - error.reference),
        parts=", ".join(filter(None, (host, caches))),
        host=host,
        caches=caches,
    )


def _overall(programs: Programs, timers: TimerComparison) -> tuple[Row, ...]:
    names = {cell.id: f"{cell.variant.label} at {cell.problem.name}" for cell in programs.cells}
    return tuple(
        Row(
            timers.title(row["collector"]),
            (
                Datum(numbers.ratio(row["mean"])),
                Datum(numbers.ratio(row["least"])),
                Datum(names[row["least_at"]], css="words"),
                Datum(numbers.ratio(row["most"])),
                Datum(names[row["most_at"]], css="words"),
                Datum(str(row["cells"])),
            ),
        )
        for row in timers.overall.to_dict("records")
    )


# ---- the four cards where timers are what a run compares -----------------------------------------


def timer_cards(findings: Findings, timers: TimerComparison, evidence: Card) -> tuple[Card, ...]:
    """Which timer is nearest to the primary one, how far others are, on what evidence, and why."""
    table = timer_table(findings)
    furthest = table.furthest if table else None
    return (
        _nearest_card(timers),
        _furthest_card(timers, furthest),
        evidence,
        _why_card(findings, furthest),
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


def _furthest_card(timers: TimerComparison, furthest: Furthest | None) -> Card:
    """Where any timer is furthest from ncu; without ncu, how far each is in the mean."""
    others = [name for name in timers.collectors if name != timers.nearest]
    means = {name: f"{timers.title(name)} {_mean_words(timers, name)}" for name in others}
    if furthest is not None:
        own = next(name for name in others if timers.title(name) == furthest.timer)
        del means[own]
        by = f"by {furthest.timer}, {furthest.where}, {_mean_words(timers, own)}"
        return Card("By how much", furthest.ratio, "; ".join([by, *means.values()]))
    return Card("By how much", f"{len(others)} others", "; ".join(means.values()))


def _mean_words(timers: TimerComparison, collector: str) -> str:
    """Geometric mean of a timer's ratios, with the least and the most."""
    rows = {row["collector"]: row for row in timers.overall.to_dict("records")}
    row = rows[collector]
    ends = f"{numbers.ratio(row['least'])} to {numbers.ratio(row['most'])}"
    return f"mean {numbers.ratio(row['mean'])} ({ends})"


def _why_card(findings: Findings, furthest: Furthest | None) -> Card:
    """The parts of the largest error where they are known, else what differs between timers."""
    answer = "what each one times"
    detail = "kernels alone, or launches and gaps too; caches and clocks differ"
    if furthest is not None and not furthest.host:
        answer = f"{furthest.difference} there are not kernel time by ncu"
        detail = "but launches, gaps, caches and clocks together (a timeline of nsys splits them)"
    if furthest is not None and furthest.host:
        answer, detail = furthest.host, furthest.caches
    return Card("Why", answer, "; ".join(filter(None, [detail, leader_roof_words(findings)])))
