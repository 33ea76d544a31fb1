"""Grids that are counted in waves, for the terminal: how many blocks each variant needs."""

from __future__ import annotations

from rich.table import Table

from profiler.findings.findings import Findings
from profiler.render.console.terminal import columns, plain, table
from profiler.render.kinds.waves import NEED_HEADS, need_rows


def needs_table(findings: Findings) -> Table:
    """From how many waves and blocks on each variant keeps its tail efficiency."""
    found = table("How many blocks fill the GPU")
    columns(found, "variant")
    columns(found, *NEED_HEADS[:-1], right=True)
    columns(found, NEED_HEADS[-1])
    for row in need_rows(findings):
        found.add_row(plain(row.name), *(plain(datum.text) for datum in row.data))
    return found
