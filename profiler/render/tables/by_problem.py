"""The few numbers of each problem that its question is about, in one narrow table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from profiler.findings.lookup import OUTCOME_WORDS, Lookup
from profiler.findings.roles import Ranking
from profiler.findings.rulings import NO_RULING
from profiler.findings.values import Value
from profiler.findings.winners import Winner
from profiler.model import Cell, Problem
from profiler.render.tables.main_table import ratio_datum
from profiler.render.tables.rows import Datum, outcome_css
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import numbers

MOST_ROWS = 200
"""Cells up to which a page has this table: more are read better as a heat map."""
_TRAFFIC = ("dram_read_bytes", "dram_write_bytes")


@dataclass(frozen=True)
class ProblemRow:
    """One cell: who is fastest, time, ratio, verdict, then DRAM bytes and kernels if measured."""

    problem: str
    variant: str
    mark: int
    role: str
    standing: Datum
    data: tuple[Datum, ...]


@dataclass(frozen=True)
class ByProblem:
    """The table."""

    heads: tuple[str, ...]
    against: str
    """Name of the baseline; empty without one."""
    rows: tuple[ProblemRow, ...]


def by_problem(ranking: Ranking) -> ByProblem | None:
    """Every cell by problem, finalists first, the quickest first.

    None where one problem, one variant or more than `MOST_ROWS` cells are all there is, or where
    neither traffic nor kernels were measured: then the main table says as much.
    """
    lookup = ranking.lookup
    measured = {one.name for one in lookup.measured_metrics}
    traffic, kernels = measured.issuperset(_TRAFFIC), "kernels" in measured
    few = min(len(lookup.problems), len(lookup.variants)) < 2
    if few or len(lookup.report.plan.cells) > MOST_ROWS or not (traffic or kernels):
        return None
    heads: tuple[str, ...] = (lookup.primary.label.lower(), "ratio", "verdict")
    heads += ("DRAM bytes",) * traffic + ("kernels",) * kernels
    return ByProblem(
        heads,
        lookup.baseline.name if lookup.baseline else "",
        tuple(
            row
            for problem in lookup.problems
            for row in _rows(ranking, problem, traffic=traffic, kernels=kernels)
        ),
    )


def _rows(
    ranking: Ranking, problem: Problem, *, traffic: bool, kernels: bool
) -> Iterator[ProblemRow]:
    lookup = ranking.lookup
    winner = lookup.winners.get(problem.id)
    cells = (
        lookup.cells.get((variant.id, problem.id))
        for variant, _ in ranking.sorted_at(problem, lookup.report.primary)
    )
    for cell in sorted(filter(None, cells), key=lambda one: _place(lookup, one)):
        data = [*_compared(lookup, cell)]
        if traffic:
            data.append(_traffic(lookup, cell))
        if kernels:
            data.append(_number(lookup, cell, "kernels"))
        yield ProblemRow(
            problem.name,
            cell.variant.name,
            lookup.marks[cell.variant.id],
            ranking.role(cell.variant),
            _standing(lookup, cell, winner),
            tuple(data),
        )


def _final(lookup: Lookup, cell: Cell) -> Value | None:
    """Time in the final; None where the cell was not in it, or has no correct result."""
    return lookup.rulings.final_value(cell.id) if lookup.correct(cell) else None


def _place(lookup: Lookup, cell: Cell) -> tuple[bool, float]:
    """Finalists first, by the final: its times and those of the blocks before are not of one kind.

    All others stay as they stand.
    """
    final = _final(lookup, cell)
    sign = -1 if lookup.primary.better == "higher" else 1
    return (final is None, 0.0 if final is None else sign * final.median)


def _standing(lookup: Lookup, cell: Cell, winner: Winner | None) -> Datum:
    """Who is the fastest, in the words that the verdicts allow; the outcome of what failed."""
    status = lookup.status(cell)
    if not lookup.correct(cell):
        css = f"outcome {outcome_css(status.outcome)}"
        return Datum(OUTCOME_WORDS[status.outcome], None, status.cause, css)
    if winner is None:
        return Datum("", css="words")
    if cell == winner.cell:
        if winner.best:
            return Datum("fastest", title="all others were shown to be slower", css="words")
        ties = winner.ties()
        said = f"lowest, tied with {ties}" if ties else "lowest"
        return Datum(said, title="not shown to be faster than all others", css="words")
    return Datum("tied" if cell in winner.tied else "", css="words")


def _compared(lookup: Lookup, cell: Cell) -> Iterator[Datum]:
    """Time, ratio to the baseline and its verdict."""
    correct = lookup.correct(cell)
    yield _time(lookup, cell)
    if lookup.baseline is not None and cell.variant.id == lookup.baseline.id:
        yield Datum("baseline", css="none")
        yield Datum("", css="none")
        return
    ruling = lookup.ruling(cell.variant, cell.problem) if correct else NO_RULING
    yield ratio_datum(ruling, correct=correct)
    yield verdict_datum(ruling, "no verdict" if correct else "no correct result")


def _time(lookup: Lookup, cell: Cell) -> Datum:
    """Of the final, where the cell was in it, as its ratio is; else of the timing blocks."""
    own = lookup.value(cell, lookup.report.primary).median
    final = _final(lookup, cell)
    if final is None:
        return _datum(lookup, cell, own, lookup.primary.unit)
    shown = _datum(lookup, cell, final.median, lookup.primary.unit)
    before = numbers.show(own, lookup.primary.unit)
    return replace(shown, title=f"in the final; {before} in the timing blocks")


def _traffic(lookup: Lookup, cell: Cell) -> Datum:
    """Bytes read from and written to device memory."""
    total = sum(lookup.value(cell, name).median for name in _TRAFFIC)
    return _datum(lookup, cell, total, "byte")


def _number(lookup: Lookup, cell: Cell, metric: str, unit: str = "") -> Datum:
    return _datum(lookup, cell, lookup.value(cell, metric).median, unit)


def _datum(lookup: Lookup, cell: Cell, value: float, unit: str) -> Datum:
    return Datum.quantity(value if lookup.correct(cell) else None, unit, "not measured")
