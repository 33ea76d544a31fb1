"""Findings of a run: computed once, in a stated order, as data that everything else prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.kinds.grids import GridPairs
from profiler.findings.kinds.in_use import CapturedStep, SustainedCell, find_captured_step
from profiler.findings.kinds.search import SearchFindings, find_search
from profiler.findings.kinds.steps import Rung, StepEffect
from profiler.findings.kinds.timers import TimerComparison
from profiler.findings.kinds.waves import SteadyGrid, steady_grids
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.findings.timelines.cells import TimelineFindings, find_timelines
from profiler.findings.timelines.in_kernel import InKernelFindings, find_in_kernel
from profiler.findings.verdicts import (
    NO_VERDICT,
    SAME_PROGRAM,
    PairVerdict,
    PairVerdicts,
    verdict_on,
)
from profiler.model import Cell, Problem, Variant
from profiler.notices import Notice
from profiler.run_folder.load.report import Report


@dataclass(frozen=True)
class NamedBaseline:
    """Baseline by its name, and the verdict on every cell of the plan against it."""

    key: str
    """`reference`, `best`, `first` or `previous`."""
    variant: Variant | None
    """The variant of `reference` and `first`; None where it differs by cell or problem."""
    verdicts: Mapping[str, PairVerdict]
    """By cell id; NaN where a cell may not be compared."""
    opponents: Mapping[str, str | None]
    """By cell id: id of the cell that it is compared with."""


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Every verdict that anything shows."""

    numbers: CellNumbers
    pairs: PairVerdicts
    against_baseline: Mapping[str, PairVerdict]
    """By id of each correct cell: against the baseline of its problem."""
    baselines: tuple[NamedBaseline, ...]
    """Every cell against each baseline that a reader can switch between."""

    def at(self, variant: Variant, problem: Problem) -> PairVerdict:
        """The verdict on a variant against the baseline at a problem."""
        cell = self.numbers.programs.at(variant, problem)
        return self.against_baseline.get(cell.id, NO_VERDICT) if cell else NO_VERDICT

    def verdict_on(self, cell: Cell, against: Cell) -> PairVerdict:
        """The verdict on a cell against another, of the programs that were measured for them."""
        first, second = map(self.numbers.programs.source, (cell, against))
        return SAME_PROGRAM if first == second else verdict_on(self.pairs, first, second)

    def timed(self, cell: Cell, against: Cell) -> tuple[float, float]:
        """Median durations of two cells: in the blocks that their ratio is of, if it has one."""
        pair = self.verdict_on(cell, against)
        if math.isnan(pair.median):
            return self.numbers.duration(cell).median, self.numbers.duration(against).median
        return pair.median, pair.against_median


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of one run; `profiler.findings.find` makes them."""

    report: Report
    programs: Programs
    numbers: CellNumbers
    verdicts: Verdicts
    ranking: Ranking
    ladder: tuple[Rung, ...]
    """Steps of a progression; empty on other pages."""
    parameter_steps: tuple[StepEffect, ...]
    """Steps of parameters: of an ablation those that the spec asks for, of an autotune all between
    rivals."""
    grid_pairs: GridPairs | None
    """Pairs of a page of grids; None on other pages."""
    waves: pd.DataFrame | None
    """Grids of a page of waves, as `find_waves` has them; None on other pages."""
    timers: TimerComparison | None
    """None where there are not two timers."""
    sustained: tuple[SustainedCell, ...]
    """Cells that were measured back to back beside another timer."""
    notices: tuple[Notice, ...]
    """Warnings that a reader must know before believing the numbers."""

    @cached_property
    def steady_grids(self) -> tuple[SteadyGrid, ...]:
        """Grid from which on each variant keeps its tail efficiency; empty on other pages."""
        return () if self.waves is None else steady_grids(self.waves)

    @cached_property
    def search(self) -> SearchFindings | None:
        """Findings of the search before the measurement; None where there was none."""
        return find_search(self.report.search)

    @cached_property
    def captured_step(self) -> CapturedStep | None:
        """Projected times of the step that the problems were captured in; None without one."""
        cells = self.programs.correct_cells.values()
        durations = ((cell, self.numbers.duration(cell)) for cell in cells)
        return find_captured_step(self.report.settings, self.programs.baseline, durations)

    @cached_property
    def timelines(self) -> TimelineFindings:
        """Findings of the timelines; what takes long is computed on first use."""
        return find_timelines(self.report)

    @cached_property
    def in_kernel(self) -> Mapping[str, InKernelFindings]:
        """Findings of in-kernel timelines by cell id, in the order of the plan."""
        return find_in_kernel(self.report)
