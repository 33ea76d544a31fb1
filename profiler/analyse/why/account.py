"""Accounts of time: what the duration of a kernel is made of, and what two durations differ by.

A scheduler has `warps` warps in flight, and each waits `latency` cycles between two of its
instructions, so that it issues one every latency ÷ warps cycles (Little's law; the metrics
reference of the Nsight Compute Profiling Guide defines the counters). The latency is the sum of the
stall reasons, issuing among them. So

    duration = instructions per scheduler · Σ stall reasons ÷ warps
               · elapsed cycles ÷ active cycles ÷ clock · residual

where the residual is 1 if all counters are of one launch: they are of several passes.

The difference of two durations is decomposed over these factors with the logarithmic mean Divisia
index (LMDI-I; B. W. Ang, "The LMDI approach to decomposition analysis", Energy Policy 33, 2005): a
factor f of a part T_i contributes L(T_iA, T_iB) · ln(f_A ÷ f_B), L the logarithmic mean. The
contributions add up to the difference exactly, and none depends on the order of the factors. A
stall reason that only one side has contributes its whole part, which is the limit for the other
going to zero.

Kernels that have no counterpart of their name are taken together on each side: a fused kernel
against those that it stands for. Every factor is a quotient of sums over launches, so the identity
holds of several as it does of one.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from profiler.analyse.why.kernel_profiles import (
    ACTIVE_AVERAGE,
    ACTIVE_SUM,
    DURATION,
    ELAPSED,
    ISSUED,
    WARPS_ACTIVE,
    KernelProfile,
)

INSTRUCTIONS = "instructions"
WARPS = "warps_in_flight"
IMBALANCE = "tail_and_imbalance"
CLOCK = "clock"
RESIDUAL = "residual"
STALL = "stall:"
"""Prefix of the parts of stall reasons."""
ONLY = "kernel:"
"""Prefix of the parts of kernels that one side launches and the other has none left for."""

_WITHOUT_INSTRUCTIONS = frozenset({"gmma"})
"""Reasons whose waits are as long as the tensor cores take for what few instructions gave them,
however many others a warp executes. Per instruction they would be shorter the more it executes."""
_NO_CYCLES = 1e-9
"""What differences of last digits leave of a reason whose units are all known."""
CLOSES_WITHIN = 0.03
"""How far the factors may be off the duration for an account to count as closed."""


@dataclass(frozen=True)
class KernelTime:
    """Factors of the duration of one launch."""

    name: str
    duration_ns: float
    instructions: float
    """Warp instructions issued per scheduler."""
    stalls: Mapping[str, float]
    """Cycles that a warp waits between two instructions, by reason; `selected` is issuing."""
    warps: float
    """Warps in flight per scheduler while it is active."""
    imbalance: float
    """Elapsed cycles ÷ active cycles of the average scheduler: start, tail, idle schedulers."""
    clock_ghz: float

    @property
    def elapsed_cycles(self) -> float:
        """Cycles of an SM from the start of the launch to its end."""
        return self.clock_ghz * self.duration_ns

    @property
    def active_cycles(self) -> float:
        """Cycles in which the average scheduler has warps."""
        return self.elapsed_cycles / self.imbalance

    @property
    def modelled_ns(self) -> float:
        """Product of the factors."""
        latency = sum(self.stalls.values())
        cycles = self.instructions * latency / self.warps * self.imbalance
        return cycles / self.clock_ghz

    @property
    def residual(self) -> float:
        """Duration ÷ product of the factors."""
        return self.duration_ns / self.modelled_ns


def kernel_time(profile: KernelProfile, *, by_unit: bool = False) -> KernelTime | None:
    """Factors of a launch; None where a counter is missing or nothing was issued.

    `by_unit`: stall reasons that several units share are told apart, which takes a source page.
    """
    active = profile.value(ACTIVE_AVERAGE)
    schedulers = profile.value(ACTIVE_SUM) / active if active else math.nan
    counted = profile.stalls_by_unit if by_unit else profile.stalls()
    stalls = {reason: cycles for reason, cycles in counted.items() if cycles > _NO_CYCLES}
    time = KernelTime(
        name=profile.name,
        duration_ns=profile.value(DURATION),
        instructions=_quotient(profile.value(ISSUED), schedulers),
        stalls=stalls,
        warps=_quotient(profile.value(WARPS_ACTIVE), profile.value(ACTIVE_SUM)),
        imbalance=_quotient(profile.value(ELAPSED), active),
        clock_ghz=_quotient(profile.value(ELAPSED), profile.value(DURATION)),
    )
    factors = (time.duration_ns, time.instructions, time.warps, time.imbalance, time.clock_ghz)
    complete = all(math.isfinite(factor) and factor > 0 for factor in factors)
    return time if stalls and complete and profile.has_all_stalls else None


def _quotient(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else math.nan


class Part(NamedTuple):
    """One part of a difference."""

    name: str
    """INSTRUCTIONS, WARPS, IMBALANCE, CLOCK, RESIDUAL, `stall:REASON` or `kernel:NAME`."""
    ns: float
    """Signed: positive makes the first side slower."""


@dataclass(frozen=True)
class Account:
    """Difference of the durations of two cells, and its parts."""

    first_ns: float
    second_ns: float
    parts: tuple[Part, ...]
    """Largest first; they add up to `difference_ns`."""
    residuals: tuple[float, float]
    """Part of the duration of each side by which the products of its factors are off."""
    pooled: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Names of the kernels of each side without a counterpart, compared together; empty without."""

    @property
    def difference_ns(self) -> float:
        """Duration of the first less that of the second."""
        return self.first_ns - self.second_ns

    @property
    def residual(self) -> float:
        """The larger of both `residuals`."""
        return max(self.residuals)

    @property
    def closes(self) -> bool:
        """Whether the factors give both durations within CLOSES_WITHIN."""
        return self.residual <= CLOSES_WITHIN


def account(first: Sequence[KernelProfile], second: Sequence[KernelProfile]) -> Account | None:
    """Account of the difference between two sequences of launches; None where a counter is missing.

    Kernels of the same name are compared in their order; those that are left on each side together.
    Where only one side has any left, they stand in it with their whole durations.
    """
    listed = all(profile.listing is not None for profile in (*first, *second))
    first_times, second_times = (_times(side, by_unit=listed) for side in (first, second))
    if first_times is None or second_times is None:
        return None
    pairs, first_rest, second_rest = _by_name(first_times, second_times)
    parts: dict[str, float] = defaultdict(float)
    of_pairs = itertools.chain.from_iterable(itertools.starmap(_parts, pairs))
    for part in (*of_pairs, *_parts_of_rest(first_rest, second_rest)):
        parts[part.name] += part.ns
    return Account(
        first_ns=sum(time.duration_ns for time in first_times),
        second_ns=sum(time.duration_ns for time in second_times),
        parts=_largest_first(parts),
        residuals=(_part_off(first_times), _part_off(second_times)),
        pooled=_pooled(first_rest, second_rest),
    )


def _part_off(times: Sequence[KernelTime]) -> float:
    """Part of the duration of several launches by which the products of the factors are off."""
    off_ns = sum(abs(time.duration_ns - time.modelled_ns) for time in times)
    return off_ns / sum(time.duration_ns for time in times)


def _pooled(
    first: Sequence[KernelTime], second: Sequence[KernelTime]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of what is left on each side, where both have some and one of them several."""
    if not first or not second or len(first) + len(second) == 2:
        return (), ()
    return tuple(time.name for time in first), tuple(time.name for time in second)


def _times(profiles: Sequence[KernelProfile], *, by_unit: bool) -> list[KernelTime] | None:
    times = [kernel_time(profile, by_unit=by_unit) for profile in profiles]
    complete = [time for time in times if time is not None]
    return complete if complete and len(complete) == len(times) else None


def _largest_first(parts: Mapping[str, float]) -> tuple[Part, ...]:
    in_order = sorted(parts.items(), key=lambda part: -abs(part[1]))
    return tuple(Part(name, ns) for name, ns in in_order)


def _by_name(
    first: Iterable[KernelTime], second: Iterable[KernelTime]
) -> tuple[list[tuple[KernelTime, KernelTime]], list[KernelTime], list[KernelTime]]:
    """Launches of both sides that have the same name, and those of each side that are left."""
    rest = list(second)
    pairs, alone = [], []
    for time in first:
        other = next((candidate for candidate in rest if candidate.name == time.name), None)
        if other is None:
            alone.append(time)
        else:
            rest.remove(other)
            pairs.append((time, other))
    return pairs, alone, rest


def _together(times: Sequence[KernelTime]) -> KernelTime:
    """Factors of the durations of several launches on one GPU as if they were one."""
    instructions = sum(time.instructions for time in times)
    reasons = dict.fromkeys(reason for time in times for reason in time.stalls)
    duration_ns = sum(time.duration_ns for time in times)
    elapsed = sum(time.elapsed_cycles for time in times)
    active = sum(time.active_cycles for time in times)
    return KernelTime(
        name=times[0].name,
        duration_ns=duration_ns,
        instructions=instructions,
        stalls={
            reason: sum(time.instructions * time.stalls.get(reason, 0.0) for time in times)
            / instructions
            for reason in reasons
        },
        warps=sum(time.warps * time.active_cycles for time in times) / active,
        imbalance=elapsed / active,
        clock_ghz=elapsed / duration_ns,
    )


def _parts_of_rest(first: Sequence[KernelTime], second: Sequence[KernelTime]) -> Iterator[Part]:
    """Parts of the launches that have no counterpart of their name."""
    if first and second:
        yield from _parts(_together(first), _together(second))
        return
    yield from (Part(f"{ONLY}{time.name}", time.duration_ns) for time in first)
    yield from (Part(f"{ONLY}{time.name}", -time.duration_ns) for time in second)


def _parts(first: KernelTime, second: KernelTime) -> Iterator[Part]:
    factors = _common_factors(first, second)
    for reason in dict.fromkeys((*first.stalls, *second.stalls)):
        yield from _parts_of_reason(reason, first, second, factors)


def _common_factors(first: KernelTime, second: KernelTime) -> dict[str, float]:
    """Logarithm of the ratio of each factor that all stall reasons share."""
    ratios = {
        INSTRUCTIONS: first.instructions / second.instructions,
        WARPS: second.warps / first.warps,
        IMBALANCE: first.imbalance / second.imbalance,
        CLOCK: second.clock_ghz / first.clock_ghz,
        RESIDUAL: first.residual / second.residual,
    }
    return {name: math.log(ratio) for name, ratio in ratios.items()}


def _parts_of_reason(
    reason: str, first: KernelTime, second: KernelTime, factors: Mapping[str, float]
) -> Iterator[Part]:
    first_ns, second_ns = _time_of_reason(first, reason), _time_of_reason(second, reason)
    if not first_ns or not second_ns:
        yield Part(f"{STALL}{reason}", first_ns - second_ns)
        return
    weight = logarithmic_mean(first_ns, second_ns)
    own = math.log(first.stalls[reason] / second.stalls[reason])
    for name, logarithm in factors.items():
        if name == INSTRUCTIONS and reason in _WITHOUT_INSTRUCTIONS:
            own += logarithm
        else:
            yield Part(name, weight * logarithm)
    yield Part(f"{STALL}{reason}", weight * own)


def _time_of_reason(time: KernelTime, reason: str) -> float:
    """Part of a duration in which its warps wait for a reason, by its share of the latency."""
    share = time.stalls.get(reason, 0.0) / sum(time.stalls.values())
    return time.duration_ns * share


def logarithmic_mean(first: float, second: float) -> float:
    """(a - b) ÷ ln(a ÷ b), and a where both are equal; of positive numbers."""
    difference = first - second
    if not difference:
        return first
    # A quotient near 1 has lost the digits that its logarithm is made of.
    close = abs(difference) < second / 2
    return difference / (math.log1p(difference / second) if close else math.log(first / second))
