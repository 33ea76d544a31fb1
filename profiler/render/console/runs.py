"""A comparison between runs for the terminal: what differs, and the cells that changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from profiler.comparison.joined import Comparison
from profiler.model import Verdict
from profiler.render.console.terminal import columns, plain, say_the_rest, table
from profiler.render.runs.answer import sentences
from profiler.render.runs.grids import GridRuns, grid_sentences, machine_label
from profiler.render.runs.history import history_rows, run_heads
from profiler.render.runs.rows import Line, Names, lines
from profiler.render.runs.words import field_word
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
_STYLES = {Verdict.SLOWER: "yellow", Verdict.FASTER: "blue"}


def comparison_tables(comparison: Comparison) -> RenderableType:
    """Show what differs between the runs, the cells that changed most, and the answer."""
    names = Names.of(comparison)
    rows = lines(comparison.last, names)
    parts: list[RenderableType] = [_runs(comparison)]
    if len(comparison.steps) > 1:
        parts.append(_history(comparison, names))
    parts.append(_cells(comparison, rows))
    said = (*sentences(comparison, rows), *grid_sentences(GridRuns(comparison, names)))
    answer = " ".join("".join(part.text for part in one) for one in said)
    return Group(*parts, Text(answer, style="bold"))


def _runs(comparison: Comparison) -> Table:
    """Runs as columns, what differs between them as rows."""
    heads = run_heads(comparison)
    found = table("Runs, the older first")
    columns(found, "", *(f"{head.number} \u00b7 {head.name}" for head in heads))
    found.add_row("measured", *(plain(head.when) for head in heads))
    found.add_row("blocks", *(plain(head.blocks) for head in heads))
    found.add_row("machines", *("" for _ in heads[1:]), plain(machine_label(comparison)))
    for one in comparison.differences:
        values = ("not recorded" if value is None else str(value) for value in one.values)
        found.add_row(plain(field_word(one.field)), *(plain(value) for value in values))
    return found


def _cells(comparison: Comparison, rows: Sequence[Line]) -> Table:
    heads = run_heads(comparison)
    older, newer = heads[comparison.last.older], heads[comparison.last.newer]
    order = "slower" if comparison.last.withheld is None else "longer"
    found = table(f"{newer.name} relative to {older.name}, {order} ones first")
    columns(found, "variant", "problem")
    columns(found, "older", "newer", "ratio", "interval", right=True)
    columns(found, "verdict", "why", "what changed")
    shown = list(_shown(rows))
    for line in shown:
        style = _STYLES.get(line.verdict, "") if line.verdict is not None else ""
        found.add_row(
            plain(line.variant),
            plain(line.problem),
            line.older.text,
            line.newer.text,
            line.shown_ratio.text,
            plain(line.interval),
            Text(line.verdict_datum.text, style=style),
            plain(line.reason),
            plain(line.changes),
        )
    say_the_rest(found, len(rows) - len(shown), "cells are in the page")
    return found


def _shown(rows: Sequence[Line]) -> Iterator[Line]:
    """The first lines of each verdict, in the order of the lines."""
    left = dict(_MOST)
    for line in rows:
        left[line.verdict] -= 1
        if left[line.verdict] >= 0:
            yield line


def _history(comparison: Comparison, names: Names) -> Table:
    found = table("Cells that moved most over the runs")
    columns(found, "variant", "problem")
    for head in run_heads(comparison):
        columns(found, f"{head.number} \u00b7 {head.day}", right=True)
        if head.number > 1:
            columns(found, "step")
    rows = history_rows(comparison, names)
    for row in rows[:_MOST_IN_HISTORY]:
        cells = [text for number, data in enumerate(row.data) for text in _texts(number, data)]
        found.add_row(plain(row.variant), plain(row.problem), *cells)
    say_the_rest(found, len(rows) - _MOST_IN_HISTORY, "cells are in the page")
    return found


def _texts(number: int, data: Sequence[Datum]) -> tuple[str, ...]:
    """What stands in the columns of one run: its duration, and from the second on the verdict."""
    time, _, verdict = data
    return (time.text,) if number == 0 else (time.text, verdict.text)
