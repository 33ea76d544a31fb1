"""Several runs in a row: each cell's duration over time, in a table and in small multiples."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from matplotlib.ticker import MaxNLocator

from profiler.comparison.changes import CellChange
from profiler.comparison.compare import RunComparison
from profiler.model import Verdict
from profiler.render.figures import styles
from profiler.render.figures.axes import (
    Axes,
    Handle,
    Scale,
    Ticks,
    legend,
    limits,
    linear_ticks,
    panel_axes,
    places,
    points_of,
    symbol_handle,
)
from profiler.render.figures.drawing import PANEL_COLUMNS, Drawing, Mark, ends_of, set_mark
from profiler.render.html import moment
from profiler.render.runs.rows import MACHINE_WORDS, field_word, verdict_datum
from profiler.render.tables.rows import PAGE_ONLY, Column, Datum, Row, SmallTable, text_column
from profiler.render.words import numbers
from profiler.render.words.names import shorten

MOST_PANELS = 12
MOST_ROWS = 1000
_PANELS_OF_VARIANT = 2
_TITLE = 40
_ROOM = 0.15
"""Room at both ends of an axis that does not begin at 0, by its length."""
VERDICT_ROLES: Mapping[Verdict | None, str] = {
    Verdict.FASTER: "best",
    Verdict.SLOWER: "baseline",
}
"""Roles in figures of cells that changed: blue and orange."""
_SHAPES = {"baseline": "^", "best": "v"}
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
        no_change = "the same, as far as it was recorded"
        rows.append(("Everything else", [no_change] * len(runs)))
    columns = [
        text_column(f"{number + 1} \u00b7 {run.name}", partial(_run_value, number), without="")
        for number, run in enumerate(runs)
    ]
    caption = "Runs and what differs between them"
    return SmallTable.of(caption, "property", columns, rows, lambda row: Row(row[0]))


def _run_value(run: int, row: tuple[str, Sequence[str]]) -> str:
    return row[1][run]


def _value(value: object) -> str:
    if value is None:
        return "not recorded"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _blocks(comparison: RunComparison, run: int) -> str:
    """Fewest and most blocks of a cell in a run."""
    few, many = comparison.blocks(run)
    return str(few) if few == many else f"{few}\u2013{many}"


def durations_table(comparison: RunComparison) -> SmallTable:
    """Cells that at least two runs measured, those whose duration moved most first."""
    columns = [text_column("problem", comparison.problem)]
    for number in range(len(comparison.runs)):
        columns += _columns_of_run(comparison, number)
    return SmallTable.of(
        "Cells over the runs",
        "variant",
        columns,
        comparison.most_moved[:MOST_ROWS],
        lambda cell: Row(comparison.variant(cell), mark=comparison.mark(cell)),
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
        return lambda cell: _run_data(comparison, run, cell)[place]

    columns = [
        Column(f"{number} \u00b7 {report.execution.created[:10]}", of(0), hint, drop=0),
        Column(f"ratio {number}", of(1), ratio, drop=PAGE_ONLY),
        Column(f"step {number}", of(2), is_text=True, drop=0),
    ]
    return columns if run else columns[:2]


def _run_data(comparison: RunComparison, run: int, cell: str) -> tuple[Datum, Datum, Datum]:
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


def history_marks(comparison: RunComparison) -> dict[str, list[Mark]]:
    """Durations in ns of the most moved cells, for `history_figure`, by the title of their panel.

    The role of a mark is that of the verdict on the step to its run.
    """
    return {
        f"{comparison.variant(cell)}\n{comparison.problem(cell)}": [
            Mark(
                "",
                *(times.median_ns, times.low_ns, times.high_ns),
                role=VERDICT_ROLES.get(change.verdict if change else None, "other"),
                variant=comparison.mark(cell),
                place=run,
            )
            for run, times in comparison.history[cell].items()
            for change in [_change_to(comparison, cell, run)]
        ]
        for cell in _varied_cells(comparison)[:MOST_PANELS]
    }


def _varied_cells(comparison: RunComparison) -> list[str]:
    """Cells with the first of each variant in front: one that moved everywhere hides no other."""
    value_counts: Counter[str] = Counter()
    ranked: list[tuple[int, str]] = []
    for cell in comparison.most_moved:
        ranked.append((value_counts[comparison.variant(cell)] // _PANELS_OF_VARIANT, cell))
        value_counts[comparison.variant(cell)] += 1
    return [cell for _, cell in sorted(ranked, key=lambda pair: pair[0])]


def history_figure(
    panels: Mapping[str, Sequence[Mark]], ticks: Sequence[str], *, unit: str | None = "ns"
) -> Drawing:
    """A panel for each cell: its number in each run with its interval; `ticks` name the runs.

    The place of a mark is the number of its run. A triangle stands where the step to a run is
    SLOWER (up) or FASTER (down). Without a unit the numbers are followed closely: scales do not
    begin at 0.
    """
    drawing, grid = panel_axes(len(panels))
    for index, (axes, (title, marks)) in enumerate(zip(grid, panels.items(), strict=True)):
        across = axes.across((-0.4, len(ticks) - 0.6))
        is_lowest = index + PANEL_COLUMNS >= len(panels)
        runs = Ticks(range(len(ticks)), ticks if is_lowest else [""] * len(ticks))
        axes.grid_across(across, runs, lines=False)
        _draw_panel(axes, across, marks, unit)
        axes.title("\n".join(shorten(line, _TITLE) for line in title.split("\n")))
    handles = [
        symbol_handle("step is slower", styles.BASELINE, _SHAPES["baseline"]),
        symbol_handle("step is faster", styles.BEST, _SHAPES["best"]),
    ]
    none = Handle(
        "no such verdict", styles.line(styles.MUTED, 1.5), (styles.circle(2.0), styles.MUTED)
    )
    legend(drawing, [*handles, none])
    return drawing


def _limits(marks: Sequence[Mark], *, from_zero: bool) -> tuple[float, float]:
    """Ends of the upward axis of a panel, with room above."""
    ends = list(filter(math.isfinite, ends_of(marks)))
    return (0.0, max(ends) * 1.12) if from_zero else limits(ends, margin=_ROOM)


def _draw_panel(axes: Axes, across: Scale, marks: Sequence[Mark], unit_name: str | None) -> None:
    largest = max(mark.value for mark in marks)
    divisor, unit = (1.0, "") if unit_name is None else numbers.scale(largest, unit_name)
    scaled = [mark.divided_by(divisor) for mark in marks]
    upwards = axes.upwards(_limits(scaled, from_zero=unit_name is not None))
    axes.grid_upwards(upwards, linear_ticks(upwards, MaxNLocator(4)), unit)
    scales = (across, upwards)
    points = points_of(scaled, scales)
    group = axes.drawing.group()
    set_mark(group, marks[0].variant, marks[0].cell)
    axes.drawing.path(points, styles.line(styles.MUTED, 1.3), group)
    for at in points:
        axes.drawing.symbol(styles.circle(1.75), at, styles.symbol(styles.MUTED), group)
    for mark in scaled:
        span = places([mark.place] * 2, [mark.low, mark.high], scales)
        if len(span) == 2:
            axes.drawing.path(span, styles.line(styles.MUTED, 1.6, "stroke-opacity: 0.6"))
    for mark in scaled:
        if mark.role in _SHAPES:
            at = (across.at(mark.place), upwards.at(mark.value))
            outline = styles.marker(_SHAPES[mark.role], _TRIANGLE)
            axes.drawing.symbol(outline, at, styles.symbol(mark.colour))
    axes.spines()
