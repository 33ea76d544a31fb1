"""The page of few variants on problems that differ in two sizes: what one saves against another."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.findings import Findings
from profiler.findings.kinds.grids import (
    DURATION,
    Grid,
    GridCell,
    GridPairs,
    VariantPair,
    with_ratio,
)
from profiler.findings.programs import Programs
from profiler.findings.ranking import Ranking
from profiler.metrics.queries import label
from profiler.model import Cell
from profiler.planning.problem_names import is_number, problem_key
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
from profiler.render.figures.charts import MOST_PANELS, Chart, line_marks, make_chart, mark_of
from profiler.render.figures.drawing import POINTS, ROOM, Drawing, Mark
from profiler.render.kinds.maps import grid_chart
from profiler.render.kinds.ratios import contrasts_chart
from profiler.render.kinds.versions import View
from profiler.render.tables.grids import (
    GridQuantity,
    KernelLists,
    grid_kernels,
    kernel_letters,
    kernel_lists,
    metric_heats,
    pair_heat,
    short_ratio,
    short_ratio_datum,
)
from profiler.render.tables.heats import scale_of
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, text_column, verdict_datum
from profiler.render.words import answer, numbers
from profiler.render.words.names import shorten
from profiler.render.words.sentences import Sentence, sentence_of, strong
from profiler.render.words.verdicts import counts, word_of

MOST_EXTREME = 10
MOST_DRAWN = 16
"""Grids of which slices and scatters are drawn: more would cost a minute and a megabyte."""
MOST_CELLS_EVERY_METRIC = 1200
"""Cells up to which every one of the nine metrics has heat maps."""
MOST_SENTENCES = 4
TIME = "Time"
KERNELS = "Kernels launched"
TRAFFIC = "DRAM bytes, read and written"
OTHERS = ("instructions", "tflops", "gbps", "compile_s", "buffer_bytes", "peak_bytes")
ERRORS = ("max_abs_error", "max_rel_error")


def grid_view(findings: Findings) -> View:
    """Ratios, magnitudes, slices and extremes of every grid of the page."""
    pairs = grid_pairs_of(findings)
    kernels = kernel_lists(findings)
    report, grids = findings.report, pairs.grids
    scale = scale_of(cell.verdict.ratio for cells in pairs.cells.values() for cell in cells)
    quantities = _quantities(findings.numbers, pairs, kernels)
    blocks = [
        {
            "grid": grid,
            "pairs": [
                (pair.name, heat)
                for pair in pairs.compared_pairs
                if (heat := pair_heat(findings.programs, pairs, pair, grid, scale))
            ],
            "metrics": [
                heats
                for quantity in quantities
                if (heats := metric_heats(findings.programs, quantity, grid))
            ],
            "saved": saved_chart(findings, grid, number) if number < MOST_DRAWN else None,
            "slices": slices(findings, grid, number) if number < MOST_DRAWN else (),
        }
        for number, grid in enumerate(grids)
    ]
    return {
        "template": "grid.html",
        "heading": "Every shape",
        "first": contrasts_chart(findings) or grid_chart(findings, pairs),
        "grid_blocks": blocks,
        "grid_switch": ", ".join(report.settings.split or ["grid"]) if len(grids) > 1 else "",
        "grid_scale": scale,
        "left_out_grids": pairs.all_grids - len(grids),
        "left_out_pairs": pairs.left_out,
        "left_out_drawn": max(0, len(grids) - MOST_DRAWN),
        "left_out_quantities": len(report.plan.cells) > MOST_CELLS_EVERY_METRIC,
        "overview": overview(findings),
        "extremes": extremes(findings),
        "grid_kernels": {
            grid.name: lists
            for grid in grids
            if (lists := grid_kernels(findings.programs, kernels, grid))
        },
    }


# ---- what is shown of every cell -----------------------------------------------------------------


def _quantities(
    numbers: CellNumbers, pairs: GridPairs, kernels: KernelLists
) -> tuple[GridQuantity, ...]:
    def median(name: str) -> GridQuantity:
        metric = label(name)
        return GridQuantity(
            metric.label, metric.unit, lambda cell: numbers.value(cell, name).median
        )

    letters = kernel_letters(numbers.programs, kernels)

    def letter(cell: Cell) -> str:
        return letters.get(kernels.get(cell.id, ()), "")

    first = (
        GridQuantity(TIME, label(DURATION).unit, median(DURATION).of),
        GridQuantity(KERNELS, "", median("kernels").of, letter),
        GridQuantity(TRAFFIC, "byte", lambda cell: pairs.moved.get(cell.id, math.nan)),
    )
    if len(numbers.programs.cells) > MOST_CELLS_EVERY_METRIC:
        return first
    measured = {metric.name for metric in numbers.metrics}
    return (*first, *(median(name) for name in (*OTHERS, *ERRORS) if name in measured))


# ---- answer, overview, extremes ------------------------------------------------------------------


def grid_answer(findings: Findings) -> tuple[Sentence, ...]:
    """Sentences: the leader, each pair with the baseline, the number of measured cells."""
    pairs = grid_pairs_of(findings)
    leads = answer.everywhere_sentence(findings, findings.ranking.leader)
    sentences: list[Sentence] = [leads] if leads else []
    for pair in _leader_first(findings.ranking, pairs.against_baseline)[:MOST_SENTENCES]:
        cells = [cell for cell in pairs.with_baseline() if cell.pair == pair]
        ranked = with_ratio(cells)
        if not ranked:
            continue
        least, most = (_ratio_at(findings.programs, cell) for cell in (ranked[0], ranked[-1]))
        counted = count_words(findings.programs, cells)
        sentences.append(
            sentence_of(
                f"{strong(f'{pair.name}, time')}: {_mean_words(findings, pair)}{counted}. "
                f"From {least} to {most}."
            )
        )
    return (*sentences, answer.coverage_sentence(findings.programs))


def _leader_first(ranking: Ranking, pairs: Sequence[VariantPair]) -> list[VariantPair]:
    """Pairs in their order, that of the leader before the others."""
    leader = ranking.leader
    return sorted(pairs, key=lambda pair: leader is None or pair.over != leader.variant)


def count_words(programs: Programs, cells: Sequence[GridCell]) -> str:
    """Count of each verdict, of the problems at which both were tried."""
    tried = (cell for cell in cells if programs.tried(cell.over) and programs.tried(cell.under))
    return counts(cell.verdict for cell in tried)


def _mean_words(findings: Findings, pair: VariantPair) -> str:
    """The geometric mean of a pair's ratios to the baseline; empty where that is not known."""
    rank = next(rank for rank in findings.ranking.ranks if rank.variant == pair.over)
    mean = rank.geometric_mean
    return f"geometric mean {numbers.ratio(mean)}; " if mean > 0 else ""


def _ratio_at(programs: Programs, cell: GridCell) -> str:
    return f"{short_ratio(cell.verdict.ratio)} at {_where(programs, cell)}"


def _where(programs: Programs, cell: GridCell) -> str:
    """Name the problem as the rest of the page does, where its name is short enough for that."""
    if problem_key(programs.problems):
        return cell.problem.name
    return f"{cell.grid.name}, {cell.grid.place(cell.row, cell.column)}"


def overview(findings: Findings) -> SmallTable:
    """For every grid and pair: counts of verdicts, the lowest and the highest ratio."""
    pairs, programs = grid_pairs_of(findings), findings.programs
    columns: tuple[Column[Sequence[GridCell]], ...] = (
        text_column("pair", lambda cells: cells[0].pair.name),
        text_column("verdicts", lambda cells: count_words(programs, cells), without=""),
        Column("lowest ratio", lambda cells: _end(cells, 0)),
        Column("highest ratio", lambda cells: _end(cells, -1)),
    )
    return SmallTable.of(
        "Verdicts and extremes by grid and pair of variants",
        "grid",
        columns,
        [
            cells
            for grid in pairs.grids
            for pair in pairs.compared_pairs
            if (cells := pairs.cells_of(pair, grid))
        ],
        lambda cells: Row(cells[0].grid.name, mark=programs.marks[cells[0].pair.over.id]),
    )


def _end(cells: Sequence[GridCell], place: int) -> Datum:
    """The lowest (0) or the highest (-1) ratio of cells, and where it is."""
    ranked = with_ratio(cells)
    if not ranked:
        return Datum()
    cell = ranked[place]
    text = f"{short_ratio(cell.verdict.ratio)} ({cell.grid.short_place(cell.row, cell.column)})"
    return Datum(text, numbers.raw(cell.verdict.ratio), word_of(cell.verdict))


def extremes(findings: Findings) -> tuple[SmallTable, ...]:
    """The cells with the lowest and the highest ratios to the baseline."""
    ranked = with_ratio(grid_pairs_of(findings).with_baseline())
    most = min(MOST_EXTREME, len(ranked) // 2 or len(ranked))
    last = ranked[::-1][:most] if len(ranked) > 1 else []
    columns: tuple[Column[GridCell], ...] = (
        text_column("grid", lambda cell: cell.grid.name),
        text_column("cell", lambda cell: cell.grid.place(cell.row, cell.column)),
        Column("ratio of times", lambda cell: short_ratio_datum(cell.verdict.ratio)),
        Column("95\u202f% interval", _interval),
        Column("verdict", _verdict, is_text=True),
        Column(
            "bytes saved",
            lambda cell: Datum.number(cell.saved, short_ratio, "DRAM bytes were not collected"),
        ),
    )
    return tuple(
        SmallTable.of(
            f"{name} {len(cells)} ratios of times",
            "pair",
            columns,
            cells,
            partial(_extreme, findings.programs),
        )
        for name, cells in (("Lowest", ranked[:most]), ("Highest", last))
        if cells
    )


def _interval(cell: GridCell) -> Datum:
    return Datum(numbers.interval(cell.verdict.low, cell.verdict.high) or numbers.MISSING)


def _verdict(cell: GridCell) -> Datum:
    return replace(verdict_datum(cell.verdict), text=word_of(cell.verdict), raw=None)


def _extreme(programs: Programs, cell: GridCell) -> Row:
    over, under = (
        None if compared is None else programs.cell_numbers[compared.id]
        for compared in (cell.over, cell.under)
    )
    return Row(cell.pair.name, mark=programs.marks[cell.pair.over.id], cell=over, beside=under)


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


def slices(findings: Findings, grid: Grid, number: int) -> tuple[Chart, ...]:
    """Time along the columns at fixed rows, and the other way round, where these are numbers."""
    metric, problems = label(DURATION), tuple(grid.problems.values())
    axes = ((grid.columns, grid.column_values), (grid.rows, grid.row_values))
    charts = []
    for place, (along, values) in enumerate(axes):
        if not along or len(values) < 2 or not all(map(is_number, values)):
            continue
        panels = _with_value(line_marks(findings, metric, along, problems))
        if not panels:
            continue
        shown_panels = dict(list(panels.items())[-MOST_PANELS:])
        reading = "A line per variant. The numbers stand in the heat maps of the time above."
        if left_out := len(panels) - len(shown_panels):
            reading += f" {left_out} smaller slices have no panel."
        drawing = figures.lines(shown_panels, along, metric.label, metric.unit)
        title = f"{grid.name}: time along {along}"
        charts.append(make_chart(f"slice-{number}-{place}", title, reading, drawing))
    return tuple(charts)


def _with_value(panels: Mapping[str, list[Mark]]) -> dict[str, list[Mark]]:
    """Panels in which any cell has a correct result: an axis without a point cannot be drawn."""
    return {
        panel: marks
        for panel, marks in panels.items()
        if any(math.isfinite(mark.value) for mark in marks)
    }


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
