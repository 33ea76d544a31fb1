"""The metrics of cells that two runs share, and which of them do not scatter."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from profiler.analyse.changes import exact_change
from profiler.analyse.derived import build_fact
from profiler.comparison.sides import Side, correct
from profiler.metrics.queries import CATALOGUE

EXACT = (
    "registers",
    "shared_static_bytes",
    "shared_dynamic_bytes",
    "spill_store_bytes",
    "spill_load_bytes",
    "stack_bytes",
    "block_size",
    "grid_size",
    "kernels",
    "instructions",
)
"""Metrics that do not scatter: any difference is real."""


def common_metrics(older: Side, newer: Side, cells: Sequence[str]) -> pd.DataFrame:
    """One row per cell and metric that both runs have: `cell metric older newer` (medians)."""
    frames = [_medians(side, cells) for side in (older, newer)]
    both: pd.DataFrame = frames[1].merge(
        frames[0], on=["cell", "metric"], suffixes=("_newer", "_older"), sort=False
    )
    return both.rename(columns={"median_older": "older", "median_newer": "newer"})[
        ["cell", "metric", "older", "newer"]
    ]


_BUILD_FACTS = tuple(name for name in EXACT if CATALOGUE[name].fact)
"""Metrics that the build knows too."""


def _medians(side: Side, cells: Sequence[str]) -> pd.DataFrame:
    """Median of each metric of each cell that is correct; what only the build says comes last."""
    summary = side.report.summary
    known = summary.loc[summary["median"].notna(), ["cell", "metric", "median"]]
    rows = pd.concat([known, _from_builds(side)], ignore_index=True)
    rows = rows.drop_duplicates(["cell", "metric"], keep="first")
    right = {cell for cell in cells if correct(side, cell)}
    return rows[rows["cell"].isin(right)]


def _from_builds(side: Side) -> pd.DataFrame:
    """Static facts of each cell: the largest over the kernels of its variant."""
    facts: dict[str, dict[str, float]] = {}
    for build in side.report.builds:
        values = {name: build_fact(build, name) for name in _BUILD_FACTS}
        facts[build.variant] = {name: value for name, value in values.items() if value is not None}
    rows = [
        (cell.id, metric, value)
        for cell in side.report.plan.cells
        for metric, value in facts.get(cell.variant.id, {}).items()
    ]
    return pd.DataFrame(rows, columns=["cell", "metric", "median"]).astype({"median": float})


def changed_facts(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows of metrics that do not scatter and differ at all."""
    exact = metrics[metrics["metric"].isin(EXACT)]
    changed = [
        bool(exact_change(older, newer).changed)
        for older, newer in zip(exact["older"], exact["newer"], strict=True)
    ]
    return exact[changed]
