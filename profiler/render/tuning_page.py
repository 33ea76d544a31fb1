"""Configurations that an autotuner tried, as a page and on the console: one table per operation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rich.console import RenderableType

from profiler.model import TunedConfig
from profiler.render.console.terminal import TextTable, columns, plain, table
from profiler.render.page import render
from profiler.render.tables.tuning_tables import HEADS, TuningTable, tuning_tables

MOST_CONFIGS = 5000
"""Configurations that a page lists; a document has all."""


def render_tuning_page(tuned: Sequence[TunedConfig], files: Sequence[str]) -> str:
    """Render configurations as HTML; `files` are names without folders."""
    tables = tuning_tables(tuned)
    parts = {
        "files": list(files),
        "tables": _first_rows(tables),
        "operations": len(tables),
        "left_out": max(0, len(tuned) - MOST_CONFIGS),
        "heads": HEADS,
        "count": len(tuned),
    }
    return render("tuning.html", parts)


def _first_rows(tables: Sequence[TuningTable]) -> list[TuningTable]:
    """Tables with MOST_CONFIGS rows together."""
    room, shown = MOST_CONFIGS, []
    for tuning in tables:
        if room > 0:
            shown.append(replace(tuning, rows=tuning.rows[:room]))
        room -= len(tuning.rows)
    return shown


def console_tables(tuned: Sequence[TunedConfig]) -> tuple[RenderableType, ...]:
    """Show configurations on the console."""
    return tuple(_console_table(tuning) for tuning in tuning_tables(tuned))


def _console_table(tuning: TuningTable) -> TextTable:
    shown = table(tuning.operation)
    columns(shown, "choice", "configuration", name=True)
    for place, head in enumerate(HEADS):
        columns(shown, head, right=True, drop=place)
    for row in tuning.rows:
        choice = f"{row.choice} (chosen)".strip() if row.best else row.choice
        shown.add_row(plain(choice), plain(row.config), *(plain(datum.text) for datum in row.data))
    return shown
