"""Visits of one cell back to back, as it is used: until its clock and its power have settled.

A visit launches without a gap until clock, power and time of a launch stay as they are
(`Settling`); its end is measured. Heat and clock that the visit before left affect only its
beginning.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from profiler.runner.checks.renewal import tensors_in
from profiler.runner.device import Device
from profiler.runner.import_path import no_garbage_collection
from profiler.runner.protocol import Job, JobVisit
from profiler.runner.timing import Launch, restore
from profiler.runner.visits import ranges
from profiler.runner.visits.base import SingleVisits
from profiler.runner.visits.bursts import BURST_S, MS_PER_S, Burst, LaunchInTurn, burst_of, new_mark
from profiler.runner.visits.power import Reading, mean_of, mean_power, open_meter, power_limited_pct

LEAST_S, SPAN_S = 1.0, 0.5
"""Least seconds of a visit, and seconds at its end that are measured, and whose halves have to
agree."""
LEAST_AT_LIMIT_S, SPAN_AT_LIMIT_S = 2.5, 2.0
"""Both at the power limit, which swings once a second on an H200, between 670 and 726 W at first:
halves have to hold a whole swing (benchmarks/sustained/README.md)."""
DURATIONS_AGREE, POWERS_AGREE, CLOCKS_AGREE = 0.002, 0.02, 0.01
"""Relative differences of both halves: NVML's power is of 25 to 100 ms, its clock has steps of
15 MHz."""
NEAR_LIMIT, ABOVE_LIMIT = 0.95, 1.015
"""Shares of the power limit from which on a kernel is at it, and above it. Held by it, kernels drew
0.97 to 1.008 of it; before it held them, 1.027 to 1.04."""


@dataclass(frozen=True)
class TimedBurst:
    """A finished burst."""

    seconds: float
    """Seconds of the device, from the end of the burst before."""
    ended_s: float
    """When the host saw its end, by the monotonic clock."""


@dataclass(frozen=True)
class BurstSpan:
    """Consecutive bursts, and the readings during them."""

    bursts: Sequence[TimedBurst]
    readings: Sequence[Reading]

    @classmethod
    def from_bursts(cls, bursts: Sequence[TimedBurst], readings: Sequence[Reading]) -> BurstSpan:
        """Span of the bursts, with the readings that were taken during them."""
        begun_s, ended_s = bursts[0].ended_s - bursts[0].seconds, bursts[-1].ended_s
        return cls(bursts, [r for r in readings if begun_s <= r.time_s <= ended_s])

    @property
    def burst_s(self) -> float:
        """Mean seconds of a burst."""
        return sum(burst.seconds for burst in self.bursts) / len(self.bursts)

    @property
    def sampled_power_w(self) -> float | None:
        """Mean power in watts of the readings; None where unknown."""
        return mean_of([reading.power_w for reading in self.readings])

    @property
    def clock_mhz(self) -> float | None:
        """Mean SM clock in MHz of the readings; None where unknown."""
        return mean_of([reading.clock_mhz for reading in self.readings])

    def halves(self) -> tuple[BurstSpan, BurstSpan]:
        """Spans of the first and the second half of the bursts."""
        middle = len(self.bursts) // 2
        first, second = self.bursts[:middle], self.bursts[middle:]
        return BurstSpan.from_bursts(first, self.readings), BurstSpan.from_bursts(
            second, self.readings
        )

    def is_steady(self) -> bool:
        """Whether both halves agree in all known values."""
        if len(self.bursts) < 2:
            return False
        first, second = self.halves()
        return (
            _agree(first.burst_s, second.burst_s, DURATIONS_AGREE)
            and _agree(first.sampled_power_w, second.sampled_power_w, POWERS_AGREE)
            and _agree(first.clock_mhz, second.clock_mhz, CLOCKS_AGREE)
        )


def _agree(first: float | None, second: float | None, within: float) -> bool:
    if first is None or second is None:
        return True
    return abs(first - second) <= within * max(abs(first), abs(second))


@dataclass(frozen=True)
class Settling:
    """The rule by which a visit ends.

    A GPU that is cool may draw more than its power limit for some seconds before the limit takes
    clock from it: an H200 (700 W) ran a product of 4096 at 725 W for 1.6 to 2.6 s, steadily, and
    3.7 % faster than afterwards. So power above the limit has not settled, however steady it is,
    and a kernel at the limit is measured for longer.
    """

    longest_s: float
    """Most seconds of a visit."""
    limit_w: float | None = None
    """Power that the GPU is held to; None is not known."""

    @property
    def shortest_span_s(self) -> float:
        """Seconds that are measured away from the power limit."""
        return min(SPAN_S, self.longest_s / 2)

    def span(self, bursts: Sequence[TimedBurst], readings: Sequence[Reading]) -> BurstSpan:
        """Span of the last bursts, measured if the visit ends now; needs one finished burst."""
        span = _last_bursts(bursts, readings, self.shortest_span_s)
        if self._reaches(span, NEAR_LIMIT):
            return _last_bursts(bursts, readings, min(SPAN_AT_LIMIT_S, self.longest_s / 2))
        return span

    def has_settled(self, span: BurstSpan) -> bool:
        """Whether a span is steady, and not above the power limit."""
        return span.is_steady() and not self._reaches(span, ABOVE_LIMIT)

    def is_over(
        self, took_s: float, bursts: Sequence[TimedBurst], readings: Sequence[Reading]
    ) -> bool:
        """Whether a visit of so many seconds ends: it has settled, or reached the longest time."""
        if took_s >= self.longest_s:
            return True
        if took_s < min(LEAST_S, self.longest_s) or not bursts:
            return False
        span = self.span(bursts, readings)
        least_s = LEAST_AT_LIMIT_S if self._reaches(span, NEAR_LIMIT) else LEAST_S
        return took_s >= least_s and self.has_settled(span)

    def _reaches(self, span: BurstSpan, share: float) -> bool:
        """Whether the mean power is at least this share of the limit; not where unknown."""
        power_w = span.sampled_power_w
        if power_w is None or self.limit_w is None:
            return False
        return power_w >= share * self.limit_w


def _last_bursts(
    bursts: Sequence[TimedBurst], readings: Sequence[Reading], seconds: float
) -> BurstSpan:
    """Span of the last bursts that take so many seconds together, of two bursts at least."""
    took_s, count = 0.0, 0
    while count < len(bursts) and (took_s < seconds or count < 2):
        count += 1
        took_s += bursts[-count].seconds
    return BurstSpan.from_bursts(bursts[-count:], list(readings))


_QUEUED = 2
"""Bursts that are queued behind the one that is waited for: the host may be away for one."""
_L2_SIZES = 3
"""Sets of inputs are as many as are together this often the size of L2 (`device.l2_flush`)."""
MOST_SETS = 256
_L2_SIZE = "device__attribute_l2_cache_size"


class SustainedVisits(SingleVisits):
    """Visits whose launches follow each other for `MeasureSettings.longest_s` at most."""

    def __init__(self, job: Job, device: Device) -> None:
        self._device = device
        self._meter = open_meter(device.torch_device)
        self._settling = Settling(
            job.settings.longest_s, None if self._meter is None else self._meter.limit_w
        )

    def input_sets(self, inputs: Any) -> int:
        """Sets of inputs that are larger than L2 together; 1 where their size is not known."""
        l2_bytes = self._device.attributes().get(_L2_SIZE, 0)
        try:
            tensors = tensors_in(inputs).values()
        except Exception:  # of any kind, by objects of a workload
            return 1
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        set_bytes = sum(storages.values())
        if not set_bytes:
            return 1
        return max(1, min(MOST_SETS, -(-_L2_SIZES * l2_bytes // set_bytes)))

    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """Journal fields of a visit: `durations_ns`, the mean, and `sustained` (see `protocol`)."""
        in_turn = launch if isinstance(launch, LaunchInTurn) else LaunchInTurn([launch])
        restore(in_turn)
        if in_turn.burst is None:
            in_turn.burst = burst_of(
                in_turn, self._device, min(BURST_S, self._settling.shortest_span_s / 4)
            )
        burst = in_turn.burst
        with (
            self._readings() as readings,
            ranges.visit_range(visit.cell, visit.block, visit.arm),
            no_garbage_collection(),
        ):
            bursts = self._run_bursts(burst, readings)
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
                "power_limit_w": self._settling.limit_w,
                "settled": float(self._settling.has_settled(span)),
                "seconds": sum(finished.seconds for finished in bursts),
                "sets": len(in_turn.launches),
                "in_graph": float(burst.in_graph),
                "host_share": burst.host_share,
            },
        }

    def _readings(self) -> AbstractContextManager[list[Reading]]:
        """Readings while the body lasts; empty without a meter."""
        return nullcontext([]) if self._meter is None else self._meter.reading()

    def _run_bursts(self, burst: Burst, readings: Sequence[Reading]) -> list[TimedBurst]:
        """Finished bursts, made until they have settled, or for as long as they may take."""
        finished_bursts: list[TimedBurst] = []
        pending: deque[Any] = deque([new_mark(self._device)])
        took_s = 0.0
        while not self._settling.is_over(took_s, finished_bursts, readings):
            burst.make()
            pending.append(new_mark(self._device))
            if len(pending) < _QUEUED + 2:
                continue
            begin, end = pending.popleft(), pending[0]
            end.synchronize()
            seconds = begin.elapsed_time(end) / MS_PER_S
            took_s += seconds
            finished_bursts.append(TimedBurst(seconds, time.monotonic()))
        self._device.wait()
        return finished_bursts
