"""Tables that `nsys stats` prints, as CSV, JSON or in columns -> a timeline's frames, and its sums.

Reports of nsys 2021 to 2026. Reports of single events (`cuda_gpu_trace`, `cuda_api_trace`,
`nvtx_pushpop_trace`) become operations, calls and ranges; sums (`cuda_gpu_kern_sum`,
`cuda_gpu_mem_time_sum`, `cuda_api_sum`, `nvtx_sum`, `nvtx_gpu_proj_sum`, …) stay sums. A report is
recognised by its columns, as not all files name it. Tables of other reports are counted.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import pandas as pd

from profiler.importers.given_file import has_any
from profiler.parse.chrome_trace import short_name
from profiler.parse.ncu_lines import strict_fields
from profiler.parse.ncu_numbers import NumberStyle, detect_style, parse_number
from profiler.parse.nsys import (
    API_COLUMNS,
    OPERATION_COLUMNS,
    RANGE_COLUMNS,
    THREAD_BITS,
    OperationKind,
    RecordedTimeline,
    column_of,
    sorted_by_start,
)
from profiler.parse.nsys_tables import MISSING
from profiler.parse.nvtx_cells import RangeKind
from profiler.runner.protocol import domain_of_range

KERNELS, OTHER_OPERATIONS, API, RANGES = "kernels", "other operations", "calls", "ranges"

_TITLE = re.compile(
    r"Processing \[(?P<export>[^\]\n]{1,999})\] with \[(?:[^\]\n]{0,999}[/\\])?(?P<script>\w+)\.py"
    r"|Executing '(?P<executed>\w+)' stats"
    r"|\*\* [A-Z][^\n]*\((?P<titled>\w*(?:sum|trace)\w*)\):"
    r"|Running \[(?:[^\]\n]{0,999}[/\\])?(?P<ran>\w*(?:sum|trace)\w*)\.py "
    r"(?P<ran_on>[^\]\n]{1,999})\]"
)
_TITLE_WORDS = ("Processing [", "Executing '", "** ", "Running [")
"""Texts of which every title holds one."""
_JSON_TABLE = re.compile(r"^[ \t]*\[\s*(?=\{)", re.MULTILINE)
_JSON_ROW = re.compile(r'\{(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+\}')
_JSON_NAME = re.compile(r'"((?:[^"\\]++|\\.)*+)"\s*:')
_BETWEEN_ROWS = re.compile(r"[\s,]*")
_WITH_UNITS = re.compile(r"Time|(s|sec|B)\)")
_RULE = re.compile(r".{0,200}?(?<!\S)(?P<rule>-{3,}(?: +-{3,})+)\s*")
_DASHES = re.compile("-+")
_INSIDE_WORD = re.compile(r"\S\S")
_UNIT = re.compile(r" ?\((%|ns|us|μs|µs|ms|s|nsec|usec|msec|sec|B|KB|KiB|MB|MiB|GB|GiB)\)$")
_SCALES: Mapping[str, float] = {
    **dict.fromkeys(("ns", "nsec"), 1.0),
    **dict.fromkeys(("us", "μs", "µs", "usec"), 1e3),
    **dict.fromkeys(("ms", "msec"), 1e6),
    **dict.fromkeys(("s", "sec"), 1e9),
    "KB": 1e3,
    "KiB": 2**10,
    "MB": 1e6,
    "MiB": 2**20,
    "GB": 1e9,
    "GiB": 2**30,
}
"""Nanoseconds, or bytes, by unit."""
_ALIASES = {
    "Average": "Avg",
    "Minimum": "Min",
    "Maximum": "Max",
    "Median": "Med",
    "CorrId": "CorrID",
    "Range Instances": "Instances",
    "Pid": "PID",
    "Tid": "TID",
    "Calls": "Num Calls",
    "Count": "Instances",
    "Operations": "Instances",
}
"""Names of columns in the newest release, by names in other releases and reports."""
_SUM_COLUMNS = {
    "time_pct": "Time",
    "total_ns": "Total Time",
    "avg_ns": "Avg",
    "med_ns": "Med",
    "min_ns": "Min",
    "max_ns": "Max",
    "stddev_ns": "StdDev",
}
"""Columns of nsys in a sum, by our columns."""
_HEADERS = (
    *({"Total Time"}, {"Start", "Duration"}, {"API Start"}, {"Projected Start"}),
    *({"Total Proj Time"}, {"Total", "Operation"}, {"QCount"}),
)
"""Sets of columns, with units behind their names, of which every report has one."""
_COLUMN_WORDS = ("Start", "Total", "QCount")
"""Texts of which the columns of every report hold one."""
_FIRST_COLUMNS = frozenset(
    {
        *("Time", "Start", "Total", "Range", "Name", "NVTX Range", "API Start", "Count"),
        *("Projected Start", "PID", "Bytes", "Duration"),
    }
)
"""First columns of reports."""
_CUDA_CALL = re.compile(r"cu[A-Z]|cuda[A-Z]|cudnn|cublas")
_COPY = re.compile(r"\[CUDA memcpy (.+)\]")
_DEVICE = re.compile(r"\((\d{1,9})\)$|^(\d{1,9})$")
_LEAST_COLUMNS = 3
_LONGEST_LINE = 1 << 20


@dataclass
class StatsTables:
    """Tables of one recording."""

    export: str | None = None
    """Name of the file that the tables were made from, where the text has it."""
    operations: list[dict[str, Any]] = field(default_factory=list)
    ranges: list[dict[str, Any]] = field(default_factory=list)
    api: list[dict[str, Any]] = field(default_factory=list)
    sums: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of sums by kind: KERNELS, OTHER_OPERATIONS, API, RANGES."""
    unread: Counter[str] = field(default_factory=Counter)
    tables_read: set[tuple[str | None, ...]] = field(default_factory=set)
    """Names and columns of the tables so far: a repeated table is of another recording."""

    @property
    def is_empty(self) -> bool:
        """Whether no row was read."""
        return not (self.operations or self.ranges or self.api or self.sums)

    @property
    def timeline(self) -> RecordedTimeline:
        """Events of the traces among the tables, with the times of the report."""
        return RecordedTimeline(
            operations=_frame(self.operations, OPERATION_COLUMNS),
            ranges=_frame(self.ranges, RANGE_COLUMNS),
            api=_frame(self.api, API_COLUMNS),
            unread=dict(self.unread),
        )


def is_nsys_stats(text: str) -> bool:
    """Whether a text holds a table of `nsys stats`; cheap on other texts."""
    if has_any(text, _TITLE_WORDS) and _TITLE.search(text):
        return True
    if not has_any(text, _COLUMN_WORDS):
        return False
    lines = text.splitlines()
    names_lines = (line for line in lines if has_any(line, _COLUMN_WORDS))
    return (
        any(map(_header, filter(_WITH_UNITS.search, names_lines)))
        or any(
            _are_report_columns(_cells(names, _spans(rule)))
            for names, rule in pairwise(lines)
            if rule.rstrip().endswith("---") and has_any(names, _COLUMN_WORDS)
        )
        or any(_json_names(text, match.end()) for match in _JSON_TABLE.finditer(text))
    )


def parse_nsys_stats(text: str) -> tuple[StatsTables, ...]:
    """Tables of each recording in a text; only the last recording can be without rows."""
    parts = [StatsTables()]
    for (report, export), header, rows, broken in _tables(text):
        table_key = (report, *header)
        other_export = export and parts[-1].export and export != parts[-1].export
        if not parts[-1].is_empty and (table_key in parts[-1].tables_read or other_export):
            parts.append(StatsTables())
        tables = parts[-1]
        tables.export = export or tables.export
        tables.tables_read.add(table_key)
        if broken:
            tables.unread["row that cannot be read"] += broken
        _read_table(tables, report, header, rows)
    if parts[-1].is_empty and len(parts) > 1:
        parts[-2].unread.update(parts.pop().unread)
    return tuple(parts)


# ---- tables --------------------------------------------------------------------------------------


_Title = tuple[str | None, str | None]
"""Name of the report of a table, and name of the file that it was made from."""
_Row = dict[str, str]
_Scales = dict[str, float]
"""Factors to nanoseconds or bytes, by column of a table."""


def _tables(text: str) -> Iterator[tuple[_Title, _Scales, list[_Row], int]]:
    """Each table of a text: its title, columns, rows, and number of rows that cannot be read."""
    report = export = None
    lines = text.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    place = 0
    while place < len(lines):
        line = lines[place]
        if match := _TITLE.search(line):
            path = match["export"] or match["ran_on"]
            export = path.replace("\\", "/").split("/")[-1] if path else export
            report = match["script"] or match["executed"] or match["titled"] or match["ran"]
        header = _header(line)
        spans = _spans(lines[place + 1]) if place + 1 < len(lines) else []
        in_json = _JSON_TABLE.match(text, starts[place])
        if in_json and (names := _json_names(text, in_json.end())):
            rows, broken, end = _json_rows(text, in_json.end(), names)
            place = max(place + 1, bisect_right(starts, end) - 1)
            yield (report, export), _scales(names), rows, broken
        elif header is not None:
            delimiter, names = header
            cells_of = partial(_csv_cells, delimiter=delimiter)
            rows, broken, place = _text_rows(lines, place + 1, names, cells_of, _header)
            yield (report, export), _scales(names), rows, broken
        elif spans:
            names = _cells(line, spans)
            cells_of = partial(_cells, spans=spans)
            rows, broken, place = _text_rows(lines, place + 2, names, cells_of, _spans)
            yield (report, export), _scales(names), rows, broken
        else:
            place += 1


def _header(line: str) -> tuple[str, list[str]] | None:
    """Delimiter and columns of a header in CSV; None for any other line."""
    delimiter = max(",;\t", key=line.count)
    names = [name.strip().strip('"') for name in line.strip().split(delimiter)]
    return (delimiter, names) if _are_report_columns(names) else None


def _are_report_columns(names: Sequence[str]) -> bool:
    plain = [_UNIT.sub("", name) for name in names]
    has_known_columns = any(columns <= set(plain) for columns in _HEADERS)
    return has_known_columns and plain != names and plain[0] in _FIRST_COLUMNS


def _json_names(text: str, start: int) -> list[str]:
    """Columns of a table in JSON whose first row begins at `start`; none of any other JSON."""
    first = _JSON_ROW.match(text, start)
    names = _JSON_NAME.findall(first[0]) if first else []  # its values may be truncated
    return names if names and _are_report_columns(names) else []


def _json_row(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """A row in JSON, and its end; None without a complete row."""
    row = _JSON_ROW.match(text, start)
    if row is None:
        return None, start
    try:
        return json.loads(row[0], parse_int=str, parse_float=str), row.end()
    except ValueError:
        return None, start


def _json_rows(text: str, position: int, names: Sequence[str]) -> tuple[list[_Row], int, int]:
    rows: list[_Row] = []
    broken = 0
    next_table = _JSON_TABLE.search(text, position)
    limit = next_table.start() if next_table else len(text)
    first_cell = re.compile(r"\{\s*" + re.escape(json.dumps(names[0], ensure_ascii=False)))
    while text.startswith("{", position):
        row, end = _json_row(text, position)
        if row is not None and [*row] == [*names]:
            texts = {n: value.strip() if isinstance(value, str) else "" for n, value in row.items()}
            rows.append({_plain_name(name): text for name, text in texts.items()})
        else:
            broken += 1
        if row is not None:
            gap = _BETWEEN_ROWS.match(text, end)
            position = gap.end() if gap else end
        elif next_row := first_cell.search(text, position + 1, limit):
            position = next_row.start()
        else:
            break
    return rows, broken, position


def _csv_cells(line: str, delimiter: str) -> list[str]:
    """Cells of a row in CSV; none for any other line."""
    return [cell.strip() for cell in strict_fields(line, delimiter) or ()]


def _text_rows(
    lines: Sequence[str],
    place: int,
    names: Sequence[str],
    cells_of: Callable[[str], list[str]],
    is_end: Callable[[str], object],
) -> tuple[list[_Row], int, int]:
    """Rows from line `place` on, number of rows that cannot be read, and end of the table."""
    rows: list[_Row] = []
    broken = 0
    for row_number in range(place, len(lines)):
        line = lines[row_number]
        if not line.strip() or is_end(line) or _TITLE.search(line):
            return rows, broken, row_number
        cells = cells_of(line)
        if cells and not any(cells):  # a blank line behind a prefix
            return rows, broken, row_number
        # The name in a row without an end of line may be truncated.
        if len(cells) == len(names) and line.endswith("\n") and any(cells[:-1]):
            rows.append(dict(zip(map(_plain_name, names), cells, strict=True)))
        else:
            broken += 1
    return rows, broken, len(lines)


def _spans(rule: str) -> list[tuple[int, int]]:
    """Begin and end of each column of a table; none where a line does not rule its heads off.

    The last column is as wide as its longest row. What stands before all lines is in no column.
    """
    match = _RULE.fullmatch(rule) if rule.rstrip().endswith("---") else None
    if match is None:
        return []
    begin = match.start("rule")
    spans = [
        (begin + dashes.start(), begin + dashes.end()) for dashes in _DASHES.finditer(match["rule"])
    ]
    return [*spans[:-1], (spans[-2][1], _LONGEST_LINE)] if len(spans) >= _LEAST_COLUMNS else []


def _cells(line: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Cells of a row in columns; none where a column begins or ends inside of a word."""
    if any(_INSIDE_WORD.match(line, edge - 1) for span in spans for edge in span if edge):
        return []
    return [line[start:end].strip() for start, end in spans]


def _plain_name(name: str) -> str:
    """Name of a column without its unit, as the newest release writes it."""
    bare = _UNIT.sub("", name)
    return _ALIASES.get(bare, bare)


def _scales(names: Sequence[str]) -> _Scales:
    units = ((name, _UNIT.search(name)) for name in names)
    return {_plain_name(name): _SCALES.get(unit[1], 1.0) if unit else 1.0 for name, unit in units}


# ---- rows of tables ------------------------------------------------------------------------------


def _read_table(
    part: StatsTables, report: str | None, header: _Scales, rows: Sequence[_Row]
) -> None:
    table = _Table(header, detect_style(cell for row in rows for cell in row.values()))
    columns = header.keys()
    if {"Start", "Duration", "Name", "GrdX"} <= columns:
        _add_rows(part, part.operations, map(table.operation, rows))
    elif {"Start", "Duration", "Name", "Result"} <= columns:
        _add_rows(part, part.api, map(table.call, rows))
    elif {"Start", "Duration", "Name", "RangeId"} <= columns:
        _add_rows(part, part.ranges, map(table.range, rows))
    elif (
        ("Total Time" in columns and {"Name", "Range", "Operation"} & columns)
        or {"Total Proj Time", "Range"} <= columns
        or {"Orig Duration", "Name"} <= columns
    ):
        _add_sums(part, table, rows)
    elif rows:
        part.unread[f"row of {report or ', '.join(header)}"] += len(rows)


def _add_rows(
    part: StatsTables, target: list[dict[str, Any]], rows: Iterator[dict[str, Any] | None]
) -> None:
    for row in rows:
        if row is None:
            part.unread["row that cannot be read"] += 1
        else:
            target.append(row)


def _add_sums(part: StatsTables, table: _Table, rows: Sequence[_Row]) -> None:
    kinds_before = set(part.sums)
    for row in rows:
        kind = _kind_of_sum(table.scales, row)
        if kind is None:
            part.unread["call that is none of CUDA"] += 1
        elif kind in kinds_before:  # of another report with the same operations in it
            part.unread[f"sum of {kind} that another table has, too"] += 1
        elif (sum_row := table.range_sum(row) if kind == RANGES else table.sum(row)) is None:
            part.unread["row that cannot be read"] += 1
        else:
            part.sums.setdefault(kind, []).append(sum_row)


def _kind_of_sum(columns: Mapping[str, float], row: _Row) -> str | None:
    """Kind of a row of sums; None for calls outside of CUDA."""
    category = row.get("Category", "")
    if "Range" in columns or "Orig Duration" in columns:
        return RANGES
    if "MEM" in category or ("Operation" in columns and not category):
        return OTHER_OPERATIONS
    if "KERNEL" in category:
        return KERNELS
    if "API" in category or "Num Calls" in columns:
        return API if category or _CUDA_CALL.match(row.get("Name", "")) else None
    return KERNELS


@dataclass(frozen=True)
class _Table:
    """Rows of one table as rows of our frames; None where a number that they need is missing."""

    scales: _Scales
    style: NumberStyle

    def number(self, row: _Row, column: str) -> float:
        """A number in nanoseconds or bytes; NaN where it is missing or invalid."""
        value = parse_number(row.get(column, ""), self.style)
        return math.nan if value is None else value * self.scales.get(column, 1.0)

    def integer(self, row: _Row, column: str) -> int:
        """A whole number; MISSING without one."""
        value = self.number(row, column)
        return round(value) if math.isfinite(value) and abs(value) < 2**62 else MISSING

    def sum(self, row: _Row) -> dict[str, Any] | None:
        """One row of a summary."""
        numbers = {name: self.number(row, column) for name, column in _SUM_COLUMNS.items()}
        if not math.isfinite(numbers["total_ns"]) or any(number < 0 for number in numbers.values()):
            return None
        instances = self.number(row, "Num Calls" if "Num Calls" in self.scales else "Instances")
        name = row.get("Name") or row.get("Operation") or None
        return {"name": name, **numbers, "instances": instances}

    def range_sum(self, row: _Row) -> dict[str, Any] | None:
        """Host time of the ranges of one name, and span of the operations they launched."""
        is_projected = "Total Proj Time" in self.scales
        is_event = "Orig Duration" in self.scales
        host = "Orig Duration" if is_event else "Total Range Time" if is_projected else "Total Time"
        span = "Projected Duration" if is_event else "Total Proj Time"
        host_ns = self.number(row, host)
        span_ns = self.number(row, span)
        if not math.isfinite(host_ns) or host_ns < 0 or span_ns < 0:
            return None
        domain, name = _domain_and_name(row.get("Name" if is_event else "Range", ""))
        return {
            "domain": domain,
            "name": name,
            "instances": 1 if is_event else self.number(row, "Instances"),
            "host_ns": host_ns,
            "operations": self.number(row, "NumGPUOps" if is_event else "Total GPU Ops"),
            "span_ns": span_ns,
        }

    def operation(self, row: _Row) -> dict[str, Any] | None:
        """One kernel, copy or memset."""
        name = row["Name"]
        copy = _COPY.fullmatch(name)
        kind = OperationKind.KERNEL
        if name.startswith("[CUDA "):
            kind = OperationKind.MEMCPY if copy else OperationKind.MEMSET
        device = _DEVICE.search(row.get("Device", ""))
        times = self._start_and_end(row)
        return times and {
            **times,
            "kind": kind.value,
            "name": short_name(name) if kind is OperationKind.KERNEL else name,
            "demangled": name,
            "copy_kind": copy[1] if copy else None,
            "device": int(device[1] or device[2]) if device else MISSING,
            "context": self.integer(row, "Ctx"),
            "stream": self.integer(row, "Strm"),
            "correlation": self.integer(row, "CorrID"),
            "registers": self.integer(row, "Reg/Trd"),
            "static_shared_bytes": self.integer(row, "StcSMem"),
            "dynamic_shared_bytes": self.integer(row, "DymSMem"),
            "bytes": self.integer(row, "Bytes"),
            **{
                f"{size}_{axis.lower()}": self.integer(row, f"{column_prefix}{axis}")
                for size, column_prefix in (("grid", "Grd"), ("block", "Blk"))
                for axis in "XYZ"
            },
        }

    def call(self, row: _Row) -> dict[str, Any] | None:
        """One call of CUDA's API."""
        correlation = self.integer(row, "CorrID")
        times = self._start_and_end(row)
        return times and {
            **times,
            **self._thread(row),
            "name": row["Name"],
            "correlation": correlation,
        }

    def range(self, row: _Row) -> dict[str, Any] | None:
        """One range."""
        times = self._start_and_end(row)
        domain, name = _domain_and_name(row["Name"])
        facts = {"kind": RangeKind.PUSH_POP.value, "name": name, "domain": domain, "open": False}
        return times and {**times, **self._thread(row), **facts}

    def _start_and_end(self, row: _Row) -> dict[str, Any] | None:
        start, duration = self.integer(row, "Start"), self.integer(row, "Duration")
        if MISSING in (start, duration) or duration < 0:
            return None
        return {"start_ns": start, "end_ns": start + duration}

    def _thread(self, row: _Row) -> dict[str, int]:
        process, thread = self.integer(row, "PID"), self.integer(row, "TID")
        if MISSING in (process, thread):
            return {"process": process, "thread": MISSING}
        serialised = (process << THREAD_BITS) + (thread & ((1 << THREAD_BITS) - 1))
        return {"process": process, "thread": serialised}


def _domain_and_name(text: str) -> tuple[str, str]:
    """Domain, empty for the default one, and name of a range: `domain:name` or `:name`."""
    domain, colon, name = text.partition(":")
    if not colon:
        domain, name = "", text
    return domain_of_range(domain, name), name


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    return sorted_by_start(
        pd.DataFrame({name: column_of(name, [row.get(name) for row in rows]) for name in columns})
    )
