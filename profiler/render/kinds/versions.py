"""The part of a page that its kind decides: figures and tables between the answer and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profiler.findings.findings import Findings
from profiler.findings.method import run_funnel
from profiler.metrics.labels import Label
from profiler.render.figures import charts
from profiler.render.figures.charts import Chart
from profiler.render.first.ratios import (
    configurations_chart,
    contrasts_chart,
    timers_chart,
    versions_chart,
)
from profiler.render.searches import course_chart
from profiler.render.tables import heats
from profiler.render.tables.effects import parameter_effects
from profiler.render.tables.rows import shown_metrics
from profiler.render.tables.slowdowns import (
    SINGLE_CHOICE_HEADS,
    single_choice_rows,
    slowdown_heats,
    slowdown_legend,
)
from profiler.render.timeline.in_kernel_section import close_ups_chart


@dataclass(frozen=True)
class View:
    """Variables and template of one kind of page."""

    template: str
    heading: str
    parts: Mapping[str, Any]
    first: Chart | None
    """The figure of the first screen; None where nothing can be drawn."""


def versions_view(findings: Findings) -> View:
    """Kernel versions side by side: ratios to the baseline at every problem."""
    parts = {
        "heat": heats.heat(findings),
        **problem_parts(findings),
        **metric_parts(findings),
    }
    heading = f"{findings.numbers.primary.label} between versions"
    return View("versions.html", heading, parts, first=_first(findings))


def _first(findings: Findings) -> Chart | None:
    """Ratios of timers where these are what is compared; what a kernel did inside, if recorded."""
    timers = findings.timers
    if timers is not None and timers.compared:
        return timers_chart(findings.programs, timers)
    return close_ups_chart(findings) or contrasts_chart(findings) or versions_chart(findings)


def problem_parts(findings: Findings) -> dict[str, Any]:
    """Ratios to the baseline with their intervals, a figure for each problem."""
    shown = len(findings.programs.problems) if findings.programs.baseline else 0
    return {
        "problem_charts": tuple(charts.problem_charts(findings)),
        "left_out_problems": max(0, shown - charts.MOST_PROBLEM_FIGURES),
    }


def metric_parts(findings: Findings) -> dict[str, Any]:
    """The most telling metrics, one block each."""
    blocks = tuple(
        _metric_block(findings, metric)
        for metric in shown_metrics(findings)[: charts.MOST_METRIC_FIGURES]
        if metric in findings.numbers.metrics
    )
    return {
        "metric_blocks": blocks,
        "left_out_metrics": len(findings.numbers.metrics) - len(blocks),
    }


def _metric_block(findings: Findings, metric: Label) -> tuple[Label, tuple[Chart, ...]]:
    """One metric and its figures; the page's script makes their table."""
    problem = findings.ranking.largest_problem
    drawn = [charts.line_chart(findings, metric)]
    if problem is not None:
        drawn.insert(0, charts.bar_chart(findings, metric, problem))
    return metric, tuple(chart for chart in drawn if chart is not None)


# ---- many configurations on few problems --------------------------------------------------------


def autotune_view(findings: Findings) -> View:
    """Ratios to the best, one configuration for all, parameters, needs and the funnel."""
    report = findings.report
    parts: dict[str, Any] = {
        "heats": slowdown_heats(findings),
        "heat_legend": slowdown_legend(),
        "single_choice_heads": SINGLE_CHOICE_HEADS,
        "single_choice": single_choice_rows(findings.ranking),
        "effects": parameter_effects(findings),
        "funnel": run_funnel(report),
        **problem_parts(findings),
        **metric_parts(findings),
    }
    first = course_chart(findings, "first")
    parts["configurations"] = configurations_chart(findings, "configurations") if first else None
    first = first or configurations_chart(findings)
    return View("autotune.html", "Which configuration", parts, first=first)
