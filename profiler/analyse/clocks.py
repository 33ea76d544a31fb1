"""Clocks and power of each visit; which were throttled, and which of their measurements counts.

Pure functions of samples, of the clocks that NVML gave meanwhile (`parse.clock_file`) and of the
journal, so that a run folder says at any time which visits are to be measured again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.collect.registry import has_counters
from profiler.model import SessionKind
from profiler.notices import Notice, NoticeKind
from profiler.parse import runner_journal
from profiler.parse.clock_file import PERIOD_S, sorted_by_time
from profiler.runner import protocol

VISIT_COLUMNS = ("cell", "block", "arm", "start_s", "end_s")

MAX_REPEATS = 2
"""Most repeats of a throttled block. A hot GPU stays hot while it is kept busy: throttling that
two more tries in later sessions do not cure is a property of the machine, and is reported."""

SPREAD_LIMIT = 0.05
"""Change of a kernel's SM clock within a session that is worth a warning. Durations follow the
clock, and differences between kernels that people care about begin below it."""

Rows = npt.NDArray[Any]
VisitKey = tuple[str, int, int]
"""Cell, block and arm of one visit."""


class ClockReason(IntFlag):
    """Why clocks are lower than they could be: the bits of NVML's clock event reasons (nvml.h)."""

    GPU_IDLE = 0x1
    APPLICATIONS_CLOCKS_SETTING = 0x2
    SW_POWER_CAP = 0x4
    HW_SLOWDOWN = 0x8
    SYNC_BOOST = 0x10
    SW_THERMAL_SLOWDOWN = 0x20
    HW_THERMAL_SLOWDOWN = 0x40
    HW_POWER_BRAKE_SLOWDOWN = 0x80
    DISPLAY_CLOCK_SETTING = 0x100
    BOARD_LIMIT = 0x200
    RELIABILITY = 0x400


THROTTLING = (
    ClockReason.HW_SLOWDOWN
    | ClockReason.SW_THERMAL_SLOWDOWN
    | ClockReason.HW_THERMAL_SLOWDOWN
    | ClockReason.HW_POWER_BRAKE_SLOWDOWN
)
"""The reasons for which a block is measured again: heat, or power that the machine cannot deliver.

All others are recorded only. An idle GPU, clocks that someone has set, synchronised boost, displays
and the limits of board and voltage are the ordinary state of a machine. So is the power limit: on
an H200 of 700 W, attention kernels draw 690 W with SW_POWER_CAP set nearly all the time, so that
measuring again would change nothing and never end. It is reported instead (share of visits, clock),
and a verdict on durations is confirmed in cycles.
"""


def cell_clocks(samples: pd.DataFrame) -> pd.Series[Any]:
    """Median SM clock of each cell in GHz, by id: of its timing visits, else of others.

    From cycles ÷ durations; without a value where no launch of a cell counted cycles. NVML does not
    see what a kernel is clocked at.
    """
    if not {"cycles", "duration_ns"} <= set(samples.columns):
        return pd.Series(dtype="float64")
    rows = samples[
        samples["collector"].isin(list(filter(has_counters, samples["collector"].unique())))
    ]
    rows = rows.assign(clock=(rows["cycles"] / rows["duration_ns"]).astype("float64"))
    rows = rows[rows["clock"] > 0]
    of_timing, of_counters = (
        rows[rows["kind"] == kind.value].groupby("cell")["clock"].median()
        for kind in (SessionKind.TIMING, SessionKind.COUNTERS)
    )
    clocks: pd.Series[Any] = of_timing.combine_first(of_counters)
    return clocks


def reason_names(bits: int) -> tuple[str, ...]:
    """Names of the reasons that are set, lowest bit first; an unknown one is called `bit_<n>`."""
    bits = int(bits)
    names_by_bit = {reason.value: str(reason.name).lower() for reason in ClockReason}
    positions = range(bits.bit_length())
    return tuple(names_by_bit.get(1 << n, f"bit_{n}") for n in positions if bits >> n & 1)


def measured_visits(records: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Start and end of each measured visit of a journal: VISIT_COLUMNS, one row per whole visit.

    `start_s` and `end_s` are seconds since the epoch; under ncu they span all of its passes. A
    visit that failed or was cut off is left out.
    """
    start_times: dict[VisitKey, float] = {}
    rows = []
    for record in records:
        if record.get("phase") != protocol.MEASURE or "time" not in record:
            continue
        key = runner_journal.visit_of(record)
        if record.get("event") == protocol.STARTED:
            start_times[key] = record["time"]
        elif record.get("event") == protocol.FINISHED and key in start_times:
            rows.append((*key, start_times.pop(key), record["time"]))
    frame = pd.DataFrame(rows, columns=list(VISIT_COLUMNS))
    return frame.astype({"start_s": "float64", "end_s": "float64"})


class _Windows:
    """Samples of each visit: those from a period before its start to a period after its end.

    The margin gives a visit that is shorter than a period at least one sample, and covers the time
    for which a reason acts before NVML shows it. Every sum is a difference of running totals, so
    that thousands of visits cost no more than one pass over the samples.
    """

    def __init__(self, clocks: pd.DataFrame, visits: pd.DataFrame) -> None:
        self.samples = sorted_by_time(clocks)
        times = self.samples["time_s"].to_numpy(dtype="float64")
        starts = visits["start_s"].to_numpy(dtype="float64") - PERIOD_S
        ends = visits["end_s"].to_numpy(dtype="float64") + PERIOD_S
        self._first = times.searchsorted(starts, side="left")
        self._past = np.maximum(times.searchsorted(ends, side="right"), self._first)
        reasons = self.samples["reasons"]
        self.has_reasons: Rows = reasons.notna().to_numpy()
        self.reason_bits: Rows = reasons.fillna(0).to_numpy(dtype="int64")

    def sums(self, values: Rows) -> Rows:
        """Sum over the samples of each visit."""
        totals = np.concatenate(([0.0], np.cumsum(values, dtype="float64")))
        sums: Rows = totals[self._past] - totals[self._first]
        return sums

    def has_any_reason(self, bits: int) -> Rows:
        """Whether a sample of each visit has one of these reasons."""
        has_reason: Rows = self.sums((self.reason_bits & bits) != 0) > 0
        return has_reason

    def in_any_visit(self) -> Rows:
        """Whether each sample belongs to a visit."""
        steps = np.zeros(len(self.samples) + 1, dtype="int64")
        np.add.at(steps, self._first, 1)
        np.add.at(steps, self._past, -1)
        inside: Rows = np.cumsum(steps)[:-1] > 0
        return inside


def throttled_visits(clocks: pd.DataFrame, visits: pd.DataFrame) -> set[VisitKey]:
    """Visits that have a sample with a reason in THROTTLING within a period of them.

    `clocks` as from `read_clocks`, `visits` as from `measured_visits`; both of the same machine,
    and in any order. A visit without samples is not known to be throttled, and is not in the set.
    """
    throttled = visits[_Windows(clocks, visits).has_any_reason(int(THROTTLING))]
    return set(zip(throttled["cell"], throttled["block"], throttled["arm"], strict=True))


@dataclass(frozen=True)
class LaunchClocks:
    """SM clocks of the launches of a session in MHz: of each its cycles ÷ its duration."""

    lowest: float
    highest: float
    spread: float
    """Largest share by which the lowest clock of a kernel lies below its highest one."""


def launch_clocks(launches: pd.DataFrame) -> LaunchClocks | None:
    """SM clocks of launches by the cycles that they counted; None where none did.

    `launches`: `kernel duration_ns cycles`. NVML does not see what a kernel is clocked at: it read
    1875 to 1980 MHz in a session whose launches ran at 1553 to 1817 (H200).
    """
    mhz = 1e3 * (launches["cycles"] / launches["duration_ns"]).astype("float64")
    counted = mhz[mhz > 0]
    if counted.empty:
        return None
    of_kernels = counted.groupby(launches["kernel"])
    spread = 1.0 - of_kernels.min() / of_kernels.max()
    return LaunchClocks(float(counted.min()), float(counted.max()), float(spread.max()))


def reason_shares(clocks: pd.DataFrame, visits: pd.DataFrame) -> dict[str, float]:
    """Share (0 to 1) of the sampled visits in which NVML gave each reason; no reason with 0."""
    windows = _Windows(clocks, visits)
    sampled = int((windows.sums(windows.has_reasons) > 0).sum())
    if not sampled:
        return {}
    observed_bits = int(np.bitwise_or.reduce(windows.reason_bits[windows.in_any_visit()]))
    return {
        name: float(windows.has_any_reason(bit).sum()) / sampled
        for bit in (1 << n for n in range(observed_bits.bit_length()))
        if observed_bits & bit
        for name in reason_names(bit)
    }


# ---- repeated visits, notices ----


def with_whole_blocks(
    throttled: Set[VisitKey], measured: Iterable[VisitKey], problem_of: Mapping[str, str]
) -> set[VisitKey]:
    """The throttled visits, and all others that the same attempt measured in the same blocks.

    Arms are compared within a block, close together in time: one that is measured again alone would
    be compared with the others across time. `problem_of` is the problem id of each cell, as a block
    belongs to one problem.
    """
    throttled_blocks = {(problem_of[cell], block) for cell, block, _ in throttled}
    if not throttled_blocks:
        return set()
    return {key for key in measured if (problem_of[key[0]], key[1]) in throttled_blocks}


@dataclass(frozen=True)
class Repeats:
    """Visits to be measured again, and the measurement of each visit that counts."""

    to_repeat: frozenset[VisitKey]
    """Visits to measure again: throttled each time, repeated less than MAX_REPEATS times."""
    unused: tuple[frozenset[VisitKey], ...]
    """Visits of each attempt whose samples do not count: samples of another attempt count."""
    cured: frozenset[VisitKey]
    """Visits that were throttled at first, then measured without throttling."""
    throttled: frozenset[VisitKey]
    """Visits throttled each time; the first measurement counts. Includes those in `to_repeat`."""


def plan_repeats(attempts: Sequence[tuple[Set[VisitKey], Set[VisitKey]]]) -> Repeats:
    """Repeats of one session by its attempts, oldest first: (measured visits, throttled visits).

    The first measurement without throttling counts, else the first of all: never the fastest, which
    would flatter. The bound counts how often a visit was measured, so that it holds for a run that
    was stopped and resumed as well.
    """
    attempts_by_visit: dict[VisitKey, list[int]] = defaultdict(list)
    first_clean_attempt: dict[VisitKey, int] = {}
    for number, (measured, throttled) in enumerate(attempts):
        for key in measured:
            attempts_by_visit[key].append(number)
            if key not in throttled:
                first_clean_attempt.setdefault(key, number)
    always_throttled = frozenset(attempts_by_visit.keys() - first_clean_attempt.keys())
    used_attempt = {
        key: first_clean_attempt.get(key, numbers[0]) for key, numbers in attempts_by_visit.items()
    }
    return Repeats(
        to_repeat=frozenset(
            key for key in always_throttled if len(attempts_by_visit[key]) <= MAX_REPEATS
        ),
        unused=tuple(
            frozenset(key for key in measured if used_attempt[key] != number)
            for number, (measured, _) in enumerate(attempts)
        ),
        cured=frozenset(
            key
            for key, number in first_clean_attempt.items()
            if number != attempts_by_visit[key][0]
        ),
        throttled=always_throttled,
    )


def clock_notices(
    session: str,
    shares: Mapping[str, float],
    launches: LaunchClocks | None,
    repeats: Repeats,
    problem_of: Mapping[str, str],
) -> tuple[Notice, ...]:
    """Notices on throttling, power limit and clock spread of one session, over all its attempts.

    `shares` as from `reason_shares`; `launches`: None where they counted no cycles.
    """
    return (
        *_throttle_notices(session, shares, repeats, problem_of),
        *_power_notices(session, shares, launches),
        *_spread_notices(session, launches),
    )


def _throttle_notices(
    session: str, shares: Mapping[str, float], repeats: Repeats, problem_of: Mapping[str, str]
) -> Iterator[Notice]:
    def blocks(visits: Set[VisitKey]) -> int:
        return len({(problem_of[cell], block) for cell, block, _ in visits})

    reasons = ", ".join(name for name in reason_names(int(THROTTLING)) if name in shares)
    values = {"session": session, "reasons": reasons.replace("_", " ")}
    if repeats.cured:
        yield Notice(
            NoticeKind.BLOCKS_THROTTLED_MEASURED_AGAIN,
            {**values, "count": blocks(repeats.cured)},
        )
    if repeats.throttled:
        yield Notice(
            NoticeKind.BLOCKS_STILL_THROTTLED,
            {**values, "count": blocks(repeats.throttled), "rounds": MAX_REPEATS},
        )


def _power_notices(
    session: str, shares: Mapping[str, float], launches: LaunchClocks | None
) -> Iterator[Notice]:
    capped = shares.get(reason_names(ClockReason.SW_POWER_CAP)[0])
    if not capped:
        return
    share = f"{100 * capped:.0f} %" if capped >= 0.01 else "less than 1 %"
    clocks = "its launches counted no cycles, so that their clock is not known"
    if launches is not None:
        clocks = f"its launches ran at {_mhz_range(launches)}"
    yield Notice(NoticeKind.POWER_CAPPED, {"session": session, "share": share, "clocks": clocks})


def _spread_notices(session: str, launches: LaunchClocks | None) -> Iterator[Notice]:
    if launches is not None and launches.spread > SPREAD_LIMIT:
        spread = f"{100 * launches.spread:.1f} %"
        clocks = _mhz_range(launches)
        yield Notice(
            NoticeKind.CLOCK_SPREAD, {"session": session, "spread": spread, "clocks": clocks}
        )


def _mhz_range(launches: LaunchClocks) -> str:
    return f"{launches.lowest:.0f} to {launches.highest:.0f} MHz (cycles ÷ duration of each)"
