"""The order of the sessions of a run: which follow the first look, and which can be foreseen.

A sequential design: every cell is measured in the first blocks; more blocks go to the cells whose
question those did not answer, and to the finalists. What a look decides depends only on the blocks
before it, so that a run that was stopped goes on with the same cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from profiler.analyse.judge import Judge, Pair, Rules, visit_times
from profiler.analyse.verdicts import DELTA, Reason, undecided_pairs
from profiler.collect import Records
from profiler.collect.registry import COLLECTORS, is_judged
from profiler.metrics.passes import confirmation_metrics
from profiler.model import Cell, Plan, SessionKind, SessionPlan
from profiler.planning.page_kinds import Question
from profiler.planning.session_plans import NCU, block_visits
from profiler.sessions.forecasts.launch_counts import LAST_OF_RACE, MOST_FINALISTS

_COUNTED = (SessionKind.TIMING, SessionKind.COUNTERS)


@dataclass(frozen=True)
class SessionPart:
    """A session of the plan, the looks at it after the first, or its confirmation."""

    part: Literal["first look", "later looks", "confirmation"]
    """A session that is not judged in several looks is a first look alone."""
    session: SessionPlan


@dataclass(frozen=True)
class Explanation:
    """The explain session: cells that the samples point to and that are not explained yet."""

    is_repeated: bool = False
    """Whether an earlier step explains too: mostly no cell is left, and no process waits."""


Step = SessionPart | Explanation


def steps(plan: Plan, *, explains: bool = False) -> tuple[Step, ...]:
    """Steps in which a plan is measured, in their order.

    The counters come between the first look and what follows it: which cells that concerns is found
    out, and its process started, while they are counted. Where ncu judges, cells are explained
    before the last session that is sure to come, so that the pages of the report are printed while
    that is measured: before the confirmation, or before the last counters where the first look
    tells what the answer is about. And at the end, if it has become one about other cells.
    """
    judged = next((session for session in plan.sessions if is_judged(plan, session)), None)
    ordered: list[Step] = [SessionPart("first look", session) for session in plan.sessions]
    if judged is not None:
        places = [
            place
            for place, session in enumerate(plan.sessions)
            if session.collector == judged.collector and session.kind in _COUNTED
        ]
        explains_first = explains and judged.collector == NCU
        last = max(places)
        ordered[1 + last : 1 + last] = _steps_after_first_look(
            plan, judged, explains=explains_first
        )
        if explains_first and _first_look_decides(plan) and plan.sessions[last] != judged:
            ordered.insert(last, Explanation())
    if explains:
        ordered.append(
            Explanation(is_repeated=any(isinstance(step, Explanation) for step in ordered))
        )
    return tuple(ordered)


def _first_look_decides(plan: Plan) -> bool:
    """Whether sessions after the first look hardly change which cells the answer is about.

    False where another of several variants may be the fastest in the end.
    """
    variants = Counter(cell.problem.id for cell in plan.cells)
    return not plan.has_final and (len(plan.looks) == 1 or max(variants.values(), default=0) <= 2)


def _steps_after_first_look(plan: Plan, session: SessionPlan, *, explains: bool) -> Iterator[Step]:
    """Steps after the first look of a session and the counters, in their order."""
    yield SessionPart("later looks", session)
    if plan.has_final:
        if explains:
            yield Explanation()
        yield SessionPart("confirmation", session)


@dataclass(frozen=True, eq=False)
class Foresight:
    """Upcoming sessions by the samples so far; a session that is still open has no visits."""

    plan: Plan
    samples: pd.DataFrame
    explained: SessionPlan | None
    """The explain session by the samples; None where no cell is explained."""
    delta: float
    """Relative difference up to which durations count as the same."""

    def following(
        self, steps: Sequence[Step], *, looks_open: bool = False
    ) -> Iterator[SessionPlan]:
        """Sessions of the steps that follow; `looks_open`: whether an earlier look is undecided.

        Whether a second look comes is open before the first one has samples: where other sessions
        come before it, its process would hold a place for nothing more often than not, and that of
        a session which comes after all looks has it.
        """
        for place, step in enumerate(steps):
            match step:
                case SessionPart("first look", session):
                    yield session
                case SessionPart("later looks", session):
                    look = self._second_look(session, comes_next=place == 0)
                    looks_open = look is not None or not self._has_samples(session)
                    if look is not None:
                        yield look
                case SessionPart("confirmation", session):
                    yield from self._confirmation(session, is_open=looks_open)
                case Explanation(is_repeated=False) if self.explained is not None:
                    yield _without_visits(self.explained) if looks_open else self.explained

    def after_look(
        self, session: SessionPlan, look: int, steps: Sequence[Step]
    ) -> list[SessionPlan]:
        """Sessions that may follow a look (from 0); after the last look, sessions of the steps.

        By the last look the cells of the confirmation are known but for a few, which cost little.
        One that is explained in vain costs as much as a session.
        """
        if look < len(self.plan.looks) - 1:
            return [_without_visits(session), *self.following(steps, looks_open=True)]
        explained = None if self.explained is None else _without_visits(self.explained)
        return list(replace(self, explained=explained).following(steps))

    def _has_samples(self, session: SessionPlan) -> bool:
        return bool(self.samples["session"].eq(session.name).any())

    def _second_look(self, session: SessionPlan, *, comes_next: bool) -> SessionPlan | None:
        """The second look where one is needed; without visits where it is open and comes next."""
        if len(self.plan.looks) < 2:
            return None
        if not self._has_samples(session):
            return _without_visits(session) if comes_next else None
        later = later_session(self.plan, session, self.samples, 1, delta=self.delta)
        return later if later.visits else None

    def _confirmation(self, session: SessionPlan, *, is_open: bool) -> Iterator[SessionPlan]:
        if is_open:
            yield empty_final(session)
            return
        final = final_session(self.plan, session, self.samples, delta=self.delta)
        if final.visits:
            yield final


def _without_visits(session: SessionPlan) -> SessionPlan:
    """A session whose visits are not known yet."""
    return replace(session, visits=())


def later_session(
    plan: Plan,
    session: SessionPlan,
    samples: pd.DataFrame,
    look: int,
    *,
    delta: float = DELTA,
) -> SessionPlan:
    """Timing session with the visits of a later look; no visits where every question is answered.

    `look` counts from 1, the second number of `plan.looks`; after LAST_OF_RACE it has none of the
    cells that may be the best where these are confirmed. `samples` may hold more than the blocks
    before it, but nothing of cells that failed. Relative differences below `delta` are the same.
    """
    first, last = plan.looks[look - 1], plan.looks[look]
    judge = _judge(plan, samples, first, delta)
    without_race = plan.confirmed_problems if look > LAST_OF_RACE else frozenset[str]()
    return _with_visits(plan, session, _open_cells(plan, judge, without_race), range(first, last))


def final_session(
    plan: Plan, session: SessionPlan, samples: pd.DataFrame, *, delta: float = DELTA
) -> SessionPlan:
    """Session that measures the finalists and references of each problem again."""
    finalists = _finalists(plan, _judge(plan, samples, None, delta))
    problems = {problem for problem, _ in finalists} & plan.problems_to_confirm
    references = {plan.baseline, *plan.references}
    cells = [
        cell
        for cell in plan.cells
        if cell.problem.id in problems
        and ((cell.problem.id, cell.variant.id) in finalists or cell.variant.id in references)
    ]
    return _with_visits(plan, empty_final(session), _comparable(cells), range(plan.final_blocks))


def empty_final(session: SessionPlan) -> SessionPlan:
    """The session of `final_session` for a timing session, without its visits."""
    kind = COLLECTORS[session.collector]
    counts = kind.records is Records.COUNTERS
    return SessionPlan(
        name=f"{kind.session_name}-final",
        collector=session.collector,
        kind=SessionKind.FINAL,
        metrics=confirmation_metrics(session.metrics) if counts else session.metrics,
        visits=(),
        recompiles=session.recompiles,
        by_environment=session.by_environment,
    )


def timeline_cells(plan: Plan, samples: pd.DataFrame, *, delta: float = DELTA) -> tuple[Cell, ...]:
    """Cells to record a timeline of: the finalists of each problem and its baseline.

    All cells where nothing was timed that could tell.
    """
    judge = _judge(plan, samples, None, delta)
    if judge.times.empty:
        return plan.cells
    finalists = _finalists(plan, judge)
    return tuple(
        cell
        for cell in plan.cells
        if (cell.problem.id, cell.variant.id) in finalists or cell.variant.id == plan.baseline
    )


def _finalists(plan: Plan, judge: Judge) -> set[tuple[str, str]]:
    """Ids (problem, variant) of the contenders: at most the MOST_FINALISTS fastest."""
    contenders = judge.contenders(_rivals(plan))
    medians = judge.times.groupby(["problem", "variant"])["duration_ns"].median()
    ranked = (
        contenders[contenders["contender"]]
        .join(medians, on=["problem", "variant"])
        .sort_values("duration_ns", kind="stable")
        .groupby("problem", sort=False)
        .head(MOST_FINALISTS)
    )
    return set(zip(ranked["problem"], ranked["variant"], strict=True))


def _judge(plan: Plan, samples: pd.DataFrame, blocks: int | None, delta: float) -> Judge:
    times = visit_times(samples, plan.cells, SessionKind.TIMING, blocks)
    return Judge(times, plan.baseline, Rules(len(plan.looks), delta), detectable=False)


def _open_cells(
    plan: Plan, judge: Judge, without_race: Collection[str] = frozenset()
) -> tuple[Cell, ...]:
    """Cells of questions that the blocks so far do not answer, with their baselines.

    `without_race`: ids of problems whose best is not asked for.
    """
    open_ids = _undecided(judge, _pairs_of(plan, plan.pairs))
    if Question.BEST in plan.questions:
        outside_race = {cell.id for cell in plan.cells if cell.problem.id in without_race}
        open_ids |= _possible_winners(plan, judge) - outside_race
    if Question.BASELINE in plan.questions:
        open_ids |= _undecided_by_correction(judge, plan.cells)
    problems = {cell.problem.id for cell in plan.cells if cell.id in open_ids}
    return _comparable(
        cell
        for cell in plan.cells
        if cell.id in open_ids or (cell.variant.id == plan.baseline and cell.problem.id in problems)
    )


def _possible_winners(plan: Plan, judge: Judge) -> set[str]:
    """Ids of cells that may be the best, and of winners with no verdict against the baseline."""
    race = judge.contenders(_rivals(plan))
    leading = race[race["contender"]]
    has_rivals = leading.groupby("problem")["variant"].transform("size") > 1
    winners = _cell_ids(plan, leading[~has_rivals])
    return _cell_ids(plan, leading[has_rivals]) | _undecided(judge, _with_baselines(plan, winners))


def _undecided(judge: Judge, pairs: Iterable[Pair]) -> set[str]:
    """Ids of both cells of every pair that more blocks may decide."""
    pairs = list(pairs)
    if not pairs:
        return set()
    verdicts = judge.compare(pairs)
    rows = verdicts.loc[undecided_pairs(verdicts)]
    return {*rows["cell"], *rows["against"]}


def _undecided_by_correction(judge: Judge, cells: Sequence[Cell]) -> set[str]:
    """Ids of cells that differ from the baseline only without the correction for many comparisons.

    Out of the race as they may be, the page has a verdict on each of them; a few more blocks give
    it, because p values shrink faster than the number of comparisons weighs.
    """
    verdicts = judge.with_baseline(cells)
    return set(verdicts.loc[verdicts["reason"] == Reason.MANY_COMPARISONS, "cell"])


def _cell_ids(plan: Plan, rows: pd.DataFrame) -> set[str]:
    pairs = set(zip(rows["problem"], rows["variant"], strict=True))
    return {cell.id for cell in plan.cells if (cell.problem.id, cell.variant.id) in pairs}


def _with_baselines(plan: Plan, ids: Collection[str]) -> list[Pair]:
    baselines = plan.baseline_cells
    return [
        (cell.id, baselines[cell.problem.id].id)
        for cell in plan.cells
        if cell.id in ids and cell.problem.id in baselines
    ]


def _pairs_of(plan: Plan, variant_pairs: Collection[tuple[str, str]]) -> list[Pair]:
    """Pairs of cell ids at each problem where both variants of a pair are planned."""
    ids = {(cell.problem.id, cell.variant.id): cell.id for cell in plan.cells}
    pairs = (
        ((problem, first), (problem, second))
        for problem in dict.fromkeys(cell.problem.id for cell in plan.cells)
        for first, second in variant_pairs
    )
    return [(ids[first], ids[second]) for first, second in pairs if first in ids and second in ids]


def _comparable(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """Cells of problems with several cells: a single cell has nothing to compare with."""
    cells = tuple(cells)
    counts = Counter(cell.problem.id for cell in cells)
    return tuple(cell for cell in cells if counts[cell.problem.id] > 1)


def _with_visits(
    plan: Plan, session: SessionPlan, cells: Sequence[Cell], blocks: Iterable[int]
) -> SessionPlan:
    visits = block_visits(
        cells, session.name, blocks, seed=plan.seed, repeated_variant=plan.baseline
    )
    return replace(session, visits=tuple(visits))


def _rivals(plan: Plan) -> set[str]:
    """Ids of the variants that may be called the best."""
    return {variant.id for variant in plan.rivals}
