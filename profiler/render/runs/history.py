"""Several runs in a row: each cell's duration over time, in a table and in small multiples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.ticker import MaxNLocator

from profiler.comparison.changes import CellChange
from profiler.comparison.compare import RunComparison
from profiler.model import Verdict
from profiler.render.figures import palette, svg
from profiler.render.figures.axes import (
    Axes,
    Handle,
    Scale,
    Ticks,
    legend,
    linear_ticks,
    panel_axes,
    places,
    symbol_handle,
)
from profiler.render.figures.drawing import (
    PANEL_COLUMNS,
    Drawing,
    circle,
    line_style,
    marker,
    symbol_style,
)
from profiler.render.html import moment
from profiler.render.runs.rows import MACHINE_WORDS, Names, field_word, verdict_datum
from profiler.render.tables.rows import PAGE_ONLY, Column, Datum, Row, SmallTable, text_column
from profiler.render.words import numbers
from profiler.render.words.names import shorten

MOST_PANELS = 12
MOST_ROWS = 1000
_PANELS_OF_VARIANT = 2
_TITLE = 40
_COLOURS = {Verdict.FASTER: palette.BEST, Verdict.SLOWER: palette.BASELINE}
_SHAPES = {Verdict.FASTER: "v", Verdict.SLOWER: "^"}
_TRIANGLE = 6.63


def runs_table(comparison: RunComparison) -> SmallTable:
    """Runs as columns, what differs between them as rows."""
    runs = comparison.runs
    rows: list[tuple[str, Sequence[str]]] = [
        ("Measured", [moment(run.report.execution.created) for run in runs]),
        ("Cells", [str(len(run.report.plan.cells)) for run in runs]),
        ("Blocks", [_blocks(comparison, number) for number in range(len(runs))]),
        ("Machines", [*("" for _ in runs[1:]), MACHINE_WORDS[comparison.last.machines]]),
    ]
    rows += [
        (field_word(field), [*map(_value, values)])
        for field, values in comparison.differences.items()
    ]
    if not comparison.differences:
        same = "the same, as far as it was recorded"
        rows.append(("Everything else", [same] * len(runs)))
    columns = [
        text_column(f"{number + 1} \u00b7 {run.name}", partial(_of_run, number), without="")
        for number, run in enumerate(runs)
    ]
    caption = "Runs and what differs between them"
    return SmallTable.of(caption, "property", columns, rows, lambda row: Row(row[0]))


def _of_run(run: int, row: tuple[str, Sequence[str]]) -> str:
    return row[1][run]


def _value(value: object) -> str:
    if value is None:
        return "not recorded"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _blocks(comparison: RunComparison, run: int) -> str:
    """Fewest and most blocks of a cell in a run."""
    few, many = comparison.blocks(run)
    return str(few) if few == many else f"{few}\u2013{many}"


def durations_table(comparison: RunComparison, names: Names) -> SmallTable:
    """Cells that at least two runs measured, those whose duration moved most first."""
    columns = [text_column("problem", names.problem)]
    for number in range(len(comparison.runs)):
        columns += _columns_of_run(comparison, number)
    return SmallTable.of(
        "Cells over the runs",
        "variant",
        columns,
        comparison.most_moved[:MOST_ROWS],
        lambda cell: Row(names.variant(cell), mark=names.mark(cell)),
    )


def _change_to(comparison: RunComparison, cell: str, run: int) -> CellChange | None:
    """Change of a cell in the step to a run; None for the first run, and where it is missing."""
    steps = (step for step in comparison.steps if step.newer == run)
    return next((step.cells.get(cell) for step in steps), None)


def _columns_of_run(comparison: RunComparison, run: int) -> list[Column[str]]:
    """Duration in a run, ratio to its baseline, and from the second run on the verdict."""
    number, report = run + 1, comparison.runs[run].report
    driver = report.environment.driver or "not recorded"
    hint = f"{comparison.runs[run].name}, driver {driver}"
    ratio = f"to the baseline of run {number}"

    def of(place: int) -> Callable[[str], Datum]:
        return lambda cell: _in_run(comparison, run, cell)[place]

    columns = [
        Column(f"{number} \u00b7 {report.execution.created[:10]}", of(0), hint, drop=0),
        Column(f"ratio {number}", of(1), ratio, drop=PAGE_ONLY),
        Column(f"step {number}", of(2), is_text=True, drop=0),
    ]
    return columns if run else columns[:2]


def _in_run(comparison: RunComparison, run: int, cell: str) -> tuple[Datum, Datum, Datum]:
    """Duration of a cell in a run, its ratio to the baseline there, and verdict of the step."""
    times = comparison.history[cell].get(run)
    if times is None:
        nothing = Datum(title="not measured in this run", css="none")
        return nothing, nothing, nothing
    interval = numbers.interval(times.low_ns, times.high_ns, "ns")
    change = _change_to(comparison, cell, run)
    return (
        Datum.quantity(times.median_ns, "ns", "", interval),
        Datum.times(times.ratio, ""),
        Datum("", css="none") if change is None else verdict_datum(change),
    )


def history_table(comparison: RunComparison, names: Names) -> pd.DataFrame:
    """Rows for `history_figure`: `title mark run value low high verdict` of the most moved cells.

    Durations in ns; `verdict` is that of the step to this run, None without one.
    """
    rows = [
        {
            "title": f"{names.variant(cell)}\n{names.problem(cell)}",
            "mark": names.mark(cell),
            "run": run,
            "value": times.median_ns,
            "low": times.low_ns,
            "high": times.high_ns,
            "verdict": change.verdict if (change := _change_to(comparison, cell, run)) else None,
        }
        for cell in _varied(comparison.most_moved, names)[:MOST_PANELS]
        for run, times in comparison.history[cell].items()
    ]
    columns = ["title", "mark", "run", "value", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns).astype({"verdict": object})


def _varied(cells: Sequence[str], names: Names) -> list[str]:
    """Cells with the first of each variant in front: one that moved everywhere hides no other."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, str]] = []
    for cell in cells:
        ranked.append((seen[names.variant(cell)] // _PANELS_OF_VARIANT, cell))
        seen[names.variant(cell)] += 1
    return [cell for _, cell in sorted(ranked, key=lambda pair: pair[0])]


def history_figure(
    table: pd.DataFrame, ticks: Sequence[str], *, unit: str | None = "ns"
) -> Drawing:
    """A panel for each cell: its number in each run with its interval; `ticks` name the runs.

    A triangle stands where the step to a run is SLOWER (up) or FASTER (down). Without a unit the
    numbers are followed closely: scales do not begin at 0.
    """
    panels = dict(list(table.groupby("title", sort=False)))
    drawing, grid = panel_axes(len(panels))
    for index, (axes, (title, rows)) in enumerate(zip(grid, panels.items(), strict=True)):
        across = axes.across((-0.4, len(ticks) - 0.6))
        is_lowest = index + PANEL_COLUMNS >= len(panels)
        runs = Ticks(range(len(ticks)), ticks if is_lowest else [""] * len(ticks))
        axes.grid_across(across, runs, lines=False)
        _draw_panel(axes, across, rows, unit)
        axes.title("\n".join(shorten(line, _TITLE) for line in str(title).split("\n")))
    names = {Verdict.SLOWER: "step is slower", Verdict.FASTER: "step is faster"}
    handles = [
        symbol_handle(name, _COLOURS[verdict], _SHAPES[verdict]) for verdict, name in names.items()
    ]
    none = Handle("no such verdict", line_style(palette.MUTED, 1.5), (circle(2.0), palette.MUTED))
    legend(drawing, [*handles, none])
    return drawing


def _limits(shown: npt.NDArray[np.float64], *, from_zero: bool) -> tuple[float, float]:
    """Ends of the upward axis of a panel, with room above."""
    low, high = float(np.nanmin(shown)), float(np.nanmax(shown))
    if from_zero:
        return 0.0, high * 1.12
    room = 0.15 * (high - low) or 0.01 * abs(high) or 1.0
    return low - room, high + room


def _draw_panel(axes: Axes, across: Scale, rows: pd.DataFrame, of: str | None) -> None:
    divisor, unit = (1.0, "") if of is None else numbers.scale(float(rows["value"].max()), of)
    value, low, high = (rows[name].to_numpy(float) / divisor for name in ("value", "low", "high"))
    upwards = axes.upwards(_limits(np.concatenate([value, low, high]), from_zero=of is not None))
    axes.grid_upwards(upwards, linear_ticks(upwards, MaxNLocator(4)), unit)
    points = places(rows["run"], value, (across, upwards))
    group = axes.drawing.group(id=svg.mark(int(rows["mark"].iloc[0])))
    axes.drawing.path(points, line_style(palette.MUTED, 1.3), group)
    for at in points:
        axes.drawing.symbol(circle(1.75), at, symbol_style(palette.MUTED), group)
    for run, *ends in zip(rows["run"], low, high, strict=True):
        if np.isfinite(ends).all():
            span = [(across.at(run), upwards.at(float(end))) for end in ends]
            axes.drawing.path(span, line_style(palette.MUTED, 1.6, "stroke-opacity: 0.6"))
    for run, height, verdict in zip(rows["run"], value, rows["verdict"], strict=True):
        if verdict in _COLOURS:
            at = (across.at(run), upwards.at(float(height)))
            outline = marker(_SHAPES[verdict], _TRIANGLE)
            axes.drawing.symbol(outline, at, symbol_style(_COLOURS[verdict]))
    axes.spines()
