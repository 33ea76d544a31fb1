"""The page of few variants on problems that differ in two sizes: what one saves against another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from profiler.findings.grid_axes import Grid, grids
from profiler.findings.grid_pairs import (
    DURATION,
    Compared,
    Pair,
    Pairs,
    count_words,
    known,
    said_word,
)
from profiler.findings.lookup import Lookup
from profiler.findings.roles import Ranking
from profiler.model import Cell, Outcome, Variant
from profiler.render.figures import grid_figures
from profiler.render.figures import version_figures as figures
from profiler.render.figures.canvas import Axis
from profiler.render.figures.charts import MOST_PANELS, Chart, make_chart
from profiler.render.kinds.versions import View
from profiler.render.tables.grid_cells import Kernels, grid_cells
from profiler.render.tables.grid_heats import (
    MetricHeats,
    PairHeats,
    Quantity,
    edges_for,
    metric_heats,
    pair_heats,
    ratio_legend,
    short_ratio,
)
from profiler.render.tables.rows import Datum
from profiler.render.tables.verdict_cells import verdict_datum
from profiler.render.words import answer, numbers
from profiler.render.words.answer import Part, Sentence
from profiler.render.words.labels import label
from profiler.render.words.problems import is_number

MOST_EXTREME = 10
MOST_DRAWN = 16
"""Grids of which slices and scatters are drawn: more would cost a minute and a megabyte."""
MOST_CELLS_IN_FULL = 300
"""Cells up to which a page writes out every sample; a grid of more says where they are."""
MOST_CELLS_EVERY_METRIC = 1200
"""Cells up to which every one of the nine metrics has heat maps."""
MOST_SENTENCES = 4
TIME = "Time"
KERNELS = "Kernels launched"
TRAFFIC = "DRAM bytes, read and written"
OTHERS = ("instructions", "tflops", "gbps", "compile_s", "buffer_bytes", "peak_bytes")
ERRORS = ("max_abs_error", "max_rel_error")
EXTREME_HEADS = ("grid", "cell", "ratio of times", "95 % interval", "verdict", "bytes saved")


@dataclass(frozen=True)
class Line:
    """One row of a table: head cell and data."""

    name: str
    mark: int
    data: tuple[Datum, ...]


@dataclass(frozen=True)
class Drawn:
    """A figure and the rows of its table."""

    chart: Chart
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class GridBlock:
    """Everything that the page shows of one grid."""

    grid: Grid
    pairs: tuple[PairHeats, ...]
    metrics: tuple[MetricHeats, ...]
    saved: Drawn | None
    slices: tuple[Chart, ...]


def grid_view(ranking: Ranking) -> View:
    """Ratios, magnitudes, slices and extremes of every grid of the page."""
    lookup = ranking.lookup
    report = lookup.report
    everything, found = _grids(lookup)
    pairs, kernels = Pairs(lookup, found), Kernels(lookup)
    edges = edges_for([one for rows in pairs.everywhere.values() for one in known(rows)])
    quantities = _quantities(pairs, kernels)
    blocks = tuple(
        GridBlock(
            grid,
            _pair_heats(pairs, grid, edges),
            _metric_heats(lookup, grid, quantities),
            saved_chart(ranking, pairs, grid, number) if number < MOST_DRAWN else None,
            _slices(ranking, grid, number) if number < MOST_DRAWN else (),
        )
        for number, grid in enumerate(found)
    )
    compact = len(report.plan.cells) > MOST_CELLS_IN_FULL
    parts: dict[str, Any] = {
        "grid_blocks": blocks,
        "grid_switch": ", ".join(_switch_keys(found, report.split)),
        "grid_legend": ratio_legend(edges),
        "left_out_grids": len(everything) - len(found),
        "left_out_pairs": pairs.left_out,
        "left_out_drawn": max(0, len(found) - MOST_DRAWN),
        "left_out_quantities": len(report.plan.cells) > MOST_CELLS_EVERY_METRIC,
        "overview": overview(pairs),
        "extremes": extremes(pairs),
        "extreme_heads": EXTREME_HEADS,
        "grid_cells": tuple(grid_cells(lookup, kernels, grid) for grid in found),
        "sentences": _sentences(ranking, pairs),
    }
    template = "grid_cells.html" if compact else "cells.html"
    return View("grid.html", "Every shape", parts, template)


def grid_answer(ranking: Ranking) -> tuple[Sentence, ...]:
    """The sentences of the page of grids."""
    return _sentences(ranking, Pairs(ranking.lookup, _grids(ranking.lookup)[1]))


def _grids(lookup: Lookup) -> tuple[tuple[Grid, ...], tuple[Grid, ...]]:
    """All grids of the problems, and those of them in which any cell was tried."""
    everything = grids(lookup.problems, lookup.report.axes, lookup.report.split)
    return everything, tuple(one for one in everything if _tried(lookup, one)) or everything


def _tried(lookup: Lookup, grid: Grid) -> bool:
    """Whether any cell of a grid was measured, or failed: a part of a run need not have all."""
    return any(
        cell is not None and lookup.status(cell).outcome is not Outcome.NOT_MEASURED
        for problem in grid.problems.values()
        for variant in lookup.variants
        for cell in [lookup.cells.get((variant.id, problem.id))]
    )


def _switch_keys(found: Sequence[Grid], split: Sequence[str]) -> tuple[str, ...]:
    """What the grids of the page differ in, for the label of the choice."""
    return tuple(split) or ("grid",) if len(found) > 1 else ()


def _pair_heats(pairs: Pairs, grid: Grid, edges: Sequence[float]) -> tuple[PairHeats, ...]:
    found = (pair_heats(pairs, pair, grid, edges) for pair in pairs.shown)
    return tuple(one for one in found if one is not None)


def _metric_heats(
    lookup: Lookup, grid: Grid, quantities: Sequence[Quantity]
) -> tuple[MetricHeats, ...]:
    found = (metric_heats(lookup, one, grid, lookup.variants) for one in quantities)
    return tuple(one for one in found if one is not None)


# ---- what is shown of every cell -----------------------------------------------------------------


def _quantities(pairs: Pairs, kernels: Kernels) -> tuple[Quantity, ...]:
    lookup = pairs.lookup

    def median(name: str) -> Quantity:
        one = label(name)
        return Quantity(one.label, one.unit, lambda cell: lookup.value(cell, name).median)

    def letter(cell: Cell) -> str:
        return kernels.letter(cell)

    first = (
        Quantity(TIME, label(DURATION).unit, median(DURATION).of),
        Quantity(KERNELS, "", median("kernels").of, letter),
        Quantity(TRAFFIC, "byte", pairs.moved),
    )
    if len(lookup.report.plan.cells) > MOST_CELLS_EVERY_METRIC:
        return first
    measured = {one.name for one in lookup.measured_metrics}
    return (*first, *(median(name) for name in (*OTHERS, *ERRORS) if name in measured))


# ---- answer, overview, extremes ------------------------------------------------------------------


def _sentences(ranking: Ranking, pairs: Pairs) -> tuple[Sentence, ...]:
    """Who leads, a sentence for each pair with the baseline, how many cells were measured."""
    lookup = ranking.lookup
    leads = answer.everywhere_sentence(ranking, ranking.leader)
    found: list[Sentence] = [leads] if leads else []
    for pair in pairs.against_baseline[:MOST_SENTENCES]:
        own = [one for one in pairs.with_baseline() if one.pair == pair]
        ranked = known(own)
        if not ranked:
            continue
        ends = f" From {_said_at(lookup, ranked[0])} to {_said_at(lookup, ranked[-1])}."
        name = Part(f"{pair.name}, time", strong=True)
        mean = _mean_words(ranking, pair)
        found.append((name, Part(f": {mean}{count_words(lookup, own)}."), Part(ends)))
    return (*found, answer.sentences(ranking)[-1])


def _mean_words(ranking: Ranking, pair: Pair) -> str:
    """The geometric mean of a pair's ratios to the baseline; empty where that is not known."""
    row = next(one for one in ranking.standings if one.variant == pair.over)
    known_mean = ranking.lookup.report.primary == DURATION and row.geometric_mean > 0
    return f"geometric mean {numbers.ratio(row.geometric_mean)}; " if known_mean else ""


def _said_at(lookup: Lookup, one: Compared) -> str:
    return f"{short_ratio(one.said.ratio)} at {_where(lookup, one)}"


def _where(lookup: Lookup, one: Compared) -> str:
    """Name the problem as the rest of the page does, where its name is short enough for that."""
    if lookup.problem_key:
        return one.problem.name
    return f"{one.grid.name}, {one.grid.place(one.row, one.column)}"


def overview(pairs: Pairs) -> tuple[Line, ...]:
    """For every grid and pair: counts of verdicts, the lowest and the highest ratio."""
    lines = []
    for grid in pairs.grids:
        for pair in pairs.shown:
            found = pairs.of(pair, grid)
            if not found:
                continue
            ranked = known(found)
            ends = (_end(ranked[0]), _end(ranked[-1])) if ranked else (Datum(), Datum())
            data = (
                Datum(pair.name, css="words"),
                Datum(count_words(pairs.lookup, found), css="words"),
                *ends,
            )
            lines.append(Line(grid.name, pairs.lookup.marks[pair.over.id], data))
    return tuple(lines)


def _end(one: Compared) -> Datum:
    where = one.grid.short_place(one.row, one.column)
    text = f"{short_ratio(one.said.ratio)} ({where})"
    return Datum(text, numbers.raw(one.said.ratio), said_word(one.said))


def extremes(pairs: Pairs) -> tuple[tuple[str, tuple[Line, ...]], ...]:
    """The cells with the lowest and the highest ratios to the baseline, for `EXTREME_HEADS`."""
    ranked = known(pairs.with_baseline())
    most = min(MOST_EXTREME, len(ranked) // 2 or len(ranked))
    last = ranked[::-1][:most] if len(ranked) > 1 else []
    parts = (("Lowest", ranked[:most]), ("Highest", last))
    return tuple(
        (f"{name} {len(rows)} ratios of times", tuple(_extreme(pairs.lookup, one) for one in rows))
        for name, rows in parts
        if rows
    )


def _extreme(lookup: Lookup, one: Compared) -> Line:
    said = one.said
    saved = (
        Datum(title="DRAM bytes were not collected", css="none")
        if numbers.is_missing(one.saved)
        else Datum(short_ratio(one.saved), numbers.raw(one.saved))
    )
    data = (
        Datum(one.grid.name, css="words"),
        Datum(one.grid.place(one.row, one.column), css="words"),
        Datum(short_ratio(said.ratio), numbers.raw(said.ratio)),
        Datum(numbers.interval(said.low, said.high) or numbers.MISSING),
        replace(verdict_datum(said), text=said_word(said), raw=None),
        saved,
    )
    return Line(one.pair.name, lookup.marks[one.pair.over.id], data)


# ---- figures -------------------------------------------------------------------------------------


def saved_table(ranking: Ranking, pairs: Pairs, grid: Grid) -> pd.DataFrame:
    """Rows for `grid_figures.saved`: every cell whose time and DRAM bytes are known on both sides.

    Beside what the figure draws: `place`.
    """
    rows = [
        (
            one.pair.over.name,
            ranking.role(one.pair.over),
            pairs.lookup.marks[one.pair.over.id],
            one.saved,
            1 / one.said.ratio,
            grid.place(one.row, one.column),
        )
        for pair in pairs.against_baseline
        if pair in pairs.shown
        for one in pairs.of(pair, grid)
        if one.saved > 0 and one.said.ratio > 0
    ]
    return pd.DataFrame(rows, columns=["name", "role", "mark", "bytes", "speed", "place"])


def saved_chart(ranking: Ranking, pairs: Pairs, grid: Grid, number: int) -> Drawn | None:
    """Speed-up against bytes saved; None where DRAM bytes were not measured."""
    table = saved_table(ranking, pairs, grid)
    if table.empty:
        return None
    baseline = pairs.against_baseline[0].under.name
    chart = make_chart(
        f"saved-{number}",
        f"{grid.name}: {baseline} / variant, speed-up against DRAM bytes saved",
        "A mark for each cell; above the horizontal line less time is taken, right of the "
        "vertical one fewer bytes are moved. Marks far below the dashed line save bytes that did "
        "not cost the time.",
        grid_figures.saved(table, baseline),
    )
    columns = [table[name].tolist() for name in ("name", "mark", "place", "bytes", "speed")]
    lines = tuple(
        Line(
            name,
            mark,
            (
                Datum(place, css="words"),
                Datum(short_ratio(saved), numbers.raw(saved)),
                Datum(short_ratio(speed), numbers.raw(speed)),
            ),
        )
        for name, mark, place, saved, speed in zip(*columns, strict=True)
    )
    return Drawn(chart, lines)


def slice_table(ranking: Ranking, grid: Grid, *, along: str) -> tuple[pd.DataFrame, int]:
    """Rows for `figures.lines`: time along one axis, a panel for each value of the other.

    Also how many panels had no room. NaN where a cell has no correct result; a panel without any
    is left out.
    """
    lookup = ranking.lookup
    by_row = along == grid.columns
    fixed_key = grid.rows if by_row else grid.columns
    fixed = grid.row_values if by_row else grid.column_values
    moving = grid.column_values if by_row else grid.row_values
    rows = [
        {
            "panel": f"{fixed_key} = {value}" if fixed_key else "",
            "name": variant.name,
            "role": ranking.role(variant),
            "mark": lookup.marks[variant.id],
            "x": float(step),
            "value": _time(lookup, grid, variant, (value, step) if by_row else (step, value)),
        }
        for value in fixed
        for step in moving
        for variant in lookup.variants
    ]
    table = pd.DataFrame(rows)
    known_panels = table.loc[table["value"].notna(), "panel"].unique()
    shown = known_panels[-MOST_PANELS:]
    return table[table["panel"].isin(shown)], len(known_panels) - len(shown)


def _time(lookup: Lookup, grid: Grid, variant: Variant, place: tuple[Any, Any]) -> float:
    problem = grid.problems.get(place)
    cell = lookup.cells.get((variant.id, problem.id)) if problem else None
    return lookup.value(cell, DURATION).median if cell and lookup.correct(cell) else float("nan")


def _slices(ranking: Ranking, grid: Grid, number: int) -> tuple[Chart, ...]:
    """Time along the columns at fixed rows, and the other way round, where these are numbers."""
    axes = ((grid.columns, grid.column_values), (grid.rows, grid.row_values))
    found = []
    for place, (along, values) in enumerate(axes):
        if not along or len(values) < 2 or not all(map(is_number, values)):
            continue
        table, left_out = slice_table(ranking, grid, along=along)
        if table["value"].notna().sum() == 0:
            continue
        reading = "A line per variant. The numbers stand in the heat maps of the time above."
        if left_out:
            reading += f" {left_out} smaller slices have no panel."
        metric = label(DURATION)
        drawing = figures.lines(table, along, Axis(metric.label, metric.unit))
        title = f"{grid.name}: time along {along}"
        found.append(make_chart(f"slice-{number}-{place}", title, reading, drawing))
    return tuple(found)
