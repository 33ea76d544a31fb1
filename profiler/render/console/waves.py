"""Grids that are counted in waves, for the terminal: how many blocks each variant needs."""

from __future__ import annotations

from rich.console import RenderableType

from profiler.findings.findings import Findings
from profiler.render.console.terminal import columns, plain, table
from profiler.render.kinds.waves import NEED_HEADS, need_rows


def waves_tables(findings: Findings) -> list[RenderableType]:
    """How many waves and blocks each variant needs: the question is not about a winner."""
    rich_table = table("How many blocks fill the GPU")
    columns(rich_table, "variant", name=True)
    columns(rich_table, *NEED_HEADS[:-1], right=True)
    columns(rich_table, NEED_HEADS[-1])
    for row in need_rows(findings):
        rich_table.add_row(plain(row.name), *(plain(datum.text) for datum in row.data))
    return [rich_table]
