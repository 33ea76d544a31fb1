"""Visits whose kernels CUPTI counts in this process, some visits together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch

from profiler.runner import protocol
from profiler.runner.cupti.range_profiler import CountersError, RangeProfiler, load_library
from profiler.runner.device import Device
from profiler.runner.protocol import Job, JobVisit
from profiler.runner.timing import BUSY_S, Launch, WatchedLaunch, waiting_ns
from profiler.runner.visits import ranges
from profiler.runner.visits.base import MakeVisit, VisitAttempt, Visits

MOST_TOGETHER = 32
"""Visits that are counted together: all are made again where the process ends among them."""
KERNELS = 32
"""Kernels for whose values there is room at first: each takes a millisecond of the first begin."""
MOST_KERNELS_TOGETHER = 256
"""Kernels for which room is made so that visits can be counted together."""
MOST_KERNELS = 8192
"""Kernels of one visit, with what empties the caches and what restores inputs."""

WARM_S = 0.002
"""Seconds of a launch from which on cold caches in new memory hardly slow it down."""


class _VisitForecast(NamedTuple):
    """Forecast of a visit, from a launch without counting."""

    kernels: int
    facts: Mapping[str, float]
    """VISIT_FACTS."""
    seconds: float
    is_lasting: bool
    """Whether it holds in later sessions, without a warm-up: a long launch of a built library."""


class CountedVisits(Visits):
    """Visits of one launch each. To begin and to end counting takes longer than most kernels.

    So it is done around up to MOST_TOGETHER visits. Where their kernels take several passes, all of
    them are made once for each pass. The last warm-up of a cell says how many there are: CUPTI
    crashes where there are more kernels than room, and where a graph is among them.
    """

    def __init__(self, job: Job, device: Device) -> None:
        """Raises DeviceMissingError where CUPTI cannot count the counters of the job."""
        library = load_library(Path(job.settings.counters_library))
        self._device = device
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        if job.settings.flush:
            device.empty_caches()  # takes its memory before a workload does
        self._profiler = self.counters = RangeProfiler(
            library,
            job.settings.counters,
            device,
            gpu,
            flush=job.settings.flush,
            most_kernels=KERNELS,
        )
        self._is_last = not job.process.orders
        """Whether no later session of this process counts."""
        self._built = {cell.id for cell in job.cells if cell.library is not None}
        """Cells whose launches compile nothing: each is like the first."""
        self._forecasts: dict[str, _VisitForecast] = {}
        """Forecasts by cell."""
        self._warm: set[str] = set()
        """Cells that need one warm-up less at their next warm-up."""
        self._waiting_ns: dict[str, float] = {}
        """WAITING_NS by cell."""
        self._kernels: dict[str, int] = {}
        """Number of kernels of a visit, by warm cell."""

    def first_launch(self, cell: str, launch: Launch) -> Any:
        """Result of a launch, which counts as a warm-up where its kernels can be counted."""
        results: list[Any] = []
        with suppress(CountersError):  # which the warm-up meets again, in a phase of its own
            watched = WatchedLaunch(lambda: results.append(launch()), self._device)
            forecast = self._forecast(cell, watched)
            if not watched.is_late:
                self._waiting_ns[cell] = 0.0
                self._forecasts[cell] = forecast
                self._warm.add(cell)
        return results[0]

    def remember(self, earlier: Visits) -> None:
        """Take over the lasting forecasts of earlier visits."""
        if isinstance(earlier, CountedVisits):
            forecasts = earlier._forecasts.items()
            self._forecasts = {cell: visit for cell, visit in forecasts if visit.is_lasting}
            self._warm = {*self._forecasts}
            self._waiting_ns = dict(earlier._waiting_ns)

    def warm_up(self, cell: str, launch: Launch, times: int) -> Mapping[str, float]:
        """Launch a cell so many times, and note the kernels of the last.

        One launch is left out, perhaps the only one, where an earlier launch gave the forecast.
        Returns VISIT_FACTS and WAITING_NS. Raises CountersError where kernels cannot be counted.
        """
        super().warm_up(cell, launch, times - 1)
        is_warm = cell in self._warm
        self._warm.discard(cell)
        if not is_warm:
            busy_s = 0.0 if cell in self._waiting_ns else BUSY_S
            watched = WatchedLaunch(launch, self._device, busy_s)
            self._forecasts[cell] = self._forecast(cell, watched)
            if busy_s:
                make = self._profiler.launch_watched
                self._waiting_ns[cell] = waiting_ns(self._device, launch, make, watched)
        visit = self._forecasts[cell]
        self.spared_s += visit.seconds if is_warm else 0.0
        if visit.kernels > MOST_KERNELS:
            raise CountersError(
                f"it launches {visit.kernels} kernels, and CUPTI counts {MOST_KERNELS} at most; "
                "ncu measures it, and so do CUDA events (--timer)"
            )
        self._kernels[cell] = visit.kernels
        return {**visit.facts, protocol.WAITING_NS: self._waiting_ns[cell]}

    def _forecast(self, cell: str, launch: WatchedLaunch) -> _VisitForecast:
        began = time.monotonic()
        kernels, facts = self._profiler.forecast(launch)
        seconds = time.monotonic() - began - launch.busy_s
        return _VisitForecast(kernels, facts, seconds, cell in self._built and seconds > WARM_S)

    def make_all(
        self, visits: Sequence[JobVisit], attempt: VisitAttempt
    ) -> Iterator[tuple[JobVisit, list[dict[str, Any]]]]:
        """Make visits in their order; yields each with its kernels (see `RangeProfiler.kernels`).

        Without visits whose cell fails, or was not warmed up. `attempt` is called for each launch.
        """
        remaining_visits = tuple(visit for visit in visits if visit.cell in self._kernels)
        self._make_room(remaining_visits)
        while remaining_visits:
            tried_visits, counted = self._counted_visits(remaining_visits[:MOST_TOGETHER], attempt)
            remaining_visits = remaining_visits[len(tried_visits) :]
            yield from counted

    def close(self) -> None:
        """Release the counters, unless another session may follow; raises nothing."""
        if self._is_last:
            self._profiler.close()

    def _make_room(self, visits: Sequence[JobVisit]) -> None:
        """Make room to count many of these visits together, and any of them alone."""
        kernels = [self._kernels[visit.cell] for visit in visits]
        shared_kernels = min(sum(kernels[:MOST_TOGETHER]), MOST_KERNELS_TOGETHER)
        room = max(shared_kernels, *kernels, 0)
        if room > self._profiler.most_kernels:
            self._profiler.make_room(room)

    def _counted_visits(
        self, visits: Sequence[JobVisit], attempt: VisitAttempt
    ) -> tuple[Sequence[JobVisit], list[tuple[JobVisit, list[dict[str, Any]]]]]:
        """The first visits, as many as fit, and the kernels of the successful ones."""
        tried_visits, made_visits = self._first_pass(visits, attempt)
        try:
            kernels = self._kernels_of(made_visits, attempt)
        except CountersError as error:
            self._profiler.reset()
            return tried_visits, self._kernels_counted_singly(made_visits, attempt, error)
        return tried_visits, [(visit, kernels[number]) for number, visit in made_visits.items()]

    def _kernels_counted_singly(
        self, made_visits: Mapping[int, JobVisit], attempt: VisitAttempt, error: CountersError
    ) -> list[tuple[JobVisit, list[dict[str, Any]]]]:
        """Kernels of visits made one by one; the visit that cannot be counted fails."""
        if len(made_visits) > 1:
            counted_singly = (
                self._counted_visits([visit], attempt) for visit in made_visits.values()
            )
            return [
                visit_and_kernels for _, counted in counted_singly for visit_and_kernels in counted
            ]

        def fail(_: Launch) -> NoReturn:
            raise error

        for visit in made_visits.values():
            attempt(visit, protocol.COUNT, fail)
        return []

    def _first_pass(
        self, visits: Sequence[JobVisit], attempt: VisitAttempt
    ) -> tuple[Sequence[JobVisit], dict[int, JobVisit]]:
        """The tried visits, and the successful ones by number."""
        self._profiler.begin()
        made_visits: dict[int, JobVisit] = {}
        for number, visit in enumerate(visits):
            launched = self._profiler.launched_kernels + self._kernels[visit.cell]
            if number and launched > self._profiler.most_kernels:
                visits = visits[:number]
                break
            if attempt(visit, protocol.MEASURE, self._range_launch(visit, number)):
                made_visits[number] = visit
        return visits, made_visits

    def _kernels_of(
        self, made_visits: Mapping[int, JobVisit], attempt: VisitAttempt
    ) -> Mapping[int, list[dict[str, Any]]]:
        """Kernels by number of the visit, after as many passes as they take.

        Raises CountersError where kernels differ between passes, and where CUPTI fails.
        """
        while not self._profiler.end():
            self._profiler.begin()
            for number, visit in made_visits.items():
                attempt(visit, protocol.COUNT, self._range_launch(visit, number))
        return self._profiler.kernels(made_visits)

    def _range_launch(self, visit: JobVisit, number: int) -> MakeVisit:
        def launch_in_range(launch: Launch) -> Mapping[str, Any]:
            with ranges.visit_range(visit.cell, visit.block, visit.arm):
                self._profiler.launch(number, launch)
            return {}

        return launch_in_range
