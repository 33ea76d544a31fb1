"""A report made ready for look-ups: which value, which variant, which verdict; no statistics."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property

import pandas as pd

from profiler.analyse.summary import block_values
from profiler.analyse.timers import reference_collector
from profiler.collect.registry import duration_metrics
from profiler.findings.rulings import JUDGED, NO_RULING, Ruling, Rulings
from profiler.findings.values import NOTHING, Value
from profiler.findings.winners import Winner, find_winners
from profiler.model import Cell, CellStatus, Outcome, Problem, Variant
from profiler.render.words.labels import Label, label
from profiler.render.words.problems import problem_key
from profiler.run_folder.load.report import Report

_DURATION = "duration_ns"
_COUNTED_AS_CORRECT = (Outcome.MEASURED, Outcome.DUPLICATE)

# What a comparison of kernels is read for first; a page has no room for figures of every metric.
_MOST_TELLING = (
    "duration_ns",
    "cycles",
    "tflops",
    "gbps",
    "registers",
    "l2_hit_pct",
    "dram_read_bytes",
    "dram_write_bytes",
    "memory_throughput_pct",
    "compute_throughput_pct",
    "achieved_occupancy_pct",
    "instructions",
)

OUTCOME_WORDS: Mapping[Outcome, str] = {
    Outcome.MEASURED: "measured",
    Outcome.DUPLICATE: "same machine code",
    Outcome.COMPILE_FAILED: "compile failed",
    Outcome.WRONG_RESULT: "wrong result",
    Outcome.RAISED: "raised an error",
    Outcome.OUT_OF_MEMORY: "out of memory",
    Outcome.ILLEGAL_ADDRESS: "illegal address",
    Outcome.CRASHED: "crashed",
    Outcome.TIMED_OUT: "timed out",
    Outcome.FELL_BACK: "fell back",
    Outcome.NO_KERNEL: "no kernel seen",
    Outcome.NOT_MEASURED: "not measured",
}


@dataclass(frozen=True, eq=False)
class Lookup:
    """The look-ups that every part of the page shares."""

    report: Report

    @cached_property
    def variants(self) -> tuple[Variant, ...]:
        """Variants in the order of the plan."""
        return self.report.plan.variants

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Problems in the order of the plan."""
        return self.report.plan.problems

    @cached_property
    def problem_key(self) -> str:
        """How the names of problems are to be read; empty where they say it themselves."""
        return problem_key(self.problems)

    @cached_property
    def cells(self) -> Mapping[tuple[str, str], Cell]:
        """Cells by (variant id, problem id)."""
        return {(cell.variant.id, cell.problem.id): cell for cell in self.report.plan.cells}

    @cached_property
    def marks(self) -> Mapping[str, int]:
        """Index of each variant id: how the page's script knows it."""
        return {variant.id: index for index, variant in enumerate(self.variants)}

    @cached_property
    def problem_numbers(self) -> Mapping[str, int]:
        """Index of each problem id, in the order of the plan."""
        return {problem.id: index for index, problem in enumerate(self.problems)}

    @cached_property
    def cell_numbers(self) -> Mapping[str, int]:
        """Index of each cell id, in the order of the plan."""
        return {cell.id: index for index, cell in enumerate(self.report.plan.cells)}

    def variant_name(self, cell: str | None) -> str:
        """Name of the variant of a cell, by the cell's id; empty without one."""
        number = self.cell_numbers.get(cell or "")
        return cell or "" if number is None else self.report.plan.cells[number].variant.name

    @cached_property
    def baseline(self) -> Variant | None:
        """The variant that the spec compares with, None where there is none in the plan."""
        return next((one for one in self.variants if one.id == self.report.baseline), None)

    @cached_property
    def references(self) -> frozenset[str]:
        """Ids of the variants that are never called the best: the baseline and its like."""
        own = self.report.plan.references
        return frozenset((*own, self.baseline.id) if self.baseline else own)

    @cached_property
    def rivals(self) -> tuple[Variant, ...]:
        """Variants that are no references, in the order of the plan."""
        return tuple(one for one in self.variants if one.id not in self.references)

    @cached_property
    def planned(self) -> Mapping[str, frozenset[str]]:
        """Ids of the problems that each variant is planned for, by variant id."""
        found: dict[str, set[str]] = {}
        for variant, problem in self.cells:
            found.setdefault(variant, set()).add(problem)
        return {variant: frozenset(problems) for variant, problems in found.items()}

    @cached_property
    def configurations(self) -> tuple[Variant, ...]:
        """Variants that may differ in a parameter: all but the named references."""
        named = self.report.plan.references
        return tuple(one for one in self.variants if one.id not in named)

    @cached_property
    def blocks(self) -> Mapping[tuple[str, str], Mapping[int, float]]:
        """Primary metric by block, by (variant id, problem id), of cells that may be compared."""
        cells = self.report.plan.cells
        frame = block_values(self.report.samples, cells, self.report.primary)
        own: dict[str, dict[int, float]] = {}
        for cell, block, value in frame.itertuples(index=False):
            own.setdefault(str(cell), {})[int(block)] = float(value)
        found = {}
        for cell in cells:
            values = own.get(cell.id) or own.get(self.status(cell).duplicate_of or "")
            if values and self.correct(cell):
                found[cell.variant.id, cell.problem.id] = values
        return found

    @cached_property
    def measured_metrics(self) -> tuple[Label, ...]:
        """Every metric of the summary: those to be shown first, then the rest."""
        present = dict.fromkeys(self.summary["metric"])
        first = [name for name in self.report.metrics if name in present]
        return tuple(self._label(name) for name in dict.fromkeys([*first, *present]))

    @cached_property
    def shown_metrics(self) -> tuple[Label, ...]:
        """Metrics for figures and the main table: the primary one, the most telling, the rest."""
        measured = {one.name for one in self.measured_metrics}
        wanted = self.report.metrics or tuple(one.name for one in self.measured_metrics)
        telling = [name for name in _MOST_TELLING if name in wanted or name in measured]
        names = dict.fromkeys([self.report.primary, *telling, *wanted])
        return tuple(self._label(name) for name in names)

    @property
    def primary(self) -> Label:
        """The metric that decides which variant is best."""
        return self._label(self.report.primary)

    def _label(self, name: str) -> Label:
        """Label of a metric; a duration is what the timer that was believed here measures."""
        if name == _DURATION and self._timer is not None:
            return replace(
                label(name), definition=label(duration_metrics()[self._timer]).definition
            )
        return label(name)

    @cached_property
    def _timer(self) -> str | None:
        return reference_collector(self.report.samples)

    @cached_property
    def recorded(self) -> pd.DataFrame:
        """The summary, in which a cell with another's machine code has that one's rows."""
        own = self.report.summary
        twins = self._twins(frozenset(own["cell"]))
        found = [
            own[own["cell"] == twins[cell.id]].assign(cell=cell.id, variant=cell.variant.id)
            for cell in self.report.plan.cells
            if cell.id in twins
        ]
        found = [rows for rows in found if len(rows)]
        return pd.concat([own, *found], ignore_index=True) if found else own

    def _twins(self, measured: Collection[str]) -> Mapping[str, str]:
        """By id of a cell that is not among these: the one that was measured for it."""
        return {
            cell.id: twin
            for cell in self.report.plan.cells
            if cell.id not in measured and (twin := self.status(cell).duplicate_of)
        }

    @cached_property
    def rulings(self) -> Rulings:
        """Where verdicts are asked for."""
        return Rulings(self.report, self._twins(frozenset(self.report.samples["cell"])))

    @cached_property
    def _rulings_after_baseline(self) -> Rulings:
        """Rulings that were asked for every cell against the baseline, which comes first."""
        _ = self.against_baseline
        return self.rulings

    @cached_property
    def against_baseline(self) -> Mapping[str, Ruling]:
        """What is said of every correct cell against the baseline of its problem, by cell id."""
        baseline = self.baseline
        if baseline is None:
            return {}
        pairs = {
            cell.id: (cell.id, other.id)
            for cell in self.report.plan.cells
            if (other := self.cells.get((baseline.id, cell.problem.id))) is not None
            and cell.variant != baseline
            and self.correct(cell)
            and self.correct(other)
        }
        found = self.rulings.of(list(pairs.values()))
        return {cell: found.get(pair, NO_RULING) for cell, pair in pairs.items()}

    def said(self, pairs: Collection[tuple[str, str]]) -> Mapping[tuple[str, str], Ruling]:
        """What is said of any pairs of cells (ids): never anything else than was said before."""
        _ = self.winners, self.rival_winners
        return self.rulings.of(pairs)

    def ruling(self, variant: Variant, problem: Problem) -> Ruling:
        """What is said of a variant against the baseline at a problem."""
        cell = self.cells.get((variant.id, problem.id))
        return self.against_baseline.get(cell.id, NO_RULING) if cell else NO_RULING

    @cached_property
    def summary(self) -> pd.DataFrame:
        """The summary as pages show it: the ratios of the primary metric are those of its verdicts.

        So a finalist has the ratio of the finals, which no choice of the lowest of many flatters.
        """
        judged = {key: one for key, one in self.against_baseline.items() if one.blocks}
        if not judged:
            return self.recorded
        frame = self.recorded.copy()
        chosen = (frame["metric"] == JUDGED) & frame["cell"].isin(list(judged))
        for column, name in (("ratio", "ratio"), ("ratio_low", "low"), ("ratio_high", "high")):
            known = {key: getattr(one, name) for key, one in judged.items()}
            frame.loc[chosen, column] = frame.loc[chosen, "cell"].map(known)
        return frame

    @cached_property
    def _values(self) -> Mapping[tuple[str, str], Value]:
        return _values_of(self.summary)

    @cached_property
    def _recorded_values(self) -> Mapping[tuple[str, str], Value]:
        return _values_of(self.recorded)

    def recorded_value(self, cell: Cell, metric: str) -> Value:
        """A metric in a cell exactly as the summary of the run has it."""
        return self._recorded_values.get((cell.id, metric), NOTHING)

    def value(self, cell: Cell, metric: str) -> Value:
        """Summary of a metric in a cell; without any sample, nothing."""
        return self._values.get((cell.id, metric), NOTHING)

    def at(self, variant: Variant, problem: Problem, metric: str) -> Value:
        """Summary of a metric for a variant and a problem, where that cell is planned."""
        cell = self.cells.get((variant.id, problem.id))
        return self.value(cell, metric) if cell else NOTHING

    def status(self, cell: Cell) -> CellStatus:
        """Outcome of a cell; one that nobody reports on was not measured."""
        return self.report.statuses.get(cell.id) or CellStatus(cell.id, Outcome.NOT_MEASURED)

    def correct(self, cell: Cell | None) -> bool:
        """Whether a cell may be ranked: it was measured and its result was right."""
        return cell is not None and self.status(cell).outcome in _COUNTED_AS_CORRECT

    def ranked(self, problem: Problem) -> list[tuple[Cell, Value]]:
        """Cells of a problem that may be compared: the winner, then the others by their rank."""
        found = self._by_rank[problem.id]
        winner = self.winners.get(problem.id)
        return sorted(found, key=lambda pair: winner is None or pair[0] != winner.cell)

    @cached_property
    def _by_rank(self) -> Mapping[str, list[tuple[Cell, Value]]]:
        """Cells that may be compared, by problem id and rank in the summary."""
        found: dict[str, list[tuple[Cell, Value]]] = {one.id: [] for one in self.problems}
        for cell in self.report.plan.cells:
            value = self.value(cell, self.report.primary)
            if self.correct(cell) and value.known and math.isfinite(value.rank):
                found[cell.problem.id].append((cell, value))
        return {
            problem: sorted(cells, key=lambda pair: pair[1].rank)
            for problem, cells in found.items()
        }

    @cached_property
    def winners(self) -> Mapping[str, Winner]:
        """The winner of each problem (id) among all variants; none where nothing is correct."""
        return find_winners(self._by_rank, self._rulings_after_baseline)

    @cached_property
    def rival_winners(self) -> Mapping[str, Winner]:
        """The winner of each problem (id) among the variants that are no references."""
        return find_winners(self._by_rank, self._rulings_after_baseline, self.references)

    @cached_property
    def best_by_problem(self) -> Mapping[str, tuple[Cell, Value]]:
        """The winner's cell by problem id; a problem without a correct cell is not in it."""
        primary = self.report.primary
        return {
            problem: (one.cell, self.value(one.cell, primary))
            for problem, one in self.winners.items()
        }

    @cached_property
    def largest_problem(self) -> Problem | None:
        """The problem whose quickest cell takes longest: single-problem figures show it."""
        return self.largest_of()

    def largest_of(self, *variants: Variant) -> Problem | None:
        """The one of `largest_problem` among the problems at which these all are correct."""
        shared = [
            one
            for one in self.problems
            if one.id in self.best_by_problem
            and all(self.correct(self.cells.get((variant.id, one.id))) for variant in variants)
        ]
        return max(shared, key=lambda one: self.best_by_problem[one.id][1].median, default=None)

    def why_missing(self, cell: Cell | None, metric: str) -> str:
        """Say in words why a cell has no value of a metric."""
        if cell is None:
            return "not in the plan"
        status = self.status(cell)
        if status.outcome not in _COUNTED_AS_CORRECT:
            return f"{OUTCOME_WORDS[status.outcome]}: {status.cause}".rstrip(": ")
        if metric in status.missing_metrics:
            return "asked for, but the tool did not deliver it"
        return "not collected for this cell"

    def outcome_counts(self) -> Mapping[Outcome, int]:
        """Count the cells by outcome, in the order of `Outcome`."""
        outcomes = [self.status(cell).outcome for cell in self.report.plan.cells]
        return {outcome: outcomes.count(outcome) for outcome in Outcome if outcome in outcomes}

    def measured_count(self) -> int:
        """Count the cells that have a number to show."""
        return sum(self.correct(cell) for cell in self.report.plan.cells)


def _values_of(summary: pd.DataFrame) -> dict[tuple[str, str], Value]:
    """Values by (cell id, metric)."""
    names = [one.name for one in fields(Value)]
    frame = summary.reindex(columns=["cell", "metric", *names])
    frame["n"] = frame["n"].fillna(0).astype(int)
    rows = zip(*(frame[column].tolist() for column in frame.columns), strict=True)
    return {(str(cell), str(metric)): Value(*rest) for cell, metric, *rest in rows}
