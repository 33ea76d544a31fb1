"""What ncu prints without `--csv`: its pages as text, made into the CSV that `--csv` would give.

    [100] app@127.0.0.1
      saxpy(int, float *) (64, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 8.0
        Section: GPU Speed Of Light Throughput
        ----------------------- ----------- ------------
        Metric Name             Metric Unit Metric Value
        ----------------------- ----------- ------------
        Elapsed Cycles                cycle       18,029

Versions before 2022 have a date in place of grid and block, and no heads. Advice of ncu's rules,
which is wrapped there, is not read.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from profiler.importers.given_file import GivenFile
from profiler.importers.importer import Importer
from profiler.importers.launches import ImportedLaunches
from profiler.parse.ncu_csv import parse_ncu_csv

_PROCESS = re.compile(r"\[(?P<id>\d+)\] (?P<name>\S+)@(?P<host>\S+)\s*$")
_KERNEL = re.compile(
    r"^\s*(?P<kernel>\S.*?)(?: \((?P<grid>\d+, \d+, \d+)\)x\((?P<block>\d+, \d+, \d+)\))?"
    r"(?:, \d{4}-\w+-\d+ [\d:]+)?, Context (?P<context>\d+), Stream (?P<stream>\d+)"
    r"(?:, Device (?P<device>\d+), CC (?P<cc>[\d.]+))?\s*$"
)
_OF_LAUNCHES = ", Context "
"""In each line that begins a launch, and hardly in texts of others."""
_SECTION = re.compile(r"^\s+Section: (?P<section>.*\S)")
_RULE = re.compile(r"^\s*(-{3,}) +(-{3,}) +(-{3,})\s*$")
_HEADS = ("Metric Name", "Metric Unit", "Metric Value")
_COLUMNS = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC", "Section Name", *_HEADS),
)
_LONGEST_LINE = 1 << 16
"""Names of kernels are long, but not so long."""


def details_csv(text: str) -> str | None:
    """CSV of the details page with the metrics of a text page; None where it has no launch."""
    if _OF_LAUNCHES not in text:
        return None
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(_COLUMNS)
    empty = written.tell()
    writer.writerows(_rows(text))
    return written.getvalue() if written.tell() > empty else None


def _rows(text: str) -> Iterator[tuple[str, ...]]:
    """One row for each metric of a launch; launches are numbered as they come."""
    process, launch, section = ("", "", ""), None, ""
    number = -1
    columns: tuple[tuple[int, int], ...] | None = None
    """Where the three columns begin and end; None outside of a table."""
    has_rows = False
    for line in _whole_lines(text):
        if len(line) > _LONGEST_LINE:
            continue
        if rule := _RULE.match(line):
            # One stands above and one below the heads, and one at the end.
            columns = None if has_rows else (rule.span(1), rule.span(2), rule.span(3))
            has_rows = False
        elif columns is not None and launch is not None:
            name, unit, value = _cells(line, columns)
            if (name, unit, value) != _HEADS and name and value:
                has_rows = True
                yield (str(number), *process, *launch, section, name, unit, value)
        elif kernel := _KERNEL.match(line):
            number += 1
            launch, section = _identity(kernel), ""
        elif match := _SECTION.match(line):
            section = match["section"]
        elif match := _PROCESS.search(line):
            process = (match["id"], match["name"], match["host"])


def _whole_lines(text: str) -> list[str]:
    """Lines of a text but one without an end: of a row that was cut the value may be another."""
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    return [line.rstrip("\r\n") for line in lines]


def _cells(line: str, columns: tuple[tuple[int, int], ...]) -> tuple[str, str, str]:
    """Cells of a row: names are left, values right in their column, and may stand out of it."""
    (_, name_ends), (_, unit_ends), _ = columns
    name = line[:name_ends].strip()
    unit = line[name_ends:unit_ends].strip()
    return name, unit, line[unit_ends:].strip()


def _identity(kernel: re.Match[str]) -> tuple[str, ...]:
    block, grid = (f"({size})" if size else "" for size in (kernel["block"], kernel["grid"]))
    place = (kernel[name] or "" for name in ("context", "stream"))
    return (kernel["kernel"], *place, block, grid, kernel["device"] or "", kernel["cc"] or "")


def _is_in(text: str) -> bool:
    lines = (line for line in text.splitlines() if _OF_LAUNCHES in line[:_LONGEST_LINE])
    return _OF_LAUNCHES in text and any(map(_KERNEL.match, lines))


def _read(file: GivenFile) -> ImportedLaunches:
    return ImportedLaunches.of(parse_ncu_csv(details_csv(file.text) or "", file.name))


IMPORTER = Importer(
    name="text of ncu",
    files="what ncu prints without `--csv` (its metrics, not the advice of its rules)",
    gives=ImportedLaunches,
    read=_read,
    is_in=_is_in,
)
