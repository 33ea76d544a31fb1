"""A comparison between runs for the terminal: what differs, and the cells that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from profiler.comparison.programs import EditedFile
from profiler.findings.runs.comparison import RunComparison
from profiler.model import Verdict
from profiler.render.console.tables import answer_lines
from profiler.render.console.terminal import Paragraph, TextTable, plain
from profiler.render.runs.answer import sentences
from profiler.render.runs.heats import grid_sentences, machine_label
from profiler.render.runs.history import history_rows, run_heads
from profiler.render.runs.rows import ChangeRow, Names, change_rows, field_word, ratio_head
from profiler.render.tables.rows import Datum

_MOST: dict[Verdict | None, int] = {
    Verdict.SLOWER: 30,
    Verdict.FASTER: 15,
    Verdict.UNCLEAR: 10,
    None: 30,
    Verdict.SAME: 5,
    Verdict.NO_DATA: 5,
}
"""Rows of each verdict; the page has all."""
_MOST_IN_HISTORY = 15
_MOST_LINES = 24
"""Lines of a diff."""
_STYLES = {Verdict.SLOWER: "yellow", Verdict.FASTER: "blue"}


def comparison_tables(comparison: RunComparison) -> RenderableType:
    """Show what differs between the runs, the cells that changed most, and the answer."""
    names = Names.of(comparison)
    parts: list[RenderableType] = [_runs(comparison)]
    if len(comparison.steps) > 1:
        parts.append(_history(comparison, names))
    parts.append(_cells(comparison, change_rows(comparison.last, names)))
    parts += _edits(comparison.last.edited_files)
    answer = (*sentences(comparison, names), *grid_sentences(comparison))
    return Group(answer_lines([sentence for sentence in answer if sentence]), *parts)


def _runs(comparison: RunComparison) -> TextTable:
    """Runs as columns, what differs between them as rows."""
    heads = run_heads(comparison)
    shown = TextTable("Runs, in the order in which they were named")
    shown.add_columns("", *(f"{head.number} \u00b7 {head.name}" for head in heads))
    shown.add_row("measured", *(head.when for head in heads))
    shown.add_row("blocks", *(head.blocks for head in heads))
    shown.add_row("machines", *("" for _ in heads[1:]), machine_label(comparison))
    for difference in comparison.differences:
        values = ("not recorded" if value is None else str(value) for value in difference.values)
        shown.add_row(field_word(difference.field), *values)
    return shown


def _cells(comparison: RunComparison, rows: Sequence[ChangeRow]) -> TextTable:
    heads = run_heads(comparison)
    older, newer = heads[comparison.last.older], heads[comparison.last.newer]
    order = "slower" if comparison.last.refused is None else "longer"
    first = "changed code, then " if len(comparison.last.by_code) > 1 else ""
    shown = TextTable(
        f"{newer.name} relative to {older.name}, {first}{order} ones first; "
        f"{ratio_head(comparison.last)}"
    )
    shown.add_columns("variant", name=True)
    shown.add_columns("problem")
    shown.add_columns(f"run {older.number}", f"run {newer.number}", right=True, drop=1)
    shown.add_columns("ratio", right=True)
    shown.add_columns("interval", right=True, drop=2)
    shown.add_columns("verdict", fixed=True)
    shown.add_columns("why", drop=3)
    shown.add_columns("program", drop=2)
    shown.add_columns("what changed", drop=4)
    first_rows = list(_first_rows(rows))
    for row in first_rows:
        style = _STYLES.get(row.verdict, "") if row.verdict is not None else ""
        shown.add_row(
            row.variant,
            row.problem,
            row.older.text,
            row.newer.text,
            row.shown_ratio.text,
            row.interval,
            Text(row.verdict_datum.text, style=style),
            row.reason,
            row.program,
            row.changes,
        )
    shown.add_rest_caption(len(rows) - len(first_rows), "cell")
    return shown


def _edits(files: Sequence[EditedFile]) -> Iterator[RenderableType]:
    """The beginning of the diff of each source file that was edited."""
    for file in files:
        if file.diff:
            yield Paragraph(f"Edited: {file.name}", "bold")
            yield plain("\n".join(file.diff[:_MOST_LINES]))
            if (more := len(file.diff) - _MOST_LINES + file.left_out) > 0:
                yield Paragraph(f"{more} more lines; the page has more of them.", "dim")
            yield Text()


def _first_rows(rows: Sequence[ChangeRow]) -> Iterator[ChangeRow]:
    """The first rows of each verdict, in the order of the rows."""
    left = dict(_MOST)
    for row in rows:
        left[row.verdict] -= 1
        if left[row.verdict] >= 0:
            yield row


def _history(comparison: RunComparison, names: Names) -> TextTable:
    shown = TextTable("Cells that moved most over the runs")
    shown.add_columns("variant", name=True)
    shown.add_columns("problem")
    for head in run_heads(comparison):
        shown.add_columns(f"{head.number} \u00b7 {head.day}", right=True)
        if head.number > 1:
            shown.add_columns("step")
    rows = history_rows(comparison, names)
    for row in rows[:_MOST_IN_HISTORY]:
        cells = [text for number, data in enumerate(row.data) for text in _texts(number, data)]
        shown.add_row(row.variant, row.problem, *cells)
    shown.add_rest_caption(len(rows) - _MOST_IN_HISTORY, "cell")
    return shown


def _texts(number: int, data: Sequence[Datum]) -> tuple[str, ...]:
    """Texts of the columns of one run: its duration, and from the second on the verdict."""
    time, _, verdict = data
    return (time.text,) if number == 0 else (time.text, verdict.text)
