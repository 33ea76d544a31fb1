"""Durations of the same cells by different timers: times, and ratios to the primary timer.

No verdict follows from them: the timers measure different things.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from statistics import geometric_mean

import pandas as pd

from profiler.collect import ncu, nsys, timer
from profiler.collect.registry import COLLECTORS, duration_metrics, primary_timer
from profiler.findings.verdicts import JUDGED
from profiler.model import SessionKind

TIMER_COLUMNS = ("collector", "cell", "median", "reference", "ratio")
OVERALL_COLUMNS = ("collector", "cells", "mean", "least", "most", "least_at", "most_at")
WALL_CLOCK_COLUMNS = ("cell", "wall_clock", "traced", "reference", "host", "caches", "ratio")

_COMPARED = 3
"""Further timers from which on a run is about them: CUDA events and a timeline go with others."""
_NCU, _WALL_CLOCK = ncu.KIND.name, timer.WALL_CLOCK.name
_WALL_CLOCK_NS = duration_metrics()[_WALL_CLOCK]
_TRACED_NS = duration_metrics()[nsys.KIND.name]
"""Kernel time in a timeline of nsys: launches follow each other, with caches as they leave them."""


def reference_collector(samples: pd.DataFrame) -> str | None:
    """Collector that gave `duration_ns`; None where nothing was timed."""
    timed = samples[samples["kind"] == SessionKind.TIMING.value]
    if JUDGED not in timed:
        return None
    return primary_timer(timed.loc[timed[JUDGED].notna(), "collector"].unique())


def compare_timers(summary: pd.DataFrame) -> pd.DataFrame:
    """Median of each other timer beside `duration_ns`, in ns, and their ratio: `TIMER_COLUMNS`.

    One row per cell and collector that timed it beside the primary timer; in the order of
    `duration_metrics`, then of the summary.
    """
    measured = frozenset(summary["metric"].unique())
    reference = _medians(summary, JUDGED)
    parts = []
    for collector, metric in duration_metrics().items():
        if metric != JUDGED and metric in measured:
            medians = _medians(summary, metric)
            timer_pair = pd.DataFrame(
                {"median": medians, "reference": reference.reindex(medians.index)}
            )
            parts.append(timer_pair.reset_index().assign(collector=collector))
    if not parts:
        return pd.DataFrame(columns=list(TIMER_COLUMNS))
    compared = pd.concat(parts, ignore_index=True)
    compared["ratio"] = compared["median"] / compared["reference"].where(compared["reference"] > 0)
    return compared[list(TIMER_COLUMNS)]


def timer_medians(samples: pd.DataFrame, summary: pd.DataFrame) -> dict[str, float]:
    """Median duration by cell id, in nanoseconds, by CUDA events; also where these are primary."""
    events = timer.CUDA_EVENTS
    events_metric = duration_metrics()[events.name]
    metric = JUDGED if reference_collector(samples) == events.name else events_metric
    return {str(cell): float(value) for cell, value in _medians(summary, metric).items()}


def _medians(summary: pd.DataFrame, metric: str) -> pd.Series[float]:
    return summary[summary["metric"] == metric].set_index("cell")["median"].astype("float64")


def overall_ratios(compared: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean and extremes of the ratios of each timer over all cells: `OVERALL_COLUMNS`.

    `compared` is as `compare_timers` gives it, of the cells that count.
    """
    rows = []
    for collector, cells in compared[compared["ratio"] > 0].groupby("collector", sort=False):
        in_order = cells.sort_values("ratio", kind="stable")
        least, most = in_order.iloc[0], in_order.iloc[-1]
        mean = geometric_mean(cells["ratio"])
        extremes = (least["ratio"], most["ratio"], least["cell"], most["cell"])
        rows.append((collector, len(cells), mean, *extremes))
    return pd.DataFrame(rows, columns=list(OVERALL_COLUMNS))


def split_wall_clock(summary: pd.DataFrame) -> pd.DataFrame:
    """Excess of the wall clock over the primary timer in two parts: `WALL_CLOCK_COLUMNS`, in ns.

    One row per cell that both have timed, in the order of the summary. `ratio` is `wall_clock` ÷
    `reference`. The error `wall_clock - reference` is the sum of two parts:

    - `host`, which is `wall_clock - traced`: time in which no kernel runs;
    - `caches`, which is `traced - reference`: what kernels took with other caches and clocks (below
      0 where warm caches made them quicker), and what recording them cost.

    `traced` is the kernel time by nsys; it and both parts are NaN for a cell without one.
    """
    medians = _medians(summary, _WALL_CLOCK_NS)
    reference = _medians(summary, JUDGED)
    durations = pd.DataFrame({"wall_clock": medians, "reference": reference}, medians.index)
    durations["traced"] = _medians(summary, _TRACED_NS)
    both_timed = durations[(durations["reference"] > 0) & (durations["wall_clock"] > 0)]
    timed = both_timed.rename_axis("cell").reset_index()
    timed["host"] = timed["wall_clock"] - timed["traced"]
    timed["caches"] = timed["traced"] - timed["reference"]
    timed["ratio"] = timed["wall_clock"] / timed["reference"]
    return timed[list(WALL_CLOCK_COLUMNS)]


@dataclass(frozen=True)
class TimerError:
    """Where a timer is furthest from the primary one; times in ns."""

    collector: str
    cell: str
    median: float
    reference: float
    ratio: float
    host: float | None
    """Host time in the wall clock's error; None where it is not known."""
    caches: float | None
    """Part of the wall clock's error that other caches, clocks and the recording have."""


@dataclass(frozen=True, eq=False)
class TimerComparison:
    """The timers of a run: medians by cell, ratios to the primary timer, the largest error."""

    reference: str
    """Collector of the primary timer."""
    collectors: tuple[str, ...]
    """Collectors of the other timers."""
    medians: pd.DataFrame
    """`TIMER_COLUMNS`: one row per correct cell and other timer."""
    overall: pd.DataFrame
    """`OVERALL_COLUMNS`: one row per other timer."""
    wall_clock: pd.DataFrame
    """`WALL_CLOCK_COLUMNS`: the error of the wall clock against ncu and its parts, of cells where
    these are known."""
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
    # Back to back is another quantity, not an error of a timer (`kinds.in_use`).
    is_timer = compared["collector"] != timer.SUSTAINED.name
    compared = compared[compared["cell"].isin(list(correct)) & is_timer]
    if reference is None or compared.empty:
        return None
    errors = split_wall_clock(summary)
    errors = errors[errors["cell"].isin(list(correct))] if reference == _NCU else errors.iloc[:0]
    return TimerComparison(
        reference=reference,
        collectors=tuple(dict.fromkeys(compared["collector"])),
        medians=compared,
        overall=overall_ratios(compared),
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
