"""Slowdown of every configuration at each problem, and as the single choice for all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from profiler.findings.findings import Findings
from profiler.findings.ranking import Ranking, VariantRank
from profiler.findings.verdicts import NO_VERDICT, PairVerdict
from profiler.findings.winners import Winner
from profiler.model import Cell, Problem, Variant, Verdict
from profiler.planning.problem_names import varying_parameters
from profiler.render.tables.heats import Heat, lacking_datum
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, variant_row
from profiler.render.words import numbers
from profiler.render.words.comparisons import best_ratio_words
from profiler.render.words.verdicts import reason_and_blocks, word_of

SLOWDOWN_EDGES = (1.01, 1.03, 1.08, 1.2, 1.5, 2.0)
"""Ratio to the best at which the next class of colour begins."""


def slowdown_heats(findings: Findings) -> tuple[tuple[str, Heat], ...]:
    """Ratio to the best of each problem, for each group of rivals: those of the same problems.

    Before each what tells its problems from the others; empty where there is one group.

    Rows stand by their worst case, references below.
    """
    programs = findings.programs
    below = [row for row in findings.ranking.ranks if row.variant.id in programs.references]
    several = len(findings.ranking.rival_groups) > 1
    heats = []
    for rows in findings.ranking.rival_groups or ((),):
        planned = (
            programs.planned[rows[0].variant.id] if rows else frozenset(programs.problem_numbers)
        )
        group_problems = [problem for problem in programs.problems if problem.id in planned]
        name = _shared_parameters(programs.problems, group_problems) if several else ""
        heat = Heat(
            "Ratio to the best of each problem, variants by problems",
            group_problems,
            tuple(_row(findings, rank, group_problems) for rank in (*rows, *below)),
            ("worst", "mean"),
            "the best of each problem",
        )
        heats.append((name, heat))
    return tuple(heats)


def _shared_parameters(problems: Sequence[Problem], group: Sequence[Problem]) -> str:
    """The parameters that differ among the problems, but not among these."""
    keys = [key for key in varying_parameters(problems) if key not in varying_parameters(group)]
    shared_params = ", ".join(f"{key} = {group[0].params.get(key)}" for key in keys)
    return shared_params or ", ".join(problem.name for problem in group)


def _row(findings: Findings, rank: VariantRank, problems: Sequence[Problem]) -> Row:
    variant = rank.variant
    data = [_datum(findings, variant, problem) for problem in problems]
    return variant_row(findings.ranking, variant, (*_worst_and_mean(rank), *data))


def _worst_and_mean(rank: VariantRank) -> tuple[Datum, Datum]:
    if not rank.slowdowns:
        nothing = Datum(title="a reference, or without a correct result", css="none")
        return nothing, nothing
    missing = len(rank.planned.intersection(rank.missing))
    lacking = f"; {missing} problems are missing" if missing else ""
    over = f"over {len(rank.slowdowns)} problems{lacking}"
    return (
        Datum(
            numbers.plain_ratio(rank.worst_slowdown),
            numbers.raw(rank.worst_slowdown),
            f"worst {over}",
        ),
        Datum(
            numbers.plain_ratio(rank.mean_slowdown), numbers.raw(rank.mean_slowdown), f"mean {over}"
        ),
    )


def _datum(findings: Findings, variant: Variant, problem: Problem) -> Datum:
    programs = findings.programs
    cell = programs.at(variant, problem)
    if cell is None or not programs.correct(cell):
        return lacking_datum(findings.numbers, cell)
    slowdown = findings.ranking.slowdowns.get(cell.id, math.nan)
    winner = findings.ranking.deciding_winners.get(problem.id)
    if winner is None or numbers.is_missing(slowdown):
        return Datum(title="not ranked", css="none")
    value = findings.numbers.duration(cell)
    median = numbers.show(value.median, findings.numbers.primary.unit)
    if variant.id not in programs.references:
        slowdown = max(1.0, slowdown)
    verdict = winner.all_verdicts.get(cell.id, NO_VERDICT)
    text = "the winner here" if winner.cell == cell else _comparison_text(slowdown, verdict)
    return Datum(
        f"{_sign(winner, cell)}{numbers.plain_ratio(slowdown)}",
        numbers.raw(slowdown),
        f"{problem.name}: {median}, {text}",
        slowdown_class(slowdown, _mark(winner, cell)),
        programs.cell_numbers[cell.id],
    )


def _comparison_text(slowdown: float, verdict: PairVerdict) -> str:
    text = best_ratio_words(slowdown)
    if verdict.verdict is None:
        return text
    return f"{text}; {word_of(verdict)} ({reason_and_blocks(verdict)})"


def _sign(winner: Winner, cell: Cell) -> str:
    """Sign before a number: the same as the winner, or not told apart from it."""
    if cell in winner.same_cells:
        return "\u2248"
    return "?" if cell in winner.not_told_apart else ""


def slowdown_class(slowdown: float, mark: str) -> str:
    """CSS classes: `b0` to `b6` by the distance, `ahead` of the best; then the mark."""
    if slowdown < 1:
        return "ahead"
    return f"b{sum(slowdown >= edge for edge in SLOWDOWN_EDGES)}{mark}"


def _mark(winner: Winner, cell: Cell) -> str:
    if winner.cell == cell:
        return " top"
    verdict = winner.excluded.get(cell.id, NO_VERDICT)
    if cell in winner.same_cells or (verdict.tested and verdict.verdict is Verdict.SAME):
        return " tied"
    unclear = verdict.tested and verdict.verdict is Verdict.UNCLEAR
    return " unclear" if cell in winner.not_told_apart or unclear else ""


def slowdown_legend() -> tuple[str, ...]:
    """Labels of the colours, by class."""
    return (
        f"<{SLOWDOWN_EDGES[0]:g}",
        *(f"\u2265{edge:g}" for edge in SLOWDOWN_EDGES),
    )


def single_choice_table(ranking: Ranking) -> SmallTable:
    """Table of each configuration as the only one, the smallest worst slowdown first."""
    names = {problem.id: problem.name for problem in ranking.programs.problems}

    def worst_problem(rank: VariantRank) -> Datum:
        missing = len(rank.planned.intersection(rank.missing))
        lacking = f" ({missing} missing)" if missing else ""
        return Datum(names[rank.worst_problem] + lacking, css="words")

    def not_slower(rank: VariantRank) -> Datum:
        count = len(ranking.contenders.get(rank.variant.id, ()))
        return Datum(f"{count} of {len(rank.planned)}", str(count))

    columns: tuple[Column[VariantRank], ...] = (
        Column("worst case", lambda rank: Datum.times(rank.worst_slowdown, "")),
        Column("at", worst_problem, is_text=True),
        Column("mean", lambda rank: Datum.times(rank.mean_slowdown, "")),
        Column("not shown slower at", not_slower),
        Column(
            "ratio to the baseline",
            lambda rank: Datum.times(rank.geometric_mean, "no baseline", "geometric mean"),
        ),
    )
    return SmallTable.of(
        "Each variant used for every problem",
        "variant",
        columns,
        [rank for rank in ranking.ranks if rank.slowdowns],
        lambda rank: variant_row(ranking, rank.variant),
    )
