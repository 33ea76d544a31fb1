"""The durations of one run, block by block, as a comparison between runs needs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profiler.analyse.verdicts import noise_floors
from profiler.collect.registry import duration_metrics
from profiler.comparison.sides import Side, correct
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
    """SM clock in GHz while each cell ran (median), by cell; only where cycles were counted."""

    @property
    def median(self) -> pd.Series[Any]:
        """Median duration in ns, by cell."""
        first = self.blocks[self.blocks[_ARM] == 0]
        return first.groupby("cell")["duration_ns"].median()

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
        own = self.blocks[self.blocks["variant"] == control]
        arms = own.pivot_table(index=["problem", "block"], columns=_ARM, values="duration_ns")
        if not {0, 1} <= set(arms.columns):
            return pd.Series(dtype=float)
        both = arms[[0, 1]].dropna()
        of = pd.Series(both.index.get_level_values("problem"), name="problem")
        return noise_floors(pd.Series(np.log((both[1] / both[0]).to_numpy(dtype=float))), of)


def common_source(older: Side, newer: Side) -> tuple[str | None, str | None]:
    """Which durations of each run to compare: of the same collector where both have one."""
    known = [_sources(side) for side in (older, newer)]
    both = [source for source in known[0] if source in known[1]]
    if both:
        return both[0], both[0]
    return (known[0][0] if known[0] else None), (known[1][0] if known[1] else None)


def _sources(side: Side) -> list[str]:
    samples = _timed(side)
    found = set() if samples.empty else set(samples["collector"])
    return [source for source in _SOURCES if source in found] + sorted(found - set(_SOURCES))


def _timed(side: Side) -> pd.DataFrame:
    """Samples of timing sessions with a duration; counters are replayed: not the same quantity."""
    samples = side.report.samples
    if "duration_ns" not in samples:
        return samples.iloc[:0]
    timing = samples["kind"] == SessionKind.TIMING.value
    return samples[timing & (samples["duration_ns"] > 0)]


def timings(side: Side, source: str | None) -> Timings:
    """Durations of the correct cells of a run from one collector: medians of their blocks."""
    report = side.report
    plan = pd.DataFrame(
        [(cell.id, cell.variant.id, cell.problem.id) for cell in report.plan.cells],
        columns=["cell", "variant", "problem"],
    )
    right = [cell.id for cell in report.plan.cells if correct(side, cell.id)]
    samples = _timed(side)
    samples = samples[(samples["collector"] == source) & samples["cell"].isin(right)]
    samples = samples.assign(**{_ARM: samples.get(_ARM, 0)})
    keys = ["cell", "block", _ARM]
    blocks = samples.groupby(keys, sort=False)["duration_ns"].median().reset_index()
    return Timings(blocks.merge(plan, on="cell"), _clock(samples))


def _clock(samples: pd.DataFrame) -> pd.Series[Any]:
    if "cycles" not in samples:
        return pd.Series(dtype=float)
    rate = samples["cycles"] / samples["duration_ns"]
    return rate[rate > 0].groupby(samples["cell"]).median()
