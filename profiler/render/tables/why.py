"""Counters of the best variant beside those of the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.findings.counters import (
    STILL_UNDER,
    TIME_AGAIN,
    CounterPair,
    counter_pairs,
    largest_stalls,
)
from profiler.findings.findings import Findings, Ranking
from profiler.metrics.catalogue import STALL_PREFIX
from profiler.model import Problem
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart, ChartWithTable, colours, make_chart
from profiler.render.figures.drawing import Axis
from profiler.render.figures.roofline import roofline
from profiler.render.tables.rows import Datum, Row, change_datum, with_unit
from profiler.render.words import numbers

MOST_MOVED = 12
MOST_STALLS = 8
PEAKS = (
    "compute_throughput_pct",
    "memory_throughput_pct",
    "dram_throughput_pct",
    "peak_dram_pct",
    "tensor_pipe_pct",
    "achieved_occupancy_pct",
    "l1_hit_pct",
    "l2_hit_pct",
)


@dataclass(frozen=True)
class Why:
    """Contents of the section; charts are None where their metrics were not collected.

    Rows are counters: of the best variant, of the baseline, and the change.
    """

    problem: str
    best: str
    baseline: str
    peaks: Chart | None
    peak_rows: tuple[Row, ...]
    roofline: ChartWithTable | None
    stalls: Chart | None
    stall_rows: tuple[Row, ...]
    moved: tuple[Row, ...]


def why(findings: Findings) -> Why | None:
    """Compare the best variant with the baseline at the largest problem that both have.

    None without either, and without such a problem.
    """
    best, baseline = findings.ranking.best, findings.programs.baseline
    if best is None or baseline is None:
        return None
    problem = findings.ranking.largest_of(best, baseline)
    if problem is None:
        return None
    collected = {metric.name: metric for metric in findings.numbers.metrics}
    peaks = counter_pairs(
        findings, [collected[name] for name in PEAKS if name in collected], problem
    )
    stalls = largest_stalls(findings, problem, MOST_STALLS)
    return Why(
        problem=problem.name,
        best=best.label,
        baseline=baseline.label,
        peaks=_pair_chart(
            findings.ranking,
            peaks,
            "peaks",
            f"Percent of peak, occupancy and hit rates at {problem.name}",
        ),
        peak_rows=tuple(map(_moved, peaks)),
        roofline=roofline(findings, problem),
        stalls=_pair_chart(
            findings.ranking,
            stalls,
            "stalls",
            f"What warps wait on at {problem.name}",
            "Warps that wait for each reason, per instruction issued.",
        ),
        stall_rows=tuple(map(_moved, stalls)),
        moved=_most_moved(findings, problem),
    )


def _pair_chart(
    ranking: Ranking, pairs: Sequence[CounterPair], identifier: str, title: str, reading: str = ""
) -> Chart | None:
    """Several metrics of the best variant and of the baseline, in one figure; None without any."""
    best, baseline = ranking.best, ranking.programs.baseline
    if best is None or baseline is None or not pairs:
        return None
    drawing = figures.pairs(
        pair_table(pairs), Axis("", pairs[0].metric.unit), (best.label, baseline.label)
    )
    return make_chart(identifier, title, f"{colours(ranking)} {reading}".strip(), drawing)


def pair_table(pairs: Sequence[CounterPair]) -> pd.DataFrame:
    """Rows for `version_figures.pairs`; NaN where a value is missing."""
    rows = [(pair.metric.label, pair.best, pair.baseline) for pair in pairs]
    return pd.DataFrame(rows, columns=["name", "best", "baseline"])


def _most_moved(findings: Findings, problem: Problem) -> tuple[Row, ...]:
    """Counters that stand in no figure, by how far they moved; from or to 0 counts most."""
    metrics = [
        metric
        for metric in findings.numbers.metrics
        if metric != findings.numbers.primary
        and metric.name not in (*TIME_AGAIN, *PEAKS)
        and not metric.name.startswith(STALL_PREFIX)
    ]
    pairs = counter_pairs(findings, metrics, problem)
    moved = sorted((pair for pair in pairs if pair.size > STILL_UNDER), key=lambda pair: -pair.size)
    return tuple(map(_moved, moved[:MOST_MOVED]))


def _moved(pair: CounterPair) -> Row:
    """Row of a counter; its name has the unit where the values have none."""
    metric = pair.metric
    name = metric.label if numbers.says_unit(metric.unit) else with_unit(metric, metric.unit)
    both = (
        Datum.quantity(value, metric.unit, "not collected") for value in (pair.best, pair.baseline)
    )
    return Row(name, (*both, change_datum(pair.best, pair.baseline, metric)), note=metric.hint)
