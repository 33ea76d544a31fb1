"""Pieces of tables for the terminal, so that all of them look alike."""

from __future__ import annotations

import unicodedata

from rich import box
from rich.table import Table
from rich.text import Text


def table(title: str) -> Table:
    """Make an empty table under a title."""
    # rich wraps a title at the width of its table, however narrow: the minimum keeps it whole.
    return Table(
        title=Text(title, overflow="fold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        min_width=len(title),
    )


def columns(table: Table, *names: str, right: bool = False) -> None:
    """Add columns; those of numbers stand to the right and are never wrapped."""
    for name in names:
        table.add_column(Text(name), justify="right" if right else "left", no_wrap=right)


def plain(text: str) -> Text:
    """Text that rich takes as it is; control characters of a terminal are made visible."""
    return Text("".join(char if _harmless(char) else "\ufffd" for char in text), overflow="fold")


def _harmless(char: str) -> bool:
    """Printable or a space: str.isprintable calls no space printable but the plain one."""
    return char.isprintable() or unicodedata.category(char) == "Zs"


def add_rest_caption(table: Table, count: int, description: str) -> None:
    """Add the number of rows that were left out to a table as its caption."""
    if count > 0:
        table.caption = f"{count} more {description}."
