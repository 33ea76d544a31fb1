"""Excerpts of a page: answer, main table and warnings of a run, as Markdown and for a notebook."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox

from profiler import notices
from profiler.errors import UsageError
from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.findings import Findings
from profiler.findings.programs import Programs
from profiler.findings.verdicts import NO_VERDICT
from profiler.metrics.queries import Label
from profiler.model import Cell, Problem, Verdict
from profiler.notices import Severity
from profiler.outside_text import escaped_markdown
from profiler.planning.cell_filter import problems_called
from profiler.render.figures.charts import Chart, bar_chart
from profiler.render.figures.drawing import scaled_label
from profiler.render.html import asset, moment, render
from profiler.render.tables.main_table import CellRow, main_table
from profiler.render.tables.rows import Column, Row, SmallTable, text_column
from profiler.render.words.cards import first_answer
from profiler.render.words.comparisons import best_word


def run_markdown(findings: Findings) -> str:
    """Heading, answer, table and warnings of a run; every name in it is escaped."""
    report = findings.report
    machine = report.environment.processor or "an unnamed machine"
    warnings = "\n".join(f"- {escaped_markdown(text)}" for text in _warnings(findings))
    blocks = [
        f"### {escaped_markdown(report.experiment.title)}",
        *_answer(findings),
        *_table(short_table(findings)),
        *([warnings] if warnings else []),
        f"<sub>{escaped_markdown(f'{machine}, {moment(report.execution.created)}')}</sub>",
    ]
    return "\n\n".join(blocks) + "\n"


def _answer(findings: Findings) -> tuple[str, str]:
    """The answer in one sentence and a list of the rest, with what is strong on the page."""
    first, *lines = (
        "".join(
            f"**{escaped_markdown(part.text)}**" if part.strong else escaped_markdown(part.text)
            for part in sentence
        )
        for sentence in first_answer(findings)
    )
    return first, "\n".join(f"- {line}" for line in lines)


def _table(table: SmallTable) -> list[str]:
    heads = [table.first, *(column.head for column in table.columns)]
    rules = ["---", *("---" if column.is_text else "---:" for column in table.columns)]
    rows = [[row.name, *(datum.text for datum in row.data)] for row in table.lines]
    cells = [map(escaped_markdown, heads), rules, *(map(escaped_markdown, row) for row in rows)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in cells)
    return [text, f"{table.left_out} more cells are on the page."] if table.left_out else [text]


def _warnings(findings: Findings) -> list[str]:
    """Texts of all notices but those that only inform."""
    folded = notices.fold(findings.notices)
    return [notice.text for notice in folded if notice.severity is not Severity.INFO]


# ---- a notebook ----------------------------------------------------------------------------------


_VARIABLE = re.compile(r"--[a-z0-9-]+: light-dark\([^)]*\);")


def run_html(findings: Findings) -> str:
    """HTML of a run for the output of a notebook cell."""
    parts = {
        "sentences": first_answer(findings),
        "chart": _chart(findings),
        "table": short_table(findings),
        "warnings": _warnings(findings),
        "colours": colours(),
    }
    return render("notebook.html", parts)


def _chart(findings: Findings) -> Chart | None:
    """Medians of the variants at the largest problem; None where nothing was measured."""
    problem = findings.ranking.largest_problem
    return None if problem is None else bar_chart(findings, findings.numbers.primary, problem)


def colours() -> Markup:
    """Declarations of the colours that figures refer to."""
    return Markup(" ".join(_VARIABLE.findall(asset("page.css"))))  # noqa: S704 - of this package


# ---- the main table ------------------------------------------------------------------------------


MOST_ROWS = 30


def short_table(findings: Findings) -> SmallTable:
    """Problem, variant, median with its interval, ratio to the baseline, verdict.

    At most `MOST_ROWS` rows: of each problem the best cells and that of the baseline.
    """
    table = main_table(findings, findings.verdicts.baselines[0])
    shown_rows = _shown_rows(findings.programs, table.rows)
    several = len(findings.programs.problems) > 1
    ratio = f"\u00f7 {findings.programs.baseline.label}" if findings.programs.baseline else "ratio"
    role_names = {"best": best_word(findings.ranking), "baseline": "baseline"}

    def variant(row: CellRow) -> str:
        role = role_names.get(row.role or "")
        return f"{row.cell.variant.label} ({role})" if role else row.cell.variant.label

    columns: tuple[Column[CellRow], ...] = (
        *((text_column("variant", variant),) * several),
        Column(table.columns[0].head, lambda row: row.primary),
        Column("\u00b1", lambda row: row.spread),
        Column(ratio, lambda row: row.ratio),
        text_column("verdict", _verdict),
    )
    return SmallTable.of(
        "",
        "problem" if several else "variant",
        columns,
        shown_rows,
        lambda row: Row(row.cell.problem.name if several else variant(row)),
        left_out=len(table.rows) - len(shown_rows),
    )


def _verdict(row: CellRow) -> str:
    return row.verdict.text if row.primary.raw is not None else row.outcome.text


def _shown_rows(programs: Programs, rows: Sequence[CellRow]) -> list[CellRow]:
    of_baseline = programs.baseline is not None
    most = max(1, MOST_ROWS // max(1, len(programs.problems)) - of_baseline)
    counts: dict[str, int] = {}
    table_rows = []
    for row in rows:
        problem = row.cell.problem.id
        counts[problem] = counts.get(problem, 0) + 1
        if counts[problem] <= most or row.cell.variant == programs.baseline:
            table_rows.append(row)
    return table_rows[:MOST_ROWS]


# ---- figures by matplotlib for papers, slides and notebooks --------------------------------------


MOST_PANELS = 12
"""Problems of one figure; of more the first."""
_COLUMNS = 3
_PANEL_WIDTH_IN, _ROW_HEIGHT_IN, _MARGIN_IN = 4.2, 0.19, 0.9
_SCATTER_HEIGHT_IN = 2.4
_COLOURS = {Verdict.FASTER: "#1f6fb2", Verdict.SLOWER: "#c8541a"}
_OTHERS = "#555555"
_MEANINGS = {
    _COLOURS[Verdict.FASTER]: "faster than the baseline",
    _COLOURS[Verdict.SLOWER]: "slower",
    _OTHERS: "neither",
}


class NotebookFigure(Figure):
    """A figure that a notebook shows as a picture, also where nothing has loaded pyplot."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=100)
        return content.getvalue()


_Quantity = tuple[Label, str | None]
"""A metric of cells on an axis; with the label of the baseline the ratio to that."""
_Panel = tuple[Problem, Sequence[Cell]]


def _ends(cell_numbers: CellNumbers, quantity: _Quantity, cell: Cell) -> tuple[float, float, float]:
    """Low end of the 95 % interval, median and high end; the median where there is none."""
    metric, baseline = quantity
    value = cell_numbers.value(cell, metric.name)
    low, middle, high = value.low, value.median, value.high
    if baseline is not None:
        low, middle, high = value.ratio_low, value.ratio, value.ratio_high
    low, high = (end if math.isfinite(end) else middle for end in (low, high))
    return low, middle, high


def _axis(quantity: _Quantity, largest: float) -> tuple[float, str]:
    """Divisor of the numbers on an axis, and its label."""
    metric, baseline = quantity
    if baseline is None:
        return scaled_label(metric.label, metric.unit, largest)
    return scaled_label(f"{metric.label} \u00f7 that of {baseline}", "", largest)


def metric_figure(
    findings: Findings,
    metric: str,
    problem: str | None = None,
    *,
    against: str | None = None,
    ratio: bool = False,
) -> Figure:
    """Median and 95 % interval of a metric for every version that is right, a panel a problem.

    Versions stand in the order of their medians, the baseline marked; colours are those of verdicts
    on the duration: faster, slower, and all others. `problem`: only those that this means, as
    `--problem` everywhere. `against`: another metric, in whose direction each version lies by that;
    `ratio`: ratios to the baseline. Raises UsageError where nothing was measured of a metric, or no
    such problem or baseline is there.
    """
    labels = {label.name: label for label in findings.numbers.metrics}
    for name in (metric, metric if against is None else against):
        if name not in labels:
            raise UsageError(
                f"Nothing was measured of the metric {name}.",
                remedy=f"Name one that was: {', '.join(sorted(labels))}." if labels else None,
            )
    baseline = findings.programs.baseline if ratio else None
    if ratio and baseline is None:
        raise UsageError("There are no ratios: the run has no baseline.")
    quantity = (labels[metric], None if baseline is None else baseline.label)
    against_quantity = None if against is None else (labels[against], None)
    measured = [
        (panel_problem, cells)
        for panel_problem in _problems(findings.programs, problem)
        if (cells := _cells_with(findings.numbers, (quantity, against_quantity), panel_problem))
    ]
    panels = measured[:MOST_PANELS]
    if not panels:
        raise UsageError(f"No version has {' and '.join(filter(None, (metric, against)))}.")
    columns = min(_COLUMNS, len(panels))
    lines = math.ceil(len(panels) / columns)
    rows_in = _ROW_HEIGHT_IN * max(len(cells) for _, cells in panels)
    height_in = _MARGIN_IN + (rows_in if against_quantity is None else _SCATTER_HEIGHT_IN)
    size = (_PANEL_WIDTH_IN * columns, lines * height_in)
    figure = NotebookFigure(figsize=size, layout="constrained")
    for place, (panel_problem, cells) in enumerate(panels, start=1):
        panel = figure.add_subplot(lines, columns, place)
        _draw_panel(panel, findings, cells, quantity, against_quantity)
        panel.set_title(panel_problem.name, fontsize=9)
    _add_legend(figure, panels, len(measured) - len(panels), findings)
    if against is not None:
        _hide_overlapping_labels(figure)
    return figure


def _hide_overlapping_labels(figure: Figure) -> None:
    """Hide the labels of points that would lie on an earlier one's."""
    figure.draw_without_rendering()
    for panel in figure.axes:
        shown: list[Bbox] = []
        for label in panel.texts:
            box = label.get_window_extent()
            label.set_visible(not any(map(box.overlaps, shown)))
            if label.get_visible():
                shown.append(box)


def _add_legend(
    figure: Figure,
    panels: Sequence[_Panel],
    left_out: int,
    findings: Findings,
) -> None:
    """Legend below the panels: the colours and marks in them, and how many problems have none."""
    cells = [cell for _, cells in panels for cell in cells]
    baseline = findings.programs.baseline
    colours = {_colour(findings, cell) for cell in cells if cell.variant != baseline}
    handles = [
        Line2D([], [], color=colour, marker="o", markersize=4, label=words)
        for colour, words in _MEANINGS.items()
        if colour in colours and colours != {_OTHERS}
    ]
    if baseline is not None and any(cell.variant == baseline for cell in cells):
        handles.append(
            Line2D(
                [],
                [],
                color=_OTHERS,
                marker="D",
                markersize=4,
                label=f"{baseline.label} (baseline)",
            )
        )
    title = f"The first {len(panels)} of {len(panels) + left_out} problems" if left_out else None
    figure.legend(
        handles=handles,
        title=title,
        loc="outside lower center",
        ncols=2 if len(panels) == 1 else len(handles),
        fontsize=7,
        title_fontsize=7,
        frameon=False,
    )


def _problems(programs: Programs, problem_name: str | None) -> Sequence[Problem]:
    if problem_name is None:
        return programs.problems
    problems = problems_called(programs.problems, problem_name)
    if not problems:
        names = ", ".join(problem.name for problem in programs.problems)
        raise UsageError(f"No problem is called {problem_name}.", remedy=f"Name one of: {names}.")
    return problems


def _cells_with(
    cell_numbers: CellNumbers, quantities: Sequence[_Quantity | None], problem: Problem
) -> list[Cell]:
    """Right cells of a problem that have all quantities, the lowest of the first one first."""

    def medians(cell: Cell) -> list[float]:
        return [_ends(cell_numbers, quantity, cell)[1] for quantity in quantities if quantity]

    cells = [
        cell
        for cell in cell_numbers.programs.correct_cells.values()
        if cell.problem.id == problem.id and all(map(math.isfinite, medians(cell)))
    ]
    return sorted(cells, key=lambda cell: medians(cell)[0])


def _colour(findings: Findings, cell: Cell) -> str:
    """Colour of the verdict on the duration of a cell against the baseline."""
    judged = findings.verdicts.against_baseline.get(cell.id, NO_VERDICT)
    return _OTHERS if judged.verdict is None else _COLOURS.get(judged.verdict, _OTHERS)


def _draw_panel(
    panel: Axes,
    findings: Findings,
    cells: Sequence[Cell],
    quantity: _Quantity,
    against: _Quantity | None,
) -> None:
    """Versions as points with intervals: in rows, or by another quantity upwards."""
    across = [_ends(findings.numbers, quantity, cell) for cell in cells]
    largest = max(middle for _, middle, _ in across)
    divisor, axis_words = _axis(quantity, largest)
    rows: list[tuple[float, float, float]] = [(row, row, row) for row in range(len(cells))]
    up, up_divisor = rows, 1.0
    if against is not None:
        up = [_ends(findings.numbers, against, cell) for cell in cells]
        up_divisor, up_words = _axis(against, max(middle for _, middle, _ in up))
        panel.set_ylabel(up_words, fontsize=8)
    for cell, across_ends, up_ends in zip(cells, across, up, strict=True):
        low, x, high = (end / divisor for end in across_ends)
        bottom, y, top = (end / up_divisor for end in up_ends)
        colour = _colour(findings, cell)
        panel.plot([low, high], [y, y], color=colour, linewidth=1.2)
        panel.plot([x, x], [bottom, top], color=colour, linewidth=1.2)
        marker = "D" if cell.variant.id == findings.programs.plan.baseline else "o"
        panel.plot([x], [y], marker, color=colour, markersize=4)
        if against is not None:
            is_right = x > largest / divisor / 2
            panel.annotate(
                cell.variant.label,
                (x, y),
                (-4 if is_right else 4, 3),
                textcoords="offset points",
                ha="right" if is_right else "left",
                size=6,
            )
    panel.update_datalim([(0, 0)], updatey=False)  # the margin on the right is a share of the axis
    if against is None:
        panel.set_yticks(range(len(cells)), [cell.variant.label for cell in cells], fontsize=7)
        panel.set_ylim(len(cells) - 0.5, -0.5)
    panel.set_xlim(left=0)
    panel.tick_params(labelsize=7)
    panel.set_xlabel(axis_words, fontsize=8)
    panel.grid(axis="x", color="#dddddd", linewidth=0.6)
    panel.set_axisbelow(True)
