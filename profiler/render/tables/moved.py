"""Which counters moved with a step from some variants to others, by problem."""

from __future__ import annotations

import math
from collections.abc import Mapping

from profiler.findings.counters import CounterMove, Medians, Move, ParameterStep, moved_counters
from profiler.findings.findings import Programs
from profiler.metrics.labels import Label
from profiler.render.tables.rows import Datum, Heat, Row, heat_heads
from profiler.render.words import numbers

MOST_MOVED = 14
_NO_VARIANT = -1


def moved_table(
    programs: Programs, step: ParameterStep, medians: Mapping[Label, Medians]
) -> Heat | None:
    """The counters that moved most with a step; None where none did."""
    moved = moved_counters(step, medians, [problem.id for problem in programs.problems])
    if not moved:
        return None
    return Heat(
        against="",
        caption="Change of counters, by problem",
        leads=(),
        heads=heat_heads(programs.problems),
        problems=tuple(problem.name for problem in programs.problems),
        rows=tuple(map(_row, moved[:MOST_MOVED])),
        rows_are="counter",
    )


def _row(counter: CounterMove) -> Row:
    metric = counter.metric
    data = tuple(move_datum(metric, move) for move in counter.moves)
    return Row(name=metric.label, mark=_NO_VARIANT, role="other", data=data, note=metric.definition)


def move_datum(metric: Label, move: Move) -> Datum:
    """Change of one counter: a ratio, or points where it is a percentage."""
    if not move.pairs:
        return Datum(title="not collected for both", css="none")
    shown = change_datum(move.after, move.before, metric)
    both = (numbers.show(value, metric.unit) for value in (move.before, move.after))
    return Datum(shown.text, shown.raw, " \u2192 ".join(both), shown.css)


def change_datum(value: float, other: float, metric: Label) -> Datum:
    """Change of a counter from `other` to `value`: a ratio, of percentages points."""
    if not (math.isfinite(value) and math.isfinite(other)):
        return Datum(title="one of the two is missing", css="none")
    if metric.unit == "%":
        points = value - other
        text = numbers.signed(points) if abs(points) >= 0.05 else "\u00b10.0"
        return Datum(f"{text} points", numbers.raw(points))
    if other == 0:
        return Datum("unchanged" if value == 0 else "from 0", title="no ratio to 0")
    if value == 0:
        return Datum("to 0", "0")
    return Datum(numbers.change(value / other), numbers.raw(value / other))
