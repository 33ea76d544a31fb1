"""Data of a page: everything about one run, as plain data that needs no GPU to show.

A `Report` is filled from a run folder or a recording; `profiler.render` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.judge import Rules
from profiler.analyse.why.kernel_profiles import Launches
from profiler.errors import ExitCode
from profiler.metrics.catalogue import Metric
from profiler.model import BuildResult, CellStatus, Environment, Plan, Span
from profiler.notices import Notice
from profiler.parse.stamps import KernelStamps
from profiler.planning.page_kinds import PAGE_KINDS, PageKind
from profiler.search.journal import SearchRecord


@dataclass(frozen=True)
class ExperimentText:
    """Texts of the experiment file for a reader."""

    name: str
    title: str
    description: str
    inputs: str = ""
    """The experiment's description of its inputs; may be empty."""
    changes: str = ""
    """Differences of the variants' sources as a unified diff; may be empty."""
    spec_text: str = ""
    """Text of the experiment file."""
    spec_path: str = "SPEC"
    """Argument of `python -m profiler` for the experiment: a relative path."""


@dataclass(frozen=True)
class PageSettings:
    """Settings of the page in the experiment file."""

    kind: str = "versions"
    """One of `profiler.planning.page_kinds.PAGE_KINDS`."""
    metrics: tuple[str, ...] = ()
    """Metrics to show, most important first; empty: all of the summary, in its order."""
    own_metrics: tuple[Metric, ...] = ()
    """Metrics that the experiment file defines."""
    parameters: tuple[str, ...] = ()
    """Parameters of variants that an ablation steps through; empty: all that differ."""
    axes: tuple[str, ...] = ()
    """Parameters of problems on rows and columns of a grid; empty: those with most values."""
    split: tuple[str, ...] = ()
    """Parameters of problems with a grid for each value; empty: all other differing ones."""
    weights: str | None = None
    """Parameter of problems with the number of calls in a captured step; None without a step."""
    step_ms: float | None = None
    """Milliseconds of the captured step; None where not measured."""
    step_note: str = ""
    """Note of the capture on the step."""

    @property
    def page_kind(self) -> PageKind:
        """The kind of the page; `versions` for a kind that today's program lacks."""
        return PAGE_KINDS.get(self.kind, PAGE_KINDS["versions"])


@dataclass(frozen=True)
class ExecutionRecord:
    """Commands, stages and seconds of a run's sessions."""

    created: str
    """ISO time at which the measurement began."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """The exact command of each session."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds per stage."""
    seconds: tuple[Span, ...] = ()
    """Where the seconds of the newest execution with sessions went."""
    replay: dict[str, str] | None = None
    """GPU, ISO time and tools of a replayed recording: `gpu`, `when`, `ncu`; None of a run."""


@dataclass(frozen=True, eq=False)
class Measurements:
    """Numbers of all cells."""

    samples: pd.DataFrame
    """One row per sample, columns as in docs/architecture.md."""
    summary: pd.DataFrame
    """One row per cell and metric, of the blocks in which every cell was measured; columns as in
    docs/architecture.md."""
    range_counters: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per cell and path of NVTX ranges inside the visit: `cell path depth name kernels`
    and a column per metric; empty where the counters were not collected by range."""
    practical_roofs: Mapping[str, float] = field(default_factory=dict)
    """Shares of the hardware's roofs that plain kernels reached (a copy, matrix products), by roof;
    roofs without one are not in it."""
    practical_roof_faults: Mapping[str, str] = field(default_factory=dict)
    """Why a practical roof could not be measured, by roof."""


@dataclass(frozen=True, eq=False)
class Details:
    """Timelines, stamps and profiles by cell id, for the cells that have some."""

    timelines: Mapping[str, CellTimeline] = field(default_factory=dict)
    """Timelines by cell id; recorded by both nsys and torch, nsys's with torch's operators."""
    in_kernel: Mapping[str, KernelStamps] = field(default_factory=dict)
    """In-kernel timelines of one launch by cell id."""
    profiles: Mapping[str, Launches] = field(default_factory=dict)
    """Profiles of explain sessions by cell id."""


@dataclass(frozen=True, eq=False)
class Report:
    """One run, ready to be shown.

    Frames are never changed by a reader. `statuses` has an entry for every cell of the plan; a cell
    without one counts as not measured.
    """

    experiment: ExperimentText
    plan: Plan
    statuses: Mapping[str, CellStatus]
    """By cell id."""
    builds: tuple[BuildResult, ...]
    environment: Environment
    execution: ExecutionRecord
    measured: Measurements
    notices: tuple[Notice, ...] = ()
    settings: PageSettings = field(default_factory=PageSettings)
    rules: Rules = field(default_factory=Rules)
    """How verdicts on durations are found."""
    details: Details = field(default_factory=Details)
    search: SearchRecord | None = None
    """The search before the cells were measured; None where every variant was measured."""

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of a command that measured or read the run: 4 where nothing was measured."""
        outcomes = {status.outcome for status in self.statuses.values()}
        is_complete = any(outcome.correct for outcome in outcomes) and not any(
            outcome.failed for outcome in outcomes
        )
        return ExitCode.COMPLETE if is_complete else ExitCode.SOME_CELLS_FAILED
