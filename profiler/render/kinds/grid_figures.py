"""Figures of a grid page: speed-up against bytes saved, and time along one axis of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from profiler.findings.findings import Findings
from profiler.findings.kinds.grids import DURATION, Grid, GridPairs
from profiler.metrics.queries import label
from profiler.planning.problem_names import is_number
from profiler.render.figures import styles
from profiler.render.figures import version_figures as figures
from profiler.render.figures.axes import (
    Axes,
    Handle,
    decade_ticks,
    legend,
    places,
    points_of,
    symbol_handle,
)
from profiler.render.figures.charts import MOST_PANELS, Chart, make_chart, mark_of
from profiler.render.figures.drawing import POINTS, ROOM, Drawing, Mark
from profiler.render.tables.grids import short_ratio_datum
from profiler.render.tables.rows import Column, Row, SmallTable, text_column
from profiler.render.words.names import shorten

# ---- figures -------------------------------------------------------------------------------------


def saved_marks(findings: Findings, grid: Grid) -> list[Mark]:
    """Speed-ups by bytes saved, of every cell whose time and DRAM bytes both sides know.

    The text of a mark says which cell it is.
    """
    pairs = grid_pairs_of(findings)
    return [
        mark_of(
            findings.ranking,
            pair.over,
            1 / cell.verdict.ratio,
            text=grid.place(cell.row, cell.column),
            place=cell.saved,
        )
        for pair in pairs.against_baseline
        for cell in pairs.cells_of(pair, grid)
        if cell.saved > 0 and cell.verdict.ratio > 0
    ]


def saved_chart(findings: Findings, grid: Grid, number: int) -> Chart | None:
    """Speed-up against bytes saved; None where DRAM bytes were not measured."""
    marks = saved_marks(findings, grid)
    if not marks:
        return None
    baseline = grid_pairs_of(findings).against_baseline[0].under.label
    title = f"{grid.name}: {baseline} / variant, speed-up against DRAM bytes saved"
    columns: tuple[Column[Mark], ...] = (
        text_column("cell", lambda mark: mark.text),
        Column("bytes saved", lambda mark: short_ratio_datum(mark.place)),
        Column("speed-up", lambda mark: short_ratio_datum(mark.value)),
    )
    return make_chart(
        f"saved-{number}",
        title,
        "A mark for each cell; above the horizontal line less time is taken, right of the "
        "vertical one fewer bytes are moved. Marks far below the dashed line save bytes that did "
        "not cost the time.",
        saved_figure(marks, baseline),
        table=SmallTable.of(
            title, "variant", columns, marks, lambda mark: Row(mark.name, mark=mark.variant)
        ),
    )


def slice_marks(findings: Findings, grid: Grid, *, along: str) -> tuple[dict[str, list[Mark]], int]:
    """Marks for `figures.lines`: time along one axis, a panel for each value of the other.

    Also how many panels had no room. NaN where a cell has no correct result; a panel without any
    is left out.
    """
    by_row = along == grid.columns
    fixed_key = grid.rows if by_row else grid.columns
    fixed = grid.row_values if by_row else grid.column_values
    moving = grid.column_values if by_row else grid.row_values
    panels = {
        f"{fixed_key} = {value}" if fixed_key else "": [
            mark_of(
                findings.ranking,
                variant,
                findings.numbers.correct_at(variant, problem, DURATION).median,
                place=float(step),
            )
            for step in moving
            for problem in [grid.problems.get((value, step) if by_row else (step, value))]
            for variant in findings.programs.variants
        ]
        for value in fixed
    }
    known_panels = [
        (panel, marks)
        for panel, marks in panels.items()
        if any(math.isfinite(mark.value) for mark in marks)
    ]
    shown_panels = dict(known_panels[-MOST_PANELS:])
    return shown_panels, len(known_panels) - len(shown_panels)


def slices(findings: Findings, grid: Grid, number: int) -> tuple[Chart, ...]:
    """Time along the columns at fixed rows, and the other way round, where these are numbers."""
    axes = ((grid.columns, grid.column_values), (grid.rows, grid.row_values))
    charts = []
    for place, (along, values) in enumerate(axes):
        if not along or len(values) < 2 or not all(map(is_number, values)):
            continue
        panels, left_out = slice_marks(findings, grid, along=along)
        if not panels:
            continue
        reading = "A line per variant. The numbers stand in the heat maps of the time above."
        if left_out:
            reading += f" {left_out} smaller slices have no panel."
        metric = label(DURATION)
        drawing = figures.lines(panels, along, metric.label, metric.unit)
        title = f"{grid.name}: time along {along}"
        charts.append(make_chart(f"slice-{number}-{place}", title, reading, drawing))
    return tuple(charts)


_WIDTH_IN, _HEIGHT_IN = 8.0, 4.2
_SYMBOL = 4.47
_DIAGONAL = styles.dashed(styles.MUTED, 1.0, 4.0, 3.0)


def saved_figure(marks: Sequence[Mark], baseline: str) -> Drawing:
    """Speed-up against bytes saved, both axes logarithmic.

    Factors of the baseline over the variant, all above 0. On the dashed line the time falls as the
    bytes do.
    """
    width, height = _WIDTH_IN * POINTS, _HEIGHT_IN * POINTS
    drawing = Drawing(width, height)
    axes = Axes(drawing, 0.09 * width, 0.1 * height, 0.98 * width, 0.87 * height)
    across = axes.across(_ends_with_one([mark.place for mark in marks]), logarithmic=True)
    upwards = axes.upwards(_ends_with_one([mark.value for mark in marks]), logarithmic=True)
    bytes_label = f"DRAM bytes of {shorten(baseline, 30)} / variant (right: fewer are moved)"
    axes.grid_across(across, decade_ticks(across), bytes_label)
    axes.grid_upwards(upwards, decade_ticks(upwards), f"time of {shorten(baseline, 20)} / variant")
    ends = (max(across.low, upwards.low), min(across.high, upwards.high))
    drawing.path(places(ends, ends, (across, upwards)), _DIAGONAL)
    axes.level(upwards.at(1.0), styles.line(styles.BASELINE, 1.0))
    axes.upright(across.at(1.0), styles.line(styles.BASELINE, 1.0))
    axes.spines()
    handles = []
    # A variant's marks follow each other.
    for _, group in groupby(marks, lambda mark: mark.variant):
        of_variant = list(group)
        first, points = of_variant[0], points_of(of_variant, (across, upwards))
        kind = styles.MARKERS.get(first.role, "o")
        drawing.dots(
            styles.marker(kind, _SYMBOL), points, of_variant, partial(styles.symbol, opacity=0.75)
        )
        handles.append(symbol_handle(shorten(first.name), first.colour, kind))
    legend(drawing, [*handles, Handle("time falls as bytes do", _DIAGONAL)])
    return drawing


def _ends_with_one(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis that shows all values and 1."""
    return min(*values, 1.0) / ROOM, max(*values, 1.0) * ROOM


def grid_pairs_of(findings: Findings) -> GridPairs:
    """The pairs of a page of grids; raises ValueError for findings of another kind of page."""
    if findings.grid_pairs is None:
        raise ValueError("these findings have no grids")
    return findings.grid_pairs
