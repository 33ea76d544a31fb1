"""The durations of one run, block by block, as a comparison between runs needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.clocks import cell_clocks
from profiler.analyse.samples import SAMPLE_COLUMNS
from profiler.analyse.summary import summarise
from profiler.analyse.verdicts import noise_floors
from profiler.collect.registry import counts, duration_metrics
from profiler.comparison.runs import ComparedRun, is_correct
from profiler.model import SessionKind

_ARM = "arm"
"""Column of samples: 1 for the second visit of a baseline in a block, 0 for all others."""
_SOURCES = tuple(duration_metrics())
"""Collectors by how much they are believed."""


@dataclass(frozen=True, eq=False)
class Timings:
    """Durations of one run from one collector."""

    blocks: pd.DataFrame
    """One row per cell, block and arm: `cell variant problem block arm duration_ns`."""
    clock: pd.Series[Any]
    """SM clock of each cell in GHz, by id, where ncu timed it: as `cell_clocks` has it."""

    samples: pd.DataFrame
    """What the blocks are made of."""

    @property
    def median(self) -> pd.Series[Any]:
        """Median duration in ns, by cell."""
        first = self.blocks[self.blocks[_ARM] == 0]
        return first.groupby("cell")["duration_ns"].median()

    def summary(self, run: ComparedRun) -> pd.DataFrame:
        """Median of each cell with its interval, and its ratio to the run's own baseline.

        By cell: `n median low high ratio ratio_low ratio_high` as in the summary of a run.
        """
        samples = self.samples.reindex(columns=[*SAMPLE_COLUMNS, "duration_ns"])
        frame = summarise(samples, cells=run.report.plan.cells, baseline=run.report.plan.baseline)
        return frame[frame["metric"] == "duration_ns"].set_index("cell")

    def raw(self) -> pd.DataFrame:
        """ln(duration) of each cell and block: `cell log_value`."""
        first = self.blocks[self.blocks[_ARM] == 0]
        return pd.DataFrame({"cell": first["cell"], "log_value": np.log(first["duration_ns"])})

    def relative(self, reference: Mapping[str, str]) -> pd.DataFrame:
        """ln(cell / control) of each block that both have: `cell log_value`.

        `reference` gives the cell of the control for each problem; other problems are left out, and
        so is the control itself.
        """
        first = self.blocks[self.blocks[_ARM] == 0]
        control = first[first["cell"].isin(reference.values())]
        others = first[~first["cell"].isin(reference.values())]
        both = others.merge(
            control[["problem", "block", "duration_ns"]],
            on=["problem", "block"],
            suffixes=("", "_control"),
        )
        ratio = both["duration_ns"] / both["duration_ns_control"]
        return pd.DataFrame({"cell": both["cell"], "log_value": np.log(ratio)})

    def floors(self, control: str | None) -> pd.Series[Any]:
        """Noise floor (log ratio) of each problem, where the control stands in each block twice."""
        visits = self.blocks[self.blocks["variant"] == control]
        arms = visits.pivot_table(index=["problem", "block"], columns=_ARM, values="duration_ns")
        if not {0, 1} <= set(arms.columns):
            return pd.Series(dtype=float)
        both = arms[[0, 1]].dropna()
        of = pd.Series(both.index.get_level_values("problem"), name="problem")
        return noise_floors(pd.Series(np.log((both[1] / both[0]).to_numpy(dtype=float))), of)


def common_source(older: ComparedRun, newer: ComparedRun) -> tuple[str | None, str | None]:
    """Which durations of each run to compare: of the same collector where both have one."""
    first, second = _sources(older), _sources(newer)
    both = [source for source in first if source in second]
    if both:
        return both[0], both[0]
    return (first[0] if first else None), (second[0] if second else None)


def _sources(run: ComparedRun) -> list[str]:
    """Collectors that timed a run, the most precise first."""
    samples = _timed(run)
    used = set() if samples.empty else set(samples["collector"])
    return [source for source in _SOURCES if source in used] + sorted(used - set(_SOURCES))


def same_primary_source(older: ComparedRun, newer: ComparedRun) -> bool:
    """Whether `duration_ns` of both runs is of the same collector."""
    return _sources(older)[:1] == _sources(newer)[:1]


def _timed(run: ComparedRun) -> pd.DataFrame:
    """Samples of timing sessions with a duration; counters are replayed: not the same quantity."""
    samples = run.report.measured.samples
    if "duration_ns" not in samples:
        return samples.iloc[:0]
    timing = samples["kind"] == SessionKind.TIMING.value
    return samples[timing & (samples["duration_ns"] > 0)]


def timings(run: ComparedRun, source: str | None) -> Timings:
    """Durations of the correct cells of a run from one collector: medians of their blocks."""
    report = run.report
    plan = pd.DataFrame(
        [(cell.id, cell.variant.id, cell.problem.id) for cell in report.plan.cells],
        columns=["cell", "variant", "problem"],
    )
    correct = [cell.id for cell in report.plan.cells if is_correct(run, cell.id)]
    samples = _timed(run)
    samples = samples[(samples["collector"] == source) & samples["cell"].isin(correct)]
    samples = samples.assign(**{_ARM: samples.get(_ARM, 0)})
    keys = ["cell", "block", _ARM]
    blocks = samples.groupby(keys, sort=False)["duration_ns"].median().reset_index()
    clocks = (
        cell_clocks(report.measured.samples)
        if source is not None and counts(source)
        else pd.Series(dtype="float64")
    )
    return Timings(blocks.merge(plan, on="cell"), clocks[clocks.index.isin(correct)], samples)
