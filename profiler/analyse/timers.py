"""What different timers say of the same cells: how far each is from the one that is believed most.

Nothing here is a verdict: the timers measure different things.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler.metrics.queries import DURATIONS, primary_timer
from profiler.model import SessionKind

TIMER_COLUMNS = ("collector", "cell", "median", "reference", "ratio")
OVERALL_COLUMNS = ("collector", "cells", "mean", "least", "most", "least_at", "most_at")
PLAIN_COLUMNS = ("cell", "plain", "traced", "reference", "host", "caches", "ratio")

_JUDGED = "duration_ns"
_TIMER = "timer"
_PLAIN = "plain_duration_ns"
_TRACED = "nsys_duration_ns"
"""Kernel time in a timeline of nsys: launches follow each other, with caches as they leave them."""


def reference_collector(samples: pd.DataFrame) -> str | None:
    """Collector that gave `duration_ns`; None where nothing was timed."""
    timed = samples[samples["kind"] == SessionKind.TIMING.value]
    if _JUDGED not in timed:
        return None
    return primary_timer(timed.loc[timed[_JUDGED].notna(), "collector"])


def compare_timers(summary: pd.DataFrame) -> pd.DataFrame:
    """Median of each other timer beside `duration_ns`, in ns, and their ratio: `TIMER_COLUMNS`.

    One row per cell and collector that timed it beside the one that is believed most; in the order
    of `DURATIONS`, then of the summary.
    """
    reference = _medians(summary, _JUDGED)
    parts = []
    for collector, metric in DURATIONS.items():
        if metric != _JUDGED:
            own = _medians(summary, metric)
            both = pd.DataFrame({"median": own, "reference": reference.reindex(own.index)})
            parts.append(both.reset_index().assign(collector=collector))
    found = pd.concat(parts, ignore_index=True)
    found["ratio"] = found["median"] / found["reference"].where(found["reference"] > 0)
    return found[list(TIMER_COLUMNS)]


def timer_medians(samples: pd.DataFrame, summary: pd.DataFrame) -> dict[str, float]:
    """What the event timer says of each cell in ns, whether or not it is the one believed most."""
    metric = _JUDGED if reference_collector(samples) == _TIMER else DURATIONS[_TIMER]
    return {str(cell): float(value) for cell, value in _medians(summary, metric).items()}


def _medians(summary: pd.DataFrame, metric: str) -> pd.Series[float]:
    rows = summary[summary["metric"] == metric]
    return rows.set_index("cell")["median"].astype("float64")


def overall(compared: pd.DataFrame) -> pd.DataFrame:
    """Each timer over all cells: geometric mean, least and largest ratio: `OVERALL_COLUMNS`.

    `compared` is as `compare_timers` gives it, of the cells that count.
    """
    rows = []
    known = compared[compared["ratio"] > 0]
    for collector, own in known.groupby("collector", sort=False):
        in_order = own.sort_values("ratio", kind="stable")
        least, most = in_order.iloc[0], in_order.iloc[-1]
        mean = float(np.exp(np.log(own["ratio"]).mean()))
        extremes = (least["ratio"], most["ratio"], least["cell"], most["cell"])
        rows.append((collector, len(own), mean, *extremes))
    return pd.DataFrame(rows, columns=list(OVERALL_COLUMNS))


def split_plain(summary: pd.DataFrame) -> pd.DataFrame:
    """What the plain timer says too much, in two parts: `PLAIN_COLUMNS`, in ns except for `ratio`.

    One row per cell that the plain timer and the one that is believed most have timed, in the order
    of the summary. The error `plain - reference` is the sum of `host`, which is `plain - traced`:
    what is no kernel at all, and `caches`, which is `traced - reference`: what kernels took with
    other caches and clocks (below 0 where warm caches made them quicker), and what recording them
    cost. `traced` is the kernel
    time by nsys; it and both parts are NaN for a cell without one. `ratio` is `plain / reference`.
    """
    plain = _medians(summary, _PLAIN)
    both = pd.DataFrame({"plain": plain, "reference": _medians(summary, _JUDGED)}, plain.index)
    both["traced"] = _medians(summary, _TRACED)
    found = both[(both["reference"] > 0) & (both["plain"] > 0)].rename_axis("cell").reset_index()
    found["host"] = found["plain"] - found["traced"]
    found["caches"] = found["traced"] - found["reference"]
    found["ratio"] = found["plain"] / found["reference"]
    return found[list(PLAIN_COLUMNS)]
