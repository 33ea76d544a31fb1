"""What is measured after the first look at the data: where a question is open, and the finalists.

A sequential design: every cell is measured in the first blocks; more blocks go to the cells whose
question those did not answer. What a look decides depends only on the blocks before it, so that a
run that was stopped goes on with the same cells.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from profiler.analyse.effects import steps
from profiler.analyse.judge import MOST_FINALISTS, Judge, Pair, Rules, times_of
from profiler.analyse.verdicts import DELTA, FEWEST_BLOCKS, Reason, undecided
from profiler.model import Cell, Plan, SessionKind, SessionPlan
from profiler.planning.plan import block_visits
from profiler.planning.spec import Experiment


@dataclass(frozen=True)
class Questions:
    """What an experiment asks beside which variant is best and whether it beats the baseline."""

    pairs: tuple[tuple[str, str], ...] = ()
    """Pairs of variants (ids) to compare at every problem."""
    delta: float = DELTA
    """Smaller relative differences of duration are the same."""


def later_session(
    plan: Plan,
    session: SessionPlan,
    samples: pd.DataFrame,
    look: int,
    questions: Questions,
) -> SessionPlan:
    """The visits that a look adds to a timing session; none where every question is answered.

    `look` counts from 1, the second number of `plan.looks`. `samples` may hold more than the blocks
    before it, but nothing of cells that failed.
    """
    first, last = plan.looks[look - 1], plan.looks[look]
    judge = _judge(plan, samples, first, questions.delta)
    cells = _open_cells(plan, judge, questions.pairs)
    return _with_visits(plan, session, cells, range(first, last))


def final_session(
    plan: Plan, session: SessionPlan, samples: pd.DataFrame, questions: Questions
) -> SessionPlan:
    """The finalists of each problem, its references among them, measured once more."""
    chosen = _finalists(plan, _judge(plan, samples, None, questions.delta))
    problems = {problem for problem, _ in chosen}
    references = {plan.baseline, *plan.references}
    cells = [
        cell
        for cell in plan.cells
        if (cell.problem.id, cell.variant.id) in chosen
        or (cell.problem.id in problems and cell.variant.id in references)
    ]
    final = SessionPlan(
        f"{session.collector.replace('_', '-')}-final",
        session.collector,
        SessionKind.FINAL,
        session.metrics,
        (),
    )
    return _with_visits(plan, final, _comparable(cells), range(plan.final_blocks))


def timeline_cells(plan: Plan, samples: pd.DataFrame, questions: Questions) -> tuple[Cell, ...]:
    """Cells that a timeline is worth most of: the finalists of each problem and their baseline.

    All cells where nothing was timed that could tell.
    """
    judge = _judge(plan, samples, None, questions.delta)
    if judge.times.empty:
        return plan.cells
    chosen = _finalists(plan, judge)
    return tuple(
        cell
        for cell in plan.cells
        if (cell.problem.id, cell.variant.id) in chosen or cell.variant.id == plan.baseline
    )


def _finalists(plan: Plan, judge: Judge) -> set[tuple[str, str]]:
    """Problem and variant (ids) of those that may be the best; of many, the quickest."""
    found = judge.contenders(_rivals(plan))
    medians = judge.times.groupby(["problem", "variant"])["duration_ns"].median()
    ranked = (
        found[found["contender"]]
        .join(medians, on=["problem", "variant"])
        .sort_values("duration_ns", kind="stable")
        .groupby("problem", sort=False)
        .head(MOST_FINALISTS)
    )
    return set(zip(ranked["problem"], ranked["variant"], strict=True))


def has_final(plan: Plan) -> bool:
    """Whether there is a winner to measure again: not where too few blocks could tell."""
    enough = min(plan.final_blocks, plan.looks[-1] if plan.looks else 0)
    return enough >= FEWEST_BLOCKS and len({cell.variant.id for cell in plan.cells}) > 1


def questions(plan: Plan, experiment: Experiment) -> Questions:
    """Read off an experiment's page what it asks.

    A progression compares each version with the one before it, an ablation those that differ in
    one parameter.
    """
    pairs = _page_pairs(plan, experiment.page.kind, experiment.page.parameters)
    return Questions(pairs, experiment.margin_pct / 100)


def _page_pairs(plan: Plan, kind: str, parameters: Sequence[str]) -> tuple[tuple[str, str], ...]:
    rivals = [one for one in plan.variants if one.id in _rivals(plan)]
    if kind == "progression":
        return tuple((later.id, earlier.id) for earlier, later in itertools.pairwise(rivals))
    if kind != "ablation":
        return ()
    pairs = (pair for step in steps(rivals, parameters or None) for pair in step.pairs)
    return tuple((after.id, before.id) for before, after in pairs)


def _judge(plan: Plan, samples: pd.DataFrame, blocks: int | None, delta: float) -> Judge:
    times = times_of(samples, plan.cells, SessionKind.TIMING, blocks)
    return Judge(times, plan.baseline, Rules(len(plan.looks), delta))


def _open_cells(plan: Plan, judge: Judge, asked: Collection[tuple[str, str]]) -> tuple[Cell, ...]:
    """Cells that a question is about which the blocks so far do not answer, and their baselines."""
    race = judge.contenders(_rivals(plan))
    leading = race[race["contender"]]
    in_race = leading.groupby("problem")["variant"].transform("size") > 1
    open_ids = _cell_ids(plan, leading[in_race])
    winners = _cell_ids(plan, leading[~in_race])
    open_ids |= _undecided(judge, _with_baselines(plan, winners))
    open_ids |= _outnumbered(judge, plan.cells)
    open_ids |= _undecided(judge, _pairs_of(plan, asked))
    problems = {cell.problem.id for cell in plan.cells if cell.id in open_ids}
    return _comparable(
        cell
        for cell in plan.cells
        if cell.id in open_ids or (cell.variant.id == plan.baseline and cell.problem.id in problems)
    )


def _undecided(judge: Judge, pairs: Iterable[Pair]) -> set[str]:
    """Ids of both cells of every pair that more blocks may decide."""
    found = judge.compare(pairs)
    rows = found.loc[undecided(found)]
    return {*rows["cell"], *rows["against"]}


def _outnumbered(judge: Judge, cells: Sequence[Cell]) -> set[str]:
    """Ids of cells that alone would differ from the baseline, but not as one of so many.

    Out of the race as they may be, the page has a verdict on each of them; a few more blocks give
    it, because p values shrink faster than the number of comparisons weighs.
    """
    found = judge.with_baseline(cells)
    return set(found.loc[found["reason"] == Reason.MANY_COMPARISONS, "cell"])


def _cell_ids(plan: Plan, rows: pd.DataFrame) -> set[str]:
    wanted = set(zip(rows["problem"], rows["variant"], strict=True))
    return {cell.id for cell in plan.cells if (cell.problem.id, cell.variant.id) in wanted}


def _with_baselines(plan: Plan, ids: Collection[str]) -> list[Pair]:
    by_problem = {one.problem.id: one.id for one in plan.cells if one.variant.id == plan.baseline}
    return [
        (cell.id, by_problem[cell.problem.id])
        for cell in plan.cells
        if cell.id in ids and cell.problem.id in by_problem
    ]


def _pairs_of(plan: Plan, asked: Collection[tuple[str, str]]) -> list[Pair]:
    """Cells of these variants, problem by problem, where both are planned."""
    ids = {(cell.problem.id, cell.variant.id): cell.id for cell in plan.cells}
    problems = dict.fromkeys(cell.problem.id for cell in plan.cells)
    pairs = (((problem, one), (problem, other)) for problem in problems for one, other in asked)
    return [(ids[one], ids[other]) for one, other in pairs if one in ids and other in ids]


def _comparable(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Without problems of a single cell: there is nothing to compare it with."""
    chosen = tuple(cells)
    counts = Counter(cell.problem.id for cell in chosen)
    return tuple(cell for cell in chosen if counts[cell.problem.id] > 1)


def _with_visits(
    plan: Plan, session: SessionPlan, cells: Sequence[Cell], blocks: Iterable[int]
) -> SessionPlan:
    visits = block_visits(cells, session.name, blocks, seed=plan.seed, twice=plan.baseline)
    return replace(session, visits=tuple(visits))


def _rivals(plan: Plan) -> set[str]:
    """Ids of the variants that may be called the best."""
    return {one.id for one in plan.variants} - {plan.baseline, *plan.references}
