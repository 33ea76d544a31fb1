"""The roofline at one problem: rates of the variants under the roofs of memory and arithmetic."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profiler.findings.findings import Findings
from profiler.findings.roof_lines import RoofLine, counted_operations, level_bytes, roof_lines
from profiler.model import Cell, Problem, Variant
from profiler.render.figures import charts
from profiler.render.figures import roofline_drawing as drawing
from profiler.render.figures.charts import Chart
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.why import no_practical_words, plain_kernel_words, roof_words

INTENSITY = "arithmetic_intensity"
RATE = "tflops"
_TERA = 1e12
_SAME = 0.02
"""Roofs of memory that are closer are drawn as one: L1 and shared memory are one array."""


@dataclass(frozen=True)
class Roofline:
    """The figure and its table; rows are variants, best first."""

    chart: Chart
    rows: tuple[Row, ...]
    """FLOP per byte, rate, rate by counted operations, rate that the memory allows, share of it."""


def roofline(findings: Findings, problem: Problem) -> Roofline | None:
    """Rates over arithmetic intensities; None without operations, traffic or peak bandwidth."""
    lines = roof_lines(findings, problem)
    table = roofline_table(findings, problem)
    dram = next((line.ceiling / _TERA for line in lines if line.name == "dram"), None)
    if dram is None or table.empty:
        return None
    figure = drawing.roofline(table, _line_table(lines))
    chart = charts.make_chart(
        "roofline", f"Roofline at {problem.name}", _reading(findings, lines, table), figure
    )
    of_dram = table[table["level"] == "dram"].to_dict("records")
    return Roofline(chart, tuple(_row(row, dram) for row in of_dram))


def roofline_table(findings: Findings, problem: Problem) -> pd.DataFrame:
    """Dots for `roofline_drawing.roofline`: correct variants with operations and counted traffic.

    `counted`: TFLOP/s by counted operations. Other levels than DRAM only of variants that the
    figure names, so that it can be read, and only where they moved as much as DRAM: copies that go
    past L1 (TMA) leave it next to nothing.
    """
    rows: list[dict[str, Any]] = []
    for variant, _ in findings.sorted_at(problem, findings.report.primary):
        cell = findings.cells.get((variant.id, problem.id))
        if cell is not None and findings.correct(cell):
            rows += _dots(findings, variant, cell)
    return pd.DataFrame(rows)


def _dots(findings: Findings, variant: Variant, cell: Cell) -> Iterator[dict[str, Any]]:
    intensity, rate = (findings.value(cell, metric).median for metric in (INTENSITY, RATE))
    if not (math.isfinite(intensity) and math.isfinite(rate) and min(intensity, rate) > 0):
        return
    moved = level_bytes(findings, cell)
    stated = findings.status(cell).flops or math.nan
    role = findings.role(variant)
    intensities = {"dram": intensity}
    if role != "other" and "dram" in moved:
        intensities |= {
            level: intensity * moved["dram"] / amount
            for level, amount in moved.items()
            if level != "dram" and amount >= moved["dram"]
        }
    for level, at_level in intensities.items():
        yield {
            "name": variant.name,
            "level": level,
            "intensity": at_level,
            "rate": rate,
            "counted": rate * counted_operations(findings, cell) / stated,
            "role": role,
            "mark": findings.marks[variant.id],
        }


def _line_table(lines: Sequence[RoofLine]) -> pd.DataFrame:
    """Rows for `roofline_drawing.roofline`: `label memory ceiling practical`, in tera per second.

    `practical` is a rate as well; NaN where it was not measured.
    """
    rows: list[dict[str, Any]] = []
    for line in lines:
        ceiling = line.ceiling / _TERA
        before = rows[-1] if rows else None
        if before and line.is_memory and abs(ceiling / before["ceiling"] - 1) < _SAME:
            before["names"] = f"{before['names']} and {_short_name(line.name)}"
            continue
        row = {
            "names": _short_name(line.name),
            "memory": line.is_memory,
            "ceiling": ceiling,
            "practical": ceiling * line.practical,
        }
        rows.append(row)
    return pd.DataFrame([{**row, "label": _label(row)} for row in rows])


def _label(row: Mapping[str, Any]) -> str:
    unit = "TB/s" if row["memory"] else "TFLOP/s"
    label = f"{row['names']} {row['ceiling']:.3g} {unit}"
    if math.isfinite(row["practical"]):
        plain = "copy" if row["memory"] else "product"
        label += f" ({plain} {row['practical']:.3g})"
    return label


def _short_name(roof: str) -> str:
    names = {"dram": "DRAM", "l2": "L2", "l1": "L1", "shared": "shared memory", "fp32": "FP32"}
    return names.get(roof, f"tensor cores {roof.removeprefix('tensor_').upper()}")


def _reading(findings: Findings, lines: Sequence[RoofLine], table: pd.DataFrame) -> str:
    """What lines and marks are, and which of them are missing."""
    sentences = [
        charts.colours(findings),
        "Lines: the most that memory allows (FLOP per byte times bandwidth) and that arithmetic "
        "sustains, at the clocks of these launches.",
    ]
    marks = {"l2": "squares: L2", "l1": "triangles: L1", "shared": "diamonds: shared memory"}
    levels = [words for level, words in marks.items() if level in set(table["level"])]
    if levels:
        sentences.append(f"Circles: FLOP per byte of DRAM traffic; {', '.join(levels)}.")
    if not any(not line.is_memory for line in lines):
        sentences.append(
            "The roofs of arithmetic are not drawn: `roofline` is not among the metrics."
        )
    practical = [line.name for line in lines if math.isfinite(line.practical)]
    if practical:
        named = "; ".join(f"{roof_words(name)}: {plain_kernel_words(name)}" for name in practical)
        sentences.append(f"Dashed: what plain kernels reached in this run ({named}).")
    report = findings.report
    sentences.append(no_practical_words(report.practical_roofs, report.practical_roof_faults))
    return " ".join(filter(None, sentences))


def _row(row: Mapping[Hashable, Any], terabytes_per_s: float) -> Row:
    intensity, rate, counted = row["intensity"], row["rate"], row["counted"]
    allowed = intensity * terabytes_per_s
    share = 100 * rate / allowed
    data = (
        Datum(numbers.show(numbers.rounded(intensity, 3)), numbers.raw(intensity)),
        Datum(numbers.show(rate, "TFLOP/s"), numbers.raw(rate)),
        Datum.quantity(counted, "TFLOP/s", "not counted"),
        Datum(numbers.show(allowed, "TFLOP/s"), numbers.raw(allowed)),
        Datum(numbers.show(share, "%"), numbers.raw(share)),
    )
    return Row(row["name"], row["mark"], row["role"], data)
