"""The roofline at one problem: rates of the variants under what the memory allows."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profiler.findings.findings import Findings
from profiler.model import Problem
from profiler.render.figures import charts
from profiler.render.figures import version_figures as figures
from profiler.render.figures.charts import Chart
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers

INTENSITY = "arithmetic_intensity"
RATE = "tflops"
_TERA = 1e12


@dataclass(frozen=True)
class Roofline:
    """The figure and its table; rows are variants, best first."""

    chart: Chart
    rows: tuple[Row, ...]
    """FLOP per byte, rate, rate that the memory allows, percent of it."""


def roofline(findings: Findings, problem: Problem) -> Roofline | None:
    """Rates over arithmetic intensities; None without operations, traffic or peak bandwidth."""
    peak = findings.report.environment.peak_dram_bytes_per_s
    table = roofline_table(findings, problem)
    if not peak or table.empty:
        return None
    figure = figures.roofline(table, peak / _TERA)
    reading = (
        f"{charts.colours(findings)} Line: the most that DRAM allows, FLOP per byte times "
        f"{numbers.show(peak, 'byte/s')}. The roof of the arithmetic units is not "
        "drawn: the peak rate of this GPU for these operations is not known."
    )
    chart = charts.make_chart("roofline", f"Roofline at {problem.name}", reading, figure)
    rows = tuple(_row(row, peak / _TERA) for row in table.to_dict("records"))
    return Roofline(chart, rows)


def roofline_table(findings: Findings, problem: Problem) -> pd.DataFrame:
    """Rows for `figures.roofline`: correct variants with operations and measured traffic."""
    rows = []
    for variant, _ in findings.sorted_at(problem, findings.report.primary):
        if not findings.correct(findings.cells.get((variant.id, problem.id))):
            continue
        intensity, rate = (
            findings.at(variant, problem, metric).median for metric in (INTENSITY, RATE)
        )
        if math.isfinite(intensity) and math.isfinite(rate) and min(intensity, rate) > 0:
            rows.append(
                {
                    "name": variant.name,
                    "intensity": intensity,
                    "rate": rate,
                    "role": findings.role(variant),
                    "mark": findings.marks[variant.id],
                }
            )
    return pd.DataFrame(rows)


def _row(row: Mapping[Hashable, Any], terabytes_per_s: float) -> Row:
    intensity, rate = row["intensity"], row["rate"]
    allowed = intensity * terabytes_per_s
    share = 100 * rate / allowed
    data = (
        Datum(numbers.significant(intensity, 3), numbers.raw(intensity)),
        Datum(numbers.show(rate, "TFLOP/s"), numbers.raw(rate)),
        Datum(numbers.show(allowed, "TFLOP/s"), numbers.raw(allowed)),
        Datum(numbers.show(share, "%"), numbers.raw(share)),
    )
    return Row(row["name"], row["mark"], row["role"], data)
