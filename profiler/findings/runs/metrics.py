"""The metrics of cells that two runs share: static facts, and counters that moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.derived import build_fact
from profiler.analyse.effects import exact_change
from profiler.comparison.runs import ComparedRun, is_correct
from profiler.findings.counters import TIME_AGAIN, Move, move_size
from profiler.metrics.labels import label
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
)
"""Metrics that do not scatter: any difference is real. The number of instructions is none of them:
a kernel that waits in a loop executes more of them when it waits longer."""
MOVED_FROM = 0.05
"""Counters that moved by less between two runs are left out: a few samples each, hours apart."""
_FOLLOWS_TIME = TIME_AGAIN | {"peak_dram_pct"}
_OF_DURATION = frozenset(
    {"duration_ns", "tflops", "gbps", "dram_gbps", "sm_clock_ghz", "memory_efficiency_pct"}
)
"""Metrics that follow from `duration_ns`, whichever collector gave it."""


@dataclass(frozen=True)
class MetricChange:
    """One metric of one cell in two runs."""

    cell: str
    metric: str
    older: float
    newer: float

    @property
    def is_fact(self) -> bool:
        """Whether the metric does not scatter."""
        return self.metric in EXACT

    @property
    def fact_changed(self) -> bool:
        """Whether it is a fact that differs."""
        return self.is_fact and bool(exact_change(self.older, self.newer).changed)

    @property
    def size(self) -> float:
        """Size of the change, comparable between metrics."""
        return move_size(label(self.metric), Move(1, self.older, self.newer))

    @property
    def moved(self) -> bool:
        """Whether it is a counter that moved, and does not only follow the time."""
        return not self.is_fact and self.metric not in _FOLLOWS_TIME and self.size >= MOVED_FROM


def common_metrics(
    older: ComparedRun, newer: ComparedRun, cells: Sequence[str], *, same_collector: bool
) -> Mapping[str, tuple[MetricChange, ...]]:
    """Medians of every metric that both runs have of a cell, by cell.

    The duration that is compared is not among them: it has a number of its own, beside its verdict.
    `same_collector`: whether `duration_ns` is of the same collector in both runs.
    """
    medians = [_medians(run, cells) for run in (older, newer)]
    both: pd.DataFrame = medians[1].merge(
        medians[0], on=["cell", "metric"], suffixes=("_newer", "_older"), sort=False
    )
    left_out = {"duration_ns"} if same_collector else _OF_DURATION
    changes: dict[str, list[MetricChange]] = {}
    for row in both[~both["metric"].isin(list(left_out))].to_dict("records"):
        cell, metric = str(row["cell"]), str(row["metric"])
        change = MetricChange(cell, metric, float(row["median_older"]), float(row["median_newer"]))
        changes.setdefault(cell, []).append(change)
    return {cell: tuple(of_cell) for cell, of_cell in changes.items()}


_BUILD_FACTS = tuple(name for name in EXACT if CATALOGUE[name].fact)
"""Metrics that the build knows too."""


def _medians(run: ComparedRun, cells: Sequence[str]) -> pd.DataFrame:
    """Median of each metric of each correct cell; facts of the build only come last."""
    summary = run.report.measured.summary
    measured = summary.loc[summary["median"].notna(), ["cell", "metric", "median"]]
    rows = pd.concat([measured, _from_builds(run)], ignore_index=True)
    rows = rows.drop_duplicates(["cell", "metric"], keep="first")
    correct = {cell for cell in cells if is_correct(run, cell)}
    return rows[rows["cell"].isin(correct)]


def _from_builds(run: ComparedRun) -> pd.DataFrame:
    """Static facts of each cell: the largest over the kernels of its variant."""
    facts: dict[str, dict[str, float]] = {}
    for build in run.report.builds:
        values = {name: build_fact(build, name) for name in _BUILD_FACTS}
        facts[build.variant] = {name: value for name, value in values.items() if value is not None}
    rows = [
        (cell.id, metric, value)
        for cell in run.report.plan.cells
        for metric, value in facts.get(cell.variant.id, {}).items()
    ]
    return pd.DataFrame(rows, columns=["cell", "metric", "median"]).astype({"median": float})
