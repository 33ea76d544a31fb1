"""Heat maps of a comparison between runs: variants by problems, and runs of page kind grid.

On grids they are time in one run by time in the other, cell by cell. These are numbers and no
verdicts: on different machines there is none to give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from profiler.comparison.changes import CellChange
from profiler.comparison.compare import RunComparison
from profiler.comparison.grids import RunGridCell, RunGrids, VariantGrid
from profiler.model import Outcome, Verdict
from profiler.render.runs.rows import (
    MACHINE_WORDS,
    NO_VERDICT,
    changes_in_order,
    newer_time,
    older_time,
    ratio_words,
    reason_words,
    verdict_datum,
)
from profiler.render.tables.grids import ABSENT, OUTCOME_CSS, grid_heat
from profiler.render.tables.heats import Heat, RatioScale, scale_of
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, text_column
from profiler.render.words import numbers
from profiler.render.words.sentences import Sentence, sentence_of, strong
from profiler.render.words.signs import OUTCOME_WORDS, SYMBOLS

CROSS = "\u00d7"
"""Stands where one of the runs has no correct time; ratios here go without a sign of their own."""
MOST_SENTENCES = 4


def direction(grids: RunGrids) -> str:
    """Words on which ratio is shown and how to read it."""
    older, newer = grids.names
    return f"time on {newer} / time on {older}: below 1 = {newer} faster"


def grid_parts(comparison: RunComparison) -> dict[str, Any] | None:
    """Heat maps of each grid with all its variants; None where neither run is of page kind grid."""
    grids = comparison.grids
    if grids is None:
        return None
    scale = scale_of(ratio for variant in grids.variants for ratio in grids.ratios(variant))
    return {
        "label": MACHINE_WORDS[comparison.last.machines],
        "direction": direction(grids),
        "names": grids.names,
        "overview": _overview(grids, comparison),
        "blocks": [
            (grid, [_heats(grids, comparison, scale, variant) for variant in grids.in_grid(grid)])
            for grid in grids.grids
        ],
        "scale": scale,
    }


def _heats(
    grids: RunGrids, comparison: RunComparison, scale: RatioScale, variant_grid: VariantGrid
) -> dict[str, Any]:
    """The heat maps of a variant in a grid, and their table.

    `judged` is relative to the control, with verdicts; None where there is no control.
    """
    variant, grid = variant_grid.variant, variant_grid.grid
    places = {(cell.row, cell.column): cell for cell in variant_grid.cells}

    def time(row: object, column: object) -> Datum:
        return _time_datum(scale, places.get((row, column)))

    def judged(row: object, column: object) -> Datum:
        cell = places.get((row, column))
        if cell is None or cell.change is None or cell.missing:
            return time(row, column)
        return heat_datum(cell.change, comparison, scale, judged=True)

    control = comparison.variant_name(grids.control)
    shows_verdicts = grids.control not in (None, variant.id)
    title = f"{variant.label}, time relative to {control}, with verdicts"
    return {
        "variant": variant.label,
        "time": grid_heat(f"{variant.label}, {direction(grids)}", grid, time),
        "judged": grid_heat(title, grid, judged) if shows_verdicts else None,
        "table": _table(grids, comparison, variant_grid),
    }


def _time_datum(scale: RatioScale, cell: RunGridCell | None) -> Datum:
    """The ratio of two times in its colour; a cross and the outcome where one is lacking."""
    if cell is None:
        return ABSENT
    if cell.missing:
        reasons = "; ".join(
            f"run {missing.run}: {_outcome_words(missing.outcome)}" for missing in cell.missing
        )
        first = cell.missing[0].outcome
        css = "crossed" + (OUTCOME_CSS.get(first, "") if first else "")
        return Datum(f"{CROSS} {reasons}", None, _causes(cell), css)
    if not cell.ratio > 0:
        return Datum(f"{CROSS} no time", None, "no duration in one of the runs", "crossed")
    title = f"95\u202f% interval {numbers.interval(*cell.interval) or 'not known'}"
    if cell.change is not None:
        title = f"{_times(cell.change)}, {title}"
    css = scale.css(cell.ratio)
    return Datum(numbers.short_ratio(cell.ratio), numbers.raw(cell.ratio), title, css)


def _table(grids: RunGrids, comparison: RunComparison, variant_grid: VariantGrid) -> SmallTable:
    """The cells of a heat map: times, ratio, interval, verdict, reason."""
    grid, (first, second) = variant_grid.grid, grids.numbers
    older, newer = grids.names
    columns: tuple[Column[RunGridCell], ...] = (
        *((text_column(grid.columns, lambda cell: str(cell.column)),) * bool(grid.rows)),
        Column(f"run {first}", lambda cell: _time(first, cell, older_time), older),
        Column(f"run {second}", lambda cell: _time(second, cell, newer_time), newer),
        Column(f"run {second} \u00f7 run {first}", _ratio),
        text_column("95\u202f% interval", lambda cell: numbers.interval(*cell.interval)),
        Column("verdict", _verdict, is_text=True),
        text_column("why", _reason),
    )
    mark = comparison.marks[variant_grid.variant.id]

    def named(cell: RunGridCell) -> Row:
        return Row(str(cell.row if grid.rows else cell.column), mark=mark)

    caption = f"{variant_grid.variant.label}, {grid.name}: {direction(grids)}"
    first_head = grid.rows or grid.columns
    return SmallTable.of(caption, first_head, columns, variant_grid.cells, named)


def _time(run: int, cell: RunGridCell, time_of: Callable[[CellChange], Datum]) -> Datum:
    """Time of a cell in a run, or its outcome there."""
    outcomes = {missing.run: missing.outcome for missing in cell.missing}
    if run in outcomes:
        return Datum(_outcome_words(outcomes[run]))
    if cell.change is None:
        return Datum(title="the other run does not have this cell", css="none")
    return time_of(cell.change)


def _ratio(cell: RunGridCell) -> Datum:
    return Datum.number(cell.ratio if cell.ratio > 0 else None, numbers.short_ratio, "no ratio")


def _verdict(cell: RunGridCell) -> Datum:
    return verdict_datum(cell.change) if cell.change else Datum(NO_VERDICT, css="outcome absent")


def _reason(cell: RunGridCell) -> str:
    return reason_words(cell.change) if cell.change and not cell.missing else _causes(cell)


def _times(change: CellChange) -> str:
    return f"{older_time(change).text} \u2192 {newer_time(change).text}"


def _outcome_words(outcome: Outcome | None) -> str:
    return "not planned" if outcome is None else OUTCOME_WORDS[outcome].upper()


def _causes(cell: RunGridCell) -> str:
    return "; ".join(
        f"run {missing.run}: {missing.cause}" for missing in cell.missing if missing.cause
    )


# ---- over all cells ------------------------------------------------------------------------------


def _overview(grids: RunGrids, comparison: RunComparison) -> SmallTable:
    """A row for each grid and variant: cells with both times, geometric mean, lowest, highest."""
    columns: tuple[Column[VariantGrid], ...] = (
        text_column("variant", lambda variant_grid: variant_grid.variant.label),
        Column(
            "cells",
            lambda variant_grid: Datum(
                f"{len(variant_grid.measured)} of {len(variant_grid.cells)}",
                str(len(variant_grid.measured)),
            ),
        ),
        Column("geometric mean", _mean),
        Column("lowest", lambda variant_grid: _end(variant_grid, 0)),
        Column("highest", lambda variant_grid: _end(variant_grid, -1)),
    )
    return SmallTable.of(
        "By grid and variant, over the cells with a time in both runs",
        "grid",
        columns,
        [variant for grid in grids.grids for variant in grids.in_grid(grid)],
        lambda variant_grid: Row(
            variant_grid.grid.name, mark=comparison.marks[variant_grid.variant.id]
        ),
    )


def _mean(variant_grid: VariantGrid) -> Datum:
    mean = variant_grid.mean
    return Datum.number(None if mean is None else mean.mean, numbers.short_ratio, "")


def _end(variant_grid: VariantGrid, place: int) -> Datum:
    if not variant_grid.measured:
        return Datum(css="none")
    cell = variant_grid.measured[place]
    where = variant_grid.grid.place(cell.row, cell.column)
    return Datum(f"{numbers.short_ratio(cell.ratio)} ({where})", numbers.raw(cell.ratio))


def grid_sentences(comparison: RunComparison) -> tuple[Sentence, ...]:
    """Sentence for each variant: the mean ratio and its span, with the label of the machines.

    Empty where neither run is of page kind grid.
    """
    grids = comparison.grids
    if grids is None:
        return ()
    label = MACHINE_WORDS[comparison.last.machines]
    texts = [f"{label[0].upper()}{label[1:]}: {direction(grids)}."]
    for variant, mean in grids.means[:MOST_SENTENCES]:
        if mean is None:
            texts.append(f"{strong(variant.label)}: no cell has both times.")
            continue
        span = f"{numbers.short_ratio(mean.smallest)} to {numbers.short_ratio(mean.largest)}"
        texts.append(
            f"{variant.label}: {strong(numbers.short_ratio(mean.mean))} in the geometric mean over "
            f"{mean.count} cells, from {span}."
        )
    return tuple(map(sentence_of, texts))


_FEWEST_OF_HEAT = 2
"""Variants and problems below which a heat map says nothing that a table does not."""


def variant_heat(comparison: RunComparison) -> Heat | None:
    """Ratio of every variant at every problem; without a verdict hatched."""
    step = comparison.last
    cells = [comparison.cells[cell] for cell in step.cells]
    problems = {cell.problem.id: cell.problem for cell in cells}
    changes = changes_in_order(step)
    by_place = {(change.cell.variant.id, change.cell.problem.id): change for change in changes}
    variants = {change.cell.variant.id: comparison.variant(change.cell.id) for change in changes}
    if len(problems) < _FEWEST_OF_HEAT or len(variants) < _FEWEST_OF_HEAT:
        return None
    scale = scale_of(change.ratio for change in changes)

    def datum(variant: str, problem: str) -> Datum:
        change = by_place.get((variant, problem))
        return heat_datum(change, comparison, scale, judged=step.refused is None)

    return Heat(
        f"{ratio_words(step)}, variants by problems",
        list(problems.values()),
        tuple(
            Row(
                name,
                tuple(datum(variant, problem) for problem in problems),
                comparison.marks[variant],
                "baseline" if variant == step.control else "other",
            )
            for variant, name in variants.items()
        ),
        scale=scale,
    )


def heat_datum(
    change: CellChange | None, comparison: RunComparison, scale: RatioScale, *, judged: bool
) -> Datum:
    """A ratio with its verdict; where nothing is judged, the number in its colour and no symbol."""
    if change is None or numbers.is_missing(change.ratio):
        return Datum(title="not in both runs", css="none")
    text, raw, cell = numbers.short_ratio(change.ratio), numbers.raw(change.ratio), change.cell.id
    title = (
        f"{comparison.variant(cell)}, {comparison.problem(cell)}: {_times(change)}, "
        f"{numbers.ratio(change.ratio)} {numbers.interval(change.ratio_low, change.ratio_high)}, "
        f"{verdict_datum(change).text}: {reason_words(change)}"
    )
    colour = scale.css(change.ratio)
    if not judged:
        return Datum(text, raw, title, colour)
    decided = {Verdict.FASTER: colour, Verdict.SLOWER: colour, Verdict.SAME: "h0"}
    if change.verdict not in decided:
        return Datum(text, raw, title, "failed")
    return Datum(f"{SYMBOLS[change.verdict]}{text}", raw, title, decided[change.verdict])
