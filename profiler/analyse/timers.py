"""Durations of the same cells by different timers: the ratio of each to the primary timer.

No verdict follows from them: the timers measure different things.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler.collect import nsys, timer
from profiler.collect.registry import duration_metrics, primary_timer
from profiler.model import SessionKind

TIMER_COLUMNS = ("collector", "cell", "median", "reference", "ratio")
OVERALL_COLUMNS = ("collector", "cells", "mean", "least", "most", "least_at", "most_at")
WALL_CLOCK_COLUMNS = ("cell", "wall_clock", "traced", "reference", "host", "caches", "ratio")

_JUDGED = "duration_ns"
_WALL_CLOCK = duration_metrics()[timer.WALL_CLOCK.name]
_TRACED = duration_metrics()[nsys.KIND.name]
"""Kernel time in a timeline of nsys: launches follow each other, with caches as they leave them."""


def reference_collector(samples: pd.DataFrame) -> str | None:
    """Collector that gave `duration_ns`; None where nothing was timed."""
    timed = samples[samples["kind"] == SessionKind.TIMING.value]
    if _JUDGED not in timed:
        return None
    return primary_timer(timed.loc[timed[_JUDGED].notna(), "collector"])


def compare_timers(summary: pd.DataFrame) -> pd.DataFrame:
    """Median of each other timer beside `duration_ns`, in ns, and their ratio: `TIMER_COLUMNS`.

    One row per cell and collector that timed it beside the primary timer; in the order of
    `duration_metrics`, then of the summary.
    """
    measured = frozenset(summary["metric"])
    reference = _medians(summary, _JUDGED)
    parts = []
    for collector, metric in duration_metrics().items():
        if metric != _JUDGED and metric in measured:
            medians = _medians(summary, metric)
            both = pd.DataFrame({"median": medians, "reference": reference.reindex(medians.index)})
            parts.append(both.reset_index().assign(collector=collector))
    if not parts:
        return pd.DataFrame(columns=list(TIMER_COLUMNS))
    compared = pd.concat(parts, ignore_index=True)
    compared["ratio"] = compared["median"] / compared["reference"].where(compared["reference"] > 0)
    return compared[list(TIMER_COLUMNS)]


def timer_medians(samples: pd.DataFrame, summary: pd.DataFrame) -> dict[str, float]:
    """Median duration by cell id, in nanoseconds, by CUDA events; also where these are primary."""
    events = timer.CUDA_EVENTS
    events_metric = duration_metrics()[events.name]
    metric = _JUDGED if reference_collector(samples) == events.name else events_metric
    return {str(cell): float(value) for cell, value in _medians(summary, metric).items()}


def _medians(summary: pd.DataFrame, metric: str) -> pd.Series[float]:
    rows = summary[summary["metric"] == metric]
    return rows.set_index("cell")["median"].astype("float64")


def overall(compared: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean and extremes of the ratios of each timer over all cells: `OVERALL_COLUMNS`.

    `compared` is as `compare_timers` gives it, of the cells that count.
    """
    rows = []
    measured = compared[compared["ratio"] > 0]
    for collector, cells in measured.groupby("collector", sort=False):
        in_order = cells.sort_values("ratio", kind="stable")
        least, most = in_order.iloc[0], in_order.iloc[-1]
        mean = float(np.exp(np.log(cells["ratio"]).mean()))
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
    medians = _medians(summary, _WALL_CLOCK)
    reference = _medians(summary, _JUDGED)
    both = pd.DataFrame({"wall_clock": medians, "reference": reference}, medians.index)
    both["traced"] = _medians(summary, _TRACED)
    both_timed = both[(both["reference"] > 0) & (both["wall_clock"] > 0)]
    timed = both_timed.rename_axis("cell").reset_index()
    timed["host"] = timed["wall_clock"] - timed["traced"]
    timed["caches"] = timed["traced"] - timed["reference"]
    timed["ratio"] = timed["wall_clock"] / timed["reference"]
    return timed[list(WALL_CLOCK_COLUMNS)]
