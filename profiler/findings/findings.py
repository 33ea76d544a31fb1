"""Findings of a run: computed once, in a stated order, as data that everything else prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from profiler.analyse.summary import SlowVisits
from profiler.findings.kinds.captured_step import CapturedStep, find_captured_step
from profiler.findings.kinds.grids import GridPairs
from profiler.findings.kinds.search import SearchFindings, find_search
from profiler.findings.kinds.steps import Rung, StepEffect
from profiler.findings.kinds.sustained import SustainedFindings
from profiler.findings.kinds.timers import TimerComparison
from profiler.findings.kinds.waves import WaveFindings
from profiler.findings.method import MadeSession, made_sessions
from profiler.findings.ranking import VariantRank
from profiler.findings.timelines.cells import TimelineFindings, find_timelines
from profiler.findings.timelines.in_kernel import InKernelFindings, find_in_kernel
from profiler.findings.values import NOTHING, Value
from profiler.findings.variant_names import Names
from profiler.findings.verdicts import JUDGED, NO_VERDICT, NamedBaseline, PairVerdict, PairVerdicts
from profiler.findings.winners import Winner
from profiler.metrics.labels import Label
from profiler.model import Cell, CellStatus, Outcome, Plan, Problem, Variant
from profiler.notices import Notice
from profiler.run_folder.load.report import Report


@dataclass(frozen=True, eq=False)
class Programs:
    """The distinct programs of a run, their names, and which of their cells are correct.

    Variants that are the same program as another are no variants here: they are names of that one
    (`aliases`), so that a program has one row and one place.
    """

    plan: Plan
    """With a label of each variant (`Variant.label`) and a short name of each problem."""
    statuses: Mapping[str, CellStatus]
    """Outcome of every cell of the plan, by its id."""
    names: Names
    """Labels of all variants, aliases too, with their parts, and what all of them share."""
    owners: Mapping[str, str]
    """Id of the measured variant by the id of each alias."""
    baseline: Variant | None

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Problems in the order of the plan."""
        return self.plan.problems

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Distinct programs, in the order of the plan."""
        return tuple(variant for variant in self.plan.variants if variant.id not in self.owners)

    @cached_property
    def aliases(self) -> Mapping[str, tuple[str, ...]]:
        """Further names of a variant, by its id; only of those that have any."""
        names = {variant.id: variant.label for variant in self.plan.variants}
        by_owner: dict[str, tuple[str, ...]] = {}
        for alias, owner in self.owners.items():
            by_owner[owner] = (*by_owner.get(owner, ()), names[alias])
        return by_owner

    @cached_property
    def references(self) -> frozenset[str]:
        """Ids of the variants that are never called the best: the baseline and its like."""
        named = self.plan.references
        return frozenset((*named, self.baseline.id) if self.baseline else named)

    @cached_property
    def rivals(self) -> tuple[Variant, ...]:
        """Variants that are no references, in the order of the plan."""
        return tuple(variant for variant in self.variants if variant.id not in self.references)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Cells of `variants`, in the order of the plan."""
        return tuple(cell for cell in self.plan.cells if cell.variant.id not in self.owners)

    @cached_property
    def by_place(self) -> Mapping[tuple[str, str], Cell]:
        """Cells of `variants` by (variant id, problem id)."""
        return {(cell.variant.id, cell.problem.id): cell for cell in self.cells}

    @cached_property
    def correct_cells(self) -> Mapping[str, Cell]:
        """Cells that were measured and gave a right result, by id."""
        return {cell.id: cell for cell in self.cells if self.correct(cell)}

    @cached_property
    def correct_by_place(self) -> Mapping[tuple[str, str], Cell]:
        """Cells with a right result by (variant id, problem id)."""
        return {place: cell for place, cell in self.by_place.items() if self.correct(cell)}

    @cached_property
    def planned(self) -> Mapping[str, frozenset[str]]:
        """Ids of the problems that each variant is planned for, by variant id."""
        problems: dict[str, set[str]] = {}
        for variant, problem in self.by_place:
            problems.setdefault(variant, set()).add(problem)
        return {variant: frozenset(ids) for variant, ids in problems.items()}

    @cached_property
    def marks(self) -> Mapping[str, int]:
        """Index of each variant by id: how the page's script knows it."""
        return {variant.id: index for index, variant in enumerate(self.variants)}

    @cached_property
    def problem_numbers(self) -> Mapping[str, int]:
        """Index of each problem by id, in the order of the plan."""
        return {problem.id: index for index, problem in enumerate(self.problems)}

    @cached_property
    def cell_numbers(self) -> Mapping[str, int]:
        """Index of each distinct cell by id."""
        return {cell.id: index for index, cell in enumerate(self.cells)}

    def status(self, cell: Cell) -> CellStatus:
        """Outcome of a cell of the plan; that of one that nobody reports on is not measured."""
        return self.statuses[cell.id]

    def correct(self, cell: Cell | None) -> bool:
        """Whether a cell may be ranked: it was measured and its result was right."""
        return cell is not None and self.status(cell).outcome.correct

    def tried(self, cell: Cell | None) -> bool:
        """Whether a cell was measured or failed; a part of a run need not have all."""
        return cell is not None and self.status(cell).outcome is not Outcome.NOT_MEASURED

    def source(self, cell: Cell) -> str:
        """Id of the cell that was measured: another's where this one has its machine code."""
        return self.status(cell).duplicate_of or cell.id

    def outcome_counts(self) -> Mapping[Outcome, int]:
        """Count the cells of the plan by outcome, aliases too, in the order of `Outcome`."""
        outcomes = [self.status(cell).outcome for cell in self.plan.cells]
        return {outcome: outcomes.count(outcome) for outcome in Outcome if outcome in outcomes}

    def measured_count(self) -> int:
        """Count the cells of the plan that have a number to show."""
        return sum(self.correct(cell) for cell in self.plan.cells)


@dataclass(frozen=True, eq=False)
class CellNumbers:
    """One number per cell and metric."""

    programs: Programs
    primary: Label
    """The metric that decides which variant is best."""
    metrics: tuple[Label, ...]
    """Every metric that has a number: those that the spec names first, then the rest."""
    frame: pd.DataFrame
    """One row per cell and metric: `cell_numbers.NUMBER_COLUMNS`."""
    values: Mapping[tuple[str, str], Value]
    """Numbers by (cell id, metric)."""
    block_values: Mapping[tuple[str, str], Value]
    """Values of the primary metric by the blocks in which every cell was measured, which stand
    beside those of the final."""
    slow_visits: Mapping[str, SlowVisits]
    """By id of those cells of which some timing visits took far longer than the others."""

    def value(self, cell: Cell, metric: str) -> Value:
        """The one number of a metric in a cell; without any sample, nothing."""
        return self.values.get((cell.id, metric), NOTHING)

    def block_value(self, cell: Cell) -> Value:
        """The primary metric in a cell by the blocks in which every cell was measured."""
        return self.block_values.get((cell.id, self.primary.name), NOTHING)

    def at(self, variant: Variant, problem: Problem, metric: str) -> Value:
        """The one number of a metric for a variant and a problem, where that cell is planned."""
        cell = self.programs.by_place.get((variant.id, problem.id))
        return self.value(cell, metric) if cell else NOTHING

    def correct_at(self, variant: Variant, problem: Problem, metric: str) -> Value:
        """Number of a metric for a variant and a problem where the result is correct."""
        cell = self.programs.correct_by_place.get((variant.id, problem.id))
        return self.value(cell, metric) if cell else NOTHING

    def sorted_at(self, problem: Problem, metric: str) -> list[tuple[Variant, Value]]:
        """All variants at a problem: correct ones by rank or value, then those without."""
        pairs = [
            (variant, self.correct_at(variant, problem, metric))
            for variant in self.programs.variants
        ]
        with_value = [pair for pair in pairs if pair[1].present]
        without_value = [pair for pair in pairs if not pair[1].present]
        return [*sorted(with_value, key=lambda pair: _order(pair[1])), *without_value]


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Every verdict that anything shows."""

    numbers: CellNumbers
    given: bool
    """Whether the metric that decides which variant is best has verdicts."""
    pairs: PairVerdicts
    against_baseline: Mapping[str, PairVerdict]
    """By id of each correct cell: against the baseline of its problem."""
    baselines: tuple[NamedBaseline, ...]
    """Every cell against each baseline that a reader can switch between."""

    def at(self, variant: Variant, problem: Problem) -> PairVerdict:
        """The verdict on a variant against the baseline at a problem."""
        cell = self.numbers.programs.by_place.get((variant.id, problem.id))
        return self.against_baseline.get(cell.id, NO_VERDICT) if cell else NO_VERDICT

    def timed(self, cell: Cell, other: Cell) -> tuple[float, float]:
        """Median durations of two cells: in the blocks that their ratio is of, if it has one."""
        numbers, source = self.numbers, self.numbers.programs.source
        pair = self.pairs.of(source(cell), source(other))
        if math.isnan(pair.median):
            primary = numbers.primary.name
            return numbers.value(cell, primary).median, numbers.value(other, primary).median
        return pair.median, pair.against_median


@dataclass(frozen=True, eq=False)
class Ranking:
    """Which variant is best, at each problem and over all of them."""

    programs: Programs
    tunes: bool
    """Whether the question is which configuration to use, rather than which version is best."""
    winners: Mapping[str, Winner]
    """By problem id, among all variants; none where nothing is correct."""
    rival_winners: Mapping[str, Winner]
    """By problem id, among the variants that are no references."""
    slowdowns: Mapping[tuple[str, str], float]
    """By (variant id, problem id): how many times worse than the deciding winner."""
    ranks: tuple[VariantRank, ...]
    """Every variant, best first: complete ones before those that lack a problem."""
    contenders: Mapping[str, frozenset[str]]
    """Ids of problems that a variant wins or is not shown to lose, by variant id."""
    best_rank: VariantRank | None
    """The variant to recommend; the baseline only where it stands alone."""
    baseline_rank: VariantRank | None
    """The baseline, where over all problems it beats every other variant; else None."""
    rival_groups: tuple[tuple[VariantRank, ...], ...]
    """Variants that are no references, best first, by the problems that they are planned for."""
    roles: Mapping[str, str]
    """Which variants stand out in figures, by id: `best`, `baseline`, `series-1`, …"""

    @property
    def deciding_winners(self) -> Mapping[str, Winner]:
        """The winners that stand for the best: without references where the run tunes."""
        return self.rival_winners if self.tunes else self.winners

    @property
    def leader(self) -> VariantRank | None:
        """The baseline where it beats the rest, else the variant to recommend.

        Where the run tunes always the latter: it asks which configuration to use.
        """
        return (None if self.tunes else self.baseline_rank) or self.best_rank

    @property
    def best(self) -> Variant | None:
        """The variant to recommend for all problems."""
        return self.best_rank.variant if self.best_rank else None

    def role(self, variant: Variant) -> str:
        """Role of a variant in figures; whoever is not named plays `other`."""
        return self.roles.get(variant.id, "other")

    def largest_of(self, *variants: Variant) -> Problem | None:
        """The problem whose best cell takes longest, of those at which all these are correct."""
        correct = self.programs.correct_by_place
        shared = [
            problem
            for problem in self.programs.problems
            if problem.id in self.winners
            and all((variant.id, problem.id) in correct for variant in variants)
        ]
        return max(shared, key=lambda problem: self.winners[problem.id].value.median, default=None)

    @cached_property
    def largest_problem(self) -> Problem | None:
        """The problem whose best cell takes longest: single-problem figures show it."""
        return self.largest_of()


@dataclass(frozen=True, eq=False)
class KindFindings:
    """Findings that belong to some kinds of page."""

    ladder: tuple[Rung, ...]
    """Steps of a progression; empty on other pages."""
    parameter_steps: tuple[StepEffect, ...]
    """Steps of parameters: of an ablation those that the spec asks for, of an autotune all between
    rivals."""
    grid_pairs: GridPairs | None
    """Pairs of a page of grids; None on other pages."""
    waves: WaveFindings | None
    """Findings of a page of waves; None on other pages."""


@dataclass(frozen=True, eq=False)
class Findings:
    """The findings of one run; `profiler.findings.find` makes them."""

    report: Report
    programs: Programs
    numbers: CellNumbers
    verdicts: Verdicts
    ranking: Ranking
    kind: KindFindings
    timers: TimerComparison | None
    """None where there are not two timers."""
    sustained: SustainedFindings | None
    """None where nothing was measured back to back beside another timer."""
    notices: tuple[Notice, ...]
    """What a reader must know before believing the numbers."""

    @cached_property
    def sessions(self) -> tuple[MadeSession, ...]:
        """The sessions that were made, in their order."""
        return made_sessions(self.report)

    @cached_property
    def search(self) -> SearchFindings | None:
        """Findings of the search before the measurement; None where there was none."""
        return find_search(self.report.search)

    @cached_property
    def captured_step(self) -> CapturedStep | None:
        """Projected times of the step that the problems were captured in; None without one."""
        cells = self.programs.correct_cells.values()
        durations = ((cell, self.numbers.value(cell, JUDGED)) for cell in cells)
        weights = self.report.settings.weights
        return find_captured_step(weights, self.programs.baseline, durations)

    @cached_property
    def timelines(self) -> TimelineFindings:
        """Findings of the timelines; what takes long is computed on first use."""
        return find_timelines(self.report)

    @cached_property
    def in_kernel(self) -> Mapping[str, InKernelFindings]:
        """Findings of in-kernel timelines by cell id, in the order of the plan."""
        return find_in_kernel(self.report)


def _order(value: Value) -> tuple[float, float]:
    """Sort key: rank, or the value for metrics without a direction."""
    return (value.rank if math.isfinite(value.rank) else math.inf, value.median)
