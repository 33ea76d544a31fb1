"""The order of the sessions of a run, and which of them can be foreseen while another measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from profiler.collect.registry import is_judged
from profiler.model import Plan, SessionKind, SessionPlan
from profiler.sessions.looks import empty_final, final_session, has_final, later_session

_COUNTED = (SessionKind.TIMING, SessionKind.COUNTERS)


@dataclass(frozen=True)
class Step:
    """A session of the plan, or what follows its first look: further looks and the confirmation."""

    session: SessionPlan
    later: bool = False


def steps(plan: Plan) -> tuple[Step, ...]:
    """Sessions of a plan in the order in which they are made.

    The counters come between the first look and what follows it: which cells that concerns is found
    out, and its process started, while they are counted.
    """
    judged = next((session for session in plan.sessions if is_judged(plan, session)), None)
    ordered = [Step(session) for session in plan.sessions]
    if judged is not None:
        places = [
            place
            for place, session in enumerate(plan.sessions)
            if session.collector == judged.collector and session.kind in _COUNTED
        ]
        ordered.insert(1 + max(places), Step(judged, later=True))
    return tuple(ordered)


def foreseen(
    plan: Plan, following: Sequence[Step], samples: pd.DataFrame, *, delta: float
) -> Iterator[SessionPlan]:
    """Sessions of the steps that follow; without visits where these are still open.

    Whether a second look comes is open before the first one has samples: where other sessions come
    before it, its process would hold a place for nothing more often than not, and that of the
    confirmation, which comes after all looks, has it.
    """
    for place, step in enumerate(following):
        if not step.later:
            yield step.session
        elif samples["session"].eq(step.session.name).any():
            yield from _next_timing(plan, step.session, samples, delta)
        elif place == 0:
            yield from _open(plan, step.session, look=0)
        elif has_final(plan):
            yield empty_final(step.session)


def after_look(
    plan: Plan, session: SessionPlan, samples: pd.DataFrame, look: int, *, delta: float
) -> list[SessionPlan]:
    """Sessions that may follow a look (from 0), as far as the samples before it tell."""
    if look < len(plan.looks) - 1:
        return list(_open(plan, session, look))
    return [final_session(plan, session, samples, delta=delta)] if has_final(plan) else []


def _open(plan: Plan, session: SessionPlan, look: int) -> Iterator[SessionPlan]:
    """The look and the confirmation that may follow a look, without their visits."""
    if look < len(plan.looks) - 1:
        yield replace(session, visits=())
    if has_final(plan):
        yield empty_final(session)


def _next_timing(
    plan: Plan, session: SessionPlan, samples: pd.DataFrame, delta: float
) -> Iterator[SessionPlan]:
    """The second look where one is needed, and the confirmation, which is open then."""
    if len(plan.looks) > 1:
        later = later_session(plan, session, samples, 1, delta=delta)
        if later.visits:
            yield later
            if has_final(plan):
                yield empty_final(session)
            return
    if has_final(plan):
        final = final_session(plan, session, samples, delta=delta)
        if final.visits:
            yield final
