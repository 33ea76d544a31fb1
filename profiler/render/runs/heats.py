"""Heat maps of a comparison between runs: a ratio with its verdict, variants by problems."""

from __future__ import annotations

from collections.abc import Sequence

from profiler.findings.runs.steps import RunStep
from profiler.model import Verdict
from profiler.render.runs.rows import ChangeRow, Names
from profiler.render.runs.words import ratio_words
from profiler.render.tables.heat_scale import RatioScale, scale_of
from profiler.render.tables.rows import Datum, Heat, Row, heat_heads
from profiler.render.words import numbers

_SYMBOLS = {Verdict.FASTER: "\u25bc", Verdict.SLOWER: "\u25b2"}
_FEWEST = 2
"""Variants and problems below which a heat map says nothing that a table does not."""


def variant_heat(step: RunStep, rows: Sequence[ChangeRow], names: Names) -> Heat | None:
    """Ratio of every variant at every problem; without a verdict hatched."""
    problems = {names.cells[cell].problem.id: names.cells[cell].problem for cell in step.cells}
    by_place = {
        (names.cells[row.cell].variant.id, names.cells[row.cell].problem.id): row for row in rows
    }
    variants = {names.cells[row.cell].variant.id: row.variant for row in rows}
    if len(problems) < _FEWEST or len(variants) < _FEWEST:
        return None
    scale = scale_of(row.ratio for row in rows)
    return Heat(
        against="",
        caption=f"{ratio_words(step)}, variants by problems",
        leads=(),
        heads=heat_heads(list(problems.values())),
        problems=tuple(problem.name for problem in problems.values()),
        rows=tuple(
            Row(
                name,
                names.marks[variant],
                "baseline" if variant == step.control else "other",
                tuple(
                    heat_datum(by_place.get((variant, problem)), scale, judged=step.refused is None)
                    for problem in problems
                ),
            )
            for variant, name in variants.items()
        ),
        scale=scale,
    )


def heat_datum(row: ChangeRow | None, scale: RatioScale, *, judged: bool) -> Datum:
    """A ratio with its verdict; where nothing is judged, the number in its colour and no symbol."""
    if row is None or numbers.is_missing(row.ratio):
        return Datum(title="not in both runs", css="none")
    text, raw = short(row.ratio), numbers.raw(row.ratio)
    title = (
        f"{row.variant}, {row.problem}: {row.older.text} \u2192 {row.newer.text}, "
        f"{numbers.ratio(row.ratio)} {row.interval}, {row.verdict_datum.text}: {row.reason}"
    )
    colour = scale.css(row.ratio)
    if not judged:
        return Datum(text, raw, title, colour)
    if row.verdict in _SYMBOLS:
        return Datum(f"{_SYMBOLS[row.verdict]}{text}", raw, title, colour)
    if row.verdict is Verdict.SAME:
        return Datum(f"={text}", raw, title, "h0")
    return Datum(text, raw, title, "failed")


def short(ratio: float) -> str:
    """Write a ratio in a narrow cell, without the sign of multiplication."""
    return f"{ratio:.2f}" if ratio < 10 else numbers.significant(ratio, 3)
