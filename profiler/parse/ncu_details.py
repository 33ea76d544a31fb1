"""Details pages of ncu's CSV: one row per metric of a launch, and rows of advice by ncu's rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from profiler.parse.ncu_labels import metric_name
from profiler.parse.ncu_launches import Column, IdentityColumns, Launches, launch_id
from profiler.parse.ncu_lines import Header, Scanner, split_row
from profiler.parse.ncu_numbers import (
    NumberStyle,
    base_unit,
    detect_style,
    factor_to_base,
    is_duration,
    parse_number,
)
from profiler.parse.ncu_raw import TEXT_METRICS


class RuleRow(NamedTuple):
    """Advice of one of ncu's rules on one launch. Speedups of `global` and `local` never add up."""

    launch: int
    """Row number of the launch in the frame of launches."""
    id: int
    section: str
    """Identifier (`SpeedOfLight`), not the section's name in metric rows."""
    rule: str
    type: str
    """`INF`, `OPT` or `WRN`."""
    description: str
    speedup_pct: float
    """Estimated speedup in percent; NaN where the rule gives none."""
    speedup_type: str | None
    """`global`: of the whole launch; `local`: of the part that the rule looks at."""


_KEY = ("Process ID", "Kernel Name", "Block Size", "Grid Size")
"""What tells launches apart beside their number."""


class _Table:
    """Rows of one details table: cells by metric and launch, and advice, until they are numbers."""

    def __init__(self, header: Header, launches: Launches) -> None:
        self.header = header
        self.cells: dict[str, dict[int, tuple[str, str]]] = {}
        """Value and unit, by metric and by row of the launch."""
        self.advice: list[tuple[int, list[str]]] = []
        """Row of the launch, and fields of a rule."""
        self._launches = launches
        self._width = len(header.names)
        self._position = {name: i for i, name in reversed(list(enumerate(header.names)))}
        self._identity_columns = IdentityColumns(header.names)
        self._rows: dict[tuple[str, ...], int] = {}
        self._read: set[tuple[int, str, str]] = set()
        """Launch, section and metric of the rows so far: where one comes again, it is of another
        run that was appended under the same header."""

    def cell(self, fields: Sequence[str], header: str) -> str:
        """The cell under a header; empty where there is none."""
        return fields[self._position[header]] if header in self._position else ""

    def add(self, line: bytes) -> bool:
        """Take one row; false where it is neither a metric nor a rule, or was cut off."""
        row = split_row(line)
        number = None if row is None else launch_id(row[0])
        value_at = self._position["Metric Value"]
        if row is None or number is None or not value_at < len(row) <= self._width:
            return False
        fields = [*row, *[""] * (self._width - len(row))]
        name, section = self.cell(fields, "Metric Name"), self.cell(fields, "Section Name")
        # Only metric rows end with a comma of their own, and only behind their value; others stop
        # there where ncu would have gone on with a quoted cell.
        is_cut = line.endswith(b",") and not (name and len(row) > value_at + 1)
        is_rule = bool(self.cell(fields, "Rule Name")) and len(row) == self._width
        if is_cut or not (name or is_rule):
            return False
        launch = self._launch(number, fields)
        if name and (launch, section, name) in self._read:
            launch = self._launch(number, fields, again=True)
        if name:
            self._read.add((launch, section, name))
            self._add_metric(launch, metric_name(section, name), fields)
        if is_rule:
            self.advice.append((launch, fields))
        return True

    def _launch(self, number: int, fields: list[str], *, again: bool = False) -> int:
        """Row of the launch that fields are of; another where it has been seen `again`."""
        # Files that were appended to others have the numbers of launches, and of processes, again.
        key = (fields[0], *(self.cell(fields, name) for name in _KEY))
        row = self._rows.get(key)
        if row is None or again:
            row = self._rows[key] = len(self._launches)
            self._launches.add_launch(number, *self._identity_columns.of(fields))
        return row

    def _add_metric(self, row: int, metric: str, fields: list[str]) -> None:
        value, unit = self.cell(fields, "Metric Value"), self.cell(fields, "Metric Unit")
        # Sections share metrics; where one of them has no value, the other may.
        earlier = self.cells.setdefault(metric, {}).get(row)
        if earlier is None or _is_missing(earlier[0]):
            self.cells[metric][row] = value, unit
        if unit or metric not in self._launches.units:
            self._launches.units[metric] = base_unit(unit).unit


def read_details(header: Header, scanner: Scanner, launches: Launches) -> list[RuleRow]:
    """Read the rows of one details table into `launches`; gives the advice of ncu's rules."""
    start = len(launches)
    table = _Table(header, launches)
    for line in scanner.rows():
        if not table.add(line):
            scanner.reject(line)
    style = detect_style(text for cells in table.cells.values() for text, _ in cells.values())
    columns: dict[str, Column] = {}
    for name, cells in table.cells.items():
        texts: dict[int, str] = {}
        columns[name] = np.full(len(launches) - start, np.nan), texts
        for row, (text, unit) in sorted(cells.items()):
            number = None if name in TEXT_METRICS else parse_number(text, style)
            if number is None:
                texts[row - start] = text
                continue
            factor = _factor(name, unit, has_units="Metric Unit" in header.names)
            columns[name][0][row - start] = number * factor
            if math.isnan(factor):
                launches.odd_units[name] = unit.strip() or "an empty cell"
    launches.add_values(start, columns)
    launches.without_units |= "Metric Unit" not in header.names
    return [_rule(launches.ids[row], row, table, fields, style) for row, fields in table.advice]


def _factor(name: str, unit: str, *, has_units: bool) -> float:
    """Factor from a unit to the base unit of a metric; NaN where it cannot be its unit."""
    lacks_unit = has_units and is_duration(name) and not unit.strip()
    return math.nan if lacks_unit else factor_to_base(name, unit)


def _rule(number: int, row: int, table: _Table, fields: list[str], style: NumberStyle) -> RuleRow:
    speedup = parse_number(table.cell(fields, "Estimated Speedup"), style)
    return RuleRow(
        launch=row,
        id=number,
        section=table.cell(fields, "Section Name"),
        rule=table.cell(fields, "Rule Name"),
        type=table.cell(fields, "Rule Type"),
        description=table.cell(fields, "Rule Description"),
        speedup_pct=np.nan if speedup is None else speedup,
        speedup_type=table.cell(fields, "Estimated Speedup Type") or None,
    )


def _is_missing(text: str) -> bool:
    """Whether a cell holds what ncu writes in place of a number that it does not have."""
    number = parse_number(text)
    return number is not None and math.isnan(number)
