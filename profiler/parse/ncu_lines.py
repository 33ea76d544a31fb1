"""Lines of a file that belong to a table of ncu.

Tool messages (`==PROF==`, `==WARNING==`, `==ERROR==`) and the program's own output may stand
before, between and after the rows, and several tables may follow each other in one file.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from profiler.errors import ParseError
from profiler.notices import Notice, NoticeKind
from profiler.parse.bounded_files import LineSource
from profiler.parse.ncu_launches import is_identity

MAX_COLUMNS = 20_000
"""Widest table that is read. All base metrics of a GH100 with their four roll-ups are 15,000."""
_MESSAGE = re.compile(rb"==(?:PROF|WARNING|ERROR)==.*")
# One such line per launch, with the percentage of each pass: of no use, and 100,000 of them.
_PROGRESS = re.compile(rb'==PROF== Profiling "')
HEADER = r'(?:"?(?:Unnamed: 0|index|level_0|)"?[,;\t])?"?ID"?([,;\t])"?(?:Process ID|Kernel Name)"?'
"""Beginning of the header of a table, with the delimiter as its group; pandas writes row numbers
before it."""
_HEADER = re.compile(HEADER.encode())
OTHER_ORDER = r'(?=.*Kernel Name)(?:.*[,;\t])?"?ID"?(?:[,;\t\r]|$)'
"""A header whose columns another program has put into another order."""
_OTHER_ORDER = re.compile(OTHER_ORDER.encode())
_DELIMITER = re.compile(r"[,;\t]")
# Output without a newline at its end stands before the row on the same line, and words of other
# programs (`mpirun --tag-output`) before each: before that of units, too.
_ROW_INSIDE_LINE = re.compile(rb'"ID","(?:Process ID|Kernel Name)"|"\d+","\d*","|"","","","')
_LOOSE_ROW = re.compile(rb'\s*(?:"\d*"|\d*(?:\.0)?)[,;\t]')
_WHOLE = frozenset({"ID", "Process ID", "Context", "Stream", "Device"})
_REPEATED = re.compile(r"(.+)\.\d+")
"""Second name of a repeated column as pandas writes it."""
_QUOTED_ROW = re.compile(rb'"\d*",')
csv.field_size_limit(sys.maxsize)  # a cell is no longer than its line, which has a limit


@dataclass(frozen=True)
class Header:
    """Header line of one table, and the units row under it where there is one."""

    names: tuple[str, ...]
    units: tuple[str, ...] | None
    delimiter: str
    quoted: bool
    """Whether names are quoted; else another program wrote the file anew."""
    indexed: bool = False
    """Whether each row begins with its number."""
    order: tuple[int, ...] = ()
    """Place in the file of each column; empty where columns are in the order of ncu."""

    @property
    def is_details(self) -> bool:
        """Whether each row is one metric of a launch, and not a whole launch."""
        return "Metric Name" in self.names and "Metric Value" in self.names

    @property
    def least_fields(self) -> int:
        """Fields of the shortest row: those of a metric on a details page end with its value."""
        return self.names.index("Metric Value") + 1 if self.is_details else len(self.names)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Places of columns of whole numbers, which pandas writes as fractions."""
        return tuple(place for place, name in enumerate(self.names) if name in _WHOLE)

    @property
    def is_plain(self) -> bool:
        """Whether rows are written as ncu itself writes them."""
        return self.quoted and self.delimiter == ","


def reading_notices(
    source: LineSource, messages: Iterable[str], rows: int, *, source_page: bool = False
) -> list[Notice]:
    """Notices of errors among ncu's `messages`, and of unread parts of a file with `rows` rows."""
    file = {"file": source.name}
    notices = [
        Notice(NoticeKind.CSV_TOOL_MESSAGE, {**file, "text": text})
        for text in messages
        if text.startswith("==ERROR==")
    ]
    if source.truncated:
        notices.append(Notice(NoticeKind.CSV_TRUNCATED, {**file, "rows": rows}))
    if source.bad_rows:
        place: dict[str, str | int] = {
            **file,
            "count": source.bad_rows,
            "line": source.first_bad_line,
        }
        notices.append(
            Notice(NoticeKind.SOURCE_BAD_ROWS, place)
            if source_page
            else Notice(NoticeKind.CSV_BAD_ROWS, place)
        )
    return notices


_Line = tuple[bool, bytes]
"""Whether a line looks like a header, not like a row; and the line."""


class Scanner:
    """Tables of a file: `next_header`, then all `rows` of that table, until there is no header."""

    def __init__(self, source: LineSource) -> None:
        self._source = source
        self._items = self._lines_by_kind()
        self._returned_line: _Line | None = None
        self._pending: Header | None = None
        self._header: Header | None = None
        self._messages: dict[str, None] = {}

    @property
    def messages(self) -> tuple[str, ...]:
        """Distinct lines of the tool, in order, without the progress of single launches."""
        return tuple(self._messages)

    def next_header(self) -> Header | None:
        """Header of the next table, None at the end of the file."""
        while self._pending is None:
            item = self._next_line()
            if item is None:
                return None
            is_header, line = item
            if is_header:
                self._pending = self._read_header(line)
        self._header, self._pending = self._pending, None
        return self._header

    def rows(self) -> Iterator[bytes]:
        """Lines that look like rows of the current table, in the notation of ncu.

        A raw page that goes on under the same header and units is still the same table.
        """
        while (item := self._next_line()) is not None:
            is_header, line = item
            if not is_header:
                yield line
                continue
            header = self._read_header(line)
            if header is not None and (header.is_details or header != self._header):
                self._pending = header
                return

    def reject(self, line: bytes) -> None:
        """Count the last line as a bad row."""
        self._note_message(line)
        self._source.reject()

    def _next_line(self) -> _Line | None:
        if self._returned_line is None:
            return next(self._items, None)
        item, self._returned_line = self._returned_line, None
        return item

    def _lines_by_kind(self) -> Iterator[_Line]:
        for line in self._source:
            if _QUOTED_ROW.match(line) and (self._header is None or self._header.is_plain):
                yield False, line
            else:
                yield from self._unusual_line(line)

    def _unusual_line(self, line: bytes) -> Iterator[_Line]:
        """Any line but a quoted row: header, message, row in other notation, program output."""
        if _HEADER.match(line) or _OTHER_ORDER.match(line):
            yield True, line
        elif (row := self._foreign_row(line)) is not None:
            yield False, row
        elif (
            not self._note_message(line)
            and (embedded := _ROW_INSIDE_LINE.search(line))
            and embedded.start()
        ):
            row_or_header = line[embedded.start() :]
            yield _HEADER.match(row_or_header) is not None, row_or_header
        elif self._source.lacks_line_end and line.startswith(b'"'):
            self._source.truncated = True

    def _note_message(self, line: bytes) -> bool:
        match = _MESSAGE.search(line)
        if match is None:
            return False
        if not _PROGRESS.match(match[0]):
            self._messages.setdefault(match[0].decode("utf-8", "replace").strip())
        return True

    def _foreign_row(self, line: bytes) -> bytes | None:
        """A row with unquoted cells or another delimiter, rewritten as ncu would write it."""
        header = self._header
        if header is None or not (header.order or _LOOSE_ROW.match(line)):
            return None
        text = line.decode("utf-8", "replace")
        if self._source.lacks_line_end and not text.endswith('"'):
            self._source.truncated = True  # an unquoted last cell may have lost its end
            return None
        fields = strict_fields(text, header.delimiter)
        if fields is not None and header.indexed:
            fields = fields[1:]
        # Program output may be numbers with commas too; a row is as long as the table is wide.
        if fields is None or not header.least_fields <= len(fields) <= len(header.names):
            return None
        if header.order:
            if len(fields) < len(header.order):
                return None
            fields = [fields[place] for place in header.order]
        for place in header.numbers:
            fields[place] = fields[place].removesuffix(".0")
        return quote_row(fields)

    def _read_header(self, line: bytes) -> Header | None:
        """Header of a line, with the units row that may follow; None where it is not complete."""
        match = _HEADER.match(line)
        text = line.decode("utf-8", "replace")
        delimiter_match = None if match else _DELIMITER.search(text)
        delimiter = match[1].decode() if match else delimiter_match[0] if delimiter_match else ","
        names = strict_fields(text, delimiter)
        if names is not None and len(names) > MAX_COLUMNS:
            raise ParseError(
                f"{self._source.name}: the table has {len(names)} columns, more than {MAX_COLUMNS} "
                "(limit MAX_COLUMNS in profiler/parse/ncu_lines)",
                remedy="Export fewer metrics: ncu --import … --metrics.",
            )
        order = _ncu_column_order(names) if names is not None and match is None else ()
        if names is not None and order:
            names = [names[place] for place in order]
        indexed = names is not None and names[0] != "ID"
        if names is None or names[indexed : indexed + 1] != ["ID"] or self._source.lacks_line_end:
            self.reject(line)
            return None
        quoted = line.startswith(b'"') and not (indexed or order)
        names = names[indexed:] if quoted else _without_pandas_suffixes(names[indexed:])
        plain = Header(tuple(names), None, delimiter, quoted, indexed, order)
        if plain.is_details:
            return plain
        self._header, previous = plain, self._header  # how to read the units row
        units = self._read_units(len(names))
        self._header = previous
        return replace(plain, units=units)

    def _read_units(self, count: int) -> tuple[str, ...] | None:
        item = self._next_line()
        if item is None or item[0] or not item[1].startswith(b'"",'):
            self._returned_line = item
            return None
        fields = split_row(item[1])
        if fields is None or len(fields) != count:
            self.reject(item[1])
            return None
        return tuple(fields)


def _ncu_column_order(names: list[str]) -> tuple[int, ...]:
    """Places of the columns in ncu's order: id, identity of the launch, metrics; () without id."""
    places = sorted(range(len(names)), key=lambda p: (names[p] != "ID", not is_identity(names[p])))
    return tuple(places) if "ID" in names else ()


def _without_pandas_suffixes(names: list[str]) -> list[str]:
    """Names of columns without the suffixes that pandas gives to repeated names."""
    name_set = set(names)
    matches = [_REPEATED.fullmatch(name) for name in names]
    return [
        m[1] if m and m[1] in name_set else name for name, m in zip(names, matches, strict=True)
    ]


def strict_fields(text: str, delimiter: str = ",") -> list[str] | None:
    """Fields of one CSV line; None where its quotes do not match."""
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), None)
    except csv.Error:
        return None


def quote_row(fields: list[str]) -> bytes:
    """A CSV line with every field quoted."""
    return ('"' + '","'.join(field.replace('"', '""') for field in fields) + '"').encode(
        "utf-8", "replace"
    )


def split_row(line: bytes) -> list[str] | None:
    """Fields of a row in which every field is quoted, or empty at the end; None where broken."""
    body = line.rstrip(b",")
    if len(body) < 2 or not (body.startswith(b'"') and body.endswith(b'"')):
        return None
    return strict_fields(line.decode("utf-8", "replace"))
