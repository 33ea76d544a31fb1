"""The part of a page that its kind decides: figures and tables between the answer and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profiler.findings.roles import Ranking
from profiler.render.figures import charts
from profiler.render.figures.charts import Chart
from profiler.render.tables import rows as tables
from profiler.render.words.labels import Label


@dataclass(frozen=True)
class View:
    """What one kind of page shows, and the template that shows it."""

    template: str
    heading: str
    parts: Mapping[str, Any]
    cells_template: str = "cells.html"
    """Shows every cell; a kind with more cells than that has room for brings its own."""


@dataclass(frozen=True)
class MetricBlock:
    """One metric: its figures and their table."""

    label: Label
    charts: tuple[Chart, ...]
    table: tables.MetricTable


def versions_view(ranking: Ranking) -> View:
    """Kernel versions side by side: ratios to the baseline at every problem."""
    parts = {
        "heat": tables.heat(ranking),
        "heat_legend": ratio_legend(),
        **problem_parts(ranking),
        **metric_parts(ranking),
    }
    return View("versions.html", f"{ranking.lookup.primary.label} between versions", parts)


def problem_parts(ranking: Ranking) -> dict[str, Any]:
    """Ratios to the baseline with their intervals, a figure for each problem."""
    lookup = ranking.lookup
    shown = len(lookup.problems) if lookup.baseline else 0
    return {
        "problem_charts": tuple(charts.problem_charts(ranking)),
        "left_out_problems": max(0, shown - charts.MOST_PROBLEM_FIGURES),
    }


def metric_parts(ranking: Ranking) -> dict[str, Any]:
    """The most telling metrics, one block each."""
    lookup = ranking.lookup
    blocks = tuple(
        _metric_block(ranking, metric)
        for metric in lookup.shown_metrics[: charts.MOST_METRIC_FIGURES]
        if metric in lookup.measured_metrics
    )
    return {
        "metric_blocks": blocks,
        "left_out_metrics": len(lookup.measured_metrics) - len(blocks),
    }


def _metric_block(ranking: Ranking, metric: Label) -> MetricBlock:
    problem = ranking.lookup.largest_problem
    drawn = [charts.line_chart(ranking, metric)]
    if problem is not None:
        drawn.insert(0, charts.bar_chart(ranking, metric, problem))
    found = tuple(chart for chart in drawn if chart is not None)
    return MetricBlock(metric, found, tables.metric_table(ranking, metric))


def ratio_legend() -> tuple[str, ...]:
    """Words under the colours of ratios, by class from far better to far worse."""
    steps = [f"{2**edge:.2f}" for edge in tables.HEAT_EDGES]
    below = [f"{2**-edge:.2f}" for edge in reversed(tables.HEAT_EDGES)]
    return (*(f"<{step}" for step in below), "1", *(f">{step}" for step in steps))
