"""Visits of one cell back to back, as it is used: until its clock and its power have settled.

A visit launches without a gap until two halves of the last SPAN_S agree in duration, power and
clock; it is what was measured in these. What the visit before left of heat and clock lies in the
part that is not measured.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
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

LEAST_S = 1.0
"""Least seconds of a visit, where it may take as long."""
SPAN_S = 0.5
"""Seconds at the end of a visit that are measured, and whose halves have to agree."""
DURATIONS_AGREE, POWERS_AGREE, CLOCKS_AGREE = 0.002, 0.02, 0.01
"""Relative differences of both halves: NVML's power is of 25 to 100 ms, its clock has steps of
15 MHz."""
_QUEUED = 2
"""Bursts that are queued behind the one that is waited for: the host may be away for one."""
_L2_SIZES = 3
"""Sets of inputs are as many as are together this often the size of L2 (`device.CacheFlush`)."""
MOST_SETS = 256
_L2_SIZE = "device__attribute_l2_cache_size"


@dataclass(frozen=True)
class TimedBurst:
    """A burst that is over."""

    seconds: float
    """Of the device, from the end of the one before."""
    ended_s: float
    """When the host saw its end, by the monotonic clock."""


@dataclass(frozen=True)
class Span:
    """Bursts in a row, and what was read during them."""

    bursts: Sequence[TimedBurst]
    readings: Sequence[Reading]

    @classmethod
    def of(cls, bursts: Sequence[TimedBurst], readings: Sequence[Reading]) -> Span:
        """The bursts, with those of the readings that were taken during them."""
        begun_s, ended_s = bursts[0].ended_s - bursts[0].seconds, bursts[-1].ended_s
        return cls(bursts, [r for r in readings if begun_s <= r.time_s <= ended_s])

    @property
    def burst_s(self) -> float:
        """Mean seconds of a burst."""
        return sum(burst.seconds for burst in self.bursts) / len(self.bursts)

    @property
    def sampled_power_w(self) -> float | None:
        """Mean of the power that was read."""
        return mean_of([reading.power_w for reading in self.readings])

    @property
    def clock_mhz(self) -> float | None:
        """Mean SM clock that was read."""
        return mean_of([reading.clock_mhz for reading in self.readings])

    def halves(self) -> tuple[Span, Span]:
        """Both halves of its bursts."""
        middle = len(self.bursts) // 2
        first, second = self.bursts[:middle], self.bursts[middle:]
        return Span.of(first, self.readings), Span.of(second, self.readings)


def has_settled(span: Span) -> bool:
    """Whether both halves of a span agree in all that is known of them."""
    if len(span.bursts) < 2:
        return False
    first, second = span.halves()
    return (
        _agree(first.burst_s, second.burst_s, DURATIONS_AGREE)
        and _agree(first.sampled_power_w, second.sampled_power_w, POWERS_AGREE)
        and _agree(first.clock_mhz, second.clock_mhz, CLOCKS_AGREE)
    )


def _agree(first: float | None, second: float | None, within: float) -> bool:
    if first is None or second is None:
        return True
    return abs(first - second) <= within * max(abs(first), abs(second))


class SustainedVisits(SingleVisits):
    """Visits whose launches follow each other for `Job.longest_s` at most."""

    def __init__(self, job: Job, device: Device) -> None:
        self._device = device
        self._longest_s = job.longest_s
        self._least_s = min(LEAST_S, job.longest_s)
        self._span_s = min(SPAN_S, job.longest_s / 2)
        self._meter = open_meter(device.torch_device)

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
            in_turn.burst = burst_of(in_turn, self._device, min(BURST_S, self._span_s / 4))
        burst = in_turn.burst
        with (
            self._meter.reading() as readings,
            ranges.visit_range(visit.cell, visit.block, visit.arm),
            no_garbage_collection(),
        ):
            bursts = self._run(burst, readings)
        span = self._span(bursts, readings)
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
                "settled": float(has_settled(span)),
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
        while took_s < self._least_s or not (
            took_s >= self._longest_s or has_settled(self._span(done, readings))
        ):
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

    def _span(self, bursts: Sequence[TimedBurst], readings: Sequence[Reading]) -> Span:
        """The last bursts, of SPAN_S together."""
        took_s, count = 0.0, 0
        while count < len(bursts) and (took_s < self._span_s or count < 2):
            count += 1
            took_s += bursts[-count].seconds
        return Span.of(bursts[-count:], list(readings))
