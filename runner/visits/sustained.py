"""Visits of one cell back to back, as it is used: until its clock and its power have settled.

A visit launches without a gap until it has settled (`profiler.runner.visits.settling`); what is
measured is its end. What the visit before left of heat and clock lies in the part before.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from profiler.runner import ranges
from profiler.runner.device import Device
from profiler.runner.garbage import no_garbage_collection
from profiler.runner.protocol import Job, JobVisit
from profiler.runner.renewal import tensors_in
from profiler.runner.timing import Launch, restore
from profiler.runner.visits.base import SingleVisits
from profiler.runner.visits.bursts import (
    BURST_S,
    MS_PER_S,
    Burst,
    LaunchInTurn,
    Mark,
    burst_of,
    new_mark,
)
from profiler.runner.visits.power import (
    Reading,
    mean_of,
    mean_power,
    open_meter,
    power_limited_pct,
)
from profiler.runner.visits.settling import Settling, TimedBurst

_QUEUED = 2
"""Bursts that are queued behind the one that is waited for: the host may be away for one."""
_L2_SIZES = 3
"""Sets of inputs are as many as are together this often the size of L2 (`device.CacheFlush`)."""
MOST_SETS = 256
_L2_SIZE = "device__attribute_l2_cache_size"


class SustainedVisits(SingleVisits):
    """Visits whose launches follow each other for `Job.longest_s` at most."""

    def __init__(self, job: Job, device: Device) -> None:
        self._device = device
        self._meter = open_meter(device.torch_device)
        self._settling = Settling(job.longest_s, self._meter.limit_w)

    def input_sets(self, inputs: Any) -> int:
        """Sets of inputs that are larger than L2 together; 1 where their size is not known."""
        l2_bytes = self._device.attributes().get(_L2_SIZE, 0)
        try:
            tensors = tensors_in(inputs).values()
        except Exception:  # whatever objects of a workload do when they are looked into
            return 1
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        set_bytes = sum(storages.values())
        if not set_bytes:
            return 1
        return max(1, min(MOST_SETS, -(-_L2_SIZES * l2_bytes // set_bytes)))

    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """One visit: `durations_ns`, the mean, and `sustained`, see `profiler.runner.protocol`."""
        in_turn = launch if isinstance(launch, LaunchInTurn) else LaunchInTurn([launch])
        restore(in_turn)
        if in_turn.burst is None:
            in_turn.burst = burst_of(
                in_turn, self._device, min(BURST_S, self._settling.shortest_span_s / 4)
            )
        burst = in_turn.burst
        with (
            self._meter.reading() as readings,
            ranges.visit_range(visit.cell, visit.block, visit.arm),
            no_garbage_collection(),
        ):
            bursts = self._run(burst, readings)
        span = self._settling.span(bursts, readings)
        launch_s = span.burst_s / burst.launches
        power_w, clock_mhz = mean_power(span.readings), span.clock_mhz
        return {
            "durations_ns": [launch_s * 1e9],
            "sustained": {
                "power_w": power_w,
                "energy_j": None if power_w is None else power_w * launch_s,
                "sampled_power_w": span.sampled_power_w,
                "sustained_clock_ghz": None if clock_mhz is None else clock_mhz / 1e3,
                "temperature_c": mean_of([reading.temperature_c for reading in span.readings]),
                "power_limited_pct": power_limited_pct(span.readings),
                "power_limit_w": self._meter.limit_w,
                "settled": float(self._settling.has_settled(span)),
                "seconds": sum(done.seconds for done in bursts),
                "sets": len(in_turn.launches),
                "in_graph": float(burst.in_graph),
                "host_share": burst.host_share,
            },
        }

    def _run(self, burst: Burst, readings: Sequence[Reading]) -> list[TimedBurst]:
        """Make bursts until they have settled, or for as long as they may take."""
        done: list[TimedBurst] = []
        pending: deque[Mark] = deque([new_mark(self._device)])
        took_s = 0.0
        while not self._settling.is_over(took_s, done, readings):
            burst.make()
            pending.append(new_mark(self._device))
            if len(pending) < _QUEUED + 2:
                continue
            begin, end = pending.popleft(), pending[0]
            end.synchronize()
            seconds = begin.elapsed_time(end) / MS_PER_S
            took_s += seconds
            done.append(TimedBurst(seconds, time.monotonic()))
        self._device.wait()
        return done
