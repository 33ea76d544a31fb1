"""Counters of the best variant beside those of the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiler.findings.counters import (
    STILL_UNDER,
    TIME_AGAIN,
    CounterPair,
    counter_pairs,
    largest_stalls,
)
from profiler.findings.findings import Findings
from profiler.metrics.catalogue import STALL_PREFIX
from profiler.model import Problem
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import colours, make_chart
from profiler.render.figures.drawing import Drawing
from profiler.render.figures.roofline import roofline
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, change_datum, with_unit
from profiler.render.words import numbers
from profiler.render.words.comparisons import best_word

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


def why(findings: Findings) -> dict[str, Any] | None:
    """Parts that compare the best variant with the baseline at the largest problem that both have.

    None without either, and without such a problem; charts are None where their metrics were not
    collected.
    """
    best, baseline = findings.ranking.best, findings.programs.baseline
    if best is None or baseline is None:
        return None
    problem = findings.ranking.largest_of(best, baseline)
    if problem is None:
        return None
    called = best_word(findings.ranking)
    names = (best.label, baseline.label)
    collected = {metric.name: metric for metric in findings.numbers.metrics}
    peaks = counter_pairs(
        findings, [collected[name] for name in PEAKS if name in collected], problem
    )
    stalls = largest_stalls(findings, problem, MOST_STALLS)
    what = "Percent of peak, occupancy and hit rates"
    quotient = f"{called} ÷ baseline"
    return {
        "problem": problem.name,
        "best": best.label,
        "baseline": baseline.label,
        "peaks": make_chart(
            "peaks",
            f"{what} at {problem.name}",
            colours(findings.ranking),
            _pair_bars(peaks, names),
            table=_table(what, names, f"{called} {numbers.MINUS} baseline", peaks),
        )
        if peaks
        else None,
        "roofline": roofline(findings, problem),
        "stalls": make_chart(
            "stalls",
            f"What warps wait on at {problem.name}",
            f"{colours(findings.ranking)} Warps that wait for each reason, per instruction issued.",
            _pair_bars(stalls, names),
            table=_table("Stall reasons", names, quotient, stalls),
        )
        if stalls
        else None,
        "moved": _table(
            f"Counters of {best.label} and of the baseline",
            names,
            quotient,
            _most_moved(findings, problem),
        ),
    }


def _pair_bars(pairs: Sequence[CounterPair], names: tuple[str, str]) -> Drawing:
    rows = [(pair.metric.label, pair.best, pair.baseline) for pair in pairs]
    return figures.pairs(rows, pairs[0].metric.unit, names)


def _most_moved(findings: Findings, problem: Problem) -> list[CounterPair]:
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
    return moved[:MOST_MOVED]


def _table(
    caption: str, names: tuple[str, str], change: str, pairs: Sequence[CounterPair]
) -> SmallTable:
    """Counters of the best variant, of the baseline, and the change, whose head is `change`."""
    columns: tuple[Column[CounterPair], ...] = (
        Column(names[0], lambda pair: _amount(pair, pair.best)),
        Column(names[1], lambda pair: _amount(pair, pair.baseline)),
        Column(change, lambda pair: change_datum(pair.best, pair.baseline, pair.metric)),
    )
    return SmallTable.of(caption, "metric", columns, pairs, _metric_row)


def _amount(pair: CounterPair, value: float) -> Datum:
    return Datum.quantity(value, pair.metric.unit, "not collected")


def _metric_row(pair: CounterPair) -> Row:
    """Row of a counter; its name has the unit where the values have none."""
    metric = pair.metric
    name = metric.label if numbers.says_unit(metric.unit) else with_unit(metric, metric.unit)
    return Row(name, note=metric.hint)
