"""What an explain session counted of one launch: every counter, ncu's rules, its instructions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from profiler.analyse.why.inside import Inside
from profiler.analyse.why.waited_for import (
    BARRIER,
    PRODUCTS,
    REASONS,
    by_wait,
    share_of_barrier_waits,
    shares_by_unit,
)
from profiler.metrics.catalogue import STALL_CAUSES
from profiler.parse.ncu_source import Listing

DURATION = "gpu__time_duration.sum"
ELAPSED = "sm__cycles_elapsed.max"
ISSUED = "smsp__inst_issued.sum"
EXECUTED = "smsp__inst_executed.sum"
LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_COMPLETE = 0.85
"""Sums of stall reasons below this part of the counted latency lack a reason; passes alone differ
by less."""
WARPS_ACTIVE = "smsp__warps_active.sum"
WARPS_LAUNCHED = "smsp__warps_launched.sum"
ACTIVE_AVERAGE = "smsp__cycles_active.avg"
ACTIVE_SUM = "smsp__cycles_active.sum"


def stall_per_issue(reason: str) -> str:
    """Raw ncu name of the warps that wait for a reason, per issued instruction."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


def stall_per_warp(reason: str) -> str:
    """Raw ncu name of the cycles that a warp waits for a reason in its whole life.

    ncu prints two decimals: of this large number they are more digits than of the small one.
    """
    return f"smsp__average_warp_latency_issue_stalled_{reason}.ratio"


@dataclass(frozen=True, eq=False)
class KernelProfile:
    """One launch of one kernel, as an explain session saw it."""

    name: str
    """Name of the kernel as ncu prints it."""
    values: Mapping[str, float]
    """Raw ncu metrics in ncu's base units, by name; missing ones are absent."""
    rules: pd.DataFrame = field(default_factory=pd.DataFrame)
    """ncu's advice: `rule type text speedup_type speedup_pct`."""
    listing: Listing | None = None
    """Its instructions with their counters; None without a source page."""
    inside: Inside | None = None
    """What was sampled inside it; None where ncu printed no samples."""

    @property
    def instructions(self) -> pd.DataFrame | None:
        """One row per instruction, columns of `parse.ncu_source`; None without a source page."""
        return None if self.listing is None else self.listing.instructions

    def value(self, raw: str) -> float:
        """A raw metric in ncu's base unit; NaN where it was not measured."""
        return self.values.get(raw, math.nan)

    def stalls(self) -> dict[str, float]:
        """Cycles that a warp waits between two of its instructions, by reason; unseen ones absent.

        From the counters with more digits where they and the number of warps are known. Waits for
        the results of warpgroup matrix instructions, which ncu counts at barriers, are `gmma`.
        """
        return self._with_products(self._counted_stalls())

    @cached_property
    def instructions_by_wait(self) -> pd.DataFrame | None:
        """`instructions` with the samples of each wait under what is waited for."""
        instructions = self.instructions
        return None if instructions is None else by_wait(instructions)

    @cached_property
    def stalls_by_unit(self) -> dict[str, float]:
        """As `stalls`, those of a reason that several units share as `REASON:UNIT` by samples.

        What no unit is known for keeps its reason.
        """
        stalls, named = self.stalls(), self.instructions_by_wait
        if named is None:
            return stalls
        for reason in stalls.keys() & REASONS:
            shares = shares_by_unit(named, reason)
            cycles = {f"{reason}:{unit}": share * stalls[reason] for unit, share in shares.items()}
            stalls |= {**cycles, reason: stalls[reason] - sum(cycles.values())}
        return stalls

    def _counted_stalls(self) -> dict[str, float]:
        # NaN without instructions, as where they were not counted.
        per_instruction = self.value(WARPS_LAUNCHED) / (self.value(ISSUED) or math.nan)
        stalls: dict[str, float] = {}
        for reason in STALL_CAUSES:
            precise = self.value(stall_per_warp(reason)) * per_instruction
            value = self.value(stall_per_issue(reason)) if math.isnan(precise) else precise
            if not math.isnan(value):
                stalls[reason] = value
        return stalls

    def _with_products(self, stalls: dict[str, float]) -> dict[str, float]:
        """Stalls in which the waits at barriers that samples find at products are theirs."""
        at_products = stalls.get(BARRIER, 0.0) * self._products_at_barriers
        if not at_products:
            return stalls
        products = stalls.get(PRODUCTS, 0.0) + at_products
        return stalls | {BARRIER: stalls[BARRIER] - at_products, PRODUCTS: products}

    @cached_property
    def _products_at_barriers(self) -> float:
        return share_of_barrier_waits(self.instructions)

    @property
    def has_all_stalls(self) -> bool:
        """Whether the stall reasons make up the latency that ncu counts by itself."""
        counted = self.value(LATENCY)
        return math.isnan(counted) or sum(self.stalls().values()) >= _COMPLETE * counted

    @property
    def latency(self) -> float:
        """Cycles between two instructions of a warp: the sum of the stall reasons.

        ncu's own counter where a reason is missing.
        """
        return sum(self.stalls().values()) if self.has_all_stalls else self.value(LATENCY)


@dataclass(frozen=True, eq=False)
class CellProfile:
    """The launches of one visit of a cell in an explain session, in their order."""

    cell: str
    kernels: tuple[KernelProfile, ...]
