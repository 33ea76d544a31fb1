"""Times by each timer, relative to the one that all are compared with."""

from __future__ import annotations

import pandas as pd

from profiler.findings.findings import Programs
from profiler.findings.kinds.timers import TimerComparison
from profiler.render.figures import palette, strips
from profiler.render.figures.axes import symbol_handle
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.strips import RowText
from profiler.render.words import numbers

MOST_CELLS = 18
_LOOKS = (
    (palette.SERIES[0], "o"),
    (palette.SERIES[1], "s"),
    (palette.SERIES[2], "D"),
    (palette.MUTED, "^"),
)
"""Colour and marker of each timer; those of variants are others."""


def timers_chart(programs: Programs, timers: TimerComparison) -> Chart:
    """A row for each cell, those that take least first; a mark for each timer."""
    medians = timers.medians[timers.medians["ratio"] > 0]
    times = medians.groupby("cell")["reference"].first().sort_values(kind="stable")
    shown = list(times.index[:MOST_CELLS])
    places = {cell: row for row, cell in enumerate(shown)}
    collectors = timers.collectors[: len(_LOOKS)]
    looks = dict(zip(collectors, _LOOKS, strict=False))
    cells = {cell.id: cell for cell in programs.cells}
    rows = [
        (
            places[row["cell"]],
            row["ratio"],
            *looks[row["collector"]],
            programs.marks[cells[row["cell"]].variant.id],
            programs.cell_numbers[row["cell"]],
        )
        for row in medians.to_dict("records")
        if row["cell"] in places and row["collector"] in looks
    ]
    table = pd.DataFrame(rows, columns=["row", "ratio", "colour", "marker", "mark", "cell"])
    reference = timers.title(timers.reference)
    texts = [
        RowText(
            f"{cells[cell].problem.name} \u00b7 {cells[cell].variant.label}",
            numbers.show(float(times[cell]), "ns"),
        )
        for cell in shown
    ]
    reading = f"Shortest first; right, the time by {reference}."
    left_out = len(times) - len(shown)
    if left_out:
        reading += f" {left_out} longer ones stand in the tables only."
    figure = strips.timer_ratios(
        table,
        texts,
        [symbol_handle(timers.title(timer), *looks[timer]) for timer in collectors],
        f"time by each timer \u00f7 time by {reference}",
    )
    return make_chart("first", f"Ratio of each timer to {reference}", reading, figure)
