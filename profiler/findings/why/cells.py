"""The why of one cell: limits, waits, source lines, causes and ncu's advice of each kernel."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.account import KernelTime, kernel_time
from profiler.analyse.causes import Cause, causes
from profiler.analyse.kernel_profiles import DURATION, CellProfile, KernelProfile
from profiler.analyse.roofs import Roof, roofs
from profiler.findings.limits import NOT_WAITING

NEAR_ROOF = 0.6
"""From this share of a roof on it limits the kernel; below, ncu's rule SOLBottleneck (2025.3.1)
looks for latency as well."""
MOST_LINES = 5
LATENCY = "latency"


@dataclass(frozen=True)
class Wait:
    """One stall reason of a kernel."""

    reason: str
    share: float
    """Of a warp's time between two of its instructions."""


@dataclass(frozen=True)
class HotLine:
    """One source line, or one instruction where the kernel has no line information."""

    file: str | None
    line: int | None
    text: str
    share: float
    """Of the samples in which the warp could not issue."""
    reason: str
    """What most of them waited for; empty where the page does not say."""

    @property
    def place(self) -> str:
        """Name of the file and number of the line; empty of an instruction."""
        return "" if self.file is None else f"{self.file.rpartition('/')[2]}:{self.line}"


@dataclass(frozen=True)
class Advice:
    """What a rule of ncu says."""

    rule: str
    text: str
    speedup_pct: float
    """ncu's estimate; NaN where it gives none. Estimates overlap and are never added."""
    speedup_type: str
    """`global`: of the launch; `local`: of the part that the rule looks at; or empty."""


@dataclass(frozen=True, eq=False)
class KernelWhy:
    """What counters say of one kernel."""

    profile: KernelProfile
    roofs: tuple[Roof, ...]
    """Nearest first."""
    waits: tuple[Wait, ...]
    """Longest first, issuing and being ready left out."""
    causes: tuple[Cause, ...]
    """Largest share first."""
    lines: tuple[HotLine, ...]
    advice: tuple[Advice, ...]
    time: KernelTime | None
    """Factors of its duration; None where a counter is missing."""

    @property
    def duration_ns(self) -> float:
        """Duration of the launch that was counted."""
        return self.profile.value(DURATION)

    @property
    def limit(self) -> str:
        """Name of the nearest roof where it limits; LATENCY else."""
        nearest = self.roofs[0] if self.roofs else None
        return nearest.name if nearest and nearest.share >= NEAR_ROOF else LATENCY


@dataclass(frozen=True, eq=False)
class CellWhy:
    """What counters say of a cell."""

    cell: str
    kernels: tuple[KernelWhy, ...]
    """Longest first."""

    @property
    def duration_ns(self) -> float:
        """Duration of all kernels of the visit that was counted."""
        return sum(kernel.duration_ns for kernel in self.kernels)


def cell_why(
    profile: CellProfile, *, compute_capability: str | None, least_bytes: float | None
) -> CellWhy:
    """The why of a cell; `least_bytes` is what the workload states of the whole launch."""
    alone = len(profile.kernels) == 1
    stated = math.nan if least_bytes is None or not alone else least_bytes
    kernels = [_kernel_why(kernel, compute_capability, stated) for kernel in profile.kernels]
    in_order = sorted(kernels, key=lambda kernel: -kernel.duration_ns)
    return CellWhy(profile.cell, tuple(in_order))


def _kernel_why(
    profile: KernelProfile, compute_capability: str | None, least_bytes: float
) -> KernelWhy:
    return KernelWhy(
        profile=profile,
        roofs=roofs(profile, compute_capability),
        waits=_waits(profile.stalls()),
        causes=causes(profile, least_bytes),
        lines=_hot_lines(profile.instructions),
        advice=_advice(profile.rules),
        time=kernel_time(profile),
    )


def _waits(stalls: Mapping[str, float]) -> tuple[Wait, ...]:
    total = sum(stalls.values())
    waits = [
        Wait(reason, cycles / total)
        for reason, cycles in stalls.items()
        if cycles > 0 and reason not in NOT_WAITING
    ]
    return tuple(sorted(waits, key=lambda wait: -wait.share))


# ---- source lines --------------------------------------------------------------------------------

_SAMPLES = "samples_not_issued"
_STALL, _NOT_ISSUED = "stall_", "_not_issued"


def _hot_lines(instructions: pd.DataFrame | None) -> tuple[HotLine, ...]:
    """Lines with most samples that could not issue; instructions where lines are not known."""
    if instructions is None or _SAMPLES not in instructions:
        return ()
    total = float(instructions[_SAMPLES].sum())
    if not total > 0:
        return ()
    stalls = [
        str(name)
        for name in instructions.columns
        if str(name).startswith(_STALL) and str(name).endswith(_NOT_ISSUED)
    ]
    by_line = instructions["line"].notna().any()
    place = ["file", "line"] if by_line else ["address"]
    sums = instructions.groupby(place, sort=False)[[_SAMPLES, *stalls]].sum().reset_index()
    texts = instructions.drop_duplicates(place)[[*place, "text" if by_line else "sass"]]
    hottest = sums.merge(texts, on=place).nlargest(MOST_LINES, _SAMPLES)
    return tuple(_hot_line(row, stalls, total) for row in hottest.to_dict("records"))


def _hot_line(row: Mapping[Hashable, object], stalls: Sequence[str], total: float) -> HotLine:
    counts = {name: _number(row[name]) for name in stalls}
    longest = max(counts, key=counts.__getitem__, default="")
    line = row.get("line")
    return HotLine(
        file=None if line is None else str(row["file"]),
        line=None if line is None else int(_number(line)),
        text=str(row.get("text") or row.get("sass") or "").strip(),
        share=_number(row[_SAMPLES]) / total,
        reason=longest.removeprefix(_STALL).removesuffix(_NOT_ISSUED)
        if counts.get(longest)
        else "",
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


# ---- ncu's rules ---------------------------------------------------------------------------------

_ADVISES = ("OPT", "WRN")


def _advice(rules: pd.DataFrame) -> tuple[Advice, ...]:
    """Advice of ncu: that with an estimate first, the larger ones first."""
    if rules.empty:
        return ()
    advice = [
        Advice(
            rule=str(row["rule"]),
            text=str(row["text"]),
            speedup_pct=_number(row["speedup_pct"]),
            speedup_type=str(row["speedup_type"]) if pd.notna(row["speedup_type"]) else "",
        )
        for row in rules.to_dict("records")
        if row["type"] in _ADVISES
    ]
    return tuple(sorted(advice, key=_by_estimate))


def _by_estimate(advice: Advice) -> tuple[bool, float]:
    unknown = math.isnan(advice.speedup_pct)
    return unknown, 0.0 if unknown else -advice.speedup_pct
