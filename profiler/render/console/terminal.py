"""Pieces of tables for the terminal, so that all of them look alike."""

from __future__ import annotations

from rich import box
from rich.table import Table
from rich.text import Text

from profiler.outside_text import safe


def table(title: str) -> Table:
    """Make an empty table under a title."""
    # rich wraps a title at the width of its table, however narrow: the minimum keeps it whole.
    return Table(
        title=plain(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        min_width=len(title),
    )


def columns(table: Table, *names: str, right: bool = False) -> None:
    """Add columns; those of numbers stand to the right and are never wrapped."""
    for name in names:
        table.add_column(plain(name), justify="right" if right else "left", no_wrap=right)


def plain(text: str) -> Text:
    """Text that rich takes as it is, without anything that a terminal would obey."""
    return Text(safe(text), overflow="fold")


def add_rest_caption(table: Table, count: int, description: str) -> None:
    """Add the number of rows that were left out to a table as its caption."""
    if count > 0:
        table.caption = f"{count} more {description}."
