"""What different timers say of the same cells: how far each is from the one that is believed most.

Nothing here is a verdict: the timers measure different things.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from profiler.metrics import DURATIONS, most_believed
from profiler.model import SessionKind

TIMER_COLUMNS = ("collector", "cell", "median", "reference", "ratio")
OVERALL_COLUMNS = ("collector", "cells", "mean", "least", "most", "least_at", "most_at")

_JUDGED = "duration_ns"


def reference_collector(samples: pd.DataFrame) -> str | None:
    """Collector that gave `duration_ns`; None where nothing was timed."""
    timed = samples[samples["kind"] == SessionKind.TIMING.value]
    if _JUDGED not in timed:
        return None
    return most_believed(timed.loc[timed[_JUDGED].notna(), "collector"])


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
