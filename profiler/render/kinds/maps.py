"""Heat maps of ratios: pairs of variants on grids, and variants by problems, in one scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from profiler.findings.findings import Findings
from profiler.findings.kinds.grids import Grid, GridCell, GridPairs, VariantPair
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.findings.verdicts import NO_DATA, PairVerdict
from profiler.model import Cell, Problem, Verdict
from profiler.render.figures import styles
from profiler.render.figures.axes import Axes, RowAxes, Ticks, sheet
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import (
    POINTS,
    WIDTH_IN,
    Drawing,
    Point,
    fitted,
    set_mark,
    text_width_in,
    widest_in,
)
from profiler.render.tables.heats import RatioScale, heat_ratio, heat_verdict, scale_of
from profiler.render.words import numbers
from profiler.render.words.signs import missing_key, missing_sign

MOST_MAPS = 8
MOST_ROWS = 12
"""Variants of a map of variants by problems."""
MOST_COLUMNS = 24
_SIGNS = {Verdict.SAME: "=", Verdict.UNCLEAR: "?"}
_KEY = ", ".join(f"{sign} {verdict.word}" for verdict, sign in _SIGNS.items())


# ---- pairs on grids ------------------------------------------------------------------------------


def grid_chart(findings: Findings, pairs: GridPairs) -> Chart | None:
    """Pairs with the baseline on every grid; None where no pair has a ratio."""
    drawn = _drawn_pairs(pairs)
    cells = [cell for pair, grid in drawn for cell in pairs.cells_of(pair, grid)]
    scale = scale_of(cell.verdict.ratio for cell in cells)
    maps = [_grid_map(findings, pairs, pair, grid, scale) for pair, grid in drawn]
    if not any(cell.step is not None for heat in maps for cell in heat.cells):
        return None
    left_out = len(_all_maps(pairs)) - len(drawn)
    tried = [cell for compared in cells for cell in (compared.over, compared.under) if cell]
    reading = (
        f"{_axes_words([grid for _, grid in drawn])} {_key_of(findings.programs, tried)}".strip()
    )
    if left_out:
        reading += f" {left_out} more maps stand below."
    figure = heat_maps(*_arranged_maps(maps, drawn), scale)
    return make_chart("first", "Time of one variant \u00f7 that of another", reading, figure)


def _key_of(programs: Programs, cells: Iterable[Cell]) -> str:
    """Key of the signs of verdicts, and of those that stand for cells without a number."""
    missing = missing_key(programs.status(cell).outcome for cell in cells)
    return f"{_KEY}{f', {missing}' if missing else ''}."


def _all_maps(pairs: GridPairs) -> list[tuple[VariantPair, Grid]]:
    """Pairs with the baseline and the grids that have cells of them."""
    return [
        (pair, grid)
        for pair in pairs.against_baseline
        for grid in pairs.grids
        if pairs.cells_of(pair, grid)
    ]


def _drawn_pairs(pairs: GridPairs) -> list[tuple[VariantPair, Grid]]:
    """Pairs and grids that have room, whole grids where there are several."""
    drawn_pairs = _all_maps(pairs)
    while len(drawn_pairs) > MOST_MAPS:
        grids = list(dict.fromkeys(grid.name for _, grid in drawn_pairs))
        if len(grids) == 1:
            return drawn_pairs[:MOST_MAPS]
        drawn_pairs = [(pair, grid) for pair, grid in drawn_pairs if grid.name != grids[-1]]
    return drawn_pairs


def _arranged_maps(
    maps: Sequence[HeatMap], drawn: Sequence[tuple[VariantPair, Grid]]
) -> tuple[list[HeatMap], int]:
    """Maps in their order, and how many beside each other: all pairs of a grid, or all grids."""
    most = columns_for(maps)
    pairs = list(dict.fromkeys(pair.name for pair, _ in drawn))
    grids = list(dict.fromkeys(grid.name for _, grid in drawn))
    if len(grids) < len(pairs) <= most:
        by_grid = sorted(range(len(maps)), key=lambda place: grids.index(drawn[place][1].name))
        return [maps[place] for place in by_grid], len(pairs)
    return list(maps), len(grids) if 1 < len(grids) <= most else min(most, len(maps))


def _axes_words(grids: Sequence[Grid]) -> str:
    """Words on rows and columns, where these are the same in all maps; else titles say it."""
    if len({(grid.rows, grid.columns) for grid in grids}) > 1:
        return ""
    if not grids[0].rows:
        return f"Columns: {grids[0].columns}."
    return f"Rows: {grids[0].rows}, columns: {grids[0].columns}."


def _grid_map(
    findings: Findings, pairs: GridPairs, pair: VariantPair, grid: Grid, scale: RatioScale
) -> HeatMap:
    name = f"{pair.over.label} \u00f7 {pair.under.label}"
    title = f"{name}, {grid.name}" if len(pairs.grids) > 1 else name
    cells = (_grid_cell(findings, grid, cell, scale) for cell in pairs.cells_of(pair, grid))
    return HeatMap(
        title=title,
        rows=tuple(map(str, grid.row_values)),
        columns=tuple(map(str, grid.column_values)),
        cells=tuple(cell for cell in cells if cell is not None),
    )


def _grid_cell(
    findings: Findings, grid: Grid, compared: GridCell, scale: RatioScale
) -> MapCell | None:
    if compared.over is None or compared.under is None:
        return None
    place = (grid.row_values.index(compared.row), grid.column_values.index(compared.column))
    lacking = compared.over if not findings.programs.correct(compared.over) else compared.under
    return _cell(findings, compared.over, place, compared.verdict, scale, lacking)


def _cell(  # noqa: PLR0913, PLR0917 - what one place of a map is made of
    findings: Findings,
    cell: Cell,
    place: tuple[int, int],
    pair: PairVerdict,
    scale: RatioScale,
    lacking: Cell,
) -> MapCell:
    """Cell of a map; `lacking`: the cell that has no number, where there is no ratio."""
    programs = findings.programs
    ratio = pair.ratio
    present = ratio > 0
    sign = _SIGNS.get(pair.verdict, "") if pair.verdict else ""
    return MapCell(
        row=place[0],
        column=place[1],
        text=f"{sign}{numbers.short_ratio(ratio)}"
        if present
        else missing_sign(programs.status(lacking).outcome),
        step=scale.step(ratio) if present else None,
        mark=programs.marks[cell.variant.id],
        cell=programs.cell_numbers[cell.id],
    )


# ---- variants by problems ------------------------------------------------------------------------


def problems_chart(findings: Findings) -> Chart | None:
    """Every variant at every problem in one map, relative to the baseline."""
    ranking, programs = findings.ranking, findings.programs
    problems = programs.problems[:MOST_COLUMNS]
    ranks = [rank for rank in ranking.ranks if rank.variant != programs.baseline][:MOST_ROWS]
    rows = [(rank.variant, row) for row, rank in enumerate(ranks)]
    cells = {
        (row, column): cell
        for variant, row in rows
        for column, problem in enumerate(problems)
        if (cell := programs.at(variant, problem)) and programs.tried(cell)
    }
    pairs = {place: _pair(findings, cell) for place, cell in cells.items()}
    scale = scale_of(pair.ratio for pair in pairs.values())
    if not any(pair.ratio > 0 for pair in pairs.values()):
        return None
    against = programs.baseline.label if programs.baseline else "the best"
    heat = HeatMap(
        title=f"{findings.numbers.primary.label} \u00f7 that of {against}",
        rows=tuple(variant.label for variant, _ in rows),
        columns=tuple(problem.name for problem in problems),
        cells=tuple(
            _cell(findings, cell, place, pairs[place], scale, cell) for place, cell in cells.items()
        ),
    )
    reading = _key_of(programs, cells.values()) + _left_out(ranking, problems, len(ranks))
    return make_chart("first", "All variants at all problems", reading, heat_maps([heat], 1, scale))


def _pair(findings: Findings, cell: Cell) -> PairVerdict:
    """The verdict on a cell, with the ratio of its heat map; no data where it failed."""
    if not findings.programs.correct(cell):
        return NO_DATA
    return replace(heat_verdict(findings, cell), ratio=heat_ratio(findings, cell)[0])


def _left_out(ranking: Ranking, problems: Sequence[Problem], rows: int) -> str:
    columns = len(ranking.programs.problems) - len(problems)
    other_variants = len(ranking.ranks) - rows - (ranking.programs.baseline is not None)
    parts = [
        f"{columns} problems" if columns else "",
        f"{other_variants} variants" if other_variants > 0 else "",
    ]
    more = " and ".join(filter(None, parts))
    return f" {more} more stand in the tables." if more else ""


# ---- the drawing of maps -------------------------------------------------------------------------


_HEIGHT_IN = 4.55
_LEGEND_IN = 0.34
_TITLE_IN, _GAP_IN = 0.27, 0.16
_TALLEST_IN, _WIDEST_IN = 0.4, 1.0
_NARROWEST_IN = 0.37
_SMALL, _CELL = 8.0, 8.0
_TICK_GAP = 5.5
_TURN_DEGREES = 35
_EDGE = 0.47
"""Half the width of a cell's box, in cells."""


@dataclass(frozen=True)
class MapCell:
    """Cell of a map: its class of colour, its text, and the mark that it belongs to."""

    row: int
    column: int
    text: str
    step: int | None
    """Class of the ratio, -6 to 6; None: no ratio."""
    mark: int
    cell: int


@dataclass(frozen=True)
class HeatMap:
    """Map of ratios; `rows` and `columns` are the texts beside it."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[MapCell, ...]


def heat_maps(maps: Sequence[HeatMap], columns: int, scale: RatioScale) -> Drawing:
    """Draw maps in rows of `columns`, with the legend of their scale."""
    rows = [maps[start : start + columns] for start in range(0, len(maps), columns)]
    width = WIDTH_IN / columns
    left = max(_left_in(heat, width) for heat in maps)
    turned = any(_has_turned_labels(heat, width - left) for heat in maps)
    foot = max(_foot_in(heat, turned=turned) for heat in maps)
    lines = sum(max(len(heat.rows) for heat in row) for row in rows)
    room = _HEIGHT_IN - _LEGEND_IN - len(rows) * (_TITLE_IN + foot)
    cell_in = max(min(_TALLEST_IN, room / lines), 0.17)
    total = _LEGEND_IN + len(rows) * (_TITLE_IN + foot) + lines * cell_in
    drawing = sheet(total)
    titles: list[tuple[str, Point]] = []
    top = _LEGEND_IN
    for row in rows:
        for place, heat in enumerate(row):
            wide = min(width - left - _GAP_IN, _WIDEST_IN * len(heat.columns))
            axes = Axes.in_inches(
                drawing,
                place * width + left,
                top + _TITLE_IN,
                place * width + left + wide,
                top + _TITLE_IN + len(heat.rows) * cell_in,
                text_size=_SMALL,
                tick_gap=_TICK_GAP,
            )
            _draw(axes, heat, turned=turned, left_in=left)
            at = (
                (place * width + 0.02) * POINTS,
                (top + 0.05) * POINTS + styles.ASCENT * styles.TEXT_SIZE,
            )
            titles.append((fitted(heat.title, width - _GAP_IN), at))
        top += _TITLE_IN + max(len(heat.rows) for heat in row) * cell_in + foot
    _legend(drawing, scale)
    for title, at in titles:
        drawing.text(title, at, styles.text("start", bold=True))
    return drawing


def columns_for(maps: Sequence[HeatMap]) -> int:
    """Number of maps beside each other: as many as have room for the numbers in their cells."""
    least = max(
        len(heat.columns) * _NARROWEST_IN + _left_in(heat, WIDTH_IN) + _GAP_IN for heat in maps
    )
    return max(1, min(len(maps), int(WIDTH_IN / least), 4))


def _left_in(heat: HeatMap, width: float) -> float:
    return min(widest_in(heat.rows, _SMALL) + 0.12, 0.4 * width)


def _has_turned_labels(heat: HeatMap, room_in: float) -> bool:
    """Whether labels of columns are too wide to stand upright."""
    return widest_in(heat.columns, _SMALL) + 0.06 > min(room_in / len(heat.columns), _WIDEST_IN)


def _foot_in(heat: HeatMap, *, turned: bool) -> float:
    wide = widest_in(heat.columns, _SMALL) if turned else 0.0
    return 0.26 + wide * math.sin(math.radians(_TURN_DEGREES))


def _draw(axes: Axes, heat: HeatMap, *, turned: bool, left_in: float) -> None:
    across = axes.across((-0.5, len(heat.columns) - 0.5))
    rows = RowAxes(axes, len(heat.rows), 0.5)
    if turned:
        axes.slanted_labels(across, heat.columns, _TURN_DEGREES)
    else:
        axes.grid_across(across, Ticks(range(len(heat.columns)), heat.columns), lines=False)
    for row, name in enumerate(heat.rows):
        rows.beside(row, fitted(name, left_in - 0.1, _SMALL), gap=_TICK_GAP, size=_SMALL)
    wide = (axes.right - axes.left) / POINTS / len(heat.columns)
    for cell in heat.cells:
        corner = (across.at(cell.column - _EDGE), rows.y(cell.row - _EDGE))
        opposite = (across.at(cell.column + _EDGE), rows.y(cell.row + _EDGE))
        box = axes.drawing.rectangle(corner, opposite, _box_style(cell.step))
        set_mark(box, cell.mark, cell.cell)
    for cell in heat.cells:
        size = _CELL if text_width_in(cell.text, _CELL) <= wide else _CELL - 1.5
        text = cell.text if text_width_in(cell.text, size) <= wide else "\N{MULTIPLICATION X}"
        at = (across.at(cell.column), rows.y(cell.row) + styles.TEXT_DROP * size)
        colour = styles.MUTED if cell.step is None else styles.HEAT_INK[cell.step]
        axes.drawing.text(text, at, styles.text("middle", size, colour))


def _box_style(step: int | None) -> str:
    """Style of a cell: its class of colour, with an edge as the gap to its neighbours is thin."""
    if step is None:
        return styles.line(styles.GRID, 0.5, "")
    return f"{styles.symbol(styles.HEAT[step])}; stroke-width: 0.5"


def _legend(drawing: Drawing, scale: RatioScale) -> None:
    """Classes of colour in a row along the top, with what they stand for."""
    first, last = "less time", f"more time{scale.clipped and f'; {scale.clipped}'}"
    baseline = 0.13 * POINTS + styles.TEXT_DROP * _SMALL
    drawing.text(first, (0.02 * POINTS, baseline), styles.text("start", _SMALL))
    x = 0.02 + text_width_in(first, _SMALL) + 0.1
    width = max(widest_in([text for _, text in scale.legend], _SMALL) + 0.12, 0.46)
    for step, text in scale.legend:
        corner, opposite = (x * POINTS, 0.025 * POINTS), ((x + width) * POINTS, 0.235 * POINTS)
        drawing.rectangle(corner, opposite, styles.fill(styles.HEAT[step]))
        at = ((x + width / 2) * POINTS, baseline)
        drawing.text(text, at, styles.text("middle", _SMALL, styles.HEAT_INK[step]))
        x += width
    drawing.text(last, ((x + 0.1) * POINTS, baseline), styles.text("start", _SMALL))
