"""What a page is made from: everything about one run, as plain data that needs no GPU to show.

A `Report` is filled from a run folder or a recording; `profiler.render` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.judge import Judge, Rules, times_of
from profiler.analyse.summary import summarise_finals, with_verdicts
from profiler.model import BuildResult, CellStatus, Environment, Outcome, Plan, SessionKind, Verdict
from profiler.notices import Notice

PAGE_KINDS = ("versions", "autotune", "ablation", "progression", "grid", "timeline", "waves")
"""Kinds of page that can be rendered."""


@dataclass(frozen=True)
class ReplayInfo:
    """Where the numbers of a replayed recording come from."""

    gpu: str
    when: str
    """ISO time of the measurement."""
    ncu: str


@dataclass(frozen=True, eq=False)
class Report:
    """One run, ready to be shown.

    Frames are never changed by a reader. `statuses` has an entry for every cell of the plan; a cell
    without one counts as not measured.
    """

    title: str
    description: str
    experiment: str
    created: str
    """ISO time at which the measurement began."""
    plan: Plan
    statuses: Mapping[str, CellStatus]
    """By cell id."""
    builds: tuple[BuildResult, ...]
    environment: Environment
    samples: pd.DataFrame
    """One row per sample, columns as in docs/architecture.md."""
    summary: pd.DataFrame
    """One row per cell and metric, columns as in docs/architecture.md."""
    baseline: str | None
    """Variant id, None where no ratios were asked for."""
    notices: tuple[Notice, ...] = ()
    spec_text: str = ""
    spec_path: str = "SPEC"
    """What a reader passes to `python -m profiler`: relative, never a path of the machine."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """The exact command of each session."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds per stage."""
    replay: ReplayInfo | None = None
    metrics: tuple[str, ...] = ()
    """Metrics to show, most important first; empty: all of the summary, in its order."""
    primary: str = "duration_ns"
    """The metric that decides which variant is best."""
    kind: str = "versions"
    """One of `PAGE_KINDS`."""
    rules: Rules = field(default_factory=Rules)
    """How verdicts on durations are found."""
    parameters: tuple[str, ...] = ()
    """Of variants: those that an ablation steps through; empty: all that differ."""
    axes: tuple[str, ...] = ()
    """Of problems: rows and columns of a grid; empty: those with most values."""
    split: tuple[str, ...] = ()
    """Of problems: those that tell the grids of a page apart; empty: all other ones that differ."""
    timelines: Mapping[str, CellTimeline] = field(default_factory=dict)
    """By cell id; cells without one are not in it. Where nsys and torch both recorded a cell, it is
    that of nsys with the operators of torch."""
    range_counters: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per cell and path of NVTX ranges inside the visit: `cell path depth name kernels`
    and a column per metric; empty where the counters were not collected by range."""

    @cached_property
    def finals(self) -> pd.DataFrame:
        """As `summary`, of durations and cycles in the final; without rows where there was none."""
        correct = [cell for cell in self.plan.cells if self._is_correct(cell.id)]
        found = summarise_finals(
            self.samples,
            cells=self.plan.cells,
            baseline=self.baseline,
            ranked=[cell.id for cell in correct],
        )
        times = times_of(self.samples, self.plan.cells, SessionKind.FINAL)
        judge = Judge(times, self.baseline, Rules(looks=1, delta=self.rules.delta))
        return with_verdicts(found, judge.with_baseline(correct))

    @property
    def judged(self) -> pd.DataFrame:
        """Durations of all cells but the baseline's, as a gate judges them.

        Of a finalist that of the final, as on the page; of all others that of the summary.
        """
        timed, final = (
            frame[(frame["metric"] == "duration_ns") & (frame["variant"] != self.baseline)]
            for frame in (self.summary, self.finals)
        )
        final = final[final["verdict"].notna() & (final["verdict"] != Verdict.NO_DATA)]
        others = timed[~timed["cell"].isin(final["cell"])]
        return pd.concat([others, final], ignore_index=True) if len(final) else others

    def _is_correct(self, cell: str) -> bool:
        status = self.statuses.get(cell)
        return status is not None and status.outcome in (Outcome.MEASURED, Outcome.DUPLICATE)
