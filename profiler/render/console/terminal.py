"""Tables for the terminal that hold at any width.

A table that is too wide leaves out its least important columns, and says which: further ones so
that no name is wrapped, others only where names keep fewer than `NAME_WIDTH` characters. The first
column is never left out. No line is wider than the terminal, and none ends in blanks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from profiler.notices import counted
from profiler.outside_text import safe
from profiler.render.words.signs import SYMBOLS

NAME_WIDTH = 24
"""Characters that a column of names keeps."""
FURTHER = 2
"""Columns with this `drop` or a higher one go before a name is wrapped."""
LONGEST_KERNEL = 60
"""Characters of a kernel's name where the terminal has no room for more."""
_TEXT_WIDTH = 12
_NARROWEST = 4
_GAP = "  "


@dataclass(frozen=True)
class _Column:
    """A column: its head, and what it does where there is no room."""

    head: Text
    right: bool
    """Numbers: to the right, and never wrapped."""
    fixed: bool
    """Never wrapped."""
    name: bool
    drop: int
    """Columns with the highest number are left out first; 0: after all others."""


@dataclass
class TextTable:
    """A table of texts under a title; rich prints it at the width of its console."""

    title: str
    caption: str = ""
    _columns: list[_Column] = field(default_factory=list)
    _rows: list[tuple[Text, ...]] = field(default_factory=list)

    def add_columns(
        self,
        *heads: str,
        right: bool = False,
        fixed: bool = False,
        name: bool = False,
        drop: int = 0,
    ) -> None:
        """Add columns.

        Those of numbers stand to the `right` and are never wrapped, as `fixed` ones; those with a
        `name` of the row keep `NAME_WIDTH` characters. Where there is no room, columns with the
        highest `drop` are left out first, and of equal ones the last; never the first column.
        """
        self._columns += [
            _Column(plain(head), right=right, fixed=right or fixed, name=name, drop=drop)
            for head in heads
        ]

    def add_row(self, *cells: str | Text) -> None:
        """Add a row of texts as they are; cells that are left out at its end are empty."""
        texts = [cell if isinstance(cell, Text) else plain(cell) for cell in cells]
        missing = len(self._columns) - len(texts)
        self._rows.append((*texts, *(Text() for _ in range(missing))))

    def add_rest_caption(self, count: int, row: str, where: str = " in the page") -> None:
        """Begin the caption with how many rows were left out, if any, and where they stand."""
        if count > 0:
            self.caption = f"{counted(count, f'more {row}')}{where}. {self.caption}".rstrip()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the lines of the table at the width of the console."""
        widths = self._widths(options.max_width)
        places = sorted(widths)
        yield Paragraph(self.title, "bold")
        heads = tuple(column.head for column in self._columns)
        yield from self._lines(console, heads, widths, style="bold")
        yield Text("\u2500" * (sum(widths.values()) + len(_GAP) * (len(places) - 1)), style="dim")
        for row in self._rows:
            yield from self._lines(console, row, widths)
        for text in filter(None, (self.caption, self._left_out(places))):
            yield Paragraph(text, "dim")
        yield Text()

    def _left_out(self, places: Sequence[int]) -> str:
        """Sentence on the columns that had no room; empty where all had."""
        heads = [
            column.head.plain
            for place, column in enumerate(self._columns)
            if place not in places and column.head.plain
        ]
        return f"No room here for: {', '.join(heads)}." if heads else ""

    def _lines(
        self, console: Console, row: Sequence[Text], widths: dict[int, int], style: str = ""
    ) -> Iterator[Text]:
        """A row of cells as lines."""
        wrapped = [
            list(_wrapped(console, row[place], width)) for place, width in sorted(widths.items())
        ]
        for pieces in zip_longest(*wrapped, fillvalue=Text()):
            line = Text(style=style)
            for place, piece in zip(sorted(widths), pieces, strict=True):
                space = " " * (widths[place] - piece.cell_len)
                right = self._columns[place].right
                line.append(_GAP if len(line) or place != min(widths) else "")
                line.append_text(Text.assemble(space, piece) if right else piece + Text(space))
            line.rstrip()
            yield line

    def room_for_first(self, width: int) -> int:
        """Width that is left for the first column beside all others, unwrapped."""
        natural = [self._natural(place) for place in range(len(self._columns))]
        return width - _total(range(len(natural)), natural) + natural[0]

    def first_width(self, width: int) -> int:
        """Width that the first column has."""
        return self._widths(width)[0]

    # ---- widths ----------------------------------------------------------------------------------

    def _widths(self, room: int) -> dict[int, int]:
        """Width of each column that has room, by its place."""
        natural = [self._natural(place) for place in range(len(self._columns))]
        least = [self._least(place, natural[place]) for place in range(len(self._columns))]
        unwrapped = [
            natural[place] if column.name else least[place]
            for place, column in enumerate(self._columns)
        ]
        places = list(range(len(self._columns)))
        while (
            _total(places, unwrapped) > room and self._columns[self._next(places)].drop >= FURTHER
        ):
            places.remove(self._next(places))
        while len(places) > 1 and _total(places, least) > room:
            places.remove(self._next(places))
        widths = {place: least[place] for place in places}
        self._narrow(widths, room)
        self._widen(widths, natural, room)
        return widths

    def _widen(self, widths: dict[int, int], natural: Sequence[int], room: int) -> None:
        """Give what is left to names first, then to the texts that are wrapped most."""
        for _ in range(room - _total(list(widths), widths)):
            wrapped = [place for place in widths if widths[place] < natural[place]]
            if not wrapped:
                return
            widest = max(
                wrapped,
                key=lambda place: (self._columns[place].name, natural[place] / widths[place]),
            )
            widths[widest] += 1

    def _next(self, places: Sequence[int]) -> int:
        """The least important column: with the highest number, of several the last."""
        return max(places[1:] or places, key=lambda place: (self._columns[place].drop, place))

    def _natural(self, place: int) -> int:
        """Width at which nothing of a column is wrapped; heads of fixed ones are."""
        column = self._columns[place]
        head = _longest_word(column.head) if column.fixed else _widest_line(column.head)
        return max([head, *(_widest_line(row[place]) for row in self._rows)], default=1)

    def _least(self, place: int, natural: int) -> int:
        """Narrowest width of a column."""
        column = self._columns[place]
        if column.fixed:
            return natural
        if column.name:
            return min(natural, NAME_WIDTH)
        word = max((_longest_word(row[place]) for row in self._rows), default=0)
        return min(natural, max(_TEXT_WIDTH, min(word, NAME_WIDTH)))

    @staticmethod
    def _narrow(widths: dict[int, int], room: int) -> None:
        """Take from the widest column until the table fits."""
        while _total(list(widths), widths) > room and max(widths.values()) > _NARROWEST:
            widths[max(widths, key=lambda place: widths[place])] -= 1


def _total(places: Sequence[int], widths: Sequence[int] | dict[int, int]) -> int:
    return sum(widths[place] for place in places) + len(_GAP) * (len(places) - 1)


def _widest_line(text: Text) -> int:
    return max(map(cell_len, text.plain.splitlines()), default=0)


def _longest_word(text: Text) -> int:
    return max(map(cell_len, text.plain.split()), default=0)


def _wrapped(console: Console, text: Text, width: int) -> Iterator[Text]:
    """Lines of a text, none wider than the width, without blanks at their ends.

    A number stays with its unit, a symbol with its word, a count with what it counts, and a line
    begins with no sign that stands between two parts of a name, where there is room.
    """
    joined = text.copy()
    joined.plain = text.plain.replace(_NARROW_BLANK, _UNIT)
    together = _JOINTS.sub(_JOINT, joined.plain)
    if max(map(cell_len, together.split()), default=0) <= width:
        joined.plain = together
    for line in joined.wrap(console, max(width, 1), overflow="fold"):
        line.plain = line.plain.replace(_UNIT, _NARROW_BLANK).replace(_JOINT, " ")
        line.rstrip()
        yield line


_NARROW_BLANK = "\u202f"
"""The blank before a unit: rich breaks lines there."""
_UNIT, _JOINT = "\ue000", "\ue001"
"""Stand for blanks while lines are broken, and are as wide."""
_JOINTS = re.compile(
    rf"(?<=[{''.join(SYMBOLS.values())}]) (?=\w)|(?<=\d) (?=\u00d7)| (?=[\u00b7\u2264\u2265])"
    r"|(?<=[\u00d7\u2264\u2265]) (?=\d)|(?<=\d) (?=(?:block|problem|visit|warp)s?\b)"
)


@dataclass(frozen=True)
class Paragraph:
    """A text in lines that none ends in blanks."""

    text: str | Text
    style: str = ""
    indent: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Give the lines at the width of the console."""
        text = self.text
        if isinstance(text, str):
            text = Text(safe(text), style=self.style)
        for line in _wrapped(console, text, options.max_width - len(self.indent)):
            yield Text(self.indent) + line


def plain(text: str) -> Text:
    """Text that rich takes as it is, without anything that a terminal would obey."""
    return Text(safe(text), overflow="fold")
