"""Grids that are counted in waves, for the terminal: how many blocks each variant needs."""

from __future__ import annotations

from rich.console import RenderableType

from profiler.findings.findings import Findings
from profiler.render.console.terminal import TextTable, columns, plain, table
from profiler.render.kinds.waves import NEED_HEADS, need_rows


def waves_tables(findings: Findings) -> list[RenderableType]:
    """Table of what each variant needs: the question is about grids, not about a winner."""
    return [needs_table(findings)]


def needs_table(findings: Findings) -> TextTable:
    """From how many waves and blocks on each variant keeps its tail efficiency."""
    rich_table = table("How many blocks fill the GPU")
    columns(rich_table, "variant", name=True)
    columns(rich_table, *NEED_HEADS[:-1], right=True)
    columns(rich_table, NEED_HEADS[-1])
    for row in need_rows(findings):
        rich_table.add_row(plain(row.name), *(plain(datum.text) for datum in row.data))
    return rich_table
