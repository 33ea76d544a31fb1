"""Figures by matplotlib for papers, slides and notebooks: a metric of all versions, by problem."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from profiler.errors import UsageError
from profiler.findings.findings import CellNumbers, Findings, Programs
from profiler.model import Cell, Problem, Verdict
from profiler.planning.cell_filter import problems_called
from profiler.render.figures.canvas import Axis

MOST_PANELS = 12
"""Problems of one figure; of more the first."""
_COLUMNS = 3
_PANEL_WIDTH_IN, _ROW_HEIGHT_IN, _MARGIN_IN = 4.2, 0.19, 0.9
_COLOURS = {Verdict.FASTER: "#1f6fb2", Verdict.SLOWER: "#c8541a"}
_OTHERS = "#555555"


def metric_figure(findings: Findings, metric: str, problem: str | None = None) -> Figure:
    """Median and 95 % interval of a metric for every version that is right, a panel a problem.

    Versions stand in the order of their medians, the baseline marked; colours are those of verdicts
    on the duration: faster, slower, and all others. `problem`: only those that this means, as
    `--problem` everywhere. Raises UsageError where nothing was measured of the metric, or no such
    problem is there.
    """
    panels = [
        (of, cells)
        for of in _problems(findings.programs, problem)
        if (cells := _cells(findings.numbers, metric, of))
    ][:MOST_PANELS]
    labels = {label.name: label for label in findings.numbers.metrics}
    if not panels:
        raise UsageError(
            f"Nothing was measured of the metric {metric}.",
            remedy=f"Name one that was: {', '.join(sorted(labels))}.",
        )
    axis = Axis(labels[metric].label, labels[metric].unit)
    columns = min(_COLUMNS, len(panels))
    lines = math.ceil(len(panels) / columns)
    most = max(len(cells) for _, cells in panels)
    figure = Figure(
        figsize=(_PANEL_WIDTH_IN * columns, lines * (_MARGIN_IN + _ROW_HEIGHT_IN * most)),
        layout="constrained",
    )
    for place, (of, cells) in enumerate(panels, start=1):
        panel = figure.add_subplot(lines, columns, place)
        _draw(panel, findings, metric, axis, cells)
        panel.set_title(of.name, fontsize=9)
    return figure


def _problems(programs: Programs, named: str | None) -> Sequence[Problem]:
    if named is None:
        return programs.problems
    problems = problems_called(programs.problems, named)
    if not problems:
        names = ", ".join(problem.name for problem in programs.problems)
        raise UsageError(f"No problem is called {named}.", remedy=f"Name one of: {names}.")
    return problems


def _cells(numbers: CellNumbers, metric: str, problem: Problem) -> list[Cell]:
    """Right cells of a problem that have the metric, the lowest first."""
    cells = [
        cell
        for cell in numbers.programs.correct_cells.values()
        if cell.problem.id == problem.id and numbers.value(cell, metric).present
    ]
    return sorted(cells, key=lambda cell: numbers.value(cell, metric).median)


def _draw(panel: Axes, findings: Findings, metric: str, axis: Axis, cells: Sequence[Cell]) -> None:
    values = [findings.numbers.value(cell, metric) for cell in cells]
    divisor, words = axis.scaled(max(value.median for value in values))
    for row, (cell, value) in enumerate(zip(cells, values, strict=True)):
        verdict = findings.verdicts.against_baseline.get(cell.id)
        said = None if verdict is None else verdict.verdict
        colour = _OTHERS if said is None else _COLOURS.get(said, _OTHERS)
        low, high = (
            (end if math.isfinite(end) else value.median) for end in (value.low, value.high)
        )
        panel.plot([low / divisor, high / divisor], [row, row], color=colour, linewidth=1.2)
        marker = "D" if cell.variant.id == findings.programs.plan.baseline else "o"
        panel.plot([value.median / divisor], [row], marker, color=colour, markersize=4)
    panel.set_yticks(range(len(cells)), [cell.variant.label for cell in cells], fontsize=7)
    panel.invert_yaxis()
    panel.set_xlim(left=0)
    panel.tick_params(axis="x", labelsize=7)
    panel.set_xlabel(words, fontsize=8)
    panel.grid(axis="x", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
