"""Numbers by cell and metric: of the final where the cell was in it, else of the blocks."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from profiler.analyse.summary import SUMMARY_COLUMNS, SlowVisits, summarise_confirmation
from profiler.collect.registry import duration_metrics
from profiler.findings.kinds.timers import reference_collector
from profiler.findings.programs import Programs
from profiler.findings.verdicts import JUDGED, PairVerdict
from profiler.metrics.queries import Label, label, label_of
from profiler.model import Cell, Problem, Variant
from profiler.run_folder.load.report import Report

NumberSource = Literal["blocks", "final"]
BLOCKS: NumberSource = "blocks"
"""Source of a number: the blocks in which every cell was measured."""
FINAL: NumberSource = "final"
"""Source of a number: the blocks in which the finalists were measured again."""


class Value(NamedTuple):
    """One metric of one cell; NaN where there is none.

    A tuple, because a report makes one for each cell and metric, and columns of them. It is in
    `summary.json` as it stands here.
    """

    n: int = 0
    """blocks"""
    median: float = math.nan
    mean: float = math.nan
    min: float = math.nan
    max: float = math.nan
    low: float = math.nan
    """95 % interval of the median"""
    high: float = math.nan
    baseline_median: float = math.nan
    """of the baseline at this problem, in the same session and blocks"""
    ratio: float = math.nan
    """median by baseline_median"""
    ratio_low: float = math.nan
    """95 % interval, of the ratios paired by block"""
    ratio_high: float = math.nan
    rank: float = math.nan
    """1 is best in its problem; null without a direction"""
    source: NumberSource = BLOCKS

    @property
    def present(self) -> bool:
        """Whether there is a number at all."""
        return math.isfinite(self.median)


NOTHING = Value()


@dataclass(frozen=True, eq=False)
class CellNumbers:
    """Numbers by cell and metric, one for each."""

    programs: Programs
    primary: Label
    """The duration, which decides which variant is best."""
    metrics: tuple[Label, ...]
    """Every metric that has a number: those that the spec names first, then the rest."""
    frame: pd.DataFrame
    """One row per cell and metric: `cell_numbers.NUMBER_COLUMNS`."""
    values: Mapping[tuple[str, str], Value]
    """Numbers by (cell id, metric)."""
    block_values: Mapping[tuple[str, str], Value]
    """Durations by the blocks in which every cell was measured, which stand beside those of the
    final."""
    slow_visits: Mapping[str, SlowVisits]
    """By id of those cells of which some timing visits took far longer than the others."""

    def value(self, cell: Cell | None, metric: str) -> Value:
        """The one number of a metric in a cell; without any sample, nothing."""
        return NOTHING if cell is None else self.values.get((cell.id, metric), NOTHING)

    def duration(self, cell: Cell | None) -> Value:
        """The one duration of a cell; without any sample, nothing."""
        return self.value(cell, JUDGED)

    def block_value(self, cell: Cell) -> Value:
        """The duration of a cell by the blocks in which every cell was measured."""
        return self.block_values.get((cell.id, JUDGED), NOTHING)

    def at(self, variant: Variant, problem: Problem, metric: str) -> Value:
        """The one number of a metric for a variant and a problem, where that cell is planned."""
        return self.value(self.programs.at(variant, problem), metric)

    def correct_at(self, variant: Variant | None, problem: Problem | None, metric: str) -> Value:
        """Number of a metric for a variant and a problem where the result is correct."""
        return self.value(self.programs.correct_at(variant, problem), metric)

    def sorted_at(self, problem: Problem, metric: str) -> list[tuple[Variant, Value]]:
        """All variants at a problem: correct ones by rank or value, then those without."""
        pairs = [
            (variant, self.correct_at(variant, problem, metric))
            for variant in self.programs.variants
        ]
        with_value = [pair for pair in pairs if pair[1].present]
        without_value = [pair for pair in pairs if not pair[1].present]
        return [*sorted(with_value, key=lambda pair: _order(pair[1])), *without_value]


def _order(value: Value) -> tuple[float, float]:
    """Sort key: rank, or the value for metrics without a direction."""
    return (value.rank if math.isfinite(value.rank) else math.inf, value.median)


# ---- how they are found --------------------------------------------------------------------------

NUMBER_COLUMNS = (*SUMMARY_COLUMNS, "source")
_FIELD_OF_COLUMN = {
    "baseline_median": "against_median",
    "ratio": "ratio",
    "ratio_low": "low",
    "ratio_high": "high",
}
"""Column of a number → field of the verdict that it is taken from."""


def block_numbers(report: Report) -> pd.DataFrame:
    """The summary of the blocks in which every cell was measured: `NUMBER_COLUMNS`."""
    return report.measured.summary.reindex(columns=list(SUMMARY_COLUMNS)).assign(source=BLOCKS)


def final_numbers(report: Report, correct: Collection[str]) -> pd.DataFrame:
    """The summary of the final, of correct cells: `NUMBER_COLUMNS`; empty where there was none."""
    summary = summarise_confirmation(
        report.measured.samples,
        cells=report.plan.cells,
        baseline=report.plan.baseline,
        ranked=list(correct),
    )
    return summary[summary["cell"].isin(list(correct))].assign(source=FINAL)


def one_number_per_cell(blocks: pd.DataFrame, final: pd.DataFrame) -> pd.DataFrame:
    """The rows of the final, and those of the blocks of which the final has none.

    In the order of `blocks`, so that cells and metrics stand as in the plan.
    """
    if final.empty:
        return blocks
    key = ["cell", "metric"]
    placed = blocks.assign(place=range(len(blocks)))
    final_rows = final.merge(placed[[*key, "place"]], on=key)
    first = placed[~placed["place"].isin(final_rows["place"])]
    joined = pd.concat([first, final_rows]).sort_values("place", kind="stable")
    return joined.drop(columns="place").reset_index(drop=True)[list(NUMBER_COLUMNS)]


def metric_labels(report: Report, numbers: pd.DataFrame) -> tuple[Label, ...]:
    """Labels of metrics that have numbers; a duration is what the primary timer measures."""
    present = dict.fromkeys(numbers["metric"])
    first = [name for name in report.settings.metrics if name in present]
    # A later version of this program may have measured by a timer that this one does not know.
    timed_by = duration_metrics().get(reference_collector(report.measured.samples) or "")
    own_labels = {
        own_metric.name: label_of(own_metric, own_metric.source)
        for own_metric in report.settings.own_metrics
    }
    metrics = []
    for name in dict.fromkeys([*first, *present]):
        metric = own_labels.get(name) or label(name)
        if name == JUDGED and timed_by is not None:
            timed = label(timed_by)
            metric = replace(metric, definition=timed.definition, source=timed.source)
        metrics.append(metric)
    return tuple(metrics)


def with_verdict_ratios(
    numbers: pd.DataFrame, against_baseline: Mapping[str, PairVerdict]
) -> pd.DataFrame:
    """The ratios of durations are those of their verdicts, so that each has one ratio."""
    judged = {cell: verdict for cell, verdict in against_baseline.items() if verdict.blocks}
    if not judged:
        return numbers
    cells = numbers["cell"].to_numpy()
    rows = np.flatnonzero((numbers["metric"] == JUDGED) & numbers["cell"].isin(list(judged)))
    columns = {}
    for column, field in _FIELD_OF_COLUMN.items():
        columns[column] = numbers[column].to_numpy(dtype=np.float64, copy=True)
        columns[column][rows] = [getattr(judged[cell], field) for cell in cells[rows]]
    return numbers.assign(**columns)


def with_ranks(numbers: pd.DataFrame, metric: str, ranks: Mapping[str, float]) -> pd.DataFrame:
    """The frame in which cells have these ranks in one metric, and no other cell has one."""
    rows = numbers["metric"] == metric
    new_ranks = numbers["cell"].map(ranks).astype("float64")
    return numbers.assign(rank=numbers["rank"].where(~rows, new_ranks))


def values_of(numbers: pd.DataFrame) -> dict[tuple[str, str], Value]:
    """Values by (cell id, metric)."""
    frame = numbers.reindex(columns=["cell", "metric", *Value._fields])
    frame["n"] = frame["n"].fillna(0).astype(int)
    cells, metrics = (map(str, frame[column].tolist()) for column in ("cell", "metric"))
    values = map(Value, *(frame[name].tolist() for name in Value._fields))
    return dict(zip(zip(cells, metrics, strict=True), values, strict=True))
