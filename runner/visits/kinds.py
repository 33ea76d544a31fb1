"""Kinds of visits by collector: their ranges, their launches, and their journal records.

Visits of the timers leave durations; visits of a timeline leave ranges for a tool to see, around
the visit and around each of its launches; visits of stamps leave a file
(`profiler.runner.visits.stamps`); sustained visits and visits of CUPTI have modules of their own
(`profiler.runner.visits.sustained`, `profiler.runner.cupti.counted_visits`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch

from profiler.runner import protocol
from profiler.runner.cupti.counted_visits import CountedVisits
from profiler.runner.device import Device
from profiler.runner.protocol import Job, JobVisit
from profiler.runner.timing import (
    Launch,
    Stopwatch,
    WatchedLaunch,
    make_stopwatch,
    on_cuda,
    restore,
    waiting_ns,
)
from profiler.runner.visits import ranges
from profiler.runner.visits.base import SingleVisits, Visits
from profiler.runner.visits.stamps import StampedVisits
from profiler.runner.visits.sustained import SustainedVisits
from profiler.runner.visits.traces import TracedVisits, launch_in_ranges


class TimedVisits(SingleVisits):
    """Visits whose launches a stopwatch makes and times, or a tool that it waits for.

    `before` is done before each, outside of its range. `device`: where launches are watched, in the
    last warm-up, that may wait for it.
    """

    def __init__(
        self,
        stopwatch: Stopwatch,
        before: Callable[[], None] = lambda: None,
        device: Device | None = None,
    ) -> None:
        self._stopwatch = stopwatch
        self._before = before
        self._device = device

    def warm_up(self, cell: str, launch: Launch, times: int) -> Mapping[str, float]:
        """Launch a cell so many times before its first visit; returns WAITING_NS if watched."""
        if self._device is None or not times:
            return super().warm_up(cell, launch, times)
        super().warm_up(cell, launch, times - 1)

        def make(watched: WatchedLaunch) -> None:
            restore(watched)
            watched.keep_busy()
            watched()

        first = WatchedLaunch(launch, self._device)
        make(first)
        return {protocol.WAITING_NS: waiting_ns(self._device, launch, make, first)}

    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """Journal fields of a visit: `durations_ns` where the stopwatch measures."""
        restore(launch)
        self._before()
        with ranges.visit_range(visit.cell, visit.block, visit.arm):
            durations = self._stopwatch(launch)
        return {} if durations is None else {"durations_ns": durations}


class RecordedVisits(SingleVisits):
    """Visits in a process that runs under nsys.

    With the capture `visits`, recording is switched on before the first of them and off when the
    session ends; set-up, checks and warm-ups of the first problem are left out. On a CPU there are
    only the ranges.
    """

    def __init__(self, job: Job, device: Device) -> None:
        self._launches = job.settings.launches
        self._device = device
        self._switches = job.settings.capture == protocol.CAPTURE_VISITS and on_cuda(device)
        self._records = False

    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """Make a visit; its journal record has no fields, the report of nsys has them."""
        if self._switches and not self._records:
            torch.cuda.check_error(_cuda_runtime().cudaProfilerStart())
            self._records = True
        with ranges.visit_range(visit.cell, visit.block, visit.arm):
            launch_in_ranges(launch, self._launches, self._device)
        return {}

    def close(self) -> None:
        """Switch recording off: nsys goes on to write its report at once."""
        if self._records:
            self._records = False
            # After a lost context every call fails; nsys then ends with the process.
            with suppress(Exception):
                _cuda_runtime().cudaProfilerStop()


def _cuda_runtime() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch's own


_VISITS: Mapping[str, Callable[[Job, Device], Visits]] = {
    "nsys": RecordedVisits,
    "torch": TracedVisits,
    "in_kernel": StampedVisits,
    "cupti": CountedVisits,
    "sustained": SustainedVisits,
}


def make_visits(job: Job, device: Device) -> Visits:
    """Visits under the collector of a job; ValueError for an unknown collector."""
    if job.collector in _VISITS:
        return _VISITS[job.collector](job, device)
    stopwatch = make_stopwatch(job.collector, device, job.settings.repeats)
    watched = device if job.collector == "ncu" else None  # which adds up kernels
    if not job.settings.flush:
        return TimedVisits(stopwatch, device=watched)
    device.empty_caches()  # takes its memory before a workload does
    return TimedVisits(stopwatch, before=device.empty_caches, device=watched)
