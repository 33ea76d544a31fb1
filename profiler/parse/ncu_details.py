"""Details pages of ncu's CSV: one row per metric of a launch, and rows of advice by ncu's rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from profiler.parse.ncu_labels import metric_name
from profiler.parse.ncu_launches import IdentityColumns, Launches, Piece, TextCells, launch_id
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


class _Cell(NamedTuple):
    launch: int
    text: str
    unit: str


class DetailsTable:
    """Reads the rows of one details table into `launches` and `rules`."""

    def __init__(self, header: Header, launches: Launches, rules: list[RuleRow]) -> None:
        self._launches = launches
        self._rules = rules
        self._width = len(header.names)
        self._position = {name: i for i, name in reversed(list(enumerate(header.names)))}
        self._identity_columns = IdentityColumns(header.names)
        self._value_at = self._position["Metric Value"]
        self._start = len(launches)
        self._rows: dict[tuple[str, ...], int] = {}
        self._cells: dict[str, dict[int, _Cell]] = {}
        self._read: set[tuple[int, str, str]] = set()
        """Launch, section and metric of the rows so far: where one comes again, it is of another
        run that was appended under the same header."""
        self._advice: list[tuple[int, list[str]]] = []
        self.units: dict[str, str] = {}
        self._has_units = "Metric Unit" in header.names
        self.odd_units: dict[str, str] = {}
        """Units that cannot be those of their metrics."""

    def read(self, scanner: Scanner) -> None:
        """Read all rows of the table."""
        for line in scanner.rows():
            fields = split_row(line)
            if fields is None or self._is_cut(line, fields) or not self._add(fields):
                scanner.reject(line)
        style = detect_style(cell.text for cells in self._cells.values() for cell in cells.values())
        if self._cells:
            self._launches.add_values(self._piece(style))
        self._rules.extend(self._rule(row, fields, style) for row, fields in self._advice)

    def _is_cut(self, line: bytes, fields: list[str]) -> bool:
        """Whether the row stops at a comma where ncu would have gone on with a quoted cell.

        Only metric rows end with a comma of their own, and only behind their value.
        """
        has_value = len(fields) > self._value_at + 1 and self._get(fields, "Metric Name")
        return line.endswith(b",") and not has_value

    def _get(self, fields: Sequence[str], header: str) -> str:
        position = self._position.get(header, self._width)
        return fields[position] if position < len(fields) else ""

    def _add(self, fields: list[str]) -> bool:
        """Take one row; false where it is neither a metric nor a rule."""
        number = launch_id(fields[0])
        name = self._get(fields, "Metric Name")
        rule = self._get(fields, "Rule Name")
        fits = self._value_at < len(fields) <= self._width
        if number is None or not fits or not (name or (rule and len(fields) == self._width)):
            return False
        row = self._launch(number, fields)
        if name and (row, self._get(fields, "Section Name"), name) in self._read:
            row = self._launch(number, fields, again=True)
        if name:
            self._read.add((row, self._get(fields, "Section Name"), name))
            self._add_metric(row, name, fields)
        if rule and len(fields) == self._width:
            self._advice.append((row, fields))
        return True

    def _launch(self, number: int, fields: list[str], *, again: bool = False) -> int:
        """Row of the launch that fields are of; another where it has been seen `again`."""
        # Files that were appended to others have the numbers of launches, and of processes, again.
        key = (fields[0], *(self._get(fields, name) for name in _KEY))
        row = self._rows.get(key)
        if row is None or again:
            row = self._rows[key] = len(self._launches)
            identity = self._launches.add_identity(self._identity_columns.identity(fields))
            nvtx = self._launches.add_nvtx(self._identity_columns.ranges(fields))
            self._launches.add_launch(number, identity, nvtx)
        return row

    def _add_metric(self, row: int, name: str, fields: list[str]) -> None:
        metric = metric_name(self._get(fields, "Section Name"), name)
        unit = self._get(fields, "Metric Unit")
        cell = _Cell(row, fields[self._value_at], unit)
        # Sections share metrics; where one of them has no value, the other may.
        earlier = self._cells.setdefault(metric, {}).get(row)
        if earlier is None or _is_missing(earlier.text):
            self._cells[metric][row] = cell
        if unit or metric not in self.units:
            self.units[metric] = base_unit(unit).unit

    def _piece(self, style: NumberStyle) -> Piece:
        names = tuple(self._cells)
        values = np.full((len(names), len(self._launches) - self._start), np.nan)
        text_cells: dict[str, TextCells] = {}
        for position, name in enumerate(names):
            texts: list[tuple[int, str]] = []
            for cell in self._cells[name].values():
                number = None if name in TEXT_METRICS else parse_number(cell.text, style)
                if number is None:
                    texts.append((cell.launch - self._start, cell.text))
                else:
                    lacks_unit = self._has_units and is_duration(name) and not cell.unit.strip()
                    factor = math.nan if lacks_unit else factor_to_base(name, cell.unit)
                    values[position, cell.launch - self._start] = number * factor
                    if math.isnan(factor):
                        self.odd_units[name] = cell.unit.strip() or "an empty cell"
            if texts:
                offsets, contents = zip(*sorted(texts), strict=True)
                text_cells[name] = (
                    np.array(offsets, dtype=np.intp),
                    np.array(contents, dtype=object),
                )
        return Piece(self._start, names, values, text_cells)

    def _rule(self, row: int, fields: list[str], style: NumberStyle) -> RuleRow:
        speedup = parse_number(self._get(fields, "Estimated Speedup"), style)
        return RuleRow(
            launch=row,
            id=self._launches.ids[row],
            section=self._get(fields, "Section Name"),
            rule=self._get(fields, "Rule Name"),
            type=self._get(fields, "Rule Type"),
            description=self._get(fields, "Rule Description"),
            speedup_pct=np.nan if speedup is None else speedup,
            speedup_type=self._get(fields, "Estimated Speedup Type") or None,
        )


def _is_missing(text: str) -> bool:
    """Whether a cell holds what ncu writes in place of a number that it does not have."""
    number = parse_number(text)
    return number is not None and math.isnan(number)
