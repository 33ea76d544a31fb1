"""Difference of two cells of a problem: account of their times, causes, counters that moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from profiler.analyse.why.account import (
    CLOCK,
    CLOSES_WITHIN,
    IMBALANCE,
    INSTRUCTIONS,
    ONE_SIDED,
    RESIDUAL,
    STALL,
    WARPS,
    Account,
    AccountPart,
    account,
    logarithmic_mean,
)
from profiler.analyse.why.causes import limits_first
from profiler.analyse.why.kernel_profiles import (
    ACTIVE_SUM,
    WARPS_ACTIVE,
    KernelProfile,
    Launches,
)
from profiler.analyse.why.roofs import BYTES, RoofAccount, roof_account
from profiler.analyse.why.sass_code import common_instructions, executed_by_class
from profiler.analyse.why.waited_for import QUEUE
from profiler.findings.verdicts import PairVerdict, Reason
from profiler.findings.why.cells import CellWhy, cell_why
from profiler.findings.why.counters import CounterComparison, compare_counters
from profiler.model import Cell, Problem, Variant, Verdict

__all__ = [
    "BYTES",
    "CLOCK",
    "CLOSES_WITHIN",
    "IMBALANCE",
    "INSTRUCTIONS",
    "ONE_SIDED",
    "QUEUE",
    "RESIDUAL",
    "STALL",
    "WARPS",
    "Account",
    "AccountPart",
    "RoofAccount",
]

_LEAST_CHANGE = 0.02
"""Causes that changed by less than this part of the difference went with none of it."""
_OF_SHARE = 1 / 3
"""Part of the time for a lower share of a roof from which on a cause goes with it."""
OFF_TIMING = 0.1
"""Part of the larger of both differences that the explained one may be off the timed one: of 81
pairs in the recordings of 2026-11-25 (NVIDIA H200 and H100) 78 are within 0.093, the others at 0.28
and more; kernels that share L2 when timed, and not when explained, can be off by 0.14."""


@dataclass(frozen=True)
class CauseChange:
    """Cause in both cells, as estimated time and as a share of the duration of all kernels."""

    name: str
    first_ns: float
    second_ns: float
    first_share: float
    second_share: float

    @property
    def difference_ns(self) -> float:
        """More time of the first cell."""
        return self.first_ns - self.second_ns


@dataclass(frozen=True, eq=False)
class PairWhy:
    """Two cells that were explained, and the verdict on them."""

    cell: Cell
    against: Cell
    verdict: PairVerdict
    first: CellWhy
    second: CellWhy
    timed_ns: tuple[float, float]
    """Medians of both by the primary timer."""
    flushed_per_launch: bool = False
    """Whether caches were emptied before each timed launch, not before each of its kernels, as they
    are where it is explained."""
    clocks_on_zeros: tuple[float, float] = (math.nan, math.nan)
    """SM clocks of both with zeros in their inputs, in GHz; NaN where that was not measured."""

    @property
    def shows_difference(self) -> bool:
        """Whether a difference is shown: only then is it explained.

        One of time that cycles do not confirm is shown too, and is the clock's.
        """
        is_time_shown = self.verdict.verdict in (Verdict.FASTER, Verdict.SLOWER)
        return is_time_shown or self.verdict.reason is Reason.CLOCK

    @property
    def takes_longer(self) -> bool:
        """Whether the first is the slower one, by its verdict or, where it is the clock's, time."""
        if self.verdict.reason is Reason.CLOCK:
            return self.verdict.ratio > 1
        return self.verdict.verdict is Verdict.SLOWER

    @cached_property
    def account(self) -> Account | None:
        """Account of the durations; None where no difference is shown or a counter is missing."""
        if not self.shows_difference:
            return None
        return account(_profiles(self.first), _profiles(self.second))

    @property
    def clock_parts_ns(self) -> tuple[float, float]:
        """The account's part of the clock: what goes with the values, which is power, and the rest.

        The rest is what their clocks on zeros, on which hardly anything switches, make of both
        durations. NaN without these clocks, or without an account.
        """
        if self.account is None or not all(clock > 0 for clock in self.clocks_on_zeros):
            return math.nan, math.nan
        clock_ns = sum(part.ns for part in self.account.parts if part.name == CLOCK)
        first, second = self.clocks_on_zeros
        durations_ns = self.account.first_ns, self.account.second_ns
        other_ns = logarithmic_mean(*durations_ns) * math.log(second / first)
        return clock_ns - other_ns, other_ns

    @property
    def timed_difference_ns(self) -> float:
        """Median of the first less that of the second, as they were timed."""
        first, second = self.timed_ns
        return first - second

    @property
    def off_timing(self) -> tuple[bool, bool]:
        """Whether the explained launch of each side makes the account one of another difference.

        Neither where the difference of the explained launches is that of the timed medians within
        OFF_TIMING; a side counts where it is off its own median by at least half of that.
        """
        if self.account is None:
            return False, False
        explained_ns, timed_ns = self.account.difference_ns, self.timed_difference_ns
        bound_ns = OFF_TIMING * max(abs(explained_ns), abs(timed_ns))
        if not abs(explained_ns - timed_ns) > bound_ns:
            return False, False
        first, second = (
            abs(why.duration_ns - timed) >= bound_ns / 2
            for why, timed in zip((self.first, self.second), self.timed_ns, strict=True)
        )
        return first, second

    @cached_property
    def roof_account(self) -> RoofAccount | None:
        """Account over the memory that limits both, over all their kernels; None without."""
        if not self.shows_difference:
            return None
        durations_ns = (self.first.duration_ns, self.second.duration_ns)
        return roof_account(self.first.roofs, self.second.roofs, durations_ns)

    @cached_property
    def causes(self) -> tuple[CauseChange, ...]:
        """Causes that cost more in the slower cell, largest difference first.

        Reasons stand before their symptoms.
        """
        if not self.shows_difference:
            return ()
        first, second = _costs(self.first), _costs(self.second)
        changes = [
            CauseChange(
                name,
                first_ns := first.get(name, 0.0),
                second_ns := second.get(name, 0.0),
                first_ns / self.first.duration_ns,
                second_ns / self.second.duration_ns,
            )
            for name in dict.fromkeys((*first, *second))
        ]
        towards = 1 if self.takes_longer else -1
        least_ns = _LEAST_CHANGE * abs(self.first.duration_ns - self.second.duration_ns)
        moved = [change for change in changes if towards * change.difference_ns > least_ns]
        by_difference = sorted(moved, key=lambda change: -abs(change.difference_ns))
        return limits_first(by_difference, lambda change: change.name)

    @property
    def cause_under_roof(self) -> CauseChange | None:
        """Cause that goes with another share of the roof, where that is most of the difference.

        The cause that makes the largest part of it, _OF_SHARE or more; a share alone names none.
        """
        roof = self.roof_account
        if roof is None or abs(roof.share_ns) < max(abs(roof.amount_ns), abs(roof.ceiling_ns)):
            return None
        return next(
            (c for c in self.causes if c.difference_ns / roof.share_ns >= _OF_SHARE),
            None,
        )

    @cached_property
    def classes(self) -> pd.DataFrame:
        """Executed warp instructions by class: index class, columns `first` and `second`.

        Without rows where a side has no source page.
        """
        sides = {"first": _by_class(self.first), "second": _by_class(self.second)}
        if any(side is None for side in sides.values()):
            return pd.DataFrame(columns=["first", "second"])
        return pd.DataFrame(sides).fillna(0.0)

    @cached_property
    def counters(self) -> tuple[CounterComparison, ...]:
        """Counters of both, by the part of the account that they explain; () of no difference."""
        if not self.shows_difference or not self.first.kernels or not self.second.kernels:
            return ()
        near_roof = self.roof_account is not None
        return compare_counters(self.first, self.second, self.account, near_roof=near_roof)

    @property
    def common_instructions(self) -> list[tuple[int, int]] | None:
        """Positions in the second and in the first of the instructions that both have, in order.

        None of several kernels, and without a source page.
        """
        listings = [
            kernel.profile.listing for why in (self.second, self.first) for kernel in why.kernels
        ]
        if len(listings) != 2 or listings[0] is None or listings[1] is None:
            return None
        return common_instructions(listings[0], listings[1])


def _profiles(why: CellWhy) -> list[KernelProfile]:
    return [kernel.profile for kernel in why.kernels]


def _costs(why: CellWhy) -> Mapping[str, float]:
    """Estimated time of each cause, over the kernels of a cell."""
    costs: dict[str, float] = {}
    for kernel in why.kernels:
        for cause in kernel.causes:
            costs[cause.name] = costs.get(cause.name, 0.0) + cause.share * kernel.duration_ns
    if why.unfused is not None:
        costs[why.unfused.name] = why.unfused.share * why.duration_ns
    return {name: cost for name, cost in costs.items() if math.isfinite(cost)}


def _by_class(why: CellWhy) -> pd.Series | None:
    listings = [kernel.profile.listing for kernel in why.kernels]
    counts = [executed_by_class(listing) for listing in listings if listing is not None]
    if len(counts) != len(why.kernels):
        return None
    together: pd.Series = pd.concat(counts).groupby(level=0).sum()
    return together


# ---- two imported files --------------------------------------------------------------------------


_KIND = ("kernel", "grid_size", "block_size", "range")
_WARPS_PER_CYCLE = "smsp__warps_active.avg.per_cycle_active"
"""Counter that `ncu --set full` has in place of the sum: it is that sum by active cycles."""
_ALL_LAUNCHES = Problem("launches", "launches")


def files_why(names: Sequence[str], launches: Sequence[pd.DataFrame]) -> PairWhy:
    """The why of two files, the first against the second.

    Of each kernel with its grid, block and NVTX ranges stands one launch, the medians of all. Which
    is the slower one is by these alone: nothing says how sure that is.
    """
    first, second = map(_why, launches)
    slower = first.duration_ns >= second.duration_ns
    return PairWhy(
        cell=_cell(names[0]),
        against=_cell(names[1]),
        verdict=PairVerdict(Verdict.SLOWER if slower else Verdict.FASTER),
        first=first,
        second=second,
        timed_ns=(first.duration_ns, second.duration_ns),
    )


def files_document(pair: PairWhy) -> dict[str, Any]:
    """The difference of two files as JSON; what is not known is null."""
    account = pair.account
    return {
        "first": pair.cell.variant.name,
        "second": pair.against.variant.name,
        "first_ns": _finite_number(pair.first.duration_ns),
        "second_ns": _finite_number(pair.second.duration_ns),
        "parts": account and [{"name": part.name, "ns": part.ns} for part in account.parts],
        "residuals": account and list(account.residuals),
        "counters": [
            {
                "name": counter.name,
                "unit": counter.unit,
                "first": counter.first.text or _finite_number(counter.first.value),
                "second": counter.second.text or _finite_number(counter.second.value),
            }
            for counter in pair.counters
            if counter.moved
        ],
    }


def _finite_number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cell(name: str) -> Cell:
    return Cell(name, Variant(name, name, label=name), _ALL_LAUNCHES)


def _why(launches: pd.DataFrame) -> CellWhy:
    capabilities = launches["cc"].dropna().unique()
    return cell_why(
        _median_profiles(launches),
        compute_capability=str(capabilities[0]) if len(capabilities) else None,
        least_bytes=None,
    )


def _median_profiles(launches: pd.DataFrame) -> Launches:
    kinds = [launches[name].astype(object).map(str) for name in _KIND]
    medians = launches.select_dtypes("number").groupby(kinds, sort=False).median()
    if WARPS_ACTIVE not in medians and {_WARPS_PER_CYCLE, ACTIVE_SUM} <= set(medians):
        medians[WARPS_ACTIVE] = medians[_WARPS_PER_CYCLE] * medians[ACTIVE_SUM]
    kernels = medians.index.get_level_values(0)
    return tuple(
        KernelProfile(str(name), {str(k): float(v) for k, v in row.items() if not math.isnan(v)})
        for name, row in zip(kernels, medians.astype(float).to_dict("records"), strict=True)
    )
