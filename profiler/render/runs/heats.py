"""Heat maps of a comparison between runs: a ratio with its verdict, variants by problems."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.comparison.steps import Step
from profiler.model import Verdict
from profiler.render.runs.rows import Line, Names
from profiler.render.tables.grid_heats import ratio_class
from profiler.render.tables.rows import HEAT_EDGES, Datum, Heat, Row, heat_heads
from profiler.render.words import numbers

_FEWEST = 2
"""Variants and problems below which a heat map says nothing that a table does not."""


def variant_heat(step: Step, rows: Sequence[Line], names: Names) -> Heat | None:
    """Ratio of every variant at every problem; without a verdict hatched."""
    order = list(dict.fromkeys(names.cells[cell].problem.id for cell in step.cells.index))
    by_place = {
        (names.cells[line.cell].variant.id, names.cells[line.cell].problem.id): line
        for line in rows
    }
    variants = list(dict.fromkeys(names.cells[line.cell].variant.id for line in rows))
    if len(order) < _FEWEST or len(variants) < _FEWEST:
        return None
    known = {cell.problem.id: cell.problem for cell in names.cells.values()}
    called = {cell.variant.id: cell.variant.name for cell in names.cells.values()}
    return Heat(
        against="",
        caption="Ratio of the newer run to the older, variants by problems",
        leads=(),
        heads=heat_heads([known[one] for one in order]),
        problems=tuple(known[one].name for one in order),
        rows=tuple(
            Row(
                called[variant],
                names.marks[variant],
                "baseline" if variant == step.control else "other",
                tuple(
                    heat_datum(by_place.get((variant, problem)), judged=step.withheld is None)
                    for problem in order
                ),
            )
            for variant in variants
        ),
    )


def heat_datum(line: Line | None, *, judged: bool, edges: Sequence[float] = HEAT_EDGES) -> Datum:
    """A ratio with its verdict; where nothing is judged, the number in its colour and no symbol."""
    if line is None or numbers.is_missing(line.ratio):
        return Datum(title="not in both runs", css="none")
    text = short(line.ratio)
    title = (
        f"{line.variant}, {line.problem}: {line.older.text} \u2192 {line.newer.text}, "
        f"{numbers.ratio(line.ratio)} {line.interval}, {line.verdict_datum.text}: {line.reason}"
    )
    if not judged:
        return Datum(text, numbers.raw(line.ratio), title, ratio_class(line.ratio, edges))
    if line.verdict in (Verdict.FASTER, Verdict.SLOWER):
        symbol = "\u25bc" if line.verdict is Verdict.FASTER else "\u25b2"
        css = ratio_class(line.ratio, edges)
        return Datum(f"{symbol}{text}", numbers.raw(line.ratio), title, css)
    css = "h0" if line.verdict is Verdict.SAME else "failed"
    return Datum(f"={text}" if css == "h0" else text, numbers.raw(line.ratio), title, css)


def short(ratio: float) -> str:
    """Write a ratio in a narrow cell, without the sign of multiplication."""
    return f"{ratio:.2f}" if ratio < 10 else numbers.significant(ratio, 3)
