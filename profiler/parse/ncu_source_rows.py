"""Lines of ncu's source page as tables: rows by kernel, file and source line.

    sass        "Kernel Name","k(int)",   a header with Address, Source, then instructions
    cuda,sass   "File Path","a.cu"        "Function Name","k(int)", a header with Line No, Source,
                                          Address, Source; a source line has the address `-`, and
                                          its instructions follow it
    cuda        "File Name","a.cu"        Line No, Source: text without counters

Names of columns are repeated, and a source line is not escaped: the quotes of `#include "a.h"`
stand in its cell as they are. So rows are read by position, and surplus cells belong to the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from profiler.parse.bounded_files import LineSource, open_lines

_ADDRESS = re.compile(r"(?:0x)?([0-9a-fA-F]{1,15})")
_FOLDED = "..."
"""Address of a row that stands for instructions of other lines."""
_LINE_SUMS = "-"
"""Address of a source line, whose counters are the sums of its instructions."""
_KERNEL, _FUNCTION = "Kernel Name", "Function Name"
_FILES = ("File Path", "File Name")
_SEPARATOR = '","'
"""Text between two cells; all cells are quoted."""
_QUOTES = _SEPARATOR.count('"')


@dataclass
class SourceBlock:
    """One table of the page: instructions of one kernel, or those of one file in one kernel."""

    kernel: str
    file: str | None
    """File of the source lines; None on a page of SASS alone."""
    header: tuple[str, ...]
    rows: list[list[str]] = field(default_factory=list)
    """Cells of each instruction, as wide as the header; without counters these are one cell."""
    addresses: list[int] = field(default_factory=list)
    line_numbers: list[int | None] = field(default_factory=list)
    line_texts: list[str | None] = field(default_factory=list)

    @cached_property
    def address_at(self) -> int:
        """Place of the address in a row."""
        return self.header.index("Address")

    @cached_property
    def text_at(self) -> int:
        """Place of the instruction's text, or of the line's, in a row."""
        return self.header.index("Source")


class SourceRows:
    """Tables of a file, in its order."""

    def __init__(self, source: LineSource, *, counters: bool) -> None:
        self._counters = counters
        self.blocks: list[SourceBlock] = []
        self.has_texts = False
        """Whether the page prints text of a file without counters."""
        self.messages: dict[str, None] = {}
        """Distinct lines of the tool."""
        self.source = source
        self._kernel: str | None = None
        self._file: str | None = None
        self._block: SourceBlock | None = None
        self._in_text = False
        self._line: int | None = None
        self._text: str | None = None

    @property
    def instructions(self) -> int:
        """Number of instruction rows."""
        return sum(len(block.rows) for block in self.blocks)

    def read(self) -> None:
        """Read all lines."""
        for line in self.source:
            self._read_line(line.decode("utf-8", "replace").strip())

    def _read_line(self, line: str) -> None:
        if line.startswith("=="):
            self.messages.setdefault(line)
        elif line.startswith('"'):
            body = _quoted_body(line)
            if body is None:
                self._reject()
            elif not (self._read_title(body) or self._read_header(body)):
                self._add(body)

    def _reject(self) -> None:
        """Count a malformed row inside of a table."""
        if self.source.lacks_line_end or self._block is not None or self._in_text:
            self.source.reject()

    def _read_title(self, body: str) -> bool:
        """Read a line that names the kernel or the file of the following rows; False: another."""
        title, _, value = body.partition(_SEPARATOR)
        if title == _KERNEL:
            self._kernel, self._file = value, None
        elif title in _FILES:
            self._kernel, self._file = None, value
        elif title == _FUNCTION:
            self._kernel = value
        else:
            return False
        self._block, self._in_text = None, False
        return True

    def _read_header(self, body: str) -> bool:
        """Read a header with Address and Source, or Line No and Source; False: another line."""
        if body == _SEPARATOR.join(("Line No", "Source")):
            self._block, self._in_text = None, True
            return True
        if self._kernel is None or "Address" not in body:  # as in nearly every line
            return False
        cells = body.split(_SEPARATOR)
        # No instruction has both words as cells, so that a row of them is a header.
        if "Address" not in cells or "Source" not in cells:
            return False
        self._block = SourceBlock(self._kernel, self._file, tuple(cells))
        self._line = self._text = None
        self.blocks.append(self._block)
        return True

    def _add(self, body: str) -> None:
        if self._in_text:
            self._add_text(body)
        elif self._block is not None:
            self._add_row(self._block, body)

    def _add_text(self, body: str) -> None:
        cell, separator, _ = body.partition(_SEPARATOR)
        if _line_number(cell) is None or not separator or self.source.lacks_line_end:
            self._reject()
        else:
            self.has_texts = self.has_texts or self._file is not None

    def _add_row(self, block: SourceBlock, body: str) -> None:
        row = self._cells_of_row(block, body)
        if row is None:
            self._reject()
            return
        address = row[block.address_at]
        if address == _FOLDED:
            return
        if address == _LINE_SUMS:
            self._line, self._text = _line_number(row[0]), row[block.text_at]
            return
        match = _ADDRESS.fullmatch(address)
        if match is None:
            self._reject()
            return
        block.rows.append(row)
        block.addresses.append(int(match[1], 16))
        block.line_numbers.append(self._line)
        block.line_texts.append(self._text)

    def _cells_of_row(self, block: SourceBlock, body: str) -> list[str] | None:
        """Cells of a row as `SourceBlock.rows` has them, None where it is too short.

        Only the text can hold quotes, and quotes at its ends shift where a row is split: the text
        lies between the cells counted from the left and those counted from the right.
        """
        width = len(block.header)
        separators = body.count(_SEPARATOR)
        if separators < width - 1:
            return None
        if separators == width - 1 and body.count('"') == _QUOTES * separators:
            return body.split(_SEPARATOR, -1 if self._counters else block.address_at + 2)
        *left_cells, text_and_right = body.split(_SEPARATOR, block.text_at)
        return [*left_cells, *text_and_right.rsplit(_SEPARATOR, width - block.text_at - 1)]


def _quoted_body(line: str) -> str | None:
    """Cells of a line in which all are quoted, without the first quote and the last.

    None where the last quote is missing.
    """
    body = line.removesuffix(",")
    return body[1:-1] if len(body) > 1 and body.endswith('"') else None


def _line_number(cell: str) -> int | None:
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 10 else None


def read_rows(source: Path | bytes, name: str, *, counters: bool) -> SourceRows:
    """Tables of a source page; raises ParseError where not one line can be read."""
    with open_lines(source, name) as lines:
        rows = SourceRows(lines, counters=counters)
        rows.read()
    return rows
