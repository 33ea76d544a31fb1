"""Counters of both cells of a pair side by side, by the part of the account that they explain.

Amounts are sums over all kernels of the visit; what cannot be added up (registers, occupancy) is of
the longest kernel. How much a counter matters is not its ratio, which is large wherever there is
little: it is the time that its unit needs for the difference at its peak, in parts of the slower
cell's duration. Counters that moved by next to nothing of that come after all others, and those
that are the same in both last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from profiler.analyse.why.account import (
    CLOCK,
    IMBALANCE,
    INSTRUCTIONS,
    ONE_SIDED,
    STALL,
    WARPS,
    Account,
)
from profiler.analyse.why.filling import occupancy_limits
from profiler.analyse.why.kernel_profiles import (
    ACTIVE_AVERAGE,
    ACTIVE_SUM,
    DURATION,
    ELAPSED,
    ISSUED,
    SHARED_WAVEFRONTS,
    SHARED_WAVEFRONTS_PCT,
    SPILLING,
    WARPS_ACTIVE,
)
from profiler.analyse.why.waited_for import SHARED_REASONS, UNITS
from profiler.findings.why.cells import CellWhy, KernelWhy
from profiler.metrics.catalogue import SECTOR_BYTES, TENSOR_TYPES

MEMORY, SHARED = "waiting_for_memory", "waiting_for_shared_memory"
GROUPS = (INSTRUCTIONS, MEMORY, SHARED, WARPS, IMBALANCE, CLOCK)
"""Parts of the account that counters belong to."""
OCCUPANCY_LIMIT = "occupancy_limit"
_GROUP_OF_STALL: Mapping[str, str] = {
    **dict.fromkeys(("long_scoreboard", "lg_throttle", "drain", "membar", "tex_throttle"), MEMORY),
    **{f"long_scoreboard:{unit}": MEMORY for unit in UNITS},
    **{
        f"{reason}{unit}": SHARED
        for reason in SHARED_REASONS
        for unit in ("", ":shared_memory", ":shared_atomics")
    },
}
_EXCESSIVE = "shared_wavefronts_excessive"
_CONFLICTS = "derived__memory_l1_wavefronts_shared_excessive"
_LOCAL_SECTORS = "memory_l2_theoretical_sectors_local"
_LEAST_CHANGE = 0.01
"""Amounts that differ by less than this part of the larger one are the same."""
_LEAST_TIME = 0.005
"""Differences that take a unit less than this part of the slower cell's duration matter little."""


@dataclass(frozen=True)
class Amount:
    """Amount of a counter in a cell."""

    value: float
    """NaN where it was not counted."""
    busy_ns: float = math.nan
    """Time that its unit needs for it at its peak; NaN where that is not known."""
    text: str = ""
    """Where it is no number."""

    @property
    def known(self) -> bool:
        """Whether the counter was counted."""
        return bool(self.text) or math.isfinite(self.value)


@dataclass(frozen=True)
class CounterComparison:
    """Counter of two cells."""

    name: str
    group: str
    """One of GROUPS."""
    unit: str
    first: Amount
    second: Amount
    weight: float
    """Time that the difference takes its unit, in parts of the slower cell's duration; NaN where
    there is no such unit."""

    @property
    def ratio(self) -> float:
        """First ÷ second; NaN of words and of nothing."""
        return self.first.value / self.second.value if self.second.value else math.nan

    @property
    def differs(self) -> bool:
        """Whether the two are not the same, but for the difference between two passes."""
        if self.first.text:
            return self.first.text != self.second.text
        first, second = self.first.value, self.second.value
        return abs(first - second) >= _LEAST_CHANGE * max(abs(first), abs(second))

    @property
    def moved(self) -> bool:
        """Whether the two differ, and by more than next to nothing of the work."""
        return self.differs and not self.weight < _LEAST_TIME


def compare_counters(
    first: CellWhy, second: CellWhy, account: Account | None, *, near_roof: bool
) -> tuple[CounterComparison, ...]:
    """Counters of two explained cells, in the order of the parts of their account.

    Those that matter most come first in each part, those that hardly matter or are the same last of
    all. What was not counted in both, or is nothing in both, is left out. `near_roof`: both are
    limited by the same memory, whose account stands before that of warps.
    """
    slower_ns = max(first.duration_ns, second.duration_ns) or math.nan
    rows = [
        CounterComparison(
            name,
            group,
            unit,
            amount,
            second_amount,
            abs(amount.busy_ns - second_amount.busy_ns) / slower_ns,
        )
        for name, group, unit, count in _COUNTERS
        if _is_comparable(amount := count(first.kernels), second_amount := count(second.kernels))
    ]
    sizes = _sizes(account)
    if near_roof:
        sizes[MEMORY] = math.inf

    def order(row: CounterComparison) -> tuple[bool, bool, float, int, float]:
        weight = 0.0 if math.isnan(row.weight) else row.weight
        group = GROUPS.index(row.group)
        return not row.moved, not row.differs, -sizes.get(row.group, 0.0), group, -weight

    return tuple(sorted(rows, key=order))


def _is_comparable(first: Amount, second: Amount) -> bool:
    """Whether both were counted, and at least one of them is not nothing."""
    return first.known and second.known and bool(first.text or first.value or second.value)


def _sizes(account: Account | None) -> dict[str, float]:
    """Size of each group's part of an account, in ns."""
    totals: dict[str, float] = {}
    for part in account.parts if account else ():
        group = _group(part.name)
        totals[group] = totals.get(group, 0.0) + part.ns
    return {group: abs(total) for group, total in totals.items()}


def _group(part: str) -> str:
    if part.startswith(ONE_SIDED):
        return IMBALANCE
    return _GROUP_OF_STALL.get(part.removeprefix(STALL), part)


# ---- amounts over all kernels --------------------------------------------------------------------

Kernels = Sequence[KernelWhy]
"""Kernels of one visit, the longest first; never empty."""
Count = Callable[[Kernels], Amount]


def _sum(kernels: Kernels, raw: str) -> float:
    return sum(kernel.profile.value(raw) for kernel in kernels)


def _part(amount: float, total: float, busy_ns: float) -> float:
    """Busy time of a part of what a unit did."""
    return busy_ns * amount / total if total else 0.0


def _issue_ns(kernels: Kernels) -> float:
    """Time in which the schedulers issue, one instruction a cycle."""
    times = [kernel.time for kernel in kernels]
    return sum(math.nan if time is None else time.instructions / time.clock_ghz for time in times)


def _instructions(kernels: Kernels) -> Amount:
    return Amount(_sum(kernels, ISSUED), _issue_ns(kernels))


def _spills(kernels: Kernels) -> Amount:
    amount = _sum(kernels, SPILLING)
    return Amount(amount, _part(amount, _sum(kernels, ISSUED), _issue_ns(kernels)))


def _of_roof(kernels: Kernels, name: str, *, none_is_zero: bool = False) -> Amount:
    """Amount under a roof; where a kernel lacks it, it did none of it or it was not counted."""
    by_kernel = [{roof.name: roof for roof in kernel.roofs} for kernel in kernels]
    if not all(roofs if none_is_zero else name in roofs for roofs in by_kernel):
        return Amount(math.nan)
    counted_roofs = [roofs[name] for roofs in by_kernel if name in roofs]
    busy_ns = sum(1e9 * roof.amount / roof.ceiling for roof in counted_roofs)
    return Amount(sum(roof.amount for roof in counted_roofs), busy_ns)


def _bytes(kernels: Kernels, raw: str, roof: str) -> Amount:
    """Bytes of a level of memory, also where its ceiling is not known."""
    return Amount(_sum(kernels, raw), _of_roof(kernels, roof).busy_ns)


def _sectors_ns(kernels: Kernels, sectors: float) -> float:
    """Time that L1 needs for sectors."""
    l1 = _of_roof(kernels, "l1")
    return _part(SECTOR_BYTES * sectors, l1.value, l1.busy_ns)


def _local_bytes(kernels: Kernels) -> Amount:
    sectors = _sum(kernels, _LOCAL_SECTORS)
    return Amount(SECTOR_BYTES * sectors, _sectors_ns(kernels, sectors))


def _sectors_per_request(kernels: Kernels) -> Amount:
    """Sectors per instruction that accesses global memory; copies by TMA have none in SASS."""
    sectors = requests = 0.0
    for kernel in kernels:
        rows = kernel.profile.instructions
        if rows is None or "global_sectors" not in rows:
            return Amount(math.nan)
        sectors += float(rows["global_sectors"].sum())
        requests += float(rows.loc[rows["global_sectors"] > 0, "executed"].sum())
    return Amount(sectors / requests if requests else math.nan, _sectors_ns(kernels, sectors))


def _wavefronts_ns(kernels: Kernels) -> float:
    return sum(
        kernel.profile.value(SHARED_WAVEFRONTS_PCT) / 100 * kernel.duration_ns for kernel in kernels
    )


def _wavefronts(kernels: Kernels) -> Amount:
    return Amount(_sum(kernels, SHARED_WAVEFRONTS), _wavefronts_ns(kernels))


def _conflicts(kernels: Kernels) -> Amount:
    """Wavefronts beyond those needed, but those of atomics, whose lanes meet at the same word."""
    amount = _sum(kernels, _CONFLICTS) - sum(map(_of_atomics, kernels))
    every = _sum(kernels, SHARED_WAVEFRONTS)
    return Amount(amount, _part(amount, every, _wavefronts_ns(kernels)))


def _of_atomics(kernel: KernelWhy) -> float:
    rows = kernel.profile.instructions
    if rows is None or _EXCESSIVE not in rows:
        return 0.0
    atomics = rows["opcode"].astype(str).str.startswith("ATOMS")
    return float(rows.loc[atomics, _EXCESSIVE].sum())


def _launches(kernels: Kernels) -> Amount:
    return Amount(float(len(kernels)))


def _idle_pct(kernels: Kernels) -> Amount:
    """Cycles in which the average scheduler has no warp."""
    elapsed = _sum(kernels, ELAPSED)
    idle = elapsed - _sum(kernels, ACTIVE_AVERAGE)
    if not elapsed > 0:
        return Amount(math.nan)
    idle_ns = idle / elapsed * _sum(kernels, DURATION)
    return Amount(100 * idle / elapsed, idle_ns)


def _clock_ghz(kernels: Kernels) -> Amount:
    duration_ns = _sum(kernels, DURATION)
    return Amount(_sum(kernels, ELAPSED) / duration_ns if duration_ns else math.nan)


# ---- of the longest kernel -----------------------------------------------------------------------


def _of_longest(kernels: Kernels, raw: str) -> Amount:
    return Amount(kernels[0].profile.value(raw))


def _warps(kernels: Kernels) -> Amount:
    profile = kernels[0].profile
    return Amount(profile.value(WARPS_ACTIVE) / (profile.value(ACTIVE_SUM) or math.nan))


def _occupancy_limit(kernels: Kernels) -> Amount:
    """Names of the resources that allow the fewest blocks on an SM."""
    limits = occupancy_limits(kernels[0].profile)
    names = [name for name, blocks in limits.items() if blocks == min(limits.values())]
    return Amount(math.nan, text=" and ".join(names))


_COUNTERS: tuple[tuple[str, str, str, Count], ...] = (
    ("instructions", INSTRUCTIONS, "inst", _instructions),
    *(
        (name, INSTRUCTIONS, "op", partial(_of_roof, name=name, none_is_zero=True))
        for name in (f"tensor_{kind}" for kind in TENSOR_TYPES)
    ),
    ("fp32", INSTRUCTIONS, "op", partial(_of_roof, name="fp32")),
    ("spill_instructions", INSTRUCTIONS, "inst", _spills),
    ("dram_bytes", MEMORY, "byte", partial(_bytes, raw="dram__bytes.sum", roof="dram")),
    ("l2_bytes", MEMORY, "byte", partial(_bytes, raw="lts__t_bytes.sum", roof="l2")),
    ("l1_bytes", MEMORY, "byte", partial(_bytes, raw="l1tex__t_bytes.sum", roof="l1")),
    ("local_bytes", MEMORY, "byte", _local_bytes),
    ("sectors_per_request", MEMORY, "sector", _sectors_per_request),
    ("shared_wavefronts", SHARED, "wavefront", _wavefronts),
    ("conflict_wavefronts", SHARED, "wavefront", _conflicts),
    ("warps", WARPS, "warp", _warps),
    (
        "most_warps",
        WARPS,
        "warp",
        partial(_of_longest, raw="smsp__maximum_warps_avg_per_active_cycle"),
    ),
    (OCCUPANCY_LIMIT, WARPS, "", _occupancy_limit),
    ("registers", WARPS, "register", partial(_of_longest, raw="launch__registers_per_thread")),
    ("shared_bytes", WARPS, "byte", partial(_of_longest, raw="launch__shared_mem_per_block")),
    ("block_size", WARPS, "thread", partial(_of_longest, raw="launch__block_size")),
    ("launches", IMBALANCE, "kernel", _launches),
    ("idle_pct", IMBALANCE, "%", _idle_pct),
    ("waves", IMBALANCE, "wave", partial(_of_longest, raw="launch__waves_per_multiprocessor")),
    ("clock_ghz", CLOCK, "GHz", _clock_ghz),
)
"""Name, part of the account, unit, how it is counted; in each part the widest first."""
COUNTERS = tuple(name for name, *_ in _COUNTERS)
