"""One cell in two runs: its verdict with the reason, its durations and its metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.between_runs import REFUSED_WORDS, BetweenRunsReason
from profiler.analyse.metric_values import build_fact
from profiler.comparison.programs import ProgramRelation, Retuned
from profiler.comparison.runs import ComparedRun, is_correct
from profiler.findings.counters import TIME_AGAIN, move_size
from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.queries import label
from profiler.model import Cell, Outcome, Verdict

__all__ = ["BetweenRunsReason", "CellChange"]

MOST_MOVED = 3
"""Counters of a cell that are named beside its verdict."""


@dataclass(frozen=True)
class Durations:
    """Median durations of a cell in both runs, and their quotient, uncorrected by the control."""

    older_ns: float
    newer_ns: float
    raw_ratio: float
    raw_low: float
    raw_high: float
    clock_ratio: float


@dataclass(frozen=True)
class Judgement:
    """A verdict, with its margin and floors as relative effects: 0.0123 is 1.23 %."""

    verdict: Verdict | None
    """None where no verdict may be given."""
    reason: BetweenRunsReason
    margin: float
    noise_floor: float
    clock_floor: float
    control_floor: float
    session_floor: float
    detectable: float
    blocks_older: int
    blocks_newer: int


@dataclass(frozen=True)
class CellChange:
    """A cell of the newer run relative to the older one; ratios newer ÷ older, NaN is missing."""

    cell: Cell
    """Cell as the newer run planned it."""
    program: ProgramRelation
    is_control: bool
    """Whether the cell is of the variant that the ratios are relative to."""
    controlled: bool
    """Whether `ratio` compares ratios to the control; otherwise it compares durations."""
    outcomes: tuple[Outcome, Outcome]
    """Outcome in the older and in the newer run."""
    ratio: float
    ratio_low: float
    ratio_high: float
    durations: Durations
    judgement: Judgement
    metrics: tuple[MetricChange, ...]
    """Every metric that both runs have."""
    retuned: tuple[Retuned, ...]
    """Operations for which a compiler's autotuner chose differently."""

    @property
    def verdict(self) -> Verdict | None:
        """The verdict; None where none may be given."""
        return self.judgement.verdict

    @property
    def reason(self) -> BetweenRunsReason:
        """Why the cell has this verdict, or no verdict."""
        return self.judgement.reason

    @property
    def refused_words(self) -> str:
        """Why the durations of the runs have no verdicts, in words; empty where they have."""
        return REFUSED_WORDS.get(self.reason, "")

    @property
    def other_code(self) -> bool:
        """Whether other code ran in the newer run."""
        return self.program.other_code

    @property
    def decided(self) -> bool:
        """Whether the verdict is FASTER or SLOWER."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    @property
    def changed_facts(self) -> tuple[MetricChange, ...]:
        """Static facts that differ."""
        return tuple(change for change in self.metrics if change.fact_changed)

    @property
    def moved_counters(self) -> tuple[MetricChange, ...]:
        """Counters that moved, those that moved most first."""
        moved = (change for change in self.metrics if change.moved)
        return tuple(sorted(moved, key=lambda change: -change.size))

    @property
    def most_telling(self) -> tuple[MetricChange, ...]:
        """Facts that differ, and the counters that moved most."""
        return (*self.changed_facts, *self.moved_counters[:MOST_MOVED])


# ---- metrics -------------------------------------------------------------------------------------


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
"""Metrics that do not scatter: any difference is real. The number of instructions scatters:
a kernel that waits in a loop executes more instructions when it waits longer."""
MOVED_FROM = 0.05
"""Counters that moved by less between two runs are left out: a few samples each, hours apart."""
_TIME_METRICS = TIME_AGAIN | {"peak_dram_pct"}
_DURATION_METRICS = frozenset(
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
        """Whether the metric is a static fact that differs."""
        is_in_both_runs = not (math.isnan(self.older) or math.isnan(self.newer))
        return self.is_fact and is_in_both_runs and self.older != self.newer

    @property
    def size(self) -> float:
        """Size of the change, comparable between metrics."""
        return move_size(label(self.metric), self.older, self.newer)

    @property
    def moved(self) -> bool:
        """Whether the metric is a counter that moved, and does not only follow the time."""
        return not self.is_fact and self.metric not in _TIME_METRICS and self.size >= MOVED_FROM


def common_metrics(
    older: ComparedRun, newer: ComparedRun, cells: Sequence[str], *, same_collector: bool
) -> Mapping[str, tuple[MetricChange, ...]]:
    """Medians of every metric that both runs have of a cell, by cell.

    The compared duration is left out: `CellChange.durations` has it.
    `same_collector`: whether `duration_ns` is of the same collector in both runs.
    """
    medians = [_medians(run, cells) for run in (older, newer)]
    joined: pd.DataFrame = medians[1].merge(
        medians[0], on=["cell", "metric"], suffixes=("_newer", "_older"), sort=False
    )
    excluded_metrics = {"duration_ns"} if same_collector else _DURATION_METRICS
    changes: dict[str, list[MetricChange]] = {}
    for row in joined[~joined["metric"].isin(list(excluded_metrics))].to_dict("records"):
        cell, metric = str(row["cell"]), str(row["metric"])
        change = MetricChange(cell, metric, float(row["median_older"]), float(row["median_newer"]))
        changes.setdefault(cell, []).append(change)
    return {cell: tuple(cell_changes) for cell, cell_changes in changes.items()}


_BUILD_FACTS = tuple(name for name in EXACT if CATALOGUE[name].fact)
"""Metrics that build results contain too."""


def _medians(run: ComparedRun, cells: Sequence[str]) -> pd.DataFrame:
    """Median of each metric of each correct cell; facts of the build only come last."""
    summary = run.report.measured.summary
    measured = summary.loc[summary["median"].notna(), ["cell", "metric", "median"]]
    rows = pd.concat([measured, _facts_of_builds(run)], ignore_index=True)
    rows = rows.drop_duplicates(["cell", "metric"], keep="first")
    correct = {cell for cell in cells if is_correct(run, cell)}
    return rows[rows["cell"].isin(correct)]


def _facts_of_builds(run: ComparedRun) -> pd.DataFrame:
    """Static facts of each cell from its build: the largest over the kernels of its variant."""
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
