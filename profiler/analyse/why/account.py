"""Accounts of time: factors of the duration of a kernel, parts of the difference of two durations.

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
ONE_SIDED = "kernel:"
"""Prefix of the parts of kernels that only one side launches."""

_WITHOUT_INSTRUCTIONS = frozenset({"gmma"})
"""Reasons whose waits are as long as the tensor cores take, which few instructions keep busy. Waits
per instruction would be shorter the more other instructions a warp executes."""
_LEAST_CYCLES = 1e-9
"""Fewer cycles are rounding errors of a reason whose units are all known."""
CLOSES_WITHIN = 0.03
"""Largest relative difference of the factors' product from the duration in a closed account."""


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
    stalls = {reason: cycles for reason, cycles in counted.items() if cycles > _LEAST_CYCLES}
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


class AccountPart(NamedTuple):
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
    parts: tuple[AccountPart, ...]
    """Largest first; they add up to `difference_ns`."""
    residuals: tuple[float, float]
    """Part of the duration of each side by which the products of its factors are off."""
    pooled: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Names of the kernels of each side without a counterpart, compared together; empty without."""

    @property
    def difference_ns(self) -> float:
        """Duration of the first cell minus that of the second."""
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
    """Account of the difference of two sequences of launches; None where a counter is missing.

    Kernels of the same name are compared in their order, the unmatched kernels of both sides as a
    sum. Where only one side has unmatched kernels, each is a part by its whole duration.
    """
    has_listings = all(profile.listing is not None for profile in (*first, *second))
    first_times, second_times = (_times(side, by_unit=has_listings) for side in (first, second))
    if first_times is None or second_times is None:
        return None
    pairs, first_unmatched, second_unmatched = _matched_by_name(first_times, second_times)
    sums: dict[str, float] = defaultdict(float)
    matched_parts = itertools.chain.from_iterable(itertools.starmap(_parts_of_pair, pairs))
    for part in (*matched_parts, *_parts_of_unmatched(first_unmatched, second_unmatched)):
        sums[part.name] += part.ns
    parts = itertools.starmap(AccountPart, sums.items())
    return Account(
        first_ns=sum(time.duration_ns for time in first_times),
        second_ns=sum(time.duration_ns for time in second_times),
        parts=tuple(sorted(parts, key=lambda part: -abs(part.ns))),
        residuals=(_residual_share(first_times), _residual_share(second_times)),
        pooled=_pooled_names(first_unmatched, second_unmatched),
    )


def _residual_share(times: Sequence[KernelTime]) -> float:
    """|Duration - product of the factors| ÷ duration, over several launches."""
    off_ns = sum(abs(time.duration_ns - time.modelled_ns) for time in times)
    return off_ns / sum(time.duration_ns for time in times)


def _pooled_names(
    first: Sequence[KernelTime], second: Sequence[KernelTime]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the unmatched kernels of each side; empty unless both have some, one several."""
    if not first or not second or len(first) + len(second) == 2:
        return (), ()
    return tuple(time.name for time in first), tuple(time.name for time in second)


def _times(profiles: Sequence[KernelProfile], *, by_unit: bool) -> list[KernelTime] | None:
    times = [kernel_time(profile, by_unit=by_unit) for profile in profiles]
    complete = [time for time in times if time is not None]
    return complete if complete and len(complete) == len(times) else None


def _matched_by_name(
    first: Iterable[KernelTime], second: Iterable[KernelTime]
) -> tuple[list[tuple[KernelTime, KernelTime]], list[KernelTime], list[KernelTime]]:
    """Pairs of launches of the same name, then the unmatched launches of each side."""
    second_unmatched = list(second)
    pairs, first_unmatched = [], []
    for time in first:
        match = next(
            (candidate for candidate in second_unmatched if candidate.name == time.name), None
        )
        if match is None:
            first_unmatched.append(time)
        else:
            second_unmatched.remove(match)
            pairs.append((time, match))
    return pairs, first_unmatched, second_unmatched


def _combined_time(times: Sequence[KernelTime]) -> KernelTime:
    """Factors of the sum of the durations of several launches on one GPU."""
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


def _parts_of_unmatched(
    first: Sequence[KernelTime], second: Sequence[KernelTime]
) -> Iterator[AccountPart]:
    """Parts of the launches without a counterpart of the same name."""
    if first and second:
        yield from _parts_of_pair(_combined_time(first), _combined_time(second))
        return
    yield from (AccountPart(f"{ONE_SIDED}{time.name}", time.duration_ns) for time in first)
    yield from (AccountPart(f"{ONE_SIDED}{time.name}", -time.duration_ns) for time in second)


def _parts_of_pair(first: KernelTime, second: KernelTime) -> Iterator[AccountPart]:
    ratios = {
        INSTRUCTIONS: first.instructions / second.instructions,
        WARPS: second.warps / first.warps,
        IMBALANCE: first.imbalance / second.imbalance,
        CLOCK: second.clock_ghz / first.clock_ghz,
        RESIDUAL: first.residual / second.residual,
    }
    factors = {name: math.log(ratio) for name, ratio in ratios.items()}
    for reason in dict.fromkeys((*first.stalls, *second.stalls)):
        yield from _parts_of_reason(reason, first, second, factors)


def _parts_of_reason(
    reason: str, first: KernelTime, second: KernelTime, factors: Mapping[str, float]
) -> Iterator[AccountPart]:
    first_ns, second_ns = _time_of_reason(first, reason), _time_of_reason(second, reason)
    if not first_ns or not second_ns:
        yield AccountPart(f"{STALL}{reason}", first_ns - second_ns)
        return
    weight = logarithmic_mean(first_ns, second_ns)
    stall_ratio = math.log(first.stalls[reason] / second.stalls[reason])
    for name, logarithm in factors.items():
        if name == INSTRUCTIONS and reason in _WITHOUT_INSTRUCTIONS:
            stall_ratio += logarithm
        else:
            yield AccountPart(name, weight * logarithm)
    yield AccountPart(f"{STALL}{reason}", weight * stall_ratio)


def _time_of_reason(time: KernelTime, reason: str) -> float:
    """Part of a duration (ns) that its warps wait for a reason, by the share of the latency."""
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
