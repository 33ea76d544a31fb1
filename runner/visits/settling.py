"""When launches back to back have settled: clock, power and time of a launch stay as they are.

A GPU that is cool may draw more than its power limit for some seconds before the limit takes clock
from it: an H200 (700 W) ran a product of 4096 at 725 W for 1.6 to 2.6 s, steadily, and 3.7 % faster
than afterwards. So power above the limit has not settled, however steady it is, and a kernel at the
limit is measured for longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from profiler.runner.visits.power import Reading, mean_of

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

    def is_steady(self) -> bool:
        """Whether both halves agree in all that is known of them."""
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
    """The rule by which a visit ends."""

    longest_s: float
    """Most seconds of a visit."""
    limit_w: float | None = None
    """Power that the GPU is held to; None is not known."""

    @property
    def shortest_span_s(self) -> float:
        """Seconds that are measured away from the power limit."""
        return min(SPAN_S, self.longest_s / 2)

    def span(self, bursts: Sequence[TimedBurst], readings: Sequence[Reading]) -> Span:
        """Last bursts, measured if the visit ends now; takes one finished burst at least."""
        span = _last(bursts, readings, self.shortest_span_s)
        if self._reaches(span, NEAR_LIMIT):
            return _last(bursts, readings, min(SPAN_AT_LIMIT_S, self.longest_s / 2))
        return span

    def has_settled(self, span: Span) -> bool:
        """Whether it is steady, and not above the power limit."""
        return span.is_steady() and not self._reaches(span, ABOVE_LIMIT)

    def is_over(
        self, took_s: float, bursts: Sequence[TimedBurst], readings: Sequence[Reading]
    ) -> bool:
        """Whether a visit ends that took so long: settled, or as long as it may be."""
        if took_s >= self.longest_s:
            return True
        if took_s < min(LEAST_S, self.longest_s) or not bursts:
            return False
        span = self.span(bursts, readings)
        least_s = LEAST_AT_LIMIT_S if self._reaches(span, NEAR_LIMIT) else LEAST_S
        return took_s >= least_s and self.has_settled(span)

    def _reaches(self, span: Span, share: float) -> bool:
        """Whether the mean power is at least this share of the limit; not where unknown."""
        power_w = span.sampled_power_w
        if power_w is None or self.limit_w is None:
            return False
        return power_w >= share * self.limit_w


def _last(bursts: Sequence[TimedBurst], readings: Sequence[Reading], seconds: float) -> Span:
    """The last bursts, of so many seconds together, and two at least."""
    took_s, count = 0.0, 0
    while count < len(bursts) and (took_s < seconds or count < 2):
        count += 1
        took_s += bursts[-count].seconds
    return Span.of(bursts[-count:], list(readings))
