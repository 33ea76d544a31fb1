"""A newer run relative to an older one: their common cells, machines and source files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from profiler.analyse.between_runs import REFUSED_WORDS, BetweenRunsReason
from profiler.analyse.effects import MeanRatio, mean_ratio
from profiler.comparison.changes import (
    CellChange,
    Durations,
    Judgement,
    MetricChange,
    common_metrics,
)
from profiler.comparison.judged import common_cells, find_control, judge_cells, refusal_reason
from profiler.comparison.programs import (
    EditedFile,
    Machines,
    ProgramRelation,
    edited_files,
    machines_of,
    programs,
    retuned,
)
from profiler.comparison.runs import (
    ComparedRun,
    Timings,
    common_source,
    same_primary_source,
    timings,
)
from profiler.errors import UsageError
from profiler.model import Cell, Verdict, seconds_of

_ROW_FIELDS = ("program", "controlled", "ratio", "ratio_low", "ratio_high")
_Part = TypeVar("_Part", Durations, Judgement)
_ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR, None, Verdict.SAME, Verdict.NO_DATA)


@dataclass(frozen=True)
class CodeGroup:
    """Cells of a step: those whose code changed, those whose code did not, or all."""

    other_code: bool | None
    """Whether other code ran in the newer run; None of all cells together."""
    ranked: tuple[CellChange, ...]
    """Slower cells first, the slowest of them on top; then faster ones, then the rest."""

    @cached_property
    def counts(self) -> Mapping[Verdict | None, int]:
        """Number of cells by verdict; None: cells without a verdict."""
        return Counter(change.verdict for change in self.ranked)

    @property
    def judged(self) -> int:
        """Number of cells with a verdict."""
        return len(self.ranked) - self.counts.get(None, 0)

    def with_verdict(self, verdict: Verdict) -> tuple[CellChange, ...]:
        """Cells with a verdict, in the order of `ranked`."""
        return tuple(change for change in self.ranked if change.verdict is verdict)


@dataclass(frozen=True, eq=False)
class RunStep:
    """A newer run relative to an older one."""

    older: int
    newer: int
    """Indices of the two runs in the comparison."""
    reversed: bool
    """Whether the run named as the older one was measured later."""
    machines: Machines
    refused: BetweenRunsReason | None
    """Why no duration has a verdict; None where durations may be compared."""
    control: str | None
    """Id of the variant that the ratios are relative to in both runs."""
    cells: Mapping[str, CellChange]
    """Cells that both runs have, by id, in the order of the newer run's plan."""
    only_older: tuple[str, ...]
    """Ids of cells that only the older run has."""
    only_newer: tuple[str, ...]
    redefined: tuple[str, ...]
    """Names of problems that have other parameters in the two runs, whose cells are not joined."""
    timings: tuple[Timings, Timings]
    """Durations that were compared."""
    edited_files: tuple[EditedFile, ...]
    """Source files of the workload that differ."""

    @property
    def numbers(self) -> tuple[int, int]:
        """Numbers of the two runs as pages print them, from 1."""
        return self.older + 1, self.newer + 1

    @property
    def refused_words(self) -> str:
        """Why no duration has a verdict, in words; empty where durations may be compared."""
        return "" if self.refused is None else REFUSED_WORDS[self.refused]

    @cached_property
    def all(self) -> CodeGroup:
        """All cells that both runs have."""
        return CodeGroup(None, tuple(sorted(self.cells.values(), key=_rank)))

    @cached_property
    def by_code(self) -> tuple[CodeGroup, ...]:
        """Cells whose code changed, then those whose code did not; all where they are alike."""
        ranked = self.all.ranked
        groups = [
            CodeGroup(changed, tuple(c for c in ranked if c.other_code is changed))
            for changed in (True, False)
        ]
        return tuple(groups) if all(group.judged for group in groups) else (self.all,)

    @cached_property
    def mean_ratio(self) -> MeanRatio | None:
        """Geometric mean of the ratios of all cells that were measured in both runs."""
        return mean_ratio(change.ratio for change in self.cells.values())

    @cached_property
    def control_shift(self) -> MeanRatio | None:
        """Shift of the control's own durations; None without a control."""
        return mean_ratio(
            change.durations.raw_ratio for change in self.cells.values() if change.is_control
        )

    @cached_property
    def uncontrolled_problems(self) -> tuple[int, int]:
        """Problems at which the control is another program, and all problems, as numbers."""
        changes = self.cells.values()
        uncontrolled = {
            change.cell.problem.id
            for change in changes
            if change.reason is BetweenRunsReason.NO_CONTROL
        }
        return len(uncontrolled), len({change.cell.problem.id for change in changes})

    @cached_property
    def retuned(self) -> tuple[str, ...]:
        """Cells (ids) for which a compiler's autotuner chose differently."""
        return tuple(cell for cell, change in self.cells.items() if change.retuned)

    @cached_property
    def programs(self) -> Mapping[ProgramRelation, int]:
        """Number of variants by the relation of their programs at the first problem."""
        by_variant: dict[str, ProgramRelation] = {}
        for change in self.cells.values():
            by_variant.setdefault(change.cell.variant.id, change.program)
        return Counter(by_variant.values())

    @cached_property
    def changed_variants(self) -> tuple[str, ...]:
        """Variants (ids) that are another program at some problem."""
        return self._variants_with(ProgramRelation.CHANGED)

    @cached_property
    def edited_variants(self) -> tuple[str, ...]:
        """Variants (ids) of which edited files do not tell whether they changed."""
        return self._variants_with(ProgramRelation.FILES_EDITED)

    def _variants_with(self, program: ProgramRelation) -> tuple[str, ...]:
        changes = self.cells.values()
        return tuple(dict.fromkeys(c.cell.variant.id for c in changes if c.program is program))

    @cached_property
    def changed_facts(self) -> tuple[MetricChange, ...]:
        """Static facts that differ, cell by cell."""
        return tuple(fact for change in self.cells.values() for fact in change.changed_facts)

    @cached_property
    def moved_counters(self) -> tuple[MetricChange, ...]:
        """Counters that moved, those that moved most first."""
        moved = (counter for change in self.cells.values() for counter in change.moved_counters)
        return tuple(sorted(moved, key=lambda counter: -counter.size))

    @cached_property
    def clock_moved(self) -> float:
        """Difference of a typical cell's SM clock between the runs, as a relative effect."""
        ratios = np.array([change.durations.clock_ratio for change in self.cells.values()])
        ratios = ratios[np.isfinite(ratios)]
        return float(np.expm1(np.median(np.abs(np.log(ratios))))) if len(ratios) else 0.0


def _rank(change: CellChange) -> tuple[int, float]:
    ratio = 0.0 if np.isnan(change.ratio) else change.ratio
    return _ORDER.index(change.verdict), ratio if change.verdict is Verdict.FASTER else -ratio


def step_between(runs: Sequence[ComparedRun], number: int) -> RunStep:
    """Compare the run at `number + 1` with the one before it; UsageError without common cells."""
    older, newer = runs[number], runs[number + 1]
    first, second = ({cell.id: cell for cell in run.report.plan.cells} for run in (older, newer))
    named_alike = [cell for name, cell in second.items() if name in first]
    common = [
        cell
        for cell in named_alike
        if dict(cell.problem.params) == dict(first[cell.id].problem.params)
    ]
    ids = {cell.id for cell in common}
    redefined = dict.fromkeys(cell.problem.name for cell in named_alike if cell.id not in ids)
    if not common:
        but = f", as these problems have other parameters: {', '.join(redefined)}"
        raise UsageError(
            f"{older.name} and {newer.name} have no cell in common{but if redefined else ''}.",
            remedy="Cells are joined by variant and problem: compare runs of one experiment.",
        )
    programs_by_cell = programs(older, newer, common)
    sources = common_source(older, newer)
    refused = refusal_reason(older, newer, sources)
    control = None if refused else find_control(older, newer, common, programs_by_cell)
    times = timings(older, sources[0]), timings(newer, sources[1])
    judged = judge_cells(
        times, common_cells(older, newer, common, programs_by_cell), control, refused
    )
    created = [run.report.execution.created for run in (older, newer)]
    return RunStep(
        older=number,
        newer=number + 1,
        reversed=seconds_of(created[0]) > seconds_of(created[1]),
        machines=machines_of(older.report.environment, newer.report.environment),
        refused=refused,
        control=control,
        cells=_changes(older, newer, common, judged, control),
        only_older=tuple(name for name in first if name not in ids),
        only_newer=tuple(name for name in second if name not in ids),
        redefined=tuple(redefined),
        timings=times,
        edited_files=edited_files(older, newer),
    )


def _changes(
    older: ComparedRun,
    newer: ComparedRun,
    common: Sequence[Cell],
    judged: pd.DataFrame,
    control: str | None,
) -> dict[str, CellChange]:
    metrics = common_metrics(
        older,
        newer,
        [cell.id for cell in common],
        same_collector=same_primary_source(older, newer),
    )
    rows: Mapping[Hashable, dict[Any, Any]] = judged.to_dict("index")

    def fields_as(kind: type[_Part], cell: Cell) -> _Part:
        return kind(**{name: rows[cell.id][name] for name in kind.__annotations__})

    return {
        cell.id: CellChange(
            cell,
            is_control=cell.variant.id == control,
            outcomes=(
                older.report.statuses[cell.id].outcome,
                newer.report.statuses[cell.id].outcome,
            ),
            durations=fields_as(Durations, cell),
            judgement=fields_as(Judgement, cell),
            metrics=metrics.get(cell.id, ()),
            retuned=retuned(older, newer, cell.id),
            **{name: rows[cell.id][name] for name in _ROW_FIELDS},
        )
        for cell in common
    }
