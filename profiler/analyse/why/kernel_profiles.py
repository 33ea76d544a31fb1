"""Profile of one launch by an explain session: every counter, ncu's rules, its instructions.

`Facts` has the quantities from which causes are estimated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from profiler.analyse.why.inside import PmSamples
from profiler.analyse.why.waited_for import (
    BARRIER,
    PRODUCTS,
    REASONS,
    samples_by_wait,
    share_of_barrier_waits,
    wait_shares_by_unit,
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
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
SHARED_WAVEFRONTS_PCT = f"{SHARED_WAVEFRONTS}.pct_of_peak_sustained_elapsed"
SPILLING = "sass__inst_executed_register_spilling"


def stall_per_issue(reason: str) -> str:
    """Raw ncu name of the warps that wait for a reason, per issued instruction."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


def stall_per_warp(reason: str) -> str:
    """Raw ncu name of the cycles that a warp waits for a reason in its whole life.

    ncu prints two decimals, which are more digits of this large number than of a small one.
    """
    return f"smsp__average_warp_latency_issue_stalled_{reason}.ratio"


@dataclass(frozen=True, eq=False)
class KernelProfile:
    """One launch of one kernel in an explain session."""

    name: str
    """Name of the kernel as ncu prints it."""
    values: Mapping[str, float]
    """Raw ncu metrics in ncu's base units, by name; missing ones are absent."""
    rules: pd.DataFrame = field(default_factory=pd.DataFrame)
    """ncu's advice: `rule type text speedup_type speedup_pct`."""
    listing: Listing | None = None
    """Its instructions with their counters; None without a source page."""
    inside: PmSamples | None = None
    """Samples over the time of the launch; None where ncu printed none."""

    @property
    def instructions(self) -> pd.DataFrame | None:
        """One row per instruction, columns of `parse.ncu_source`; None without a source page."""
        return None if self.listing is None else self.listing.instructions

    def value(self, raw: str) -> float:
        """A raw metric in ncu's base unit; NaN where it was not measured."""
        return self.values.get(raw, math.nan)

    def stalls(self) -> dict[str, float]:
        """Cycles that a warp waits between two of its instructions, by counted reason.

        From the counters with more digits where they and the number of warps are known. Waits for
        the results of warpgroup matrix instructions, which ncu counts at barriers, are `gmma`.
        """
        return self._with_products(self._counted_stalls())

    @cached_property
    def instructions_by_wait(self) -> pd.DataFrame | None:
        """`instructions` with the samples of each wait by what warps wait for."""
        instructions = self.instructions
        return None if instructions is None else samples_by_wait(instructions)

    @cached_property
    def stalls_by_unit(self) -> dict[str, float]:
        """`stalls` with a reason that several units share as `REASON:UNIT`, by samples.

        Waits of an unknown unit keep their reason.
        """
        stalls, instructions = self.stalls(), self.instructions_by_wait
        if instructions is None:
            return stalls
        for reason in stalls.keys() & REASONS:
            shares = wait_shares_by_unit(instructions, reason)
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
        """Stalls with the waits for products moved from barriers to products, by samples."""
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


Launches = tuple[KernelProfile, ...]
"""The launches of one visit of a cell in an explain session, in their order."""


# ---- quantities from which causes are estimated --------------------------------------------------

ELAPSED_PEAK = "pct_of_peak_sustained_elapsed"
ISSUE_ACTIVE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
COMPUTE = f"sm__throughput.avg.{ELAPSED_PEAK}"
MEMORY = f"gpu__compute_memory_throughput.avg.{ELAPSED_PEAK}"
DRAM_BYTES = "dram__bytes.sum"
L2_BYTES = "lts__t_bytes.sum"
BUSIEST_SLICE = f"lts__t_sectors.max.{ELAPSED_PEAK}"
UNITS: Mapping[str, str] = {
    "dram": f"gpu__dram_throughput.avg.{ELAPSED_PEAK}",
    "l2": f"lts__t_sectors.avg.{ELAPSED_PEAK}",
    "to_l2": f"lts__xbar2lts_cycles_active.avg.{ELAPSED_PEAK}",
    "from_l2": f"lts__lts2xbar_cycles_active.avg.{ELAPSED_PEAK}",
    "l1": f"l1tex__data_pipe_lsu_wavefronts.avg.{ELAPSED_PEAK}",
    "issue": f"sm__inst_executed.avg.{ELAPSED_PEAK}",
    "tensor": f"sm__pipe_tensor_cycles_active.avg.{ELAPSED_PEAK}",
    "fma": f"sm__pipe_fma_cycles_active.avg.{ELAPSED_PEAK}",
    "alu": f"sm__pipe_alu_cycles_active.avg.{ELAPSED_PEAK}",
    "xu": f"sm__inst_executed_pipe_xu.avg.{ELAPSED_PEAK}",
    "fp64": f"sm__pipe_fp64_cycles_active.avg.{ELAPSED_PEAK}",
    "constants": f"idc__request_cycles_active.avg.{ELAPSED_PEAK}",
}
"""Units, and how much of its peak over the whole launch each reached (breakdowns of ncu's section
SpeedOfLight, 2025.3.1). Names that an architecture does not have count as idle."""


@dataclass(frozen=True)
class Evidence:
    """One counter behind a cause."""

    value: float
    unit: str
    metric: str
    """Raw name of ncu, or the column of the source page."""


Detected = tuple[float, Mapping[str, Evidence]]
"""Share of the duration, and the counters behind it by what they mean."""


def part(amount: float, of: float) -> float:
    """`amount` ÷ `of`, cut to 0 and 1; 0 where `of` is 0."""
    return min(max(amount / of, 0.0), 1.0) if of else 0.0


@dataclass(frozen=True, eq=False)
class Facts:
    """Quantities of one launch from which causes are estimated."""

    profile: KernelProfile
    least_bytes: float
    """Compulsory traffic to device memory as the workload states it; NaN where it does not."""
    _sums: dict[str, dict[str, float]] = field(default_factory=dict, init=False, repr=False)
    """Sums by opcode of the columns that were read, each of which is read many times."""

    def value(self, raw: str) -> float:
        """A raw metric; 0 where it was not measured, so that no cause follows from it."""
        value = self.profile.value(raw)
        return 0.0 if math.isnan(value) else value

    def percent(self, raw: str) -> float:
        """A percentage as a share, at most 1."""
        return min(self.value(raw) / 100, 1.0)

    def waits(self, *reasons: str) -> float:
        """Share of a warp's time that it waits for these reasons."""
        stalls, total = self.profile.stalls(), self.profile.latency
        return sum(stalls.get(reason, 0.0) for reason in reasons) / total if total else 0.0

    def column(self, name: str, prefix: str | tuple[str, ...] = "") -> float:
        """Sum of a column of the source page over opcodes that begin with a prefix."""
        sums = self.by_opcode(name)
        return sum((total for opcode, total in sums.items() if opcode.startswith(prefix)), 0.0)

    def by_opcode(self, name: str) -> Mapping[str, float]:
        """Sum of a column of the source page by opcode; empty where there is none."""
        if name not in self._sums:
            self._sums[name] = self._count(name)
        return self._sums[name]

    def _count(self, name: str) -> dict[str, float]:
        instructions = self.profile.instructions
        if instructions is None or name not in instructions:
            return {}
        opcodes, codes = self._opcodes
        sums = np.bincount(codes, instructions[name].fillna(0.0), len(opcodes))
        return dict(zip(opcodes, sums.tolist(), strict=True))

    @cached_property
    def _opcodes(self) -> tuple[list[str], np.ndarray]:
        """Distinct opcodes of the source page, and the opcode number of each instruction."""
        rows = self.profile.instructions
        opcodes = () if rows is None else map(str, rows["opcode"])
        codes, distinct = pd.factorize(np.array([*opcodes], dtype=object), sort=True)
        return distinct.tolist(), codes

    @property
    def issuing(self) -> float:
        """Share of the cycles in which a scheduler issues."""
        return self.percent(ISSUE_ACTIVE)

    @property
    def pipes(self) -> float:
        """Busy share of the busiest arithmetic pipe."""
        return max(self.percent(UNITS[unit]) for unit in ("tensor", "fma", "alu", "xu", "fp64"))

    @property
    def busiest(self) -> Evidence:
        """The busiest of issue slots, pipes and the memory system, in percent of its peak."""
        raw = max((ISSUE_ACTIVE, COMPUTE, MEMORY, BUSIEST_SLICE), key=self.percent)
        return Evidence(100 * self.percent(raw), "%", raw)

    @property
    def idle(self) -> float:
        """Share of the peak that the busiest unit does not use: the most that fewer waits save."""
        return 1 - self.busiest.value / 100

    @property
    def memory(self) -> float:
        """Share of the duration that depends on the way to L2 and DRAM."""
        busy = max(
            self.percent(UNITS["l2"]),
            self.percent(UNITS["dram"]),
            self.percent(f"l1tex__m_xbar2l1tex_read_sectors.avg.{ELAPSED_PEAK}"),
            self.percent(f"l1tex__m_l1tex2xbar_req_cycles_active.avg.{ELAPSED_PEAK}"),
        )
        return max(busy, self.waits_for_memory)

    @property
    def waits_for_memory(self) -> float:
        """Share of a warp's time that it waits for answers of L2 and DRAM, or for their queue."""
        return self.waits("long_scoreboard", "lg_throttle", "drain")

    @property
    def dram(self) -> float:
        """Share of the duration that depends on device memory.

        How busy it is, or the waits for memory by the part of L2's bytes that it moves.
        """
        from_dram = part(self.value(DRAM_BYTES), self.value(L2_BYTES))
        return max(self.percent(UNITS["dram"]), self.waits_for_memory * from_dram)

    @property
    def load_store(self) -> float:
        """Share of the duration that depends on the load-store unit and its data stage."""
        busy = max(
            self.percent(UNITS["l1"]),
            self.percent(f"l1tex__lsuin_requests.avg.{ELAPSED_PEAK}"),
            self.percent(f"sm__inst_executed_pipe_lsu.avg.{ELAPSED_PEAK}"),
        )
        return max(busy, self.waits("lg_throttle", "mio_throttle", "short_scoreboard"))

    def share_without_other_units(self, units: frozenset[str]) -> float:
        """Share of the duration in which the busiest unit outside of `units` is not busy.

        The work of the other units stays: no launch is shorter than the time that its busiest unit
        works.
        """
        return 1 - max(self.percent(raw) for unit, raw in UNITS.items() if unit not in units)
