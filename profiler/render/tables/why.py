"""What went with the difference between the best variant and the baseline: counters compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from profiler.collect.registry import duration_metrics
from profiler.findings.roles import Ranking
from profiler.metrics.catalogue import NOT_WAITING, STALL_PREFIX
from profiler.model import Problem
from profiler.render.figures.charts import Chart, Words, pair_chart, pair_table
from profiler.render.figures.roofline import Roofline, roofline
from profiler.render.tables.rows import Datum, with_unit
from profiler.render.words import numbers
from profiler.render.words.labels import Label

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
TIME_AGAIN = frozenset(
    {*duration_metrics().values(), "cycles", "tflops", "gbps", "dram_gbps", "sm_clock_ghz"}
    | {"memory_efficiency_pct"}
)
"""Metrics that say again which is best, by the same clock: they explain nothing."""
_PEAKS_WORDS = Words("peaks", "Percent of peak, occupancy and hit rates")
_STALLS_WORDS = Words(
    "stalls", "What warps wait on", "Warps that wait for each reason, per instruction issued."
)
STILL_UNDER = 0.01
"""Counters that moved by less than this share are left out."""


@dataclass(frozen=True)
class Moved:
    """One counter of the best variant beside that of the baseline."""

    label: Label
    best: Datum
    baseline: Datum
    change: Datum

    @property
    def name(self) -> str:
        """Name of the counter, with its unit where the values do not say it."""
        said = numbers.says_unit(self.label.unit)
        return self.label.label if said else with_unit(self.label, self.label.unit)


@dataclass(frozen=True)
class Why:
    """Everything that the section shows; charts are None where their metrics were not collected."""

    problem: str
    best: str
    baseline: str
    peaks: Chart | None
    peak_rows: tuple[Moved, ...]
    roofline: Roofline | None
    stalls: Chart | None
    stall_rows: tuple[Moved, ...]
    moved: tuple[Moved, ...]


def why(ranking: Ranking) -> Why | None:
    """Compare the best variant with the baseline at the largest problem that both have.

    None without either, and without such a problem.
    """
    if ranking.best is None or ranking.lookup.baseline is None:
        return None
    problem = ranking.lookup.largest_of(ranking.best, ranking.lookup.baseline)
    if problem is None:
        return None
    collected = {metric.name: metric for metric in ranking.lookup.measured_metrics}
    peaks = [collected[name] for name in PEAKS if name in collected]
    stalls = _largest_stalls(ranking, problem, list(collected.values()))
    return Why(
        problem=problem.name,
        best=ranking.best.name,
        baseline=ranking.lookup.baseline.name,
        peaks=pair_chart(ranking, _PEAKS_WORDS, peaks, problem),
        peak_rows=tuple(_moved(ranking, problem, metric) for metric in peaks),
        roofline=roofline(ranking, problem),
        stalls=pair_chart(ranking, _STALLS_WORDS, stalls, problem),
        stall_rows=tuple(_moved(ranking, problem, metric) for metric in stalls),
        moved=_most_moved(ranking, problem, _unsaid(ranking, collected)),
    )


def _unsaid(ranking: Ranking, collected: Mapping[str, Label]) -> list[Label]:
    """Metrics that neither decide the order nor stand in the figures above."""
    return [
        metric
        for name, metric in collected.items()
        if metric != ranking.lookup.primary
        and name not in (*TIME_AGAIN, *PEAKS)
        and not name.startswith(STALL_PREFIX)
    ]


def _largest_stalls(ranking: Ranking, problem: Problem, metrics: list[Label]) -> list[Label]:
    stalls = [
        metric
        for metric in metrics
        if metric.name.startswith(STALL_PREFIX)
        and metric.name.removeprefix(STALL_PREFIX) not in NOT_WAITING
    ]
    if not stalls:
        return []
    largest = pair_table(ranking, stalls, problem)[["best", "baseline"]].max(axis=1).tolist()
    known = [(size, metric) for size, metric in zip(largest, stalls, strict=True) if size > 0]
    known.sort(key=lambda pair: -pair[0])
    return [metric for _, metric in known[:MOST_STALLS]]


def _moved(ranking: Ranking, problem: Problem, metric: Label) -> Moved:
    table = pair_table(ranking, [metric], problem)
    best, baseline = float(table["best"][0]), float(table["baseline"][0])
    return Moved(
        metric,
        _datum(best, metric),
        _datum(baseline, metric),
        change_datum(best, baseline, metric),
    )


def _most_moved(ranking: Ranking, problem: Problem, metrics: list[Label]) -> tuple[Moved, ...]:
    """Counters by how far they moved on a log scale; appearing from or falling to 0 counts most."""
    found = []
    for metric in metrics:
        row = pair_table(ranking, [metric], problem).iloc[0]
        size = movement(float(row["best"]), float(row["baseline"]))
        if size > STILL_UNDER:
            found.append((size, _moved(ranking, problem, metric)))
    found.sort(key=lambda pair: -pair[0])
    return tuple(moved for _, moved in found[:MOST_MOVED])


def movement(best: float, baseline: float) -> float:
    """How far a counter moved, on a log scale; appearing from or falling to 0 is infinite."""
    if not (math.isfinite(best) and math.isfinite(baseline)) or best == baseline:
        return 0.0
    if best <= 0 or baseline <= 0:
        return math.inf
    return abs(math.log(best / baseline))


def change_datum(best: float, baseline: float, metric: Label) -> Datum:
    """Change of a counter from the baseline to the best: a ratio, of percentages points."""
    if not (math.isfinite(best) and math.isfinite(baseline)):
        return Datum(title="one of the two is missing", css="none")
    if metric.unit == "%":
        points = best - baseline
        text = f"{points:+.1f}" if abs(points) >= 0.05 else "\u00b10.0"
        return Datum(f"{text} points", numbers.raw(points))
    if baseline == 0:
        return Datum("unchanged" if best == 0 else "from 0", title="no ratio to 0")
    if best == 0:
        return Datum("to 0", "0")
    return Datum(numbers.ratio(best / baseline), numbers.raw(best / baseline))


def _datum(value: float, metric: Label) -> Datum:
    return Datum.quantity(value, metric.unit, "not collected")
