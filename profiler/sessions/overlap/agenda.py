"""The order of the sessions of a run, and which of them can be foreseen while another measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from profiler.collect.registry import is_judged
from profiler.model import Plan, SessionKind, SessionPlan
from profiler.planning.session_plans import NCU
from profiler.sessions.looks import empty_final, final_session, later_session

_COUNTED = (SessionKind.TIMING, SessionKind.COUNTERS)


@dataclass(frozen=True)
class Planned:
    """A session of the plan; of one that is judged in several looks, the first."""

    session: SessionPlan


@dataclass(frozen=True)
class LaterLooks:
    """The looks after the first of a timing session."""

    session: SessionPlan


@dataclass(frozen=True)
class Confirmation:
    """The confirmation of a timing session."""

    session: SessionPlan


@dataclass(frozen=True)
class Explanation:
    """The explain session, as far as its cells are known and not explained yet."""

    again: bool = False
    """Whether another one came before: mostly nothing is left for it, and no process waits."""


Step = Planned | LaterLooks | Confirmation | Explanation


def steps(plan: Plan, *, explains: bool = False) -> tuple[Step, ...]:
    """Steps in which a plan is measured, in their order.

    The counters come between the first look and what follows it: which cells that concerns is found
    out, and its process started, while they are counted. Where ncu judges, cells are explained
    before the last session that is sure to come, so that the pages of the report are printed while
    that is measured: before the confirmation, or before the last counters where the first look
    tells what the answer is about. And at the end, if it has become one about other cells.
    """
    judged = next((session for session in plan.sessions if is_judged(plan, session)), None)
    ordered: list[Step] = [Planned(session) for session in plan.sessions]
    if judged is not None:
        places = [
            place
            for place, session in enumerate(plan.sessions)
            if session.collector == judged.collector and session.kind in _COUNTED
        ]
        explains_first = explains and judged.collector == NCU
        last = max(places)
        ordered[1 + last : 1 + last] = _judged(plan, judged, explains=explains_first)
        if explains_first and _first_look_tells(plan) and plan.sessions[last] != judged:
            ordered.insert(last, Explanation())
    if explains:
        ordered.append(Explanation(again=any(isinstance(step, Explanation) for step in ordered)))
    return tuple(ordered)


def _first_look_tells(plan: Plan) -> bool:
    """Whether what is measured after the first look hardly changes which cells the answer is about.

    Not where the fastest of several may be another one in the end.
    """
    variants = Counter(cell.problem.id for cell in plan.cells)
    return not plan.has_final and (len(plan.looks) == 1 or max(variants.values(), default=0) <= 2)


def _judged(plan: Plan, session: SessionPlan, *, explains: bool) -> Iterator[Step]:
    """Steps after the first look of a session and the counters, in their order."""
    yield LaterLooks(session)
    if plan.has_final:
        if explains:
            yield Explanation()
        yield Confirmation(session)


@dataclass(frozen=True, eq=False)
class Foresight:
    """Which sessions come, by the samples so far; those that are still open have no visits."""

    plan: Plan
    samples: pd.DataFrame
    explained: SessionPlan | None
    """The explain session by these samples; None where nothing is explained."""
    delta: float
    """Relative differences below it are the same."""

    def following(
        self, steps: Sequence[Step], *, looks_open: bool = False
    ) -> Iterator[SessionPlan]:
        """Sessions of the steps that follow; `looks_open`: whether a look before them is.

        Whether a second look comes is open before the first one has samples: where other sessions
        come before it, its process would hold a place for nothing more often than not, and that of
        a session which comes after all looks has it.
        """
        for place, step in enumerate(steps):
            match step:
                case Planned(session):
                    yield session
                case LaterLooks(session):
                    look = self._second_look(session, comes_next=place == 0)
                    looks_open = look is not None or not self._has(session)
                    if look is not None:
                        yield look
                case Confirmation(session):
                    yield from self._confirmation(session, is_open=looks_open)
                case Explanation(again=False) if self.explained is not None:
                    yield _open(self.explained) if looks_open else self.explained

    def after_look(
        self, session: SessionPlan, look: int, steps: Sequence[Step]
    ) -> list[SessionPlan]:
        """Sessions that may follow a look (from 0) and, after the last, those of the steps.

        By the last look the cells of the confirmation are known but for a few, which cost little.
        One that is explained in vain costs as much as a session.
        """
        if look < len(self.plan.looks) - 1:
            return [_open(session), *self.following(steps, looks_open=True)]
        explained = None if self.explained is None else _open(self.explained)
        return list(replace(self, explained=explained).following(steps))

    def _has(self, session: SessionPlan) -> bool:
        return bool(self.samples["session"].eq(session.name).any())

    def _second_look(self, session: SessionPlan, *, comes_next: bool) -> SessionPlan | None:
        """The second look where one is needed; without visits where it is open and comes next."""
        if len(self.plan.looks) < 2:
            return None
        if not self._has(session):
            return _open(session) if comes_next else None
        later = later_session(self.plan, session, self.samples, 1, delta=self.delta)
        return later if later.visits else None

    def _confirmation(self, session: SessionPlan, *, is_open: bool) -> Iterator[SessionPlan]:
        if is_open:
            yield empty_final(session)
            return
        final = final_session(self.plan, session, self.samples, delta=self.delta)
        if final.visits:
            yield final


def _open(session: SessionPlan) -> SessionPlan:
    """A session whose visits are not known yet."""
    return replace(session, visits=())
