"""Tables of an `nsys export --type sqlite` file -> arrays, without private data.

The file is opened read-only, and is not trusted: only tables are read (a view or a virtual table
can compute without end), a query that takes too many steps for the size of the file is ended, and
invalid UTF-8 is replaced. A report of nsys holds the whole environment of the profiled process
(META_DATA_CAPTURE, TARGET_INFO_*, PROCESSES, ThreadNames and parts of StringIds): only the columns
that a caller names are read, and of StringIds only the rows that such a column refers to.

Tables are lazy (absent when nothing was recorded) and change between releases, so an absent table
is empty and an absent optional column is missing; an absent required column is an error.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from profiler.errors import ParseError
from profiler.parse.bounded_files import require_regular

Integers = npt.NDArray[np.int64]

MISSING = int(np.iinfo(np.int64).min)
"""Value in an array of integers where the table has NULL, or no such column."""

_MISSING_SQL = "(-9223372036854775807 - 1)"  # SQLite reads the number itself as a real one
_ROWS_AT_ONCE = 10_000
MAX_TEXT_BYTES = 2**24
"""Longest text of a row. Names of kernels, with their template arguments, have some kilobytes."""
MAX_STEPS_PER_BYTE = 20
"""Most steps of SQLite's machine for each byte of the file, in all queries together. An export of a
million kernels takes half of one; a tree whose pages point to each other has rows without end."""
_STEPS_AT_ONCE = 1_000_000
_SCHEMA = "SELECT name, type, sql FROM sqlite_master WHERE type IN ('table', 'view')"
_ACTIVITIES = ("KERNEL", "RUNTIME", "MEMCPY", "MEMSET", "GRAPH_TRACE")
_EXPORTED = (*(f"CUPTI_ACTIVITY_KIND_{kind}" for kind in _ACTIVITIES), "NVTX_EVENTS")
_READ = frozenset({*_EXPORTED, "META_DATA_EXPORT", "StringIds", "ENUM_CUDA_MEMCPY_OPER"})
_OF_EVENTS = re.compile(r"\b(start|(raw)?timestamp)\b", re.IGNORECASE)
"""Column of a table whose rows are events."""
_VIRTUAL = re.compile(r"\s*CREATE\s+VIRTUAL\b", re.IGNORECASE)
_REMEDY = "Give a file that `nsys export --type sqlite` wrote."


class Export:
    """One open SQLite export of nsys."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.name = path.name
        """File name without its folder, for messages."""
        self.most_steps = _STEPS_AT_ONCE + MAX_STEPS_PER_BYTE * path.stat().st_size
        """Most steps of SQLite's machine for all queries together."""
        self._steps = 0
        connection.set_progress_handler(self._over_limit, _STEPS_AT_ONCE)
        self._tables = self._table_statements()

    def _over_limit(self) -> bool:
        self._steps += _STEPS_AT_ONCE
        return self._steps > self.most_steps

    def has(self, table: str) -> bool:
        """Whether the export has that table."""
        return table in self._tables

    def fact(self, name: str) -> str | None:
        """Value of a record of META_DATA_EXPORT; None without that record."""
        if not self.has("META_DATA_EXPORT"):
            return None
        rows = self._rows("SELECT value FROM META_DATA_EXPORT WHERE name = ?", (name,))
        record = next((value for chunk in rows for (value,) in chunk), None)
        return None if record is None else _as_text(record)

    def columns(
        self, table: str, required: Sequence[str], optional: Sequence[str] = ()
    ) -> dict[str, Integers]:
        """Integer columns of a table in the order of its rows; empty where it is absent.

        Raises ParseError where a required column is absent or holds something else than integers.
        """
        names = (*required, *optional)
        present = self._column_names(table)
        if not present:
            return {name: np.empty(0, np.int64) for name in names}
        self._require(table, required, present)
        expressions = ", ".join(present.get(name, _MISSING_SQL) for name in names)
        query = f'SELECT {expressions} FROM "{table}" ORDER BY rowid'  # noqa: S608 - our own names
        chunks = [self._integers(table, rows) for rows in self._rows(query)]
        block = np.concatenate([np.empty((0, len(names)), np.int64), *chunks]).T
        return {name: np.ascontiguousarray(block[i]) for i, name in enumerate(names)}

    def texts(self, table: str, column: str) -> list[str | None]:
        """Text column of a table in the order of its rows; all None where it has no such column."""
        present = self._column_names(table)
        if not present:
            return []
        expression = f'"{column}"' if column in present else "NULL"
        query = f'SELECT {expression} FROM "{table}" ORDER BY rowid'  # noqa: S608 - our own names
        return [
            None if text is None else _as_text(text) or None
            for rows in self._rows(query)
            for (text,) in rows
        ]

    def strings(self, table: str, column: str) -> dict[int, str]:
        """Strings that a column of ids refers to, by id."""
        if column not in self._column_names(table) or not self.has("StringIds"):
            return {}
        used = f'SELECT DISTINCT "{column}" FROM "{table}"'  # noqa: S608 - our own names
        query = f"SELECT id, value FROM StringIds WHERE id IN ({used})"  # noqa: S608
        return {key: _as_text(value) for rows in self._rows(query) for key, value in rows}

    def labels(self, table: str) -> dict[int, str]:
        """Labels of an ENUM_* table by id; empty without that table."""
        if not {"id", "label"} <= self._column_names(table).keys():
            return {}
        query = f'SELECT id, label FROM "{table}" WHERE label IS NOT NULL'  # noqa: S608 - our names
        return {key: _as_text(value) for rows in self._rows(query) for key, value in rows}

    def unread_events(self) -> dict[str, int]:
        """Number of rows of each table of events that is not read; no table without rows."""
        counts: dict[str, int] = {}
        for name, statement in self._tables.items():
            if name not in _READ and _OF_EVENTS.search(statement):
                quoted = name.replace('"', '""')
                rows = self._rows(f'SELECT COUNT(*) FROM "{quoted}"')  # noqa: S608 - it is quoted
                counts[name] = sum(count for chunk in rows for (count,) in chunk)
        return {name: count for name, count in counts.items() if count}

    def _table_statements(self) -> dict[str, str]:
        """Statement that created each table, by name of the table."""
        rows = [row for chunk in self._rows(_SCHEMA) for row in chunk]
        for name, kind, statement in rows:
            computed = kind == "view" or _VIRTUAL.match(str(statement))
            if computed and str(name) in _READ:
                raise ParseError(
                    f"{self.name}: {name} is no plain table: only tables are read.",
                    remedy=_REMEDY,
                )
        tables = {str(name): str(statement) for name, kind, statement in rows if kind == "table"}
        return {name: text for name, text in tables.items() if not _VIRTUAL.match(text)}

    def _column_names(self, table: str) -> dict[str, str]:
        """Expression by column of a table that gives MISSING in place of NULL."""
        if not self.has(table):
            return {}
        rows = self._rows('SELECT name, "notnull" FROM pragma_table_info(?)', (table,))
        return {
            name: f'"{name}"' if never_null else f'IFNULL("{name}", {_MISSING_SQL})'
            for chunk in rows
            for name, never_null in chunk
        }

    def _require(self, table: str, required: Sequence[str], present: Mapping[str, str]) -> None:
        absent = [name for name in required if name not in present]
        if absent:
            version = self.fact("EXPORT_SCHEMA_VERSION") or "unknown"
            raise ParseError(
                f"{self.name}: table {table} has no column {', '.join(absent)} "
                f"(schema version {version}).",
                remedy="Export the report again with another release of nsys (3.20 is known).",
            )

    def _integers(self, table: str, rows: Sequence[tuple[Any, ...]]) -> Integers:
        try:
            # One after another: twice as fast as an array of tuples.
            flat = np.fromiter(chain.from_iterable(rows), np.int64, len(rows) * len(rows[0]))
            return flat.reshape(len(rows), -1)
        except (TypeError, ValueError, OverflowError) as error:
            for column in zip(*rows, strict=True):
                if not any(isinstance(cell, int) for cell in column):
                    raise ParseError(
                        f"{self.name}: table {table} holds a value that is not an integer: "
                        f"{error}.",
                        remedy=_REMEDY,
                    ) from error
            filled = [[cell if isinstance(cell, int) else MISSING for cell in row] for row in rows]
            return np.array(filled, np.int64)

    def _rows(
        self, query: str, parameters: tuple[str, ...] = ()
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of a query in chunks: a million rows as Python objects take much memory."""
        try:
            cursor = self._connection.execute(query, parameters)
            while rows := cursor.fetchmany(_ROWS_AT_ONCE):
                yield rows
        # UnicodeDecodeError: SQLite's message on a damaged schema has bytes of the schema.
        except (sqlite3.Error, MemoryError, UnicodeDecodeError) as error:
            raise ParseError(f"{self.name}: {self._error_text(error)}.", remedy=_REMEDY) from error

    def _error_text(self, error: BaseException) -> str:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_INTERRUPT:
            return f"reading it takes more than {self.most_steps} steps (limit MAX_STEPS_PER_BYTE)"
        if code == sqlite3.SQLITE_TOOBIG:
            return f"a text has more than {MAX_TEXT_BYTES} bytes (limit MAX_TEXT_BYTES)"
        return f"SQLite says: {error}"


def _as_text(value: Any) -> str:
    """Text of a value of a text column, in which SQLite keeps bytes and numbers as they are."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


_HEADER_BYTES = 100
_LARGEST_PAGE = 2**16
"""Bytes of a page whose size is written as 1."""


@contextlib.contextmanager
def open_export(path: Path) -> Iterator[Export]:
    """Open an export read-only.

    Raises ParseError where there is no such file, or it is something else than an export of nsys.
    """
    require_regular(path)
    if not path.is_file():
        raise ParseError(f"{path.name}: no such file.", remedy=_REMEDY)
    _require_complete(path)
    connection = _connect(path)
    try:
        export = Export(connection, path)
        _require_nsys(export)
        yield export
    finally:
        connection.close()


def _require_complete(path: Path) -> None:
    """Raise ParseError where a file is shorter than its header says: SQLite would read zeros."""
    with path.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return
    page, pages = struct.unpack_from(">H", header, 16)[0], struct.unpack_from(">I", header, 28)[0]
    says_its_size = header[24:28] == header[92:96]  # sqlite.org/fileformat, 1.3.7
    if says_its_size and (_LARGEST_PAGE if page == 1 else page) * pages > path.stat().st_size:
        raise ParseError(f"{path.name}: it is cut off.", remedy=_REMEDY)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT_BYTES)
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    return connection


def _require_nsys(export: Export) -> None:
    product = export.fact("EXPORT_PRODUCT_NAME")
    is_nsys = product is None or "Nsight Systems" in product
    # Exports of old releases have no META_DATA_EXPORT; one without any event has little else.
    if not is_nsys or not (product or any(export.has(table) for table in _EXPORTED)):
        raise ParseError(
            f"{export.name}: not an SQLite export of Nsight Systems: it has none of its tables.",
            remedy=_REMEDY,
        )
