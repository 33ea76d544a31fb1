"""Roofs of a kernel: what it moved and computed per second beside what the hardware sustains.

A ceiling is ncu's `.peak_sustained` (per cycle of the unit) times the clock of that unit in the
same launch, so that a clock that moved moves the roof too. The peak of the counters of tensor
operations is that of sparse inputs, and half of it the roof of dense ones: an H200 says 8,192
operations per SM and cycle for bf16, and NVIDIA's data sheet has 4,096 dense ones. It is taken to
be so on other GPUs with sparse tensor cores (8.0 and later), which was not measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from profiler.analyse.why.fp32_operations import fp32_operations
from profiler.analyse.why.kernel_profiles import DURATION, KernelProfile
from profiler.metrics.catalogue import CATALOGUE, TENSOR_TYPES
from profiler.metrics.explain import FMA_PEAK
from profiler.metrics.queries import ncu_name

_MEMORY = (
    ("dram", "dram__bytes.sum", "dram__cycles_elapsed.avg.per_second"),
    ("l2", "lts__t_bytes.sum", "lts__cycles_elapsed.avg.per_second"),
    ("l1", "l1tex__t_bytes.sum", "sm__cycles_elapsed.avg.per_second"),
)
_SM_CLOCK = "sm__cycles_elapsed.avg.per_second"
BYTES, OPERATIONS = "byte", "op"
NO_PRACTICAL: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Roof:
    """One ceiling, and what a kernel reached under it."""

    name: str
    """`dram`, `l2`, `l1`, `tensor_TYPE`, `fp32`."""
    amount: float
    """Bytes or operations of the launch."""
    unit: str
    """BYTES or OPERATIONS."""
    rate: float
    """Amount per second."""
    ceiling: float
    """Most per second at the clocks of this launch."""
    practical: float = math.nan
    """Share of the ceiling that a plain kernel reached in the same run; NaN where none was
    measured."""

    @property
    def share(self) -> float:
        """Rate ÷ ceiling."""
        return self.rate / self.ceiling

    @property
    def practical_share(self) -> float:
        """Rate ÷ what a plain kernel reaches; NaN where that was not measured."""
        return self.share / self.practical


def roofs(
    profile: KernelProfile,
    compute_capability: str | None,
    practical: Mapping[str, float] = NO_PRACTICAL,
) -> tuple[Roof, ...]:
    """Roofs of a launch of which everything was counted, nearest first.

    `practical`: what plain kernels reached, as shares of the hardware's roofs, by roof.
    """
    counted = [*_memory_roofs(profile), *_arithmetic_roofs(profile, compute_capability)]
    complete = [replace(roof, practical=practical.get(roof.name, math.nan)) for roof in counted]
    return tuple(sorted(complete, key=lambda roof: -roof.share))


def _memory_roofs(profile: KernelProfile) -> Iterator[Roof]:
    for name, counter, clock in _MEMORY:
        peak = profile.value(f"{counter}.peak_sustained") * profile.value(clock)
        yield from _roof(profile, name, profile.value(counter), BYTES, peak)


def _arithmetic_roofs(profile: KernelProfile, compute_capability: str | None) -> Iterator[Roof]:
    clock = profile.value(_SM_CLOCK)
    for kind in TENSOR_TYPES:
        amount = _catalogue_value(profile, f"tensor_{kind}_ops", compute_capability)
        peak = _catalogue_value(profile, f"tensor_{kind}_peak", compute_capability)
        if amount > 0:
            yield from _roof(profile, f"tensor_{kind}", amount, OPERATIONS, peak * clock)
    yield from _roof(
        profile, "fp32", fp32_operations(profile), OPERATIONS, 2 * profile.value(FMA_PEAK) * clock
    )


def _catalogue_value(profile: KernelProfile, metric: str, compute_capability: str | None) -> float:
    """A metric of the catalogue in its unit; NaN where this architecture has none."""
    raw = ncu_name(metric, compute_capability)
    return math.nan if raw is None else CATALOGUE[metric].scale * profile.value(raw)


def _roof(
    profile: KernelProfile, name: str, amount: float, unit: str, ceiling: float
) -> Iterator[Roof]:
    """The roof, where everything of it is known."""
    rate = amount / profile.value(DURATION) * 1e9
    if math.isfinite(rate) and ceiling > 0:
        yield Roof(name, amount, unit, rate, ceiling)


def roofs_together(kernels: Sequence[tuple[Sequence[Roof], float]]) -> tuple[Roof, ...]:
    """Roofs of several launches as if they were one, nearest first.

    `kernels`: the roofs of each launch and its duration in ns. A ceiling is the mean over time; a
    type of operations that a launch did none of counts as 0 of it. Roofs that no launch has are
    left out, and all of them where the bytes of a launch were not counted.
    """
    seconds = sum(duration_ns for _, duration_ns in kernels) / 1e9
    names = dict.fromkeys(roof.name for roofs, _ in kernels for roof in roofs)
    of_launches = [({roof.name: roof for roof in roofs}, ns / 1e9) for roofs, ns in kernels]
    complete = []
    for name in names:
        counted = [(roofs[name], time) for roofs, time in of_launches if name in roofs]
        if counted[0][0].unit == BYTES and len(counted) < len(kernels):
            return ()
        amount = sum(roof.amount for roof, _ in counted)
        ceiling = sum(roof.ceiling * time for roof, time in counted)
        complete.append(
            replace(
                counted[0][0],
                amount=amount,
                rate=amount / seconds,
                ceiling=ceiling / sum(time for _, time in counted),
            )
        )
    return tuple(sorted(complete, key=lambda roof: -roof.share))
