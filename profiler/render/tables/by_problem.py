"""The few numbers of each problem that its question is about, in one narrow table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from profiler.findings.findings import Findings
from profiler.findings.values import FINAL
from profiler.findings.verdicts import NO_VERDICT
from profiler.findings.winners import Winner
from profiler.model import Cell, Problem
from profiler.render.tables.main_table import ratio_datum
from profiler.render.tables.rows import Datum, outcome_css
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import numbers
from profiler.render.words.outcomes import OUTCOME_WORDS
from profiler.render.words.ranks import ties_words

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
    rank: Datum
    data: tuple[Datum, ...]


@dataclass(frozen=True)
class ByProblem:
    """The table."""

    heads: tuple[str, ...]
    against: str
    """Name of the baseline; empty without one."""
    rows: tuple[ProblemRow, ...]


def by_problem(findings: Findings) -> ByProblem | None:
    """Every cell by problem, best first.

    None where one problem, one variant or more than `MOST_ROWS` cells are all there is, or where
    neither traffic nor kernels were measured: then the main table says as much.
    """
    measured = {metric.name for metric in findings.metrics}
    traffic, kernels = measured.issuperset(_TRAFFIC), "kernels" in measured
    few = min(len(findings.problems), len(findings.variants)) < 2
    if few or len(findings.distinct_cells) > MOST_ROWS or not (traffic or kernels):
        return None
    heads: tuple[str, ...] = (findings.primary.label.lower(), "ratio", "verdict")
    heads += ("DRAM bytes",) * traffic + ("kernels",) * kernels
    return ByProblem(
        heads,
        findings.baseline.name if findings.baseline else "",
        tuple(
            row
            for problem in findings.problems
            for row in _rows(findings, problem, traffic=traffic, kernels=kernels)
        ),
    )


def _rows(
    findings: Findings, problem: Problem, *, traffic: bool, kernels: bool
) -> Iterator[ProblemRow]:
    winner = findings.winners.get(problem.id)
    for variant, _ in findings.sorted_at(problem, findings.report.primary):
        cell = findings.cells.get((variant.id, problem.id))
        if cell is None:
            continue
        data = [*_compared(findings, cell)]
        if traffic:
            data.append(_traffic(findings, cell))
        if kernels:
            data.append(_number(findings, cell, "kernels"))
        yield ProblemRow(
            problem=problem.name,
            variant=cell.variant.name,
            mark=findings.marks[cell.variant.id],
            role=findings.role(cell.variant),
            rank=_rank_datum(findings, cell, winner),
            data=tuple(data),
        )


def _rank_datum(findings: Findings, cell: Cell, winner: Winner | None) -> Datum:
    """Rank as verdicts allow: fastest, lowest, same, not told apart; the outcome of a failure."""
    status = findings.status(cell)
    if not findings.correct(cell):
        css = f"outcome {outcome_css(status.outcome)}"
        return Datum(OUTCOME_WORDS[status.outcome], None, status.cause, css)
    if winner is None:
        return Datum("", css="words")
    if cell == winner.cell:
        if winner.best:
            return Datum("fastest", title="all others were shown to be slower", css="words")
        ties = ties_words(winner)
        text = f"lowest, {ties}" if ties else "lowest"
        return Datum(text, title="not shown to be faster than all others", css="words")
    if cell in winner.same:
        return Datum(
            "same as the lowest", title="shown to differ by less than the margin", css="words"
        )
    apart = cell in winner.not_told_apart and winner.judged
    title = "not shown to be slower than the lowest, nor the same" if apart else ""
    return Datum("not told apart" if apart else "", title=title, css="words")


def _compared(findings: Findings, cell: Cell) -> Iterator[Datum]:
    """Time, ratio to the baseline and its verdict."""
    correct = findings.correct(cell)
    yield _time(findings, cell)
    if findings.baseline is not None and cell.variant.id == findings.baseline.id:
        yield Datum("baseline", css="none")
        yield Datum("", css="none")
        return
    pair = findings.verdict(cell.variant, cell.problem) if correct else NO_VERDICT
    yield ratio_datum(pair, correct=correct)
    yield verdict_datum(pair, "no verdict" if correct else "no correct result")


def _time(findings: Findings, cell: Cell) -> Datum:
    """The cell's one number; on hover of which blocks it is."""
    value = findings.value(cell, findings.report.primary)
    shown = _datum(findings, cell, value.median, findings.primary.unit)
    if value.source != FINAL or shown.raw is None:
        return shown
    before = findings.block_value(cell, findings.report.primary).median
    block_time = numbers.show(before, findings.primary.unit)
    return replace(shown, title=f"of the confirmation; {block_time} in the timing blocks")


def _traffic(findings: Findings, cell: Cell) -> Datum:
    """Bytes read from and written to device memory."""
    total = sum(findings.value(cell, name).median for name in _TRAFFIC)
    return _datum(findings, cell, total, "byte")


def _number(findings: Findings, cell: Cell, metric: str, unit: str = "") -> Datum:
    return _datum(findings, cell, findings.value(cell, metric).median, unit)


def _datum(findings: Findings, cell: Cell, value: float, unit: str) -> Datum:
    return Datum.quantity(value if findings.correct(cell) else None, unit, "not measured")
