"""Which measurements count where the GPU was throttled, and what is to be measured again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
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


def throttled_again(plan: Plan, session: str, attempts: Sequence[Loaded]) -> set[Visit]:
    """Visits of a session that were throttled each time so far, and are to be repeated."""
    of_session = [loaded for loaded in attempts if loaded.attempt.record.session == session]
    if not any(loaded.throttled() for loaded in of_session):
        return set()
    return {Visit(*key) for key in _repeats(of_session, plan.problem_of).again}


class CountingVisits:
    """Which measurement of each visit counts, over all attempts of a run; decided once for all."""

    def __init__(self, plan: Plan, attempts: Sequence[Loaded]) -> None:
        self._attempts = attempts
        self._problem_of = plan.problem_of
        self._by_session = _by_session(attempts)
        self._repeats = {
            session: _repeats([attempts[number] for number in numbers], self._problem_of)
            for session, numbers in self._by_session.items()
        }
        self._unused: list[frozenset[VisitKey]] = [frozenset()] * len(attempts)
        """Visits of each attempt that another attempt measured better."""
        for session, numbers in self._by_session.items():
            for number, unused in zip(numbers, self._repeats[session].unused, strict=True):
                self._unused[number] = unused

    def samples(self) -> list[pd.DataFrame]:
        """Samples of each attempt without those of visits that another one measured better."""
        return self._counting([loaded.samples for loaded in self._attempts])

    def ranges(self) -> list[pd.DataFrame]:
        """Counters of ranges of each attempt, of the same visits as `samples`."""
        return self._counting([loaded.ranges for loaded in self._attempts])

    def timelines(self) -> list[Mapping[str, CellTimeline]]:
        """Timelines of each attempt by cell, of the same visits as `samples`."""
        timelines = [
            loaded.timeline.cells if loaded.timeline is not None else {}
            for loaded in self._attempts
        ]
        return [
            {
                cell: timeline
                for cell, timeline in cells.items()
                if (cell, FIRST_BLOCK, 0) not in unused
            }
            for cells, unused in zip(timelines, self._unused, strict=True)
        ]

    def notices(self) -> tuple[Notice, ...]:
        """Notices about the clocks of each session."""
        return tuple(
            notice
            for session, numbers in self._by_session.items()
            for notice in self._session_notices(session, [self._attempts[n] for n in numbers])
        )

    def _session_notices(self, session: str, of_session: Sequence[Loaded]) -> Iterator[Notice]:
        sampled = [loaded for loaded in of_session if len(loaded.clocks)]
        if not sampled:
            return
        visits = pd.concat([loaded.visit_times for loaded in sampled], ignore_index=True)
        clocks = pd.concat([loaded.clocks for loaded in sampled], ignore_index=True)
        launches = pd.concat([_launches(loaded) for loaded in of_session], ignore_index=True)
        yield from clock_notices(
            session,
            reason_shares(clocks, visits),
            launch_clocks(launches),
            self._repeats[session],
            self._problem_of,
        )

    def _counting(self, frames: list[pd.DataFrame]) -> list[pd.DataFrame]:
        return [_without(frame, visits) for frame, visits in zip(frames, self._unused, strict=True)]


def _launches(loaded: Loaded) -> pd.DataFrame:
    """Launches of an attempt, kernels of a visit together: `kernel duration_ns cycles`.

    Of an explain session each kernel, which had one launch.
    """
    columns = ["kernel", "duration_ns", "cycles"]
    explained = [
        (f"{cell} {place}", kernel.value(DURATION), kernel.value(ELAPSED))
        for cell, profile in (loaded.profiles or {}).items()
        for place, kernel in enumerate(profile.kernels)
    ]
    if explained:
        return pd.DataFrame(explained, columns=columns)
    return loaded.samples.rename(columns={"cell": "kernel"}).reindex(columns=columns)


def _without(samples: pd.DataFrame, unused: frozenset[VisitKey]) -> pd.DataFrame:
    if not unused:
        return samples
    made = samples[["cell", "block", "arm"]].itertuples(index=False, name=None)
    return samples[[visit not in unused for visit in made]]


def _repeats(of_session: Sequence[Loaded], problem_of: Mapping[str, str]) -> Repeats:
    """Which visits of one session count and which are repeated; attempts oldest first."""
    return plan_repeats([_measured_and_throttled(loaded, problem_of) for loaded in of_session])


def _measured_and_throttled(
    loaded: Loaded, problem_of: Mapping[str, str]
) -> tuple[set[VisitKey], set[VisitKey]]:
    measured = {key for key in loaded.visit_keys if key[0] in problem_of}
    throttled = {visit.key for visit in loaded.throttled()} & measured
    return measured, with_whole_blocks(throttled, measured, problem_of)


def _by_session(attempts: Sequence[Loaded]) -> dict[str, list[int]]:
    """Indices of the attempts of each session, oldest first."""
    places: dict[str, list[int]] = {}
    for number, loaded in enumerate(attempts):
        places.setdefault(loaded.attempt.record.session, []).append(number)
    return places
