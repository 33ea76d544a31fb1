"""Pages of ncu as text, without `--csv`, converted to the CSV that `--csv` would give.

    [100] app@127.0.0.1
      saxpy(int, float *) (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
        Section: GPU Speed Of Light Throughput
        ----------------------- ----------- ------------
        Metric Name             Metric Unit Metric Value
        ----------------------- ----------- ------------
        Elapsed Cycles                cycle       18,029

Versions before 2022 have a date in place of grid and block, and no heads. Ranges stand between a
launch and its first section. Advice of ncu's rules, which is wrapped there, is counted.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence

from profiler.parse.inductor import LINE_TIME
from profiler.parse.nvtx_cells import HEADERS, item_text

_PROCESS = re.compile(r"\[(?P<id>\d+)\] (?P<name>\S+)@(?P<host>\S+)\s*$")
_KERNEL = re.compile(
    r"^\s*(?P<kernel>\S.*?)(?: \((?P<grid>\d+, \d+, \d+)\)x\((?P<block>\d+, \d+, \d+)\))?"
    r"(?:, \d{4}-\w+-\d+ [\d:]+)?, Context (?P<context>\d+), Stream (?P<stream>\d+)"
    r"(?:, Device (?P<device>\d+), CC (?P<cc>[\d.]+))?\s*$"
)
_LAUNCH_MARK = ", Context "
"""Text in each line that begins a launch, and rarely in other texts."""
_SECTION = re.compile(r"^\s+Section: (?P<section>.*\S)")
_RULE = re.compile(r"^\s*(-{3,}) +(-{3,}) +(-{3,})\s*$")
_ADVICE = re.compile(r"^\s+(?:INF|OPT|WRN)\s{2,}\S")
_NVTX = re.compile(r"NVTX (?:Push/Pop Stack for Thread (?P<thread>\d+)|Start/End Ranges):?\s*$")
_RANGE = re.compile(r"\s+<(?P<id>\d+),\s*(?P<name>.*)>\s*")
_DOMAIN = re.compile(r"\s{1,6}\S.*")
_PREFIXED_RULE = re.compile(r"(.{0,200}?)\s-{3,} +-{3,} +-{3,}\s*")
_DIGITS = re.compile(r"[0-9]+")
_TABLE_HEADS = ("Metric Name", "Metric Unit", "Metric Value")
_COLUMNS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
    *HEADERS,
    *("Section Name", *_TABLE_HEADS),
)
_LONGEST_LINE = 1 << 16
"""Characters of the longest line that is read; names of kernels are shorter."""


class TextPage:
    """Launches of a text as CSV; launches are numbered in their order."""

    def __init__(self, text: str) -> None:
        self.launches = 0
        """Number of launches with a metric."""
        self.unread: Counter[str] = Counter()
        self.errors: dict[str, None] = {}
        """Distinct error messages of ncu."""
        self._process = ("", "", "")
        self._launch: tuple[str, ...] = ()
        self._section = ""
        self._number = -1
        self._ranges = _Ranges()
        self._columns: tuple[tuple[int, int], ...] | None = None
        """Begin and end of each of the three columns; None outside of a table."""
        self._has_rows = self._has_metrics = False
        buffer = io.StringIO()
        writer = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for line in _without_prefixes(_complete_lines(text)):
            if len(line) <= _LONGEST_LINE and (row := self._csv_row(line)) is not None:
                writer.writerow(row)
        self._end_launch()
        if self._columns is not None and self._has_rows:
            self.unread["table that was cut off"] += 1
        self.csv = buffer.getvalue()
        """CSV of the details page with the metrics of the text."""

    def _csv_row(self, line: str) -> tuple[str, ...] | None:
        """Row of the CSV for a line of a table; None for any other line."""
        if rule := _RULE.match(line):
            # One rule stands above the heads, one below them, one at the end.
            self._columns = None if self._has_rows else (rule.span(1), rule.span(2), rule.span(3))
            self._has_rows = False
        elif self._columns is not None and self._launch:
            return self._table_row(line, self._columns)
        else:
            self._read_outside(line)
        return None

    def _table_row(self, line: str, columns: tuple[tuple[int, int], ...]) -> tuple[str, ...] | None:
        name, unit, value = _cells(line, columns)
        if (name, unit, value) == _TABLE_HEADS or not name or not value:
            return None
        self._has_rows = self._has_metrics = True
        identity = (str(self._number), *self._process, *self._launch, *self._ranges.cells)
        return (*identity, self._section, name, unit, value)

    def _read_outside(self, line: str) -> None:
        if kernel := _KERNEL.match(line):
            self._end_launch()
            self._number += 1
            self._launch, self._section, self._ranges = _identity(kernel), "", _Ranges()
        elif match := _SECTION.match(line):
            self._section = match["section"]
        elif match := _PROCESS.search(line):
            self._process = (match["id"], match["name"], match["host"])
        elif line.startswith("==ERROR=="):
            self.errors[line.strip()] = None
        elif _ADVICE.match(line):
            self.unread["advice of a rule"] += 1
        elif not self._section:
            self._ranges.read(line)

    def _end_launch(self) -> None:
        if self._launch:
            self.launches += self._has_metrics
            self.unread.update({} if self._has_metrics else {"launch without a metric": 1})
        self._has_metrics = False


class _Ranges:
    """NVTX ranges around a launch, as `--nvtx` prints them before its sections."""

    def __init__(self) -> None:
        self._thread: str | None = None
        self._domain = ""
        self._push_pop: list[str] = []
        self._start_end: list[str] = []

    def read(self, line: str) -> None:
        if heading := _NVTX.search(line):
            self._thread = heading["thread"] or ""
        elif self._thread is not None and (item := _RANGE.fullmatch(line)):
            text = item_text(self._domain, item["name"])
            if self._thread:
                self._push_pop.append(f'"{text}"')
            else:
                self._start_end.append(f'"{item["id"]}:{text}"')
        elif self._thread is not None and _DOMAIN.fullmatch(line):
            self._domain = line.strip()

    @property
    def cells(self) -> tuple[str, str]:
        """The two NVTX cells of ncu's CSV."""
        push_pop = f"{self._thread}  {'  '.join(self._push_pop)} " if self._push_pop else ""
        return push_pop, f" {'  '.join(self._start_end)} " if self._start_end else ""


def _complete_lines(text: str) -> list[str]:
    """Lines of a text without an unterminated last line, whose value may be truncated."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    return [line.rstrip("\r\n") for line in lines]


def _without_prefixes(lines: Sequence[str]) -> list[str]:
    """Lines without the prefixes of other programs, sorted by the program that wrote them.

    The rules of the tables show the prefixes, whose numbers and times differ between lines.
    """
    rules = (_PREFIXED_RULE.fullmatch(line) for line in lines)
    prefixes = {_DIGITS.sub(r"\\d+", re.escape(rule[1].strip())) for rule in rules if rule}
    if not prefixes - {""}:
        return list(lines)
    prefix = re.compile(rf"\s*(?:{'|'.join(sorted(prefixes, key=len, reverse=True))}) ?")
    by_source: dict[str, list[str]] = {}
    for line in lines:
        match = prefix.match(line)
        prefix_text = match[0] if match else ""
        by_source.setdefault(LINE_TIME.sub("", prefix_text), []).append(line[len(prefix_text) :])
    return [line for source_lines in by_source.values() for line in source_lines]


def _cells(line: str, columns: tuple[tuple[int, int], ...]) -> tuple[str, str, str]:
    """Cells of a row: names are left-aligned, values right-aligned, and may exceed their column."""
    (_, name_ends), (_, unit_ends), _ = columns
    name = line[:name_ends].strip()
    return name, line[name_ends:unit_ends].strip(), line[unit_ends:].strip()


def _identity(kernel: re.Match[str]) -> tuple[str, ...]:
    block, grid = (f"({size})" if size else "" for size in (kernel["block"], kernel["grid"]))
    place = (kernel[name] or "" for name in ("context", "stream"))
    return (kernel["kernel"], *place, block, grid, kernel["device"] or "", kernel["cc"] or "")


def is_ncu_text(text: str) -> bool:
    """Whether a text has lines that begin launches; cheap on other texts."""
    lines = text.splitlines() if _LAUNCH_MARK in text else ()
    return any(_KERNEL.match(line) for line in lines if _LAUNCH_MARK in line[:_LONGEST_LINE])
