"""Cells that several timers measured: times, and ratios to the primary timer."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.timers import (
    compare_timers,
    overall,
    reference_collector,
    split_wall_clock,
)
from profiler.collect import ncu, timer
from profiler.collect.registry import COLLECTORS

_COMPARED = 3
"""Further timers from which on a run is about them: CUDA events and a timeline go with others."""
_NCU, _WALL_CLOCK = ncu.KIND.name, timer.WALL_CLOCK.name


@dataclass(frozen=True)
class TimerError:
    """Where a timer is furthest from the primary one; times in ns."""

    collector: str
    cell: str
    median: float
    reference: float
    ratio: float
    host: float | None
    """Of the wall clock: host time in its error; None where it is not known."""
    caches: float | None
    """Of the wall clock: the part of its error that other caches, clocks and the recording have."""


@dataclass(frozen=True, eq=False)
class TimerComparison:
    """The timers of a run: medians by cell, ratios to the primary timer, the largest error."""

    reference: str
    """Collector of the primary timer."""
    collectors: tuple[str, ...]
    """Collectors of the other timers."""
    medians: pd.DataFrame
    """`profiler.analyse.timers.TIMER_COLUMNS`: one row per correct cell and other timer."""
    overall: pd.DataFrame
    """`profiler.analyse.timers.OVERALL_COLUMNS`: one row per other timer."""
    wall_clock: pd.DataFrame
    """`profiler.analyse.timers.WALL_CLOCK_COLUMNS`: the error of the wall clock against ncu and its
    parts, of cells where these are known."""
    furthest: TimerError | None
    """Where any timer is off by the largest factor from ncu; None without ncu."""

    @property
    def nearest(self) -> str | None:
        """Collector whose times are nearest to the primary timer's over all cells."""
        means = {row["collector"]: row["mean"] for row in self.overall.to_dict("records")}
        return min(means, key=lambda collector: abs(math.log(means[collector])), default=None)

    @property
    def compared(self) -> bool:
        """Whether timers are what the run compares: more than a second one beside a timeline's."""
        return len(self.collectors) >= _COMPARED

    @staticmethod
    def title(collector: str) -> str:
        """Name of a collector on pages; of one that is not registered its key."""
        kind = COLLECTORS.get(collector)
        return collector if kind is None else kind.title


def find_timers(
    samples: pd.DataFrame, summary: pd.DataFrame, correct: Collection[str]
) -> TimerComparison | None:
    """Compare the timers of a run over its correct cells (ids); None where there are not two."""
    reference = reference_collector(samples)
    compared = compare_timers(summary)
    compared = compared[compared["cell"].isin(list(correct))]
    if reference is None or compared.empty:
        return None
    errors = split_wall_clock(summary)
    errors = errors[errors["cell"].isin(list(correct))] if reference == _NCU else errors.iloc[:0]
    return TimerComparison(
        reference=reference,
        collectors=tuple(dict.fromkeys(compared["collector"])),
        medians=compared,
        overall=overall(compared),
        wall_clock=errors[errors["traced"].notna()],
        furthest=_furthest(compared, errors) if reference == _NCU else None,
    )


def _furthest(compared: pd.DataFrame, errors: pd.DataFrame) -> TimerError | None:
    """The largest factor of any timer, in whichever direction."""
    with_ratio = compared[compared["ratio"] > 0]
    if with_ratio.empty:
        return None
    row = max(with_ratio.to_dict("records"), key=lambda row: abs(math.log(row["ratio"])))
    parts = errors[(errors["cell"] == row["cell"]) & errors["traced"].notna()]
    of_wall_clock = row["collector"] == _WALL_CLOCK and len(parts) > 0
    return TimerError(
        collector=row["collector"],
        cell=row["cell"],
        median=row["median"],
        reference=row["reference"],
        ratio=row["ratio"],
        host=float(parts["host"].iloc[0]) if of_wall_clock else None,
        caches=float(parts["caches"].iloc[0]) if of_wall_clock else None,
    )
