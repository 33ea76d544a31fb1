"""The page of few variants on problems that differ in two sizes: what one saves against another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

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
from profiler.planning.problem_names import problem_key
from profiler.render.kinds.grid_figures import grid_pairs_of, saved_chart, slices
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
from profiler.render.tables.heats import RatioScale, scale_of
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, text_column, verdict_datum
from profiler.render.words import answer, numbers
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
            "pairs": _pair_heats(findings, grid, scale),
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


def _pair_heats(
    findings: Findings, grid: Grid, scale: RatioScale
) -> tuple[tuple[str, dict[str, Any]], ...]:
    pairs = grid_pairs_of(findings)
    heats = (
        (pair.name, pair_heat(findings.programs, pairs, pair, grid, scale))
        for pair in pairs.compared_pairs
    )
    return tuple((name, heat) for name, heat in heats if heat is not None)


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
    known_mean = findings.verdicts.are_given and rank.geometric_mean > 0
    return f"geometric mean {numbers.ratio(rank.geometric_mean)}; " if known_mean else ""


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
        Column("bytes saved", _bytes_saved),
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


def _bytes_saved(cell: GridCell) -> Datum:
    return Datum.number(cell.saved, short_ratio, "DRAM bytes were not collected")


def _extreme(programs: Programs, cell: GridCell) -> Row:
    over, under = (
        None if compared is None else programs.cell_numbers[compared.id]
        for compared in (cell.over, cell.under)
    )
    return Row(cell.pair.name, mark=programs.marks[cell.pair.over.id], cell=over, beside=under)
