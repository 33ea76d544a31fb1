"""The page of many configurations on few problems: best single choice, slowdowns, effects."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from profiler.findings.findings import CellNumbers, Findings
from profiler.findings.method import run_funnel
from profiler.findings.values import NAN
from profiler.model import Problem, Variant
from profiler.render.figures import svg
from profiler.render.figures.axes import (
    Handle,
    decade_ticks,
    legend,
    limits,
    linear_ticks,
    panel_axes,
    places,
)
from profiler.render.figures.charts import ChartWithTable, make_chart
from profiler.render.figures.drawing import ROOM, Axis, Drawing, circle, spans_decades
from profiler.render.figures.palette import COLOURS, colour_of
from profiler.render.first.ratios import configurations_chart
from profiler.render.kinds.versions import View, metric_parts, problem_parts
from profiler.render.searches import course_chart
from profiler.render.tables.effects import _DOT, parameter_effects
from profiler.render.tables.rows import Datum, Row
from profiler.render.tables.slowdowns import (
    SINGLE_CHOICE_HEADS,
    single_choice_rows,
    slowdown_heats,
    slowdown_legend,
)
from profiler.render.words import numbers
from profiler.render.words.names import shorten

_REGISTERS = "registers"
_SHARED = ("shared_static_bytes", "shared_dynamic_bytes")
_KIB = 1024
NEEDS = ("Registers per thread", "Shared memory per block (KiB)")


def autotune_view(findings: Findings) -> View:
    """Ratios to the best, one configuration for all, parameters, needs and the funnel."""
    report = findings.report
    parts: dict[str, Any] = {
        "heats": slowdown_heats(findings),
        "heat_legend": slowdown_legend(),
        "single_choice_heads": SINGLE_CHOICE_HEADS,
        "single_choice": single_choice_rows(findings.ranking),
        "effects": parameter_effects(findings),
        "needs": needs(findings),
        "funnel": run_funnel(report),
        **problem_parts(findings),
        **metric_parts(findings),
    }
    first = course_chart(findings, "first")
    parts["configurations"] = configurations_chart(findings, "configurations") if first else None
    first = first or configurations_chart(findings)
    return View("autotune.html", "Which configuration", parts, first=first)


def needs(findings: Findings) -> ChartWithTable | None:
    """Primary metric against registers and shared memory at the largest problem; None without."""
    problem = findings.ranking.largest_problem
    table = pd.DataFrame() if problem is None else needs_table(findings, problem)
    if problem is None or table.empty:
        return None
    metric = findings.numbers.primary
    chart = make_chart(
        "needs",
        f"{metric.label} against registers and shared memory at {problem.name}",
        "A dot for each variant; shared memory is static and dynamic together. Up to how many "
        "blocks fit on an SM depends on both.",
        scatter(table, Axis(metric.label, metric.unit)),
    )
    panels = tuple(dict.fromkeys(table["panel"]))
    rows = _rows(findings.numbers, table, panels)
    return ChartWithTable(chart, rows, (metric.label, *panels))


def needs_table(findings: Findings, problem: Problem) -> pd.DataFrame:
    """Rows for `scatter`: variants with both numbers, best first."""
    rows = []
    for panel, need in zip(NEEDS, (_registers, _shared_kib), strict=True):
        for variant, value in findings.numbers.sorted_at(problem, findings.numbers.primary.name):
            x = need(findings, variant, problem)
            if value.present and math.isfinite(x):
                role, mark = findings.ranking.role(variant), findings.programs.marks[variant.id]
                rows.append((panel, variant.label, role, mark, x, value.median))
    return pd.DataFrame(rows, columns=["panel", "name", "role", "mark", "x", "value"])


def _registers(findings: Findings, variant: Variant, problem: Problem) -> float:
    return findings.numbers.at(variant, problem, _REGISTERS).median


def _shared_kib(findings: Findings, variant: Variant, problem: Problem) -> float:
    """Static and dynamic together; NaN where either is not known."""
    return sum(findings.numbers.at(variant, problem, name).median for name in _SHARED) / _KIB


def _rows(
    cell_numbers: CellNumbers, table: pd.DataFrame, panels: tuple[str, ...]
) -> tuple[Row, ...]:
    unit = cell_numbers.primary.unit
    rows = []
    for mark, variant_rows in table.groupby("mark", sort=False):
        needed = dict(zip(variant_rows["panel"], variant_rows["x"], strict=True))
        first = variant_rows.iloc[0]
        data = (
            Datum.quantity(first["value"], unit, ""),
            *(_need(needed.get(panel, NAN)) for panel in panels),
        )
        rows.append(Row(str(first["name"]), data, int(str(mark)), str(first["role"])))
    return tuple(rows)


def _need(value: float) -> Datum:
    if not math.isfinite(value):
        return Datum(title="not collected", css="none")
    return Datum(numbers.significant(value), numbers.raw(value))


# ---- the figure ----------------------------------------------------------------------------------


_MARGIN = 0.08


def scatter(table: pd.DataFrame, axis: Axis) -> Drawing:
    """A panel for each `panel`, in order; columns `panel name role mark x value`, none missing."""
    panels = dict(list(table.groupby("panel", sort=False)))
    drawing, grid = panel_axes(len(panels))
    logarithmic = spans_decades(table["value"])
    divisor, label = axis.scaled(float(table["value"].median()))
    ends = (table["value"].min() / divisor / ROOM, table["value"].max() / divisor * ROOM)
    for axes, (panel, of_panel) in zip(grid, panels.items(), strict=True):
        rows = of_panel.sort_values("role", key=lambda roles: roles.isin(COLOURS), kind="stable")
        values = rows["value"] / divisor
        across = axes.across(limits(rows["x"].tolist(), margin=_MARGIN))
        upwards = axes.upwards(
            ends if logarithmic else limits(values.tolist(), margin=_MARGIN),
            logarithmic=logarithmic,
        )
        axes.grid_across(across, linear_ticks(across), str(panel))
        ticks = decade_ticks(upwards) if logarithmic else linear_ticks(upwards)
        axes.grid_upwards(upwards, ticks, label if axes is grid[0] else "")
        points = places(rows["x"], values, (across, upwards))
        drawing.dots(_DOT, points, map(colour_of, rows["role"]), map(svg.mark, rows["mark"]))
        axes.spines()
    named = dict(zip(table["role"], table["name"], strict=True))
    legend(
        drawing,
        [
            Handle(shorten(named[role]), symbol=(circle(3.0), COLOURS[role]))
            for role in COLOURS
            if role in named
        ],
    )
    return drawing
