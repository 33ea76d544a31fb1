"""Small tables of pages for the terminal: their first rows, with names as long as there is room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from profiler.outside_text import safe
from profiler.render.console.terminal import LONGEST_KERNEL, TextTable
from profiler.render.tables.rows import PAGE_ONLY, SmallTable
from profiler.render.words.names import shorten

_MOST_LINES = 20
_INDENT = "  "
_SHORT = 20
"""Characters of texts that are not broken into lines."""
_STYLES = {"outcome bad": "yellow", "outcome good": "blue"}
"""By the class that a value has on a page."""


def small_text_table(table: SmallTable) -> RenderableType:
    """Show the first rows of a table; the page has all for which it has room."""
    return _SmallTextTable(table)


@dataclass(frozen=True, eq=False)
class _SmallTextTable:
    """A table whose long names are cut in their middle where the terminal has no room for them."""

    table: SmallTable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the table at the width of the console."""
        width = options.max_width
        longest = max(LONGEST_KERNEL, self._cut_at(LONGEST_KERNEL).room_for_first(width))
        # Names that would be cut to the same text stay whole, and make room for others.
        yield self._cut_at(max(longest, self._cut_at(longest).first_width(width)))

    def _cut_at(self, longest: int) -> TextTable:
        """The table with names of at most so many characters where these differ."""
        table = self.table
        rows = table.lines[:_MOST_LINES]
        shown = TextTable(table.caption)
        shown.add_columns(table.first, name=True)
        drops, numbered, places = dict(table.drops), 0, []
        for place, (head, _) in enumerate(table.heads):
            is_text = head in table.text_heads
            # Texts in front of all numbers tell rows apart, as their names do.
            drop = drops.get(head, min(numbered, 1) if is_text else numbered)
            if drop != PAGE_ONLY:
                places.append(place)
                is_short = all(len(row.data[place].text) <= _SHORT for row in rows)
                shown.add_columns(head, right=not is_text, fixed=is_short, drop=drop)
                numbered += not is_text
        names = _cut_names([row.name for row in rows], longest)
        for row in rows:
            data = (row.data[place] for place in places)
            cells = (Text(safe(datum.text), style=_STYLES.get(datum.css, "")) for datum in data)
            shown.add_row(_INDENT * row.depth + names[row.name], *cells)
        shown.add_rest_caption(len(table.lines) - len(rows) + table.left_out, "row")
        return shown


def _cut_names(names: Sequence[str], longest: int) -> dict[str, str]:
    """Names, shortened where no two of them become the same."""
    short = {name: shorten(name, longest) for name in names}
    counts = Counter(short.values())
    return {name: text if counts[text] == 1 else name for name, text in short.items()}
