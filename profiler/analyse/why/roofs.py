"""Roofs of a kernel, and its busiest unit: rates of bytes and operations against sustained peaks.

A ceiling is ncu's `.peak_sustained` (per cycle of the unit) times the clock of that unit in the
same launch, so that a clock that moved moves the roof too. The peak of the counters of tensor
operations is that of sparse inputs, and half of it the roof of dense ones: an H200 says 8,192
operations per SM and cycle for bf16, and NVIDIA's data sheet has 4,096 dense ones. It is taken to
be so on other GPUs with sparse tensor cores (8.0 and later), which was not measured.

Practical roofs are the shares of these that plain kernels reached in a session: a copy for device
memory, a matrix product of torch for each type of arithmetic, which the runner launches in ranges
of their own. A share at the clock of its own launch can be compared with cells whose clock was
another.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.metric_values import Ranges, combine_metric, evaluate
from profiler.analyse.samples import innermost
from profiler.analyse.why.account import logarithmic_mean
from profiler.analyse.why.kernel_profiles import (
    COMPUTE,
    DURATION,
    ELAPSED_PEAK,
    ISSUE_ACTIVE,
    MEMORY,
    KernelProfile,
)
from profiler.metrics.catalogue import CATALOGUE, ROOF_PREFIX, TENSOR_TYPES
from profiler.metrics.explain import FMA_PEAK
from profiler.metrics.formulas import Formula, needed_metrics
from profiler.metrics.queries import ncu_name, ncu_names
from profiler.parse.ncu_source import OPCODE
from profiler.runner import protocol

_COUNTERS = ncu_names(("fp32_fma", "fp32_add", "fp32_mul"))
_BY_COUNTER = dict(zip(_COUNTERS, (2, 1, 1), strict=True))
"""Operations of a thread by ncu's counter."""
_BY_OPCODE = MappingProxyType(
    {
        "FFMA": 2,
        "FFMA32I": 2,
        "FFMA2": 4,
        "FADD": 1,
        "FADD32I": 1,
        "FADD2": 2,
        "FMUL": 1,
        "FMUL32I": 1,
        "FMUL2": 2,
    }
)
"""FP32 operations of each instruction; names that end in 2 work on two numbers (Blackwell)."""
_THREADS = "predicated_on"


def fp32_operations(profile: KernelProfile) -> float:
    """2 · FMA + additions + products of all threads; NaN without counters and source page.

    From ncu's counters, where they were asked for; else from the threads that executed each
    instruction of the source page. Both gave the same numbers for every launch of the recordings.
    The counters have ncu rewrite the machine code once more, which costs a kernel of 25 ms 1.1 s.
    """
    counted = sum(flops * profile.value(name) for name, flops in _BY_COUNTER.items())
    return _operations_of_instructions(profile) if math.isnan(counted) else counted


def _operations_of_instructions(profile: KernelProfile) -> float:
    instructions = profile.instructions
    if instructions is None:
        return math.nan
    names = (str(opcode).partition(".")[0] for opcode in instructions[OPCODE])
    per_thread = np.array([_BY_OPCODE.get(name, 0) for name in names])
    threads = instructions[_THREADS].to_numpy(dtype="float64")
    return float((per_thread * threads)[per_thread > 0].sum())


_MEMORY = (
    ("dram", "dram__bytes.sum", "dram__cycles_elapsed.avg.per_second"),
    ("l2", "lts__t_bytes.sum", "lts__cycles_elapsed.avg.per_second"),
    ("l1", "l1tex__t_bytes.sum", "sm__cycles_elapsed.avg.per_second"),
)
SM_CLOCK = "sm__cycles_elapsed.avg.per_second"
_OTHER_CLOCKS = frozenset(name for name, _, clock in _MEMORY if clock != SM_CLOCK)
BYTES, OPERATIONS = "byte", "op"
NO_PRACTICAL: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class Roof:
    """One ceiling, and the rate of a kernel under it."""

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
    nominal: float = math.nan
    """Most per second at the highest clock of the SMs; NaN of units that have another clock, and
    where the highest is not known."""

    @property
    def share(self) -> float:
        """Rate ÷ ceiling."""
        return self.rate / self.ceiling

    @property
    def practical_share(self) -> float:
        """Rate ÷ rate of a plain kernel; NaN where no plain kernel was measured."""
        return self.share / self.practical

    @property
    def nominal_share(self) -> float:
        """Rate ÷ ceiling at the highest clock, which is larger for the faster of two launches."""
        return self.rate / self.nominal


def roofs(
    profile: KernelProfile,
    compute_capability: str | None,
    practical: Mapping[str, float] = NO_PRACTICAL,
    highest_clock_ghz: float = math.nan,
) -> tuple[Roof, ...]:
    """Roofs of a launch whose counters are complete, nearest first.

    `practical`: what plain kernels reached, as shares of the hardware's roofs, by roof.
    `highest_clock_ghz`: of the SMs, by NVML.
    """
    counted = [*_memory_roofs(profile), *_arithmetic_roofs(profile, compute_capability)]
    raised = highest_clock_ghz * 1e9 / profile.value(SM_CLOCK)
    complete = [
        replace(
            roof,
            practical=practical.get(roof.name, math.nan),
            nominal=raised * roof.ceiling
            if raised > 0 and roof.name not in _OTHER_CLOCKS
            else math.nan,
        )
        for roof in counted
    ]
    return tuple(sorted(complete, key=lambda roof: -roof.share))


def _memory_roofs(profile: KernelProfile) -> Iterator[Roof]:
    for name, counter, clock in _MEMORY:
        peak = profile.value(f"{counter}.peak_sustained") * profile.value(clock)
        yield from _roof(profile, name, profile.value(counter), BYTES, peak)


def _arithmetic_roofs(profile: KernelProfile, compute_capability: str | None) -> Iterator[Roof]:
    clock = profile.value(SM_CLOCK)
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
    """The roof, or none where its rate or ceiling is unknown."""
    rate = amount / profile.value(DURATION) * 1e9
    if math.isfinite(rate) and ceiling > 0:
        yield Roof(name, amount, unit, rate, ceiling)


def combined_roofs(kernels: Sequence[tuple[Sequence[Roof], float]]) -> tuple[Roof, ...]:
    """Roofs of the sum of several launches, nearest first.

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


# ---- two cells under one roof --------------------------------------------------------------------
#
#     duration = amount ÷ (share of the roof · ceiling)
#
# is how the share is defined, so the logarithmic parts add up exactly, as in `account`. Of kernels
# that one roof limits it says more than instructions and stalls: these only make room for each
# other there.

SAME_ROOF = 0.6
"""From this share of a roof on, in both kernels, the roof explains their times."""


@dataclass(frozen=True)
class RoofAccount:
    """Difference of the durations of two kernels that are near the same roof, and its parts."""

    name: str
    first: Roof
    second: Roof
    amount_ns: float
    """Time for more bytes or operations."""
    share_ns: float
    """Time for a lower share of the roof."""
    ceiling_ns: float
    """Time for a lower ceiling: a lower clock of the unit."""


def roof_account(
    first: Sequence[Roof], second: Sequence[Roof], durations_ns: tuple[float, float]
) -> RoofAccount | None:
    """Account over the memory that limits both; None unless one memory limits both."""
    if not first or not second or first[0].name != second[0].name:
        return None
    nearest, nearest_of_other = first[0], second[0]
    # Under a roof of arithmetic, instructions and idle cycles are the answer.
    if nearest.unit != BYTES or min(nearest.share, nearest_of_other.share) < SAME_ROOF:
        return None
    weight = logarithmic_mean(*durations_ns)
    return RoofAccount(
        name=nearest.name,
        first=nearest,
        second=nearest_of_other,
        amount_ns=weight * math.log(nearest.amount / nearest_of_other.amount),
        share_ns=weight * math.log(nearest_of_other.share / nearest.share),
        ceiling_ns=weight * math.log(nearest_of_other.ceiling / nearest.ceiling),
    )


# ---- the busiest unit ----------------------------------------------------------------------------
#
# What limits kernels that are near no roof. A roof counts bytes or operations; a unit is as busy
# with requests for single sectors, wavefronts of bank conflicts, or instructions that a roof does
# not count. ncu's throughput metrics are the share of its peak that the busiest unit of the memory
# system, or of the multiprocessors, reached.

NEAR_PEAK = 0.8
"""From here on ncu's rule SOLBottleneck calls a unit close to its limit (2025.3.1)."""
_PARTS: Mapping[str, Mapping[str, str]] = {
    MEMORY: {
        "l2_units": f"lts__throughput.avg.{ELAPSED_PEAK}",
        "l1_units": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    },
    COMPUTE: {"issue_slots": ISSUE_ACTIVE},
}
_UNNAMED_UNIT = {MEMORY: "memory_units", COMPUTE: "sm_pipes"}
BUSY_UNITS = (*(name for parts in _PARTS.values() for name in parts), *_UNNAMED_UNIT.values())
_SAME_UNIT = 0.95
"""A unit this near to the throughput of its group is the unit that sets it."""


def busy_unit(profile: KernelProfile) -> tuple[str, float] | None:
    """The unit (of BUSY_UNITS) that is close to its peak, and the share of the peak it reached.

    None where none is, or throughputs are missing.
    """
    groups = {raw: value for raw in _PARTS if math.isfinite(value := profile.value(raw) / 100)}
    if not groups or max(groups.values()) < NEAR_PEAK:
        return None
    busiest = max(groups, key=groups.__getitem__)
    shares = {name: profile.value(raw) / 100 for name, raw in _PARTS[busiest].items()}
    counted = {
        name: share for name, share in shares.items() if share >= _SAME_UNIT * groups[busiest]
    }
    name = max(counted, key=counted.__getitem__, default=_UNNAMED_UNIT[busiest])
    return name, groups[busiest]


_METRIC_OF_FIRST_PART = {entry.parts[0]: entry.name for entry in CATALOGUE.values() if entry.parts}
"""Metrics by their first parts. Products of torch use the first part alone where it exists (on an
H200 HGMMA counted all of their operations)."""
_FIRST_PART_OF = {metric: part for part, metric in _METRIC_OF_FIRST_PART.items()}


def roofs_countable(metrics: Collection[str]) -> tuple[str, ...]:
    """Practical roofs of which a session collects every counter that their share needs."""
    collected = {_METRIC_OF_FIRST_PART.get(name, name) for name in metrics}
    return tuple(
        roof
        for roof in protocol.PRACTICAL_ROOFS
        if collected.issuperset(needed_metrics(_share_formula(roof)))
    )


def practical_shares(
    launches: pd.DataFrame, finished: Collection[str], compute_capability: str | None
) -> dict[str, float]:
    """Best share of the hardware's roof over the launches for it, by roof of those `finished`.

    `launches` is a table of ncu; a roof without all of its counters is left out.
    """
    if launches.empty or not finished:
        return {}
    places = (innermost(nvtx, protocol.parse_roof_range_name) for nvtx in launches["nvtx"])
    roofs, numbers = map(np.array, zip(*(place or ("", 0) for place in places), strict=True))
    shares: dict[str, float] = {}
    for roof in finished:
        codes, distinct = pd.factorize(numbers[roofs == roof])
        ranges = Ranges(launches[roofs == roof].reset_index(drop=True), codes, len(distinct))
        percents = _roof_percents(_share_formula(roof), ranges, compute_capability)
        best = percents[np.isfinite(percents)].max() / 100
        if best > 0:
            shares[roof] = best
    return shares


def _share_formula(roof: str) -> Formula:
    formula = CATALOGUE[f"{ROOF_PREFIX}{roof}_pct"].formula
    if formula is None:
        raise TypeError(f"the metric of the roof {roof} has no formula")
    return formula


def _roof_percents(
    formula: Formula, ranges: Ranges, compute_capability: str | None
) -> pd.Series[Any]:
    """Percent of the hardware's roof that each range reached."""

    def lookup(quantity: Formula) -> pd.Series[Any]:
        values = pd.Series(combine_metric(ranges, quantity.name, compute_capability))
        first_part = _FIRST_PART_OF.get(quantity.name)
        if first_part is None:
            return values
        return values.fillna(pd.Series(combine_metric(ranges, first_part, compute_capability)))

    return evaluate(formula, lookup)
