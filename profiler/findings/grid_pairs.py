"""Two variants on every problem of a grid page: ratios, verdicts, outcomes; no statistics."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from profiler.findings.grid_axes import Grid
from profiler.findings.lookup import Lookup
from profiler.findings.rulings import Ruling, counts
from profiler.findings.values import NAN
from profiler.model import Cell, Outcome, Problem, Variant, Verdict

DRAM = ("dram_read_bytes", "dram_write_bytes")
MOST_PAIRS = 10
"""Pairs of variants of one page: all of five variants."""
DURATION = "duration_ns"
_NOTHING = Ruling(Verdict.NO_DATA)
"""Of a pair in which one has no correct result."""


def judged(lookup: Lookup, pairs: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Ruling]:
    """What is said of each pair of cells (ids): the one place where a grid asks for verdicts.

    Verdicts and words are those of every other part of the page.
    """
    return lookup.said(pairs)


def said_word(ruling: Ruling) -> str:
    """Symbol and word of a verdict; of SAME also within which margin: that may be a wide one."""
    if ruling.verdict is Verdict.SAME and math.isfinite(ruling.margin):
        return f"{ruling.word} within \u00b1{100 * ruling.margin:.3g}\u202f%"
    return ruling.word


@dataclass(frozen=True)
class Pair:
    """Two variants: `over` is divided by `under`."""

    over: Variant
    under: Variant

    @property
    def name(self) -> str:
        """`compile / eager`."""
        return f"{self.over.name} / {self.under.name}"

    @property
    def reverse(self) -> str:
        """`eager / compile`."""
        return f"{self.under.name} / {self.over.name}"


@dataclass(frozen=True)
class Compared:
    """A pair of variants at one problem."""

    pair: Pair
    grid: Grid
    row: object
    column: object
    problem: Problem
    over: Cell | None
    under: Cell | None
    said: Ruling
    """What the verdict says; its ratio is missing where one of them has no correct result."""
    saved: float = NAN
    """DRAM bytes of `under` by those of `over`: above 1 fewer are moved."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of variants over all grids of a page."""

    lookup: Lookup
    grids: tuple[Grid, ...]

    @cached_property
    def against_baseline(self) -> tuple[Pair, ...]:
        """Every other variant over the baseline; over the first variant where there is none."""
        under = self.lookup.baseline or self.lookup.variants[0]
        return tuple(Pair(one, under) for one in self.lookup.variants if one != under)

    @cached_property
    def _all(self) -> tuple[Pair, ...]:
        first = self.against_baseline
        others = [pair.over for pair in first]
        return (*first, *(Pair(b, a) for a, b in itertools.combinations(others, 2)))

    @property
    def shown(self) -> tuple[Pair, ...]:
        """The pairs that a page shows, those with the baseline first."""
        return self._all[:MOST_PAIRS]

    @property
    def left_out(self) -> int:
        """Pairs that have no room."""
        return len(self._all) - len(self.shown)

    @cached_property
    def everywhere(self) -> Mapping[tuple[str, str, str], tuple[Compared, ...]]:
        """By variants (ids) and name of the grid: the pair at each of its problems, by rows."""
        said = judged(self.lookup, list(self._asked()))
        return {
            (pair.over.id, pair.under.id, grid.name): tuple(self._compared(pair, grid, said))
            for grid in self.grids
            for pair in self.shown
        }

    def of(self, pair: Pair, grid: Grid) -> tuple[Compared, ...]:
        """A pair at every problem of a grid; empty where neither variant is planned there."""
        found = self.everywhere[pair.over.id, pair.under.id, grid.name]
        return found if any(one.over and one.under for one in found) else ()

    def _asked(self) -> Iterator[tuple[str, str]]:
        for pair, problem in itertools.product(self.shown, self.lookup.problems):
            over, under = self._cells(pair, problem)
            if over and under and self.lookup.correct(over) and self.lookup.correct(under):
                yield over.id, under.id

    def _cells(self, pair: Pair, problem: Problem) -> tuple[Cell | None, Cell | None]:
        cells = self.lookup.cells
        return cells.get((pair.over.id, problem.id)), cells.get((pair.under.id, problem.id))

    def _compared(
        self, pair: Pair, grid: Grid, said: Mapping[tuple[str, str], Ruling]
    ) -> Iterator[Compared]:
        for row, column in itertools.product(grid.row_values, grid.column_values):
            problem = grid.problems.get((row, column))
            if problem is None:
                continue
            over, under = self._cells(pair, problem)
            key = (over.id if over else "", under.id if under else "")
            own = said.get(key, _NOTHING)
            saved = _quotient(self.moved(under), self.moved(over))
            yield Compared(pair, grid, row, column, problem, over, under, own, saved)

    def moved(self, cell: Cell | None) -> float:
        """Bytes that a correct cell read from and wrote to device memory; NaN where not known."""
        if cell is None or not self.lookup.correct(cell):
            return NAN
        return sum(self.lookup.value(cell, name).median for name in DRAM)

    def with_baseline(self) -> list[Compared]:
        """Every pair with the baseline at every problem."""
        return [
            one
            for pair in self.against_baseline
            if pair in self.shown
            for grid in self.grids
            for one in self.of(pair, grid)
        ]


def known(found: Iterable[Compared]) -> list[Compared]:
    """Those with a ratio, the lowest first."""
    having = [one for one in found if math.isfinite(one.said.ratio)]
    return sorted(having, key=lambda one: one.said.ratio)


def count_words(lookup: Lookup, found: Sequence[Compared]) -> str:
    """How often each verdict was given, of the problems at which both were tried."""

    def tried(cell: Cell | None) -> bool:
        return cell is not None and lookup.status(cell).outcome is not Outcome.NOT_MEASURED

    return counts(one.said for one in found if tried(one.over) and tried(one.under))


def failure(lookup: Lookup, one: Compared) -> tuple[Cell, Outcome] | None:
    """The cell of a pair that has no correct result, and why; None where both have one."""
    for cell in (one.over, one.under):
        if cell is not None and not lookup.correct(cell):
            return cell, lookup.status(cell).outcome
    return None


def _quotient(above: float, below: float) -> float:
    return above / below if below > 0 and above > 0 else NAN
