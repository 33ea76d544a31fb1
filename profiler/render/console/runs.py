"""A comparison between runs for the terminal: what differs, and the cells that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from profiler.comparison.programs import EditedFile
from profiler.findings.runs.comparison import RunComparison
from profiler.render.console.small_tables import small_text_table
from profiler.render.console.tables import answer_lines
from profiler.render.console.terminal import Paragraph, plain
from profiler.render.runs.answer import sentences
from profiler.render.runs.heats import grid_sentences
from profiler.render.runs.history import durations_table, runs_table
from profiler.render.runs.rows import Names, change_table

_MOST_LINES = 24
"""Lines of a diff."""


def comparison_tables(comparison: RunComparison) -> RenderableType:
    """Show what differs between the runs, the cells that changed most, and the answer."""
    names = Names.of(comparison)
    tables = [runs_table(comparison)]
    if len(comparison.steps) > 1:
        tables.append(durations_table(comparison, names))
    tables.append(change_table(comparison, names))
    answer = (*sentences(comparison, names), *grid_sentences(comparison))
    return Group(
        answer_lines([sentence for sentence in answer if sentence]),
        *map(small_text_table, tables),
        *_edits(comparison.last.edited_files),
    )


def _edits(files: Sequence[EditedFile]) -> Iterator[RenderableType]:
    """The beginning of the diff of each source file that was edited."""
    for file in files:
        if file.diff:
            yield Paragraph(f"Edited: {file.name}", "bold")
            yield plain("\n".join(file.diff[:_MOST_LINES]))
            if (more := len(file.diff) - _MOST_LINES + file.left_out) > 0:
                yield Paragraph(f"{more} more lines; the page has more of them.", "dim")
            yield Text()
