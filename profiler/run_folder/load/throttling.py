"""Which measurements count where the GPU was throttled, and what is to be measured again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.clocks import (
    Repeats,
    VisitKey,
    clock_facts,
    clock_notices,
    measured_visits,
    plan_repeats,
    with_whole_blocks,
)
from profiler.model import Plan, Visit
from profiler.notices import Notice
from profiler.run_folder.load.attempts import Loaded
from profiler.run_folder.load.timelines import FIRST_BLOCK


def throttled_again(plan: Plan, session: str, attempts: Sequence[Loaded]) -> set[Visit]:
    """Visits of a session that were throttled each time so far, and are to be repeated."""
    of_session = [loaded for loaded in attempts if loaded.attempt.record.session == session]
    return {Visit(*key) for key in _repeats(of_session, _problems(plan)).again}


def counting_samples(plan: Plan, attempts: Sequence[Loaded]) -> list[pd.DataFrame]:
    """Samples of each attempt without those of visits that another attempt measured better."""
    return _counting(plan, attempts, [loaded.samples for loaded in attempts])


def counting_ranges(plan: Plan, attempts: Sequence[Loaded]) -> list[pd.DataFrame]:
    """Counters of ranges of each attempt, of the same visits as `counting_samples`."""
    return _counting(plan, attempts, [loaded.ranges for loaded in attempts])


def counting_timelines(plan: Plan, attempts: Sequence[Loaded]) -> list[Mapping[str, CellTimeline]]:
    """Timelines of each attempt by cell, of the same visits as `counting_samples`."""
    timelines = [
        loaded.timeline.cells if loaded.timeline is not None else {} for loaded in attempts
    ]
    return [
        {cell: timeline for cell, timeline in cells.items() if (cell, FIRST_BLOCK, 0) not in unused}
        for cells, unused in zip(timelines, _unused(plan, attempts), strict=True)
    ]


def _counting(
    plan: Plan, attempts: Sequence[Loaded], frames: list[pd.DataFrame]
) -> list[pd.DataFrame]:
    unused = _unused(plan, attempts)
    return [_without(frame, visits) for frame, visits in zip(frames, unused, strict=True)]


def _unused(plan: Plan, attempts: Sequence[Loaded]) -> list[frozenset[VisitKey]]:
    """Of each attempt, the visits that another attempt measured better."""
    unused_by_attempt: list[frozenset[VisitKey]] = [frozenset()] * len(attempts)
    for numbers in _by_session(attempts).values():
        repeats = _repeats([attempts[number] for number in numbers], _problems(plan))
        for number, unused in zip(numbers, repeats.unused, strict=True):
            unused_by_attempt[number] = unused
    return unused_by_attempt


def _without(samples: pd.DataFrame, unused: frozenset[VisitKey]) -> pd.DataFrame:
    if not unused:
        return samples
    made = samples[["cell", "block", "arm"]].itertuples(index=False, name=None)
    return samples[[visit not in unused for visit in made]]


def clock_notices_of(plan: Plan, attempts: Sequence[Loaded]) -> tuple[Notice, ...]:
    """Notices about the clocks of each session of a run."""
    return tuple(
        notice
        for session, numbers in _by_session(attempts).items()
        for notice in _session_notices(plan, session, [attempts[number] for number in numbers])
    )


def _session_notices(plan: Plan, session: str, of_session: Sequence[Loaded]) -> Iterator[Notice]:
    sampled = [loaded for loaded in of_session if len(loaded.clocks)]
    if not sampled:
        return
    problem_of = _problems(plan)
    records = [record for loaded in sampled for record in loaded.records]
    clocks = pd.concat([loaded.clocks for loaded in sampled], ignore_index=True)
    facts = clock_facts(clocks, measured_visits(records))
    yield from clock_notices(session, facts, _repeats(of_session, problem_of), problem_of)


def _repeats(of_session: Sequence[Loaded], problem_of: Mapping[str, str]) -> Repeats:
    """Which visits of one session count and which are repeated; attempts oldest first."""
    return plan_repeats([_measured_and_throttled(loaded, problem_of) for loaded in of_session])


def _measured_and_throttled(
    loaded: Loaded, problem_of: Mapping[str, str]
) -> tuple[set[VisitKey], set[VisitKey]]:
    measured = {_key(visit) for visit in loaded.visits() if visit.cell in problem_of}
    throttled = {_key(visit) for visit in loaded.throttled()} & measured
    return measured, with_whole_blocks(throttled, measured, problem_of)


def _key(visit: Visit) -> VisitKey:
    return visit.cell, visit.block, visit.arm


def _by_session(attempts: Sequence[Loaded]) -> dict[str, list[int]]:
    """Indices of the attempts of each session, oldest first."""
    places: dict[str, list[int]] = {}
    for number, loaded in enumerate(attempts):
        places.setdefault(loaded.attempt.record.session, []).append(number)
    return places


def _problems(plan: Plan) -> dict[str, str]:
    return {cell.id: cell.problem.id for cell in plan.cells}
