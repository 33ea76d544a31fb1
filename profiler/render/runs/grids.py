"""Two runs of page kind grid: time in the one by time in the other, cell by cell, as heat maps.

These are numbers and no verdicts: on different machines there is none to give.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import scipy

from profiler.comparison.joined import Comparison
from profiler.comparison.machines import Machines
from profiler.comparison.sides import Side, correct, outcome
from profiler.findings.grid_axes import Grid, grids
from profiler.model import Cell, Outcome, Variant
from profiler.render.runs.heats import heat_datum, short
from profiler.render.runs.rows import Line, Names, lines
from profiler.render.tables.grid_heats import (
    ABSENT,
    OUTCOME_CSS,
    GridHeat,
    edges_of,
    grid_heat,
    ratio_class,
    ratio_legend,
)
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.answer import Part, Sentence
from profiler.render.words.outcomes import OUTCOME_WORDS

CROSS = "\u00d7"
"""Stands where one of the runs has no correct time; ratios here go without a sign of their own."""
MACHINE_WORDS: Mapping[Machines, str] = {
    Machines.SAME: "same GPU",
    Machines.OTHER_CHIP: "two GPUs of the same model",
    Machines.SAME_MODEL: "same GPU model; whether the same chip was not recorded",
    Machines.DIFFERENT: "different machines",
}
MOST_SENTENCES = 4
_NO_RATIO = (math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Place:
    """One cell of a grid in both runs."""

    row: object
    column: object
    cell: str
    ratio: float
    """Time in the newer run by time in the older; NaN where one of them has none."""
    low: float
    high: float
    line: Line | None
    """None where only one run has the cell."""
    lacks: tuple[tuple[str, Outcome | None, str], ...]
    """Which run has no correct time, the outcome there (None: not in its plan), and the cause."""


@dataclass(frozen=True)
class TwinRow:
    """One cell in the table beside a heat map: time, time, ratio, interval, verdict, reason."""

    mark: int
    row: str
    column: str
    data: tuple[Datum, ...]


@dataclass(frozen=True)
class OverviewRow:
    """One variant in one grid: variant, cells, geometric mean, lowest, highest."""

    name: str
    mark: int
    data: tuple[Datum, ...]


@dataclass(frozen=True)
class VariantHeats:
    """One variant in one grid."""

    variant: str
    time: GridHeat
    judged: GridHeat | None
    """Relative to the control, with verdicts; None where there is no control."""
    rows: tuple[TwinRow, ...]


@dataclass(frozen=True)
class GridOfRuns:
    """One grid with all its variants."""

    grid: Grid
    variants: tuple[VariantHeats, ...]


@dataclass(frozen=True)
class GridParts:
    """Everything that the page of a comparison shows of grids."""

    label: str
    direction: str
    names: tuple[str, str]
    overview: tuple[OverviewRow, ...]
    blocks: tuple[GridOfRuns, ...]
    legend: tuple[str, ...]


def machine_label(comparison: Comparison) -> str:
    """Say whether the last two runs were made on one machine."""
    return MACHINE_WORDS[comparison.last.machines]


@dataclass(frozen=True, eq=False)
class GridRuns:
    """The last two runs of a comparison as grids; ask `exist` first."""

    comparison: Comparison
    names: Names

    @property
    def exist(self) -> bool:
        """Whether one of the runs is of page kind grid."""
        return any(side.report.kind == "grid" for side in self._sides)

    @cached_property
    def _sides(self) -> tuple[Side, Side]:
        step = self.comparison.last
        return self.comparison.sides[step.older], self.comparison.sides[step.newer]

    @cached_property
    def _lines(self) -> Mapping[str, Line]:
        return {line.cell: line for line in lines(self.comparison.last, self.names)}

    @cached_property
    def called(self) -> tuple[str, str]:
        """What the two are told apart by: their machines, or the names of the runs."""
        older, newer = (side.report.environment for side in self._sides)
        found = older.gpu or older.cpu, newer.gpu or newer.cpu
        if found[0] and found[1] and found[0] != found[1]:
            return found[0], found[1]
        return self._sides[0].name, self._sides[1].name

    @property
    def direction(self) -> str:
        """Which ratio is shown and how it is read."""
        older, newer = self.called
        return f"time on {newer} / time on {older}: below 1 = {newer} faster"

    @cached_property
    def grids(self) -> tuple[Grid, ...]:
        """Problems that both runs have, by the axes of the one that is of this kind."""
        older, newer = (side.report for side in self._sides)
        given = newer if newer.kind == "grid" else older
        problems = {cell.problem.id: cell.problem for cell in self._cells.values()}
        return grids(tuple(problems.values()), given.axes, given.split)

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Variants that both runs have."""
        return tuple({cell.variant.id: cell.variant for cell in self._cells.values()}.values())

    @cached_property
    def _cells(self) -> Mapping[str, Cell]:
        """Cells of either run whose variant and whose problem both runs have in some cell.

        A run of other operators or sizes beside gives no empty heat maps; one cell that only one of
        the two runs has is seen.
        """
        planned = (side.report.plan.cells for side in reversed(self._sides))
        ids = dict.fromkeys(cell.id for cells in planned for cell in cells)
        both = [self.names.cells[cell] for cell in frozenset.intersection(*self._planned)]
        variants = {cell.variant.id for cell in both}
        problems = {cell.problem.id for cell in both}
        cells = {cell: self.names.cells[cell] for cell in ids}
        return {
            name: cell
            for name, cell in cells.items()
            if cell.variant.id in variants and cell.problem.id in problems
        }

    @cached_property
    def _by_place(self) -> Mapping[tuple[str, str], str]:
        return {(cell.variant.id, cell.problem.id): name for name, cell in self._cells.items()}

    def places(self, variant: Variant, grid: Grid) -> tuple[Place, ...]:
        """Every cell of a variant that either run has in a grid, row by row."""
        return self._places[variant.id, grid.name]

    @cached_property
    def _places(self) -> Mapping[tuple[str, str], tuple[Place, ...]]:
        """By id of the variant and name of the grid."""
        return {
            (variant.id, grid.name): tuple(self._in_grid(variant, grid))
            for variant in self.variants
            for grid in self.grids
        }

    def _in_grid(self, variant: Variant, grid: Grid) -> Iterator[Place]:
        for row, column in itertools.product(grid.row_values, grid.column_values):
            problem = grid.problems.get((row, column))
            cell = self._by_place.get((variant.id, problem.id)) if problem else None
            if cell is not None:
                yield self._place(row, column, cell)

    @cached_property
    def _planned(self) -> tuple[frozenset[str], frozenset[str]]:
        older, newer = self._sides
        return _ids(older), _ids(newer)

    @cached_property
    def _raw(self) -> Mapping[str, tuple[float, float, float]]:
        """Ratio of times and its interval, by cell."""
        known = self.comparison.last.cells.reset_index().to_dict("records")
        return {
            str(row["cell"]): (
                float(row["raw_ratio"]),
                float(row["raw_low"]),
                float(row["raw_high"]),
            )
            for row in known
        }

    def _place(self, row: object, column: object, cell: str) -> Place:
        lacks = tuple(self._lacks(cell))
        ratio, low, high = _NO_RATIO if lacks else self._raw[cell]
        return Place(row, column, cell, ratio, low, high, self._lines.get(cell), lacks)

    def _lacks(self, cell: str) -> Iterator[tuple[str, Outcome | None, str]]:
        sides = zip(("older", "newer"), self._sides, self._planned, strict=True)
        for which, side, planned in sides:
            if cell not in planned:
                yield which, None, ""
            elif not correct(side, cell):
                status = side.report.statuses.get(cell)
                yield which, outcome(side, cell), status.cause if status else ""

    def ratios(self, variant: Variant) -> list[float]:
        """Ratios of a variant over all grids that are known."""
        return [
            place.ratio
            for grid in self.grids
            for place in self.places(variant, grid)
            if place.ratio > 0
        ]


def _ids(side: Side) -> frozenset[str]:
    return frozenset(cell.id for cell in side.report.plan.cells)


def grid_parts(runs: GridRuns) -> GridParts | None:
    """Prepare the heat maps; None where neither run is of page kind grid."""
    if not runs.exist:
        return None
    edges = edges_of(ratio for variant in runs.variants for ratio in runs.ratios(variant))
    return GridParts(
        label=machine_label(runs.comparison),
        direction=runs.direction,
        names=runs.called,
        overview=tuple(_overview(runs)),
        blocks=tuple(
            GridOfRuns(grid, tuple(_variant_heats(runs, grid, edges))) for grid in runs.grids
        ),
        legend=ratio_legend(edges),
    )


def _variant_heats(runs: GridRuns, grid: Grid, edges: Sequence[float]) -> Iterator[VariantHeats]:
    step = runs.comparison.last
    for variant in runs.variants:
        places = {(place.row, place.column): place for place in runs.places(variant, grid)}
        if not places:
            continue

        def time(row: object, column: object, places: Places = places) -> Datum:
            return _time_datum(places.get((row, column)), edges)

        def judged(row: object, column: object, places: Places = places) -> Datum:
            place = places.get((row, column))
            if place is None or place.line is None or place.lacks:
                return _time_datum(place, edges)
            return heat_datum(place.line, judged=True, edges=edges)

        shows_verdicts = step.control not in (None, variant.id)
        title = f"{variant.name}, time relative to {step.control}, with verdicts"
        yield VariantHeats(
            variant.name,
            grid_heat(f"{variant.name}, {runs.direction}", grid, time),
            grid_heat(title, grid, judged) if shows_verdicts else None,
            tuple(_twin(runs, place) for place in places.values()),
        )


Places = Mapping[tuple[object, object], Place]


def _time_datum(place: Place | None, edges: Sequence[float]) -> Datum:
    """The ratio of two times in its colour; a cross and the outcome where one is lacking."""
    if place is None:
        return ABSENT
    if place.lacks:
        words = "; ".join(_lack_words(*lack) for lack in place.lacks)
        first = place.lacks[0][1]
        css = "crossed" + (OUTCOME_CSS.get(first, "") if first else "")
        return Datum(f"{CROSS} {words}", None, _causes(place), css)
    if not place.ratio > 0:
        return Datum(f"{CROSS} no time", None, "no duration in one of the runs", "crossed")
    title = f"95\u202f% interval {numbers.interval(place.low, place.high) or 'not known'}"
    if place.line is not None:
        title = f"{place.line.older.text} \u2192 {place.line.newer.text}, {title}"
    css = ratio_class(place.ratio, edges)
    return Datum(short(place.ratio), numbers.raw(place.ratio), title, css)


def _lack_words(which: str, found: Outcome | None, _cause: str) -> str:
    return f"{which}: {'not planned' if found is None else OUTCOME_WORDS[found].upper()}"


def _causes(place: Place) -> str:
    return "; ".join(f"{which}: {cause}" for which, _, cause in place.lacks if cause)


def _twin(runs: GridRuns, place: Place) -> TwinRow:
    mark = runs.names.marks[runs.names.cells[place.cell].variant.id]
    line, lacking = place.line, {which: found for which, found, _ in place.lacks}

    def time(which: str, datum: Datum | None) -> Datum:
        if which in lacking:
            found = lacking[which]
            return Datum("not planned" if found is None else OUTCOME_WORDS[found].upper())
        return datum or Datum(title="the other run does not have this cell", css="none")

    ratio = Datum(title="no ratio", css="none")
    if place.ratio > 0:
        ratio = Datum(short(place.ratio), numbers.raw(place.ratio))
    data = (
        time("older", line.older if line else None),
        time("newer", line.newer if line else None),
        ratio,
        Datum(numbers.interval(place.low, place.high) or numbers.MISSING),
        line.verdict_datum if line else Datum("no verdict", css="outcome absent"),
        Datum(line.reason if line and not place.lacks else _causes(place), css="words"),
    )
    return TwinRow(mark, str(place.row), str(place.column), data)


# ---- over all cells ------------------------------------------------------------------------------


def _overview(runs: GridRuns) -> Iterator[OverviewRow]:
    for grid, variant in itertools.product(runs.grids, runs.variants):
        places = runs.places(variant, grid)
        if not places:
            continue
        ranked = sorted((one for one in places if one.ratio > 0), key=lambda one: one.ratio)
        count = Datum(f"{len(ranked)} of {len(places)}", str(len(ranked)))
        ends: tuple[Datum, ...] = (Datum(css="none"),) * 3
        if ranked:
            mean = float(scipy.stats.gmean([one.ratio for one in ranked]))
            ends = (
                Datum(short(mean), numbers.raw(mean)),
                _end(grid, ranked[0]),
                _end(grid, ranked[-1]),
            )
        data = (Datum(variant.name, css="words"), count, *ends)
        yield OverviewRow(grid.name, runs.names.marks[variant.id], data)


def _end(grid: Grid, place: Place) -> Datum:
    where = grid.place(place.row, place.column)
    return Datum(f"{short(place.ratio)} ({where})", numbers.raw(place.ratio))


def grid_sentences(runs: GridRuns) -> tuple[Sentence, ...]:
    """One sentence for each variant: the mean ratio and its span, with the label of the machines.

    Empty where neither run is of page kind grid.
    """
    if not runs.exist:
        return ()
    label = machine_label(runs.comparison)
    found: list[Sentence] = [(Part(f"{label[0].upper()}{label[1:]}: {runs.direction}."),)]
    for variant in runs.variants[:MOST_SENTENCES]:
        ratios = runs.ratios(variant)
        if not ratios:
            found.append((Part(variant.name, strong=True), Part(": no cell has both times.")))
            continue
        span = f"from {short(min(ratios))} to {short(max(ratios))}"
        mean = Part(short(float(scipy.stats.gmean(ratios))), strong=True)
        count = f" in the geometric mean over {len(ratios)} cells, {span}."
        found.append((Part(f"{variant.name}: "), mean, Part(count)))
    return tuple(found)
