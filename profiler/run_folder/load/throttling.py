"""Selects measurements that count where the GPU was throttled, and visits to measure again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from profiler.analyse.clocks import (
    Repeats,
    VisitKey,
    clock_notices,
    launch_clocks,
    plan_repeats,
    reason_shares,
    with_whole_blocks,
)
from profiler.analyse.why.kernel_profiles import DURATION, ELAPSED
from profiler.model import Plan, Visit
from profiler.notices import Notice
from profiler.run_folder.load.details import FIRST_BLOCK
from profiler.run_folder.load.loaded import Loaded

SessionRepeats = Mapping[str, tuple[Sequence[Loaded], Repeats]]
"""Attempts of each session, oldest first, with their counting visits."""


def throttled_again(plan: Plan, session: str, attempts: Sequence[Loaded]) -> set[Visit]:
    """Visits of a session to repeat: throttled in every attempt so far."""
    of_session = [loaded for loaded in attempts if loaded.attempt.record.session == session]
    if not any(loaded.throttled_visits for loaded in of_session):
        return set()
    return {Visit(*key) for key in _repeats(of_session, plan.problem_of).to_repeat}


def session_repeats(plan: Plan, attempts: Iterable[Loaded]) -> SessionRepeats:
    """Counting measurement of each visit by session, decided once for all attempts."""
    by_session: dict[str, list[Loaded]] = {}
    for loaded in attempts:
        by_session.setdefault(loaded.attempt.record.session, []).append(loaded)
    return {
        session: (of_session, _repeats(of_session, plan.problem_of))
        for session, of_session in by_session.items()
    }


def counting_attempts(attempts: Iterable[Loaded], repeats: SessionRepeats) -> list[Loaded]:
    """Attempts without data of visits that another attempt measured unthrottled."""
    unused_visits = {
        loaded.attempt.folder: visits
        for of_session, decided in repeats.values()
        for loaded, visits in zip(of_session, decided.unused, strict=True)
    }
    return [_without_visits(loaded, unused_visits[loaded.attempt.folder]) for loaded in attempts]


def _without_visits(loaded: Loaded, unused_visits: frozenset[VisitKey]) -> Loaded:
    if not unused_visits:
        return loaded
    timelines = {
        cell: timeline
        for cell, timeline in loaded.details.timelines.items()
        if (cell, FIRST_BLOCK, 0) not in unused_visits
    }
    samples, ranges = (
        _rows_without(rows, unused_visits) for rows in (loaded.samples, loaded.ranges)
    )
    details = replace(loaded.details, timelines=timelines)
    return replace(loaded, samples=samples, ranges=ranges, details=details)


def _rows_without(rows: pd.DataFrame, unused_visits: frozenset[VisitKey]) -> pd.DataFrame:
    visits = rows[["cell", "block", "arm"]].itertuples(index=False, name=None)
    return rows[[visit not in unused_visits for visit in visits]]


def throttling_notices(plan: Plan, repeats: SessionRepeats) -> Iterator[Notice]:
    """Notices on the clocks of each session."""
    for session, (of_session, decided) in repeats.items():
        sampled = [loaded for loaded in of_session if len(loaded.clocks)]
        if not sampled:
            continue
        visits = pd.concat([loaded.visit_times for loaded in sampled], ignore_index=True)
        clocks = pd.concat([loaded.clocks for loaded in sampled], ignore_index=True)
        launches = pd.concat([_launches(loaded) for loaded in of_session], ignore_index=True)
        yield from clock_notices(
            session,
            reason_shares(clocks, visits),
            launch_clocks(launches),
            decided,
            plan.problem_of,
        )


def _launches(loaded: Loaded) -> pd.DataFrame:
    """Launches of an attempt, kernels of a visit together: `kernel duration_ns cycles`.

    Of an explain session each kernel, which had one launch.
    """
    columns = ["kernel", "duration_ns", "cycles"]
    explained = [
        (f"{cell} {place}", kernel.value(DURATION), kernel.value(ELAPSED))
        for cell, launches in loaded.details.profiles.items()
        for place, kernel in enumerate(launches)
    ]
    if explained:
        return pd.DataFrame(explained, columns=columns)
    return loaded.samples.rename(columns={"cell": "kernel"}).reindex(columns=columns)


def _repeats(of_session: Sequence[Loaded], problem_of: Mapping[str, str]) -> Repeats:
    """Counting and repeated visits of one session; attempts oldest first."""
    return plan_repeats([_measured_and_throttled(loaded, problem_of) for loaded in of_session])


def _measured_and_throttled(
    loaded: Loaded, problem_of: Mapping[str, str]
) -> tuple[set[VisitKey], set[VisitKey]]:
    measured = {key for key in loaded.visit_keys if key[0] in problem_of}
    throttled = {visit.key for visit in loaded.throttled_visits} & measured
    return measured, with_whole_blocks(throttled, measured, problem_of)
