"""The why of one cell: limits, waits, source lines, causes and ncu's advice of each kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from profiler.analyse.why.account import KernelTime, kernel_time
from profiler.analyse.why.causes import Cause, causes, limits_first, unfused
from profiler.analyse.why.inside import PmSamples
from profiler.analyse.why.kernel_profiles import DURATION, KernelProfile, Launches
from profiler.analyse.why.roofs import (
    NO_PRACTICAL,
    SM_CLOCK,
    Roof,
    busy_unit,
    combined_roofs,
    roofs,
)
from profiler.findings.caveats import CLOCKS_DIFFER
from profiler.findings.counters import NOT_WAITING
from profiler.findings.why.hot_lines import HotLine, hot_lines

NEAR_ROOF = 0.6
"""From this share of a roof on it limits the kernel; below, ncu's rule SOLBottleneck (2025.3.1)
looks for latency as well."""
MOST_LINES = 5
_IDLE_APART = 0.05
"""Share of the duration: idle times by samples and counters were within 0.02 (H200; a product, a
softmax, attention; 28 November 2026), as passes differ and start before the launch."""
LATENCY = "latency"


@dataclass(frozen=True)
class Advice:
    """Advice of one rule of ncu."""

    rule: str
    text: str
    speedup_pct: float
    """ncu's estimate; NaN where it gives none. Estimates overlap and are never added."""
    speedup_type: str
    """`global`: of the launch; `local`: of the part that the rule looks at; or empty."""


@dataclass(frozen=True, eq=False)
class KernelWhy:
    """Limit, waits, lines and causes of one kernel, by its counters."""

    profile: KernelProfile
    roofs: tuple[Roof, ...]
    """Nearest first."""
    waits: Mapping[str, float]
    """Share of a warp's time between two of its instructions by stall reason, longest first.

    Issuing and being ready are left out."""
    causes: tuple[Cause, ...]
    """Largest share first."""
    lines: tuple[HotLine, ...]
    advice: tuple[Advice, ...]
    time: KernelTime | None
    """Factors of its duration; None where a counter is missing."""
    busy: tuple[str, float] | None = None
    """The unit that is close to its peak, and the part of it that it reached; None without any."""

    @property
    def duration_ns(self) -> float:
        """Duration of the launch that was counted."""
        return self.profile.value(DURATION)

    @property
    def inside(self) -> PmSamples | None:
        """Samples inside the launch; None where they are too few to tell."""
        inside = self.profile.inside
        return inside if inside is not None and inside.is_known else None

    @property
    def counted_clock_ghz(self) -> float:
        """Mean SM clock of the pass that counted it; NaN where that is missing."""
        return self.profile.value(SM_CLOCK) / 1e9

    @property
    def counted_idle_share(self) -> float:
        """Part of the time in which schedulers have no warp, as the account counts with it."""
        return math.nan if self.time is None else 1 - 1 / self.time.imbalance

    @property
    def samples_disagree(self) -> tuple[bool, bool]:
        """Whether the samples tell another clock, and another idle time, than the counters."""
        if self.inside is None:
            return False, False
        clocks = abs(self.inside.clock_ghz / self.counted_clock_ghz - 1)
        idle = abs(self.inside.idle_share - self.counted_idle_share)
        return clocks > CLOCKS_DIFFER, idle > _IDLE_APART

    @property
    def limit(self) -> str:
        """Name of the nearest roof where it limits, else of the busy unit; LATENCY without both."""
        nearest = self.roofs[0] if self.roofs else None
        if nearest and nearest.share >= NEAR_ROOF:
            return nearest.name
        return LATENCY if self.busy is None else self.busy[0]


@dataclass(frozen=True, eq=False)
class CellWhy:
    """Limits and causes of the kernels of a cell, by their counters."""

    kernels: tuple[KernelWhy, ...]
    """Longest first."""
    unfused: Cause | None = None
    """Intermediate results between the kernels as a cause; None of one kernel, and where little."""

    @property
    def duration_ns(self) -> float:
        """Duration of all kernels of the visit that was counted."""
        return sum(kernel.duration_ns for kernel in self.kernels)

    @property
    def clock_ghz(self) -> float:
        """SM clock over the durations of all kernels; NaN where a counter is missing."""
        times = [kernel.time for kernel in self.kernels]
        cycles = sum(math.nan if time is None else time.elapsed_cycles for time in times)
        return cycles / self.duration_ns if self.kernels else math.nan

    @property
    def costs(self) -> tuple[tuple[Cause, float], ...]:
        """Causes of the longest kernel and of all together with their ns, largest cost first.

        Reasons stand before their symptoms.
        """
        longest = self.kernels[0]
        costs = [(cause, cause.share * longest.duration_ns) for cause in longest.causes]
        if self.unfused is not None:
            costs.append((self.unfused, self.unfused.share * self.duration_ns))
        by_cost = sorted(costs, key=lambda cost: -cost[1])
        return limits_first(by_cost, lambda cost: cost[0].name)

    @cached_property
    def roofs(self) -> tuple[Roof, ...]:
        """Roofs of all kernels of the visit as if they were one, nearest first."""
        return combined_roofs([(kernel.roofs, kernel.duration_ns) for kernel in self.kernels])


def cell_why(
    launches: Launches,
    *,
    compute_capability: str | None,
    least_bytes: float | None,
    practical: Mapping[str, float] = NO_PRACTICAL,
    highest_clock_ghz: float = math.nan,
) -> CellWhy:
    """The why of a cell; `least_bytes` is what the workload states of the whole launch.

    `practical`, `highest_clock_ghz`: as `profiler.analyse.why.roofs.roofs` takes them.
    """
    stated = math.nan if least_bytes is None else least_bytes
    of_kernel = stated if len(launches) == 1 else math.nan
    kernels = [
        KernelWhy(
            profile=kernel,
            roofs=roofs(kernel, compute_capability, practical, highest_clock_ghz),
            waits=_waits(kernel),
            causes=causes(kernel, of_kernel),
            lines=hot_lines(kernel.instructions_by_wait, MOST_LINES),
            advice=_advice(kernel.rules),
            time=kernel_time(kernel),
            busy=busy_unit(kernel),
        )
        for kernel in launches
    ]
    in_order = sorted(kernels, key=lambda kernel: -kernel.duration_ns)
    return CellWhy(tuple(in_order), unfused(launches, stated))


def _waits(profile: KernelProfile) -> dict[str, float]:
    latency = profile.latency
    shares = {
        reason: cycles / latency
        for reason, cycles in profile.stalls_by_unit.items()
        if cycles > 0 and reason not in NOT_WAITING
    }
    return dict(sorted(shares.items(), key=lambda wait: -wait[1]))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


# ---- ncu's rules ---------------------------------------------------------------------------------

_ADVISES = ("OPT", "WRN")


def _advice(rules: pd.DataFrame) -> tuple[Advice, ...]:
    """Advice of ncu: speedups of the launch, then of parts of it, larger first; then the rest."""
    if rules.empty:
        return ()
    advice = [
        Advice(
            rule=str(row["rule"]),
            text=str(row["text"]),
            speedup_pct=_number(row["speedup_pct"]),
            speedup_type=str(row["speedup_type"]) if pd.notna(row["speedup_type"]) else "",
        )
        for row in rules.to_dict("records")
        if row["type"] in _ADVISES
    ]
    return tuple(sorted(advice, key=_by_estimate))


def _by_estimate(advice: Advice) -> tuple[bool, bool, float]:
    unknown = math.isnan(advice.speedup_pct)
    return unknown, advice.speedup_type != "global", 0.0 if unknown else -advice.speedup_pct
