"""Which visits of a session no attempt has made, and are to be made."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set

from profiler.model import BuildResult, Plan, SessionKind, SessionPlan, Visit
from profiler.run_folder.load.aliases import find_aliases
from profiler.run_folder.load.attempts import Loaded
from profiler.run_folder.load.outcomes import failures


def missing_visits(  # noqa: PLR0913 - all but the first three by keyword
    plan: Plan,
    session: SessionPlan,
    earlier: Sequence[Loaded],
    *,
    builds: Sequence[BuildResult],
    stamped: Collection[str],
    time_limit_s: float,
    throttled: Set[Visit],
) -> tuple[Visit, ...]:
    """Visits still to make, including a repeat of those that were `throttled`.

    `stamped`: ids of the variants that have a library with stamps; `time_limit_s`: of a visit.
    """
    measured = measured_visits(session, earlier) - throttled
    skipped = {build.variant for build in builds if not build.ok}
    if session.kind is SessionKind.IN_KERNEL:
        skipped |= {v.id for v in plan.variants if v.id not in stamped}
    failed = failures(plan, earlier, kind=session.kind)
    gone = {cell for cell, failure in failed.items() if failure.stands(time_limit_s)}
    gone |= set(find_aliases(plan.cells, builds))
    variant_of = {cell.id: cell.variant.id for cell in plan.cells}
    return tuple(
        visit
        for visit in session.visits
        if visit not in measured
        and visit.cell not in gone
        and variant_of[visit.cell] not in skipped
    )


def measured_visits(session: SessionPlan, earlier: Sequence[Loaded]) -> set[Visit]:
    """Visits that attempts of a session have results of."""
    of_session = (a for a in earlier if a.attempt.record.session == session.name)
    return {visit for loaded in of_session for visit in loaded.visits()}
