"""Counters in words: the roof that a cell is nearest to, and those of both cells of a pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.counters import nearest_roof
from profiler.findings.findings import Findings
from profiler.findings.why import pairs as accounts
from profiler.findings.why.cells import CellWhy
from profiler.findings.why.counters import MEMORY, SHARED, Amount, CounterComparison
from profiler.findings.why.find import find_why
from profiler.metrics.catalogue import ROOF_PREFIX, TENSOR_TYPES
from profiler.metrics.queries import Label
from profiler.model import Problem, Variant
from profiler.render.words import numbers
from profiler.render.words.why import practical_words, roof_words

NEAREST_ROOF = "nearest_roof_pct"
"""Name of the column, as metrics have one."""
_SHORT: Mapping[str, str] = {"dram": "DRAM", "l2": "L2", "l1": "L1", "fp32": "FP32"}


def nearest_roof_label(numbers: CellNumbers) -> Label | None:
    """Label of the column, with the roofs that were counted; None where none was."""
    roofs = [
        metric.name.removeprefix(ROOF_PREFIX).removesuffix("_pct")
        for metric in numbers.metrics
        if metric.name.startswith(ROOF_PREFIX)
    ]
    if not roofs:
        return None
    return Label(
        name=NEAREST_ROOF,
        label="Nearest roof",
        unit="%",
        better=None,
        definition=(
            f"Percent of the nearest of the roofs that were counted ({and_words(roofs)}), over "
            "all kernels of a launch. Why has it of the longest kernel in the explain session, "
            "another launch under more counters: the two differ a little"
        ),
        source="ncu",
    )


def and_words(roofs: Sequence[str]) -> str:
    """Short names of roofs as a list."""
    *names, last = map(short_roof, roofs)
    return f"{', '.join(names)} and {last}" if names else last


def short_roof(name: str) -> str:
    """Name of a roof beside its percent in a column: `DRAM`, `BF16 tensor`."""
    kind = name.removeprefix("tensor_")
    return _SHORT.get(name, name) if kind == name else f"{kind.upper()} tensor"


def limit_and_roof(why: CellWhy) -> str:
    """Limit of the longest kernel of an explained cell, and the roof that it is nearest to."""
    if not why.kernels:
        return "limited by nothing that was counted"
    kernel = why.kernels[0]
    limited = f"limited by {roof_words(kernel.limit)}"
    if not kernel.roofs:
        return limited
    roof = kernel.roofs[0]
    share = numbers.share(roof.share)
    if kernel.limit == roof.name:
        return f"{limited}, {share} of its roof"
    return f"{limited}; nearest roof: {roof_words(roof.name)}, {share}"


def leader_roof_words(findings: Findings) -> str:
    """Clause on the nearest roof of the leader at the problem that takes longest; empty without."""
    problem, row = findings.ranking.largest_problem, findings.ranking.leader
    if problem is None or row is None:
        return ""
    return nearest_roof_words(findings, row.variant, problem, whose=row.variant.label)


def nearest_roof_words(
    findings: Findings, variant: Variant, problem: Problem, *, whose: str = ""
) -> str:
    """Clause on the roof that a cell is nearest to: of its explain session, else of its counters.

    It names the problem where there are several, and `whose` it is. Empty where none was counted.
    """
    roof = _explained_roof(findings, variant, problem) or nearest_roof(
        findings.numbers, variant, problem
    )
    if roof is None:
        return ""
    name, percent = roof
    place = f" at {problem.name}" if len(findings.programs.problems) > 1 else ""
    owner = f" of {whose}" if whose else ""
    share = f"{numbers.show(percent, '%')}{practical_of(findings, name, percent)}"
    return f"nearest roof{owner}{place}: {roof_words(name)}, {share}"


def _explained_roof(
    findings: Findings, variant: Variant, problem: Problem
) -> tuple[str, float] | None:
    """Nearest roof of the longest kernel in the explain session, and percent of it."""
    cell = findings.programs.at(variant, problem)
    why = find_why(findings).cells.get(cell.id) if cell else None
    if why is None or not why.kernels or not why.kernels[0].roofs:
        return None
    roof = why.kernels[0].roofs[0]
    return roof.name, 100 * roof.share


def practical_of(findings: Findings, roof: str, percent: float) -> str:
    """Percent of a roof as share of what a plain kernel reached; nothing without one."""
    share = findings.report.measured.practical_roofs.get(roof, math.nan)
    return practical_words(roof, percent / 100 / share)


# ---- counters of both cells of a pair ------------------------------------------------------------


NAMES: Mapping[str, str] = {
    "instructions": "warp instructions issued",
    **{f"tensor_{kind}": f"tensor operations ({kind.upper()})" for kind in TENSOR_TYPES},
    "fp32": "FP32 operations",
    "spill_instructions": "instructions that spill registers",
    "dram_bytes": "bytes at DRAM",
    "l2_bytes": "bytes at L2",
    "l1_bytes": "bytes at L1",
    "local_bytes": "bytes of local memory (spills and arrays)",
    "sectors_per_request": "sectors per global request",
    "shared_wavefronts": "wavefronts of shared memory",
    "conflict_wavefronts": "wavefronts of bank conflicts",
    "warps": "achieved warps per scheduler",
    "most_warps": "theoretical warps per scheduler",
    "occupancy_limit": "limit of occupancy",
    "registers": "registers per thread",
    "shared_bytes": "shared memory per block",
    "block_size": "threads per block",
    "launches": "kernels launched",
    "idle_pct": "cycles without a warp",
    "waves": "waves of blocks",
    "clock_ghz": "SM clock",
}
"""By name of a counter; each says its unit where the amount does not."""
GROUPS: Mapping[str, str] = {
    accounts.INSTRUCTIONS: "instructions",
    MEMORY: "waiting for memory",
    SHARED: "waiting for shared memory",
    accounts.WARPS: "warps in flight",
    accounts.IMBALANCE: "start, tail, imbalance",
    accounts.CLOCK: "clock",
}
LITTLE, SAME = "little of the work", "the same"
"""In place of the part, where a counter did not move by more than that."""
_MOST_OF_A_PART = 3
"""Counters of one part that a clause names."""


def group_words(counter: CounterComparison) -> str:
    """Part of the account that a counter belongs to, or that it explains none of it."""
    if counter.moved:
        return GROUPS[counter.group]
    return LITTLE if counter.differs else SAME


def counter_words(counter: CounterComparison, amount: Amount) -> str:
    """Amount of one cell."""
    return amount.text or numbers.show(amount.value, counter.unit)


def moved_words(counters: Sequence[CounterComparison]) -> list[str]:
    """Counters that moved, the first three of each part: `bytes at L2 2 MB against 8 GB`."""
    by_group: dict[str, list[str]] = {}
    for counter in counters:
        if counter.moved:
            first, second = (
                counter_words(counter, amount) for amount in (counter.first, counter.second)
            )
            clause = f"{NAMES[counter.name]} {first} against {second}"
            by_group.setdefault(counter.group, []).append(clause)
    return [clause for group in by_group.values() for clause in group[:_MOST_OF_A_PART]]
