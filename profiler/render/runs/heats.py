"""Heat maps of a comparison between runs: variants by problems, and runs of page kind grid.

On grids they are time in one run by time in the other, cell by cell. These are numbers and no
verdicts: on different machines there is none to give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from profiler.findings.kinds.grids import Grid
from profiler.findings.runs.comparison import RunComparison
from profiler.findings.runs.grids import MissingTime, RunGridCell, RunGrids, VariantGrid
from profiler.findings.runs.steps import RunStep
from profiler.model import Outcome, Verdict
from profiler.render.runs.rows import MACHINE_WORDS, ChangeRow, Names, change_row, ratio_words
from profiler.render.tables.grids import ABSENT, OUTCOME_CSS, GridHeat, grid_heat
from profiler.render.tables.heats import Heat, RatioScale, heat_heads, scale_of
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.outcomes import OUTCOME_WORDS
from profiler.render.words.sentences import Sentence, sentence_of, strong

CROSS = "\u00d7"
"""Stands where one of the runs has no correct time; ratios here go without a sign of their own."""
MOST_SENTENCES = 4


@dataclass(frozen=True)
class TwinRow:
    """One cell in the table beside a heat map: time, time, ratio, interval, verdict, reason."""

    mark: int
    row: str
    column: str
    data: tuple[Datum, ...]


@dataclass(frozen=True)
class VariantHeats:
    """One variant in one grid."""

    variant: str
    time: GridHeat
    judged: GridHeat | None
    """Relative to the control, with verdicts; None where there is no control."""
    rows: tuple[TwinRow, ...]


def machine_label(comparison: RunComparison) -> str:
    """Label of the machines of the last two runs."""
    return MACHINE_WORDS[comparison.last.machines]


def direction(grids: RunGrids) -> str:
    """Which ratio is shown and how it is read."""
    older, newer = grids.names
    return f"time on {newer} / time on {older}: below 1 = {newer} faster"


def grid_parts(comparison: RunComparison, names: Names) -> dict[str, Any] | None:
    """Heat maps of each grid with all its variants; None where neither run is of page kind grid."""
    grids = comparison.grids
    if grids is None:
        return None
    scale = scale_of(ratio for variant in grids.variants for ratio in grids.ratios(variant))
    drawing = _Drawing(grids, names, scale)
    return {
        "label": machine_label(comparison),
        "direction": direction(grids),
        "names": grids.names,
        "overview": [*_overview(grids, names)],
        "blocks": [
            (grid, [drawing.heats(variant) for variant in grids.in_grid(grid)])
            for grid in grids.grids
        ],
        "scale": scale,
    }


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Shared settings of all heat maps of a page."""

    grids: RunGrids
    names: Names
    scale: RatioScale

    def heats(self, variant_grid: VariantGrid) -> VariantHeats:
        """The heat maps of a variant in a grid, and their table."""
        variant, grid = variant_grid.variant, variant_grid.grid
        places = {(cell.row, cell.column): cell for cell in variant_grid.cells}

        def time(row: object, column: object) -> Datum:
            return self._time_datum(places.get((row, column)))

        def judged(row: object, column: object) -> Datum:
            return self._judged_datum(places.get((row, column)))

        control = self.names.variant_name(self.grids.control)
        shows_verdicts = self.grids.control not in (None, variant.id)
        title = f"{variant.label}, time relative to {control}, with verdicts"
        return VariantHeats(
            variant=variant.label,
            time=grid_heat(f"{variant.label}, {direction(self.grids)}", grid, time),
            judged=grid_heat(title, grid, judged) if shows_verdicts else None,
            rows=tuple(self._twin(cell) for cell in variant_grid.cells),
        )

    def _row(self, cell: RunGridCell) -> ChangeRow | None:
        control = self.names.variant_name(self.grids.control)
        return None if cell.change is None else change_row(cell.change, control, self.names)

    def _judged_datum(self, cell: RunGridCell | None) -> Datum:
        if cell is None or cell.change is None or cell.missing:
            return self._time_datum(cell)
        return heat_datum(self._row(cell), self.scale, judged=True)

    def _time_datum(self, cell: RunGridCell | None) -> Datum:
        """The ratio of two times in its colour; a cross and the outcome where one is lacking."""
        if cell is None:
            return ABSENT
        if cell.missing:
            reasons = "; ".join(map(_missing_words, cell.missing))
            first = cell.missing[0].outcome
            css = "crossed" + (OUTCOME_CSS.get(first, "") if first else "")
            return Datum(f"{CROSS} {reasons}", None, _causes(cell), css)
        if not cell.ratio > 0:
            return Datum(f"{CROSS} no time", None, "no duration in one of the runs", "crossed")
        title = f"95\u202f% interval {numbers.interval(cell.low, cell.high) or 'not known'}"
        row = self._row(cell)
        if row is not None:
            title = f"{row.older.text} \u2192 {row.newer.text}, {title}"
        css = self.scale.css(cell.ratio)
        return Datum(numbers.short_ratio(cell.ratio), numbers.raw(cell.ratio), title, css)

    def _twin(self, cell: RunGridCell) -> TwinRow:
        row = self._row(cell)
        outcomes = {missing.run: missing.outcome for missing in cell.missing}
        first, second = self.grids.numbers
        ratio = Datum(title="no ratio", css="none")
        if cell.ratio > 0:
            ratio = Datum(numbers.short_ratio(cell.ratio), numbers.raw(cell.ratio))
        data = (
            _time(first, row.older if row else None, outcomes),
            _time(second, row.newer if row else None, outcomes),
            ratio,
            Datum(numbers.interval(cell.low, cell.high) or numbers.MISSING),
            row.verdict_datum if row else Datum("no verdict", css="outcome absent"),
            Datum(row.reason if row and not cell.missing else _causes(cell), css="words"),
        )
        return TwinRow(self.names.mark(cell.cell), str(cell.row), str(cell.column), data)


def _time(run: int, datum: Datum | None, outcomes: Mapping[int, Outcome | None]) -> Datum:
    """Time of a cell in a run, or its outcome there."""
    if run in outcomes:
        return Datum(_outcome_words(outcomes[run]))
    return datum or Datum(title="the other run does not have this cell", css="none")


def _outcome_words(outcome: Outcome | None) -> str:
    return "not planned" if outcome is None else OUTCOME_WORDS[outcome].upper()


def _missing_words(missing: MissingTime) -> str:
    return f"run {missing.run}: {_outcome_words(missing.outcome)}"


def _causes(cell: RunGridCell) -> str:
    return "; ".join(
        f"run {missing.run}: {missing.cause}" for missing in cell.missing if missing.cause
    )


# ---- over all cells ------------------------------------------------------------------------------


def _overview(grids: RunGrids, names: Names) -> Iterator[Row]:
    """A row for each grid and variant: variant, cells, geometric mean, lowest, highest."""
    for grid in grids.grids:
        for variant in grids.in_grid(grid):
            measured = variant.measured
            count = Datum(f"{len(measured)} of {len(variant.cells)}", str(len(measured)))
            ends: tuple[Datum, ...] = (Datum(css="none"),) * 3
            if variant.mean is not None:
                mean = variant.mean.mean
                ends = (
                    Datum(numbers.short_ratio(mean), numbers.raw(mean)),
                    _end(grid, measured[0]),
                    _end(grid, measured[-1]),
                )
            data = (Datum(variant.variant.label, css="words"), count, *ends)
            yield Row(grid.name, data, names.marks[variant.variant.id])


def _end(grid: Grid, cell: RunGridCell) -> Datum:
    where = grid.place(cell.row, cell.column)
    return Datum(f"{numbers.short_ratio(cell.ratio)} ({where})", numbers.raw(cell.ratio))


def grid_sentences(comparison: RunComparison) -> tuple[Sentence, ...]:
    """One sentence for each variant: the mean ratio and its span, with the label of the machines.

    Empty where neither run is of page kind grid.
    """
    grids = comparison.grids
    if grids is None:
        return ()
    label = machine_label(comparison)
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


_SYMBOLS = {Verdict.FASTER: "\u25bc", Verdict.SLOWER: "\u25b2"}
_FEWEST_OF_HEAT = 2
"""Variants and problems below which a heat map says nothing that a table does not."""


def variant_heat(step: RunStep, rows: Sequence[ChangeRow], names: Names) -> Heat | None:
    """Ratio of every variant at every problem; without a verdict hatched."""
    problems = {names.cells[cell].problem.id: names.cells[cell].problem for cell in step.cells}
    by_place = {
        (names.cells[row.cell].variant.id, names.cells[row.cell].problem.id): row for row in rows
    }
    variants = {names.cells[row.cell].variant.id: row.variant for row in rows}
    if len(problems) < _FEWEST_OF_HEAT or len(variants) < _FEWEST_OF_HEAT:
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
                tuple(
                    heat_datum(by_place.get((variant, problem)), scale, judged=step.refused is None)
                    for problem in problems
                ),
                names.marks[variant],
                "baseline" if variant == step.control else "other",
            )
            for variant, name in variants.items()
        ),
        scale=scale,
    )


def heat_datum(row: ChangeRow | None, scale: RatioScale, *, judged: bool) -> Datum:
    """A ratio with its verdict; where nothing is judged, the number in its colour and no symbol."""
    if row is None or numbers.is_missing(row.ratio):
        return Datum(title="not in both runs", css="none")
    text, raw = numbers.short_ratio(row.ratio), numbers.raw(row.ratio)
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
