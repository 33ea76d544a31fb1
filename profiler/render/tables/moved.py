"""Which counters moved with a step from some variants to others, by problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from profiler.analyse.effects import Medians, Move, ParameterStep, moves
from profiler.findings.lookup import Lookup
from profiler.metrics.catalogue import STALL_PREFIX
from profiler.render.tables.rows import Datum, Heat, Row, heat_heads
from profiler.render.tables.why import STILL_UNDER, TIME_AGAIN, change_datum, movement
from profiler.render.words import numbers
from profiler.render.words.labels import Label

MOST_MOVED = 14
_POINTS = 50.0
"""As many points of a percentage count as much as a factor of e in a counter."""
_STALLED_WARPS = 1.0
"""As many warps per issue more or less that wait for one reason do too."""
_NO_VARIANT = -1


def counters(lookup: Lookup) -> tuple[Label, ...]:
    """Metrics that can explain: neither the primary one nor what follows from the time."""
    return tuple(
        metric
        for metric in lookup.measured_metrics
        if metric != lookup.primary and metric.name not in TIME_AGAIN
    )


def medians_of(lookup: Lookup, metric: Label) -> Medians:
    """Medians of a metric in all cells that may be compared."""
    found = {}
    for cell in lookup.report.plan.cells:
        value = lookup.value(cell, metric.name)
        if value.known and lookup.correct(cell):
            found[cell.variant.id, cell.problem.id] = value.median
    return found


def moved_table(
    lookup: Lookup, step: ParameterStep, medians: Mapping[Label, Medians]
) -> Heat | None:
    """The counters that moved most, over the problems in the middle; None where none did."""
    problems = [problem.id for problem in lookup.problems]
    found = []
    for metric, values in medians.items():
        row = moves(step, values, problems)
        size = _typical(metric, row)
        if size > STILL_UNDER:
            found.append((size, metric, row))
    if not found:
        return None
    found.sort(key=lambda one: -one[0])
    return Heat(
        against="",
        caption="Change of counters, by problem",
        leads=(),
        heads=heat_heads(lookup.problems),
        problems=tuple(problem.name for problem in lookup.problems),
        rows=tuple(_row(metric, row) for _, metric, row in found[:MOST_MOVED]),
        rows_are="counter",
    )


def _typical(metric: Label, row: Sequence[Move]) -> float:
    """How far a counter moved at the problem in the middle."""
    known = [one for one in row if one.pairs]
    return median(move_size(metric, one) for one in known) if known else 0.0


def move_size(metric: Label, move: Move) -> float:
    """Size of a move, so that counters of all kinds can stand in one order.

    Percentages and stall reasons go by their difference: a ratio would make much of next to none.
    """
    if metric.unit == "%":
        return abs(move.after - move.before) / _POINTS
    if metric.name.startswith(STALL_PREFIX):
        return abs(move.after - move.before) / _STALLED_WARPS
    return movement(move.after, move.before)


def _row(metric: Label, row: Sequence[Move]) -> Row:
    data = tuple(move_datum(metric, move) for move in row)
    return Row(metric.label, _NO_VARIANT, "other", data, metric.definition)


def move_datum(metric: Label, move: Move) -> Datum:
    """Change of one counter: a ratio, or points where it is a percentage."""
    if not move.pairs:
        return Datum(title="not collected for both", css="none")
    shown = change_datum(move.after, move.before, metric)
    both = (numbers.show(value, metric.unit) for value in (move.before, move.after))
    return Datum(shown.text, shown.raw, " \u2192 ".join(both), shown.css)
