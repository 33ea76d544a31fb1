"""What leaves a page: answer, main table and warnings of a run, as Markdown and for a notebook."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from profiler import notices
from profiler.errors import UsageError
from profiler.findings.findings import CellNumbers, Findings, Programs
from profiler.model import Cell, Problem, Verdict
from profiler.notices import Severity
from profiler.outside_text import escaped_markdown
from profiler.planning.cell_filter import problems_called
from profiler.render.figures.charts import Chart, bar_chart
from profiler.render.figures.drawing import Axis
from profiler.render.html import moment, render
from profiler.render.tables.main_table import CellRow, main_table
from profiler.render.words.cards import first_answer
from profiler.render.words.comparisons import best_word


def run_markdown(findings: Findings) -> str:
    """Heading, answer, table and warnings of a run; every name in it is escaped."""
    report = findings.report
    machine = report.environment.gpu or report.environment.cpu or "an unnamed machine"
    blocks = [
        f"### {escaped_markdown(report.experiment.title)}",
        *_answer(findings),
        *_table(short_table(findings)),
        *_warnings(findings),
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


def _table(table: ShortTable) -> list[str]:
    rules = ["---:" if numeric else "---" for numeric in table.numeric]
    rows = [
        map(escaped_markdown, table.heads),
        rules,
        *(map(escaped_markdown, row) for row in table.rows),
    ]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return [text, f"{table.left_out} more cells are on the page."] if table.left_out else [text]


def _warnings(findings: Findings) -> list[str]:
    folded = notices.fold(findings.notices)
    texts = [notice.text for notice in folded if notice.severity is not Severity.INFO]
    return ["\n".join(f"- {escaped_markdown(text)}" for text in texts)] if texts else []


# ---- a notebook ----------------------------------------------------------------------------------


_VARIABLE = re.compile(r"--[a-z0-9-]+: light-dark\([^)]*\);")


def run_html(findings: Findings) -> str:
    """HTML of a run for the output of a notebook cell."""
    folded = notices.fold(findings.notices)
    parts = {
        "sentences": first_answer(findings),
        "chart": _chart(findings),
        "table": short_table(findings),
        "warnings": [notice.text for notice in folded if notice.severity is not Severity.INFO],
        "colours": colours(),
    }
    return render("notebook.html", parts)


def _chart(findings: Findings) -> Chart | None:
    """Medians of the variants at the largest problem; None where nothing was measured."""
    problem = findings.ranking.largest_problem
    return None if problem is None else bar_chart(findings, findings.numbers.primary, problem)


def colours() -> Markup:
    """Declarations of the colours that figures refer to."""
    sheet = files("profiler.render").joinpath("assets", "page.css").read_text(encoding="utf-8")
    return Markup(" ".join(_VARIABLE.findall(sheet)))  # noqa: S704 - a file of this package


# ---- the main table ------------------------------------------------------------------------------


MOST_ROWS = 30


@dataclass(frozen=True)
class ShortTable:
    """Heads and rows of text, the best cells of each problem first."""

    heads: tuple[str, ...]
    numeric: tuple[bool, ...]
    """Which columns hold numbers."""
    rows: tuple[tuple[str, ...], ...]
    left_out: int
    """Cells without a row."""


def short_table(findings: Findings) -> ShortTable:
    """Problem, variant, median with its interval, ratio to the baseline, verdict.

    At most `MOST_ROWS` rows: of each problem the best cells and that of the baseline.
    """
    table = main_table(findings, findings.verdicts.baselines[0])
    shown = _shown(findings.programs, table.rows)
    problems = len(findings.programs.problems) > 1
    ratio = f"\u00f7 {findings.programs.baseline.label}" if findings.programs.baseline else "ratio"
    heads = ("problem", "variant", table.columns[0].head, "\u00b1", ratio, "verdict")
    role_names = {"best": best_word(findings.ranking), "baseline": "baseline"}
    rows = [_texts(row, role_names.get(row.role or "")) for row in shown]
    first = 0 if problems else 1
    return ShortTable(
        heads=heads[first:],
        numeric=(False, False, True, True, True, False)[first:],
        rows=tuple(row[first:] for row in rows),
        left_out=len(table.rows) - len(rows),
    )


def _shown(programs: Programs, rows: Sequence[CellRow]) -> list[CellRow]:
    of_baseline = programs.baseline is not None
    most = max(1, MOST_ROWS // max(1, len(programs.problems)) - of_baseline)
    counts: dict[str, int] = {}
    shown = []
    for row in rows:
        problem = row.cell.problem.id
        counts[problem] = counts.get(problem, 0) + 1
        if counts[problem] <= most or row.cell.variant == programs.baseline:
            shown.append(row)
    return shown[:MOST_ROWS]


def _texts(row: CellRow, role: str | None) -> tuple[str, ...]:
    tag = f" ({role})" if role else ""
    return (
        row.cell.problem.name,
        f"{row.cell.variant.label}{tag}",
        row.primary.text,
        row.spread.text,
        row.ratio.text,
        row.verdict.text if row.primary.raw is not None else row.outcome,
    )


# ---- figures by matplotlib for papers, slides and notebooks --------------------------------------


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
        if (cells := _cells_with(findings.numbers, metric, of))
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
        _draw_panel(panel, findings, metric, axis, cells)
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


def _cells_with(numbers: CellNumbers, metric: str, problem: Problem) -> list[Cell]:
    """Right cells of a problem that have the metric, the lowest first."""
    cells = [
        cell
        for cell in numbers.programs.correct_cells.values()
        if cell.problem.id == problem.id and numbers.value(cell, metric).present
    ]
    return sorted(cells, key=lambda cell: numbers.value(cell, metric).median)


def _draw_panel(
    panel: Axes, findings: Findings, metric: str, axis: Axis, cells: Sequence[Cell]
) -> None:
    values = [findings.numbers.value(cell, metric) for cell in cells]
    divisor, words = axis.scaled(max(value.median for value in values))
    for row, (cell, value) in enumerate(zip(cells, values, strict=True)):
        verdict = findings.verdicts.against_baseline.get(cell.id)
        colour = _OTHERS
        if verdict is not None and verdict.verdict is not None:
            colour = _COLOURS.get(verdict.verdict, _OTHERS)
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
