"""Several runs in a row: each cell's duration over time, in a table and in small multiples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from profiler.comparison.joined import Comparison
from profiler.comparison.sides import Side
from profiler.model import Verdict
from profiler.render.figures import svg
from profiler.render.figures.canvas import PANEL_COLUMNS, legend, panel_figure
from profiler.render.runs.rows import Names
from profiler.render.runs.words import verdict_datum, verdict_of
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.names import shorten

MOST_PANELS = 12
MOST_ROWS = 1000
_PANELS_OF_VARIANT = 2
_TITLE = 40
_SHORT_COMMIT = 8
_COLOURS = {Verdict.FASTER: svg.BEST, Verdict.SLOWER: svg.BASELINE}
_SHAPES = {Verdict.FASTER: "v", Verdict.SLOWER: "^"}


@dataclass(frozen=True)
class RunHead:
    """One run as the head of its columns."""

    number: int
    name: str
    day: str
    commit: str
    driver: str
    gpu: str
    when: str
    cells: int
    blocks: str


@dataclass(frozen=True)
class HistoryRow:
    """One cell over all runs: for each, duration, ratio to its baseline, verdict of the step."""

    mark: int
    variant: str
    problem: str
    data: tuple[tuple[Datum, Datum, Datum], ...]


def run_heads(comparison: Comparison) -> tuple[RunHead, ...]:
    """Name each run by when it was made and with what."""
    return tuple(
        _head(number, side, comparison.history) for number, side in enumerate(comparison.sides)
    )


def _head(number: int, side: Side, history: pd.DataFrame) -> RunHead:
    environment = side.report.environment
    commit = (environment.git_commit or "")[:_SHORT_COMMIT]
    blocks = history.loc[history["run"] == number, "blocks"].dropna()
    few, many = (int(blocks.min()), int(blocks.max())) if len(blocks) else (0, 0)
    return RunHead(
        number=number + 1,
        name=side.name,
        day=side.report.created[:10],
        commit=f"{commit}+" if commit and environment.git_dirty else commit or numbers.MISSING,
        driver=environment.driver or numbers.MISSING,
        gpu=environment.gpu or environment.cpu or numbers.MISSING,
        when=side.report.created,
        cells=len(side.report.plan.cells),
        blocks=str(few) if few == many else f"{few}\u2013{many}",
    )


def history_rows(comparison: Comparison, names: Names) -> tuple[HistoryRow, ...]:
    """Cells that at least two runs measured, those whose duration moved most first."""
    steps = _step_rows(comparison)
    cells = _by_movement(comparison)
    known = {
        (str(row["cell"]), int(row["run"])): row for row in comparison.history.to_dict("records")
    }
    return tuple(
        HistoryRow(
            names.marks[names.cells[cell].variant.id],
            names.variant(cell),
            names.problem(cell),
            tuple(
                _data(known.get((cell, number)), steps.get((cell, number)))
                for number in range(len(comparison.sides))
            ),
        )
        for cell in cells[:MOST_ROWS]
    )


def _step_rows(comparison: Comparison) -> Mapping[tuple[str, int], Mapping[Any, Any]]:
    """What each step says of a cell, by cell and the newer run of the step."""
    return {
        (str(row["cell"]), step.newer): row
        for step in comparison.steps
        for row in step.cells.reset_index().to_dict("records")
    }


def _by_movement(comparison: Comparison) -> list[str]:
    """Cells by how far their slowest and fastest run lie apart; ratios to the baseline if known.

    Those that some step found FASTER or SLOWER come before those that only look it.
    """
    history = comparison.history
    value = history["ratio"].where(history["ratio"].notna(), history["median_ns"])
    grouped = value.groupby(history["cell"])
    factor = grouped.max() / grouped.min()
    spread = {str(cell): float(factor[cell]) for cell in factor.index[grouped.count() > 1]}
    decided = {
        str(cell)
        for step in comparison.steps
        for cell in step.cells.index[step.cells["verdict"].isin([Verdict.FASTER, Verdict.SLOWER])]
    }
    return sorted(spread, key=lambda cell: (cell not in decided, -spread[cell]))


def _data(
    row: Mapping[Any, Any] | None, step: Mapping[Any, Any] | None
) -> tuple[Datum, Datum, Datum]:
    if row is None:
        nothing = Datum(title="not measured in this run", css="none")
        return nothing, nothing, nothing
    ratio = float(row["ratio"])
    time = float(row["median_ns"])
    low, high = float(row["low_ns"]), float(row["high_ns"])
    return (
        Datum(numbers.show(time, "ns"), numbers.raw(time), numbers.interval(low, high, "ns")),
        Datum(css="none")
        if numbers.is_missing(ratio)
        else Datum(numbers.ratio(ratio), numbers.raw(ratio)),
        Datum("", css="none") if step is None else verdict_datum(step),
    )


def history_table(comparison: Comparison, names: Names) -> pd.DataFrame:
    """Rows for `history_figure`: `title mark run value low high verdict` of the most moved cells.

    Durations in ns; `verdict` is that of the step to this run, None without one.
    """
    steps = _step_rows(comparison)
    chosen = _varied(_by_movement(comparison), names)[:MOST_PANELS]
    history = comparison.history[comparison.history["cell"].isin(chosen)]
    rows = [
        {
            "title": f"{names.variant(cell)}\n{names.problem(cell)}",
            "mark": names.marks[names.cells[cell].variant.id],
            "run": int(row["run"]),
            "value": row["median_ns"],
            "low": row["low_ns"],
            "high": row["high_ns"],
            "verdict": verdict_of(steps[cell, row["run"]]) if (cell, row["run"]) in steps else None,
        }
        for cell in chosen
        for row in history[history["cell"] == cell].to_dict("records")
    ]
    columns = ["title", "mark", "run", "value", "low", "high", "verdict"]
    return pd.DataFrame(rows, columns=columns).astype({"verdict": object})


def _varied(cells: Sequence[str], names: Names) -> list[str]:
    """Put off all but the first cells of each variant: one that moved everywhere hides no other."""
    seen: Counter[str] = Counter()
    ranked: list[tuple[int, str]] = []
    for cell in cells:
        ranked.append((seen[names.variant(cell)] // _PANELS_OF_VARIANT, cell))
        seen[names.variant(cell)] += 1
    return [cell for _, cell in sorted(ranked, key=lambda pair: pair[0])]


def history_figure(table: pd.DataFrame, ticks: Sequence[str]) -> Figure:
    """A panel for each cell: its duration in each run with its interval; `ticks` name the runs.

    A triangle stands where the step to a run is SLOWER (up) or FASTER (down).
    """
    with mpl.rc_context(svg.style()):
        panels = dict(list(table.groupby("title", sort=False)))
        figure, grid = panel_figure(len(panels))
        for index, (axes, (title, rows)) in enumerate(zip(grid, panels.items(), strict=True)):
            _panel(axes, rows)
            lines = [shorten(line, _TITLE) for line in str(title).split("\n")]
            axes.set_title("\n".join(lines), loc="left")
            axes.set_xlim(-0.4, len(ticks) - 0.6)
            last_row = index + PANEL_COLUMNS >= len(panels)
            axes.xaxis.set_major_locator(FixedLocator(list(range(len(ticks)))))
            labels = list(ticks) if last_row else [""] * len(ticks)
            axes.xaxis.set_major_formatter(FuncFormatter(_namer(labels)))
            axes.grid(visible=True, axis="y")
        handles = [
            Line2D([], [], color=_COLOURS[verdict], marker=_SHAPES[verdict], linestyle="")
            for verdict in (Verdict.SLOWER, Verdict.FASTER)
        ]
        handles.append(Line2D([], [], color=svg.MUTED, marker="o", markersize=4))
        legend(figure, handles, ["step is slower", "step is faster", "no such verdict"])
    return figure


def _namer(labels: Sequence[str]) -> Any:
    return lambda value, _: labels[int(value)] if 0 <= int(value) < len(labels) else ""


def _panel(axes: Axes, rows: pd.DataFrame) -> None:
    divisor, unit = numbers.scale(float(rows["value"].max()), "ns")
    value, low, high = (rows[name].to_numpy(float) / divisor for name in ("value", "low", "high"))
    runs = rows["run"].to_numpy()
    (line,) = axes.plot(runs, value, color=svg.MUTED, linewidth=1.3, marker="o", markersize=3.5)
    line.set_gid(svg.mark(int(rows["mark"].iloc[0])))
    axes.vlines(runs, low, high, color=svg.MUTED, linewidth=1.6, alpha=0.6)
    for run, height, verdict in zip(runs, value, rows["verdict"], strict=True):
        if verdict in _COLOURS:
            axes.scatter(
                [run], [height], color=_COLOURS[verdict], marker=_SHAPES[verdict], s=44, zorder=3
            )
    axes.set_ylim(0, float(np.fmax.reduce([*value, *high])) * 1.12)
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.set_ylabel(unit)
