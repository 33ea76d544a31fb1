"""Sessions that are over, by which others are forecast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from profiler.collect.registry import COLLECTORS
from profiler.model import SessionKind, SessionPlan
from profiler.planning.spec import Collect
from profiler.run_folder.folder import AttemptRecord, RunFolder
from profiler.runner import protocol
from profiler.sessions.forecasts.session_costs import SessionCosts, read_costs
from profiler.sessions.forecasts.typical import TypicalVisit, typical_visit
from profiler.sessions.watchdog import Record


class Likeness(IntEnum):
    """How much the visits of an earlier session tell of those of another."""

    OTHER_TOOL = 0
    SAME_TOOL = 1
    SAME_METRICS = 2
    SAME_SESSION = 3


@dataclass(frozen=True)
class PastSession:
    """A session that is over, by which others are forecast."""

    costs: SessionCosts
    visit: TypicalVisit
    likeness: Likeness
    """To the session that is forecast."""
    checked_before: frozenset[str] = frozenset()
    """Cells that its run had checked until then."""


@dataclass(frozen=True)
class Past:
    """Sessions of a run, oldest first, as they matter to one that is forecast."""

    sessions: tuple[PastSession, ...] = ()
    checked: frozenset[str] = frozenset()
    """Cells that they have compared with their reference."""


def past_of_run(
    sessions: Iterable[tuple[AttemptRecord, SessionCosts]], session: SessionPlan, collect: Collect
) -> Past:
    """The sessions of a run, by the records of their attempts, for the forecast of one."""
    past = Past()
    for record, costs in sessions:
        visit = typical_visit(record.collector, record.kind, record.metrics, collect)
        of_another_build = record.kind == SessionKind.IN_KERNEL
        past = Past(
            (*past.sessions, PastSession(costs, visit, _likeness(record, session), past.checked)),
            past.checked if of_another_build else past.checked | costs.checked,
        )
    return past


def costs_of_run(
    run: RunFolder, problem_of: Mapping[str, str]
) -> list[tuple[AttemptRecord, SessionCosts]]:
    """Costs of each session of a run, oldest first."""
    journals = ((each.record, protocol.read_journal(each.journal)) for each in run.attempts())
    return costs_of_sessions(journals, problem_of)


def costs_of_sessions(
    journals: Iterable[tuple[AttemptRecord, Iterable[Record]]], problem_of: Mapping[str, str]
) -> list[tuple[AttemptRecord, SessionCosts]]:
    """Costs of each session under a tool, by its journal, oldest first."""
    return oldest_first(
        (record, read_costs(journal, problem_of))
        for record, journal in journals
        if record.collector in COLLECTORS  # not the check of an external command
    )


def oldest_first(
    costs: Iterable[tuple[AttemptRecord, SessionCosts]],
) -> list[tuple[AttemptRecord, SessionCosts]]:
    """Costs of sessions in the order in which these began."""
    return sorted(costs, key=lambda item: item[1].began)


def _likeness(record: AttemptRecord, session: SessionPlan) -> Likeness:
    # Launches that are replayed dozens of times tell nothing of others.
    one_explains = (record.kind == SessionKind.EXPLAIN) != (session.kind is SessionKind.EXPLAIN)
    if record.collector != session.collector or one_explains:
        return Likeness.OTHER_TOOL
    if record.session == session.name:
        return Likeness.SAME_SESSION
    if record.metrics == session.metrics:
        return Likeness.SAME_METRICS
    return Likeness.SAME_TOOL
