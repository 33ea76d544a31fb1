"""Reads the CSV of ncu, raw or details page, from any of its versions.

    bytes -> bounded_files (gzip, UTF-16) -> ncu_lines (which lines are rows) -> ncu_raw or
    ncu_details (values in base units) -> ncu_launches (one frame)

Only ParseError is ever raised, and only where there is nothing to read; unread parts of a
file that has rows are reported as notices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Literal

import pandas as pd

from profiler.errors import ParseError
from profiler.notices import Notice, NoticeKind
from profiler.parse.bounded_files import EXPORT_REMEDY, LineSource, open_lines, read_content
from profiler.parse.ncu_details import RuleRow, read_details
from profiler.parse.ncu_launches import BadCells, Launches
from profiler.parse.ncu_lines import Scanner, reading_notices
from profiler.parse.ncu_raw import ATTRIBUTE_PREFIX, read_raw

RULE_COLUMNS = RuleRow._fields
"""Columns of `NcuTable.rules`; RuleRow describes them."""

Page = Literal["raw", "details"]

_SHOWN_MESSAGES = 3
_NO_REASON = ("==PROF==", "==WARNING== Note:")
"""Beginnings of messages that never explain a missing table."""
_NOTHING_PROFILED = "==WARNING== No kernels were profiled"
_MOST_JOINED_FILES = 256
"""Most files that are read as one."""
_SMALL_BYTES = 2**18
_PLAIN_TABLE = re.compile(
    rb'(?:==(?!ERROR).*\n)*(?P<head>"ID",.*\n"",.*\n)(?P<rows>(?:"[0-9]+",.*\n)+)(?:==(?!ERROR).*\n)*'
)
"""A raw page with messages of ncu before and after it, none of them an error, and nothing else."""


class NothingProfiledError(ParseError):
    """A file in which ncu says that it profiled no kernel, and no error: it has no table."""


@dataclass(frozen=True)
class NcuTable:
    """Content of one file of ncu."""

    launches: pd.DataFrame
    """One row per launch in the order of the file: LAUNCH_COLUMNS, then one column per metric.

    Metrics are named as ncu names them (a label of a details page that is not known stays
    `Section: Label`), float64 in base units, NaN where missing; metrics whose values are words are
    strings. `id` is int64; `process_id`, `context`, `device` are Int64; the rest are strings, with
    missing ones where the file has no such column (range replay has no block and no grid).
    """
    rules: pd.DataFrame
    """Advice of ncu's rules, RULE_COLUMNS; empty for a raw page."""
    attributes: Mapping[str, str | float]
    """`device__attribute_*` of the first row: name, SMs, clocks, compute capability of the GPU."""
    notices: tuple[Notice, ...]
    page: Page
    """Page of the first table."""


def read_ncu_csv(path: Path, limit: int | None = None) -> NcuTable:
    """Content of a CSV file of ncu, compressed by gzip or not.

    `limit`: most bytes that a packed file may hold, by default bounded_files.MAX_UNPACKED_BYTES.

    Raises ParseError where the file cannot be opened or holds no table of ncu.
    """
    return _parse(path, path.name, limit)


def parse_ncu_csv(content: bytes | str, name: str = "ncu.csv") -> NcuTable:
    """Content of ncu's CSV output in memory; messages call it `name`."""
    if isinstance(content, str):
        content = content.encode("utf-8", "replace")
    return _parse(content, name)


@dataclass(frozen=True, eq=False)
class JoinedTables:
    """Tables of files that differ in their rows alone, read as one."""

    joined: NcuTable
    """Rows of all files, one file after the other."""
    rows: Mapping[Path, range]
    """Rows of each file in `joined`."""

    def table(self, path: Path) -> NcuTable:
        """The table of one file."""
        rows = self.rows[path]
        launches = self.joined.launches.iloc[rows.start : rows.stop].reset_index(drop=True)
        return replace(self.joined, launches=launches)


def read_joined_tables(paths: Sequence[Path]) -> Iterator[JoinedTables]:
    """Tables of small raw pages that differ in their rows alone; other files are left out.

    A frame takes pandas the same time at any size: a thousand files of ten rows become one frame.
    """
    for first in range(0, len(paths), _MOST_JOINED_FILES):
        by_head: dict[tuple[bytes, ...], dict[Path, re.Match[bytes]]] = {}
        for path in paths[first : first + _MOST_JOINED_FILES]:
            match = _plain_table(path)
            if match is not None:
                by_head.setdefault((match["head"], *_device_cells(match)), {})[path] = match
        for (head, *device), matches in by_head.items():
            if device and len(matches) > 1:
                yield from _joined_tables(head, matches)


def _plain_table(path: Path) -> re.Match[bytes] | None:
    try:
        if path.stat().st_size > _SMALL_BYTES:
            return None
        return _PLAIN_TABLE.fullmatch(read_content(path, _SMALL_BYTES))
    except (OSError, ParseError):
        return None


def _device_cells(match: re.Match[bytes]) -> list[bytes]:
    """Attributes of the device in the first row, which also show the notation of numbers."""
    cells = match["rows"].partition(b"\n")[0].split(b'","')
    return [cells[place] for place in _device_columns(match["head"]) if place < len(cells)]


@lru_cache(maxsize=16)
def _device_columns(head: bytes) -> list[int]:
    names = head.partition(b"\n")[0].split(b'","')
    return [n for n, name in enumerate(names) if name.startswith(ATTRIBUTE_PREFIX.encode())]


def _joined_tables(head: bytes, matches: Mapping[Path, re.Match[bytes]]) -> Iterator[JoinedTables]:
    """Tables of files with this header as one; none where any row cannot be read."""
    table = parse_ncu_csv(head + b"".join(match["rows"] for match in matches.values()))
    ends = list(accumulate(match["rows"].count(b"\n") for match in matches.values()))
    if not table.notices and len(table.launches) == ends[-1]:
        yield JoinedTables(table, dict(zip(matches, map(range, [0, *ends], ends), strict=True)))


def _parse(source: Path | bytes, name: str, limit: int | None = None) -> NcuTable:
    launches, rules = Launches(), list[RuleRow]()
    page: Page | None = None
    with open_lines(source, name, limit) as lines:
        scanner = Scanner(lines)
        while (header := scanner.next_header()) is not None:
            page = page or ("details" if header.is_details else "raw")
            if header.is_details:
                rules += read_details(header, scanner, launches)
            else:
                read_raw(header, scanner, launches)
    if page is None:
        raise _no_table_error(lines, scanner)
    frame, bad_cells = launches.frame()
    return NcuTable(
        launches=frame,
        rules=_rule_frame(rules) if rules else _no_rules(),
        attributes=launches.attributes,
        notices=_notices(lines, launches, scanner, bad_cells),
        page=page,
    )


def _no_table_error(lines: LineSource, scanner: Scanner) -> ParseError:
    name = lines.name
    messages = [text for text in scanner.messages if not text.startswith(_NO_REASON)]
    if messages:
        nothing_profiled = any(text.startswith(_NOTHING_PROFILED) for text in messages)
        failed = any(text.startswith("==ERROR==") for text in messages)
        kind = NothingProfiledError if nothing_profiled and not failed else ParseError
        return kind(
            f"{name}: no ncu table found; ncu printed: {' '.join(messages[:_SHOWN_MESSAGES])}"
        )
    cut_text = ": it ends inside the header" if lines.truncated else ""
    remedy = f"{EXPORT_REMEDY}. `import` also takes timelines and logs of inductor: docs/import.md."
    return ParseError(f"{name}: no ncu table found{cut_text}", remedy=remedy)


def _rule_frame(rules: list[RuleRow]) -> pd.DataFrame:
    frame = pd.DataFrame(rules, columns=list(RULE_COLUMNS))
    return frame.astype({"launch": "int64", "id": "int64", "speedup_pct": "float64"})


@cache
def _no_rules() -> pd.DataFrame:
    """Rules of a raw page; making this frame took a third of the time of reading a small one."""
    return _rule_frame([])


def _notices(
    lines: LineSource, launches: Launches, scanner: Scanner, bad_cells: list[BadCells]
) -> tuple[Notice, ...]:
    name = lines.name
    notices = reading_notices(lines, scanner.messages, len(launches))
    notices.extend(
        Notice(NoticeKind.CSV_ODD_UNIT, {"file": name, "metric": metric, "unit": unit})
        for metric, unit in launches.wrong_units.items()
    )
    notices.extend(
        Notice(NoticeKind.CSV_REPEATED_COLUMN, {"file": name, "metric": metric, "count": count})
        for metric, count in (+launches.contradictions).items()
    )
    if launches.lacks_units:
        notices.append(Notice(NoticeKind.CSV_NO_UNITS, {"file": name}))
    for metric, count, example in bad_cells:
        facts: dict[str, str | int | float] = {"count": count, "metric": metric, "example": example}
        notices.append(Notice(NoticeKind.CSV_BAD_CELLS, {"file": name, **facts}))
    return tuple(notices)
