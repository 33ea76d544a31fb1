"""What the counters of a launch say, in the terms in which its causes are estimated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from profiler.analyse.why.kernel_profiles import KernelProfile

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
"""Share of the duration, and the counters behind it by what they say."""


def part(amount: float, of: float) -> float:
    """The quotient, at least 0 and at most 1; 0 of nothing."""
    return min(max(amount / of, 0.0), 1.0) if of else 0.0


@dataclass(frozen=True, eq=False)
class Facts:
    """One launch, and what the workload states of it."""

    profile: KernelProfile
    least_bytes: float
    """Compulsory traffic to device memory as the workload states it; NaN where it does not."""
    _sums: dict[str, dict[str, float]] = field(default_factory=dict, init=False, repr=False)
    """Sums by opcode of the columns that were asked for: each is, many times."""

    def value(self, raw: str) -> float:
        """A raw metric; 0 where it was not measured, so that a cause of it is not told."""
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
        rows = self.profile.instructions
        if rows is None or name not in rows:
            return {}
        opcodes, codes = self._opcodes
        sums = np.bincount(codes, rows[name].fillna(0.0), len(opcodes))
        return dict(zip(opcodes, sums.tolist(), strict=True))

    @cached_property
    def _opcodes(self) -> tuple[list[str], np.ndarray]:
        """Distinct opcodes of the source page, and the number of that of each instruction."""
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
        """How busy the busiest of the arithmetic pipes is, as a share."""
        return max(self.percent(UNITS[unit]) for unit in ("tensor", "fma", "alu", "xu", "fp64"))

    @property
    def busiest(self) -> Evidence:
        """The busiest of issue slots, pipes and the memory system, in percent of its peak."""
        raw = max((ISSUE_ACTIVE, COMPUTE, MEMORY, BUSIEST_SLICE), key=self.percent)
        return Evidence(100 * self.percent(raw), "%", raw)

    @property
    def idle(self) -> float:
        """Part of the peak that the busiest unit leaves: what waiting less can save."""
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

    def left_by_others(self, units: frozenset[str]) -> float:
        """Part of the duration that the busiest of all other units leaves.

        Their work stays whatever is done about these: no launch is shorter than the time in which
        each of its units does its own.
        """
        return 1 - max(self.percent(raw) for unit, raw in UNITS.items() if unit not in units)
