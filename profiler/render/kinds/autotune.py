"""The page of many configurations on few problems: best single choice, slowdowns, effects."""

from __future__ import annotations

from typing import Any

from profiler.findings.findings import Findings
from profiler.findings.method import run_funnel
from profiler.render.first.ratios import configurations_chart
from profiler.render.kinds.versions import View, metric_parts, problem_parts
from profiler.render.searches import course_chart
from profiler.render.tables.effects import parameter_effects
from profiler.render.tables.slowdowns import (
    SINGLE_CHOICE_HEADS,
    single_choice_rows,
    slowdown_heats,
    slowdown_legend,
)


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
