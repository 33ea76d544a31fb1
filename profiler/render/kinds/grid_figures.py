"""Figures of a grid page: speed-up against bytes saved, and time along one axis of a grid."""

from __future__ import annotations

from typing import Any

import pandas as pd

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.findings import Findings
from profiler.findings.kinds.grids import DURATION, Grid, GridPairs
from profiler.metrics.queries import label
from profiler.model import Variant
from profiler.planning.problem_names import is_number
from profiler.render.figures import palette, svg
from profiler.render.figures import version_figures as figures
from profiler.render.figures.axes import POINTS, Axes, Handle, decade_ticks, legend, places
from profiler.render.figures.charts import MOST_PANELS, Chart, make_chart
from profiler.render.figures.drawing import (
    ROOM,
    Axis,
    Drawing,
    dashed,
    line_style,
    marker,
    symbol_style,
)
from profiler.render.figures.palette import MARKERS, colour_of
from profiler.render.tables.grids import short_ratio_datum
from profiler.render.tables.rows import Column, FrameRow, Row, SmallTable, frame_text
from profiler.render.words.names import shorten

# ---- figures -------------------------------------------------------------------------------------


def saved_table(findings: Findings, grid: Grid) -> pd.DataFrame:
    """Rows for `saved_figure`: every cell whose time and DRAM bytes are known on both sides.

    Beside what the figure draws: `place`.
    """
    pairs = grid_pairs_of(findings)
    rows = [
        (
            cell.pair.over.label,
            findings.ranking.role(cell.pair.over),
            findings.programs.marks[cell.pair.over.id],
            cell.saved,
            1 / cell.verdict.ratio,
            grid.place(cell.row, cell.column),
        )
        for pair in pairs.against_baseline
        if pair in pairs.shown
        for cell in pairs.of(pair, grid)
        if cell.saved > 0 and cell.verdict.ratio > 0
    ]
    return pd.DataFrame(rows, columns=["name", "role", "mark", "bytes", "speed", "place"])


def saved_chart(findings: Findings, grid: Grid, number: int) -> Chart | None:
    """Speed-up against bytes saved; None where DRAM bytes were not measured."""
    table = saved_table(findings, grid)
    if table.empty:
        return None
    baseline = grid_pairs_of(findings).against_baseline[0].under.label
    title = f"{grid.name}: {baseline} / variant, speed-up against DRAM bytes saved"
    columns: tuple[Column[FrameRow], ...] = (
        frame_text("cell", "place"),
        Column("bytes saved", lambda row: short_ratio_datum(row["bytes"])),
        Column("speed-up", lambda row: short_ratio_datum(row["speed"])),
    )
    return make_chart(
        f"saved-{number}",
        title,
        "A mark for each cell; above the horizontal line less time is taken, right of the "
        "vertical one fewer bytes are moved. Marks far below the dashed line save bytes that did "
        "not cost the time.",
        saved_figure(table, baseline),
        table=SmallTable.of(
            title,
            "variant",
            columns,
            table.to_dict("records"),
            lambda row: Row(row["name"], mark=row["mark"]),
        ),
    )


def slice_table(findings: Findings, grid: Grid, *, along: str) -> tuple[pd.DataFrame, int]:
    """Rows for `figures.lines`: time along one axis, a panel for each value of the other.

    Also how many panels had no room. NaN where a cell has no correct result; a panel without any
    is left out.
    """
    by_row = along == grid.columns
    fixed_key = grid.rows if by_row else grid.columns
    fixed = grid.row_values if by_row else grid.column_values
    moving = grid.column_values if by_row else grid.row_values
    rows = [
        {
            "panel": f"{fixed_key} = {value}" if fixed_key else "",
            "name": variant.label,
            "role": findings.ranking.role(variant),
            "mark": findings.programs.marks[variant.id],
            "x": float(step),
            "value": _time(
                findings.numbers, grid, variant, (value, step) if by_row else (step, value)
            ),
        }
        for value in fixed
        for step in moving
        for variant in findings.programs.variants
    ]
    table = pd.DataFrame(rows)
    known_panels = table.loc[table["value"].notna(), "panel"].unique()
    shown = known_panels[-MOST_PANELS:]
    return table[table["panel"].isin(shown)], len(known_panels) - len(shown)


def _time(numbers: CellNumbers, grid: Grid, variant: Variant, place: tuple[Any, Any]) -> float:
    programs = numbers.programs
    problem = grid.problems.get(place)
    cell = programs.by_place.get((variant.id, problem.id)) if problem else None
    return numbers.value(cell, DURATION).median if cell and programs.correct(cell) else float("nan")


def slices(findings: Findings, grid: Grid, number: int) -> tuple[Chart, ...]:
    """Time along the columns at fixed rows, and the other way round, where these are numbers."""
    axes = ((grid.columns, grid.column_values), (grid.rows, grid.row_values))
    charts = []
    for place, (along, values) in enumerate(axes):
        if not along or len(values) < 2 or not all(map(is_number, values)):
            continue
        table, left_out = slice_table(findings, grid, along=along)
        if table["value"].notna().sum() == 0:
            continue
        reading = "A line per variant. The numbers stand in the heat maps of the time above."
        if left_out:
            reading += f" {left_out} smaller slices have no panel."
        metric = label(DURATION)
        drawing = figures.lines(table, along, Axis(metric.label, metric.unit))
        title = f"{grid.name}: time along {along}"
        charts.append(make_chart(f"slice-{number}-{place}", title, reading, drawing))
    return tuple(charts)


_WIDTH_IN, _HEIGHT_IN = 8.0, 4.2
_SYMBOL, _LEGEND_SYMBOL = 4.47, 6.0
_DIAGONAL = dashed(palette.MUTED, 1.0, 4.0, 3.0)


def saved_figure(table: pd.DataFrame, baseline: str) -> Drawing:
    """Speed-up against bytes saved, both axes logarithmic.

    Columns `name role mark bytes speed`: factors of the baseline over the variant, all above 0. On
    the dashed line the time falls as the bytes do.
    """
    width, height = _WIDTH_IN * POINTS, _HEIGHT_IN * POINTS
    drawing = Drawing(width, height)
    axes = Axes(drawing, 0.09 * width, 0.1 * height, 0.98 * width, 0.87 * height)
    across = axes.across(_ends_with_one(table["bytes"]), logarithmic=True)
    upwards = axes.upwards(_ends_with_one(table["speed"]), logarithmic=True)
    bytes_label = f"DRAM bytes of {shorten(baseline, 30)} / variant (right: fewer are moved)"
    axes.grid_across(across, decade_ticks(across), bytes_label)
    axes.grid_upwards(upwards, decade_ticks(upwards), f"time of {shorten(baseline, 20)} / variant")
    ends = (max(across.low, upwards.low), min(across.high, upwards.high))
    drawing.path(places(ends, ends, (across, upwards)), _DIAGONAL)
    axes.level(upwards.at(1.0), line_style(palette.BASELINE, 1.0))
    axes.upright(across.at(1.0), line_style(palette.BASELINE, 1.0))
    axes.spines()
    handles = []
    for (name, role), rows in table.groupby(["name", "role"], sort=False):
        kind, colour = MARKERS.get(str(role), "o"), colour_of(str(role))
        points = places(rows["bytes"], rows["speed"], (across, upwards))
        marks = map(svg.mark, rows["mark"])
        drawing.dots(marker(kind, _SYMBOL), points, [colour] * len(points), marks, _faint)
        symbol = (marker(kind, _LEGEND_SYMBOL), colour)
        handles.append(Handle(shorten(str(name)), symbol=symbol))
    legend(drawing, [*handles, Handle("time falls as bytes do", _DIAGONAL)])
    return drawing


def _faint(colour: str) -> str:
    return symbol_style(colour, 0.75)


def _ends_with_one(values: pd.Series[float]) -> tuple[float, float]:
    """Ends of an axis that shows all values and 1."""
    return min(float(values.min()), 1.0) / ROOM, max(float(values.max()), 1.0) * ROOM


def grid_pairs_of(findings: Findings) -> GridPairs:
    """The pairs of a page of grids; raises ValueError for findings of another kind of page."""
    if findings.grid_pairs is None:
        raise ValueError("these findings have no grids")
    return findings.grid_pairs
