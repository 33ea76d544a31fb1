"""Raw pages of ncu's CSV: one wide row per launch."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.errors import ParseError
from profiler.parse.ncu_launches import (
    IdentityColumns,
    Launches,
    Piece,
    TextCells,
    is_identity,
    launch_id,
)
from profiler.parse.ncu_lines import Header, Scanner, has_stray_quote, quote_row, split_row
from profiler.parse.ncu_numbers import (
    C_LOCALE,
    MISSING,
    SPACED_BYTES,
    NumberStyle,
    base_unit,
    detect_style,
    factor_to_base,
    is_known,
    misplaced_separators,
    number_parser,
    parse_number,
)

ATTRIBUTE_PREFIX = "device__attribute_"
CONSTANT_PREFIXES = (ATTRIBUTE_PREFIX, "c2clink__", "numa__", "nvlink__")
"""Facts of the machine that every row repeats: two thirds of the columns.

Left out; those of the device are kept once, in `attributes`."""

TEXT_METRICS = frozenset(
    {
        "launch__kernel_name",
        "launch__cluster_scheduling_policy",
        "launch__func_cache_config",
        # A list such as `0,1,2` must not be read as a number with thousands.
        "launch__tpc_enabled",
    }
)
"""Columns that hold words even where every word is made of digits."""

_LONG_LIST = re.compile(rb"[0-9]{1,3}(?:,[0-9]{1,3}){5,}")
"""A list of numbers, as TEXT_METRICS have: no number has so many thousands."""
_BATCH_ROWS = 8192
_FEW_ROWS = 64
_KEPT_CONSTANTS = 16
"""One for each device of a large machine."""
_STYLE_ROWS = 64
"""Enough to find numbers that can be read one way only, where the first row has none."""
_SEPARATOR = b'","'
_HUGE_EXPONENTS = tuple(re.compile(rb"%b(?<=[0-9].)\+?[0-9]{3}" % e) for e in (b"e", b"E"))
"""In numbers that may be beyond all floats. Looking for both letters at once takes ten times as
long: a pattern that begins with one letter is looked for by that."""
_MANY_DIGITS = re.compile(rb"[0-9]{300}")
"""Looking for these takes thirty times as long as for cells that are long enough."""

Column = tuple[npt.NDArray[np.float64], npt.NDArray[np.intp], npt.NDArray[Any]]
"""Numbers of a metric, and offsets and texts of its cells that hold texts instead."""


class RawTable:
    """Reads the rows of one raw table into `launches`."""

    def __init__(self, header: Header, launches: Launches) -> None:
        self._launches = launches
        self._start = len(launches)
        self._width = len(header.names)
        self._head = 1 + max(i for i, name in enumerate(header.names) if is_identity(name))
        self._identity_columns = IdentityColumns(header.names[: self._head])
        self._names, units, self._factors = _names_and_units(header, self._head)
        self._wanted = [
            i for i, name in enumerate(self._names) if not name.startswith(CONSTANT_PREFIXES)
        ]
        self._skip = min(self._wanted, default=0)
        self._constants: list[bytes] = [] if self._skip else [b""]
        self.has_units = header.units is not None
        self.units = {self._names[i]: base_unit(units[i]).unit for i in self._wanted}
        self.odd_units = {
            self._names[i]: units[i] for i in self._wanted if math.isnan(self._factors[i])
        }
        self.attributes: Mapping[str, str | float] = {}
        self.contradicted: Counter[str] = Counter()
        """Rows, by metrics of which several columns have values that are not the same."""
        self._style = C_LOCALE
        self._identity_codes: dict[bytes, int] = {}
        self._nvtx_codes: dict[tuple[bytes, ...], int] = {}
        nvtx = [i for i in range(1, self._head) if _is_nvtx(header.names[i])]
        rest = [i for i in range(1, self._head) if i not in nvtx]
        self._nvtx_cells, self._rest_cells = _picker(nvtx), _picker(rest)

    def read(self, scanner: Scanner) -> None:
        """Read all rows; raises ParseError only where pandas refuses what was checked before."""
        lines = scanner.rows()
        for line in lines:
            fields = self._split(line)
            if fields is not None:
                self._learn_device(fields[self._head :])
                self._read_batches(scanner, chain((line,), lines))
                return
            scanner.reject(line)

    def _split(self, line: bytes) -> list[str] | None:
        """Fields of a whole row; a raw page quotes even its last cell, so one without was cut."""
        fields = split_row(line) if line.endswith(b'"') else None
        return fields if fields is not None and len(fields) == self._width else None

    def _learn_device(self, cells: list[str]) -> None:
        """Keep the device attributes of the first row; its large numbers show the notation."""
        self._style = detect_style(cells)
        self.attributes = {
            name: _attribute(cell, self._style)
            for name, cell in zip(self._names, cells, strict=True)
            if name.startswith(ATTRIBUTE_PREFIX) and parse_number(cell) == parse_number(cell)
        }

    def _read_batches(self, scanner: Scanner, lines: Iterable[bytes]) -> None:
        tails = self._tails(scanner, lines)
        while True:
            start = len(self._launches)
            batch = list(islice(tails, _BATCH_ROWS))
            if not batch:
                return
            if start == self._start and self._style == C_LOCALE:
                self._style = detect_style(_cells(batch[:_STYLE_ROWS]))
            if self._wanted:
                self._launches.add_values(self._values(batch, start))

    def _tails(self, scanner: Scanner, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Register the launch of each whole row, and give the part of it that holds the metrics."""
        for line in lines:
            tail = self._quick(line)
            if tail is None:
                tail = self._slow(line)
            if tail is None:
                scanner.reject(line)
            else:
                yield tail

    def _quick(self, line: bytes) -> bytes | None:
        """The usual row, told by counting; None where it needs a closer look."""
        parts = line.split(_SEPARATOR, self._head)
        if len(parts) <= self._head:
            return None
        number = launch_id(parts[0][1:])
        tail = self._skip_constants(parts.pop())
        rest = len(self._names) - self._skip
        if number is None or tail is None or tail.count(b'"') != 2 * rest - 1:
            return None
        if tail.count(_SEPARATOR) != rest - 1 or not tail.endswith(b'"'):
            return None
        codes = self._codes(parts)
        if codes is None:
            return None
        self._launches.add_launch(number, *codes)
        return b'"' + tail

    def _skip_constants(self, tail: bytes) -> bytes | None:
        """Cut off the leading columns that nobody wants: the same bytes in nearly every row."""
        for constants in self._constants:
            if tail.startswith(constants):
                return tail[len(constants) :]
        return None

    def _codes(self, parts: list[bytes]) -> tuple[int, int] | None:
        rest, nvtx = b"\n".join(self._rest_cells(parts)), self._nvtx_cells(parts)
        identity_code, nvtx_code = self._identity_codes.get(rest), self._nvtx_codes.get(nvtx)
        if identity_code is not None and nvtx_code is not None:
            return identity_code, nvtx_code
        cells = b"\n".join(parts)[1:]
        if has_stray_quote(cells):
            return None
        fields = cells.replace(b'""', b'"').decode("utf-8", "replace").split("\n")
        if identity_code is None:
            identity_code = self._launches.add_identity(self._identity_columns.identity(fields))
            self._identity_codes[rest] = identity_code
        if nvtx_code is None:
            nvtx_code = self._launches.add_nvtx(self._identity_columns.ranges(fields))
            self._nvtx_codes[nvtx] = nvtx_code
        return identity_code, nvtx_code

    def _slow(self, line: bytes) -> bytes | None:
        """Any row, read with care; learns the constants that the quick way skips."""
        fields = self._split(line)
        number = None if fields is None else launch_id(fields[0])
        if fields is None or number is None:
            return None
        self._learn_constants(fields[self._head : self._head + self._skip])
        identity = self._launches.add_identity(self._identity_columns.identity(fields))
        nvtx = self._launches.add_nvtx(self._identity_columns.ranges(fields))
        self._launches.add_launch(number, identity, nvtx)
        return quote_row(fields[self._head + self._skip :])

    def _learn_constants(self, fields: list[str]) -> None:
        if fields:
            constants = quote_row(fields)[1:-1] + _SEPARATOR
            self._constants = [constants, *self._constants][:_KEPT_CONSTANTS]

    def _values(self, tails: list[bytes], start: int) -> Piece:
        columns = self._few_columns(tails) or self._columns(tails)
        names = tuple(self._names[i] for i in self._wanted)
        values = np.empty((len(names), len(tails)))
        text_cells: dict[str, TextCells] = {}
        for row, (position, column) in enumerate(zip(self._wanted, columns, strict=True)):
            numbers, offsets, texts = column
            np.multiply(numbers, self._factors[position], out=values[row])
            if len(offsets):
                text_cells.setdefault(self._names[position], (offsets, texts))
        values[np.isinf(values)] = np.nan
        first = {name: row for row, name in reversed(list(enumerate(names)))}
        if len(first) < len(names):
            for row, name in enumerate(names):
                self._compare(name, values[first[name]], values[row])
            names, values = tuple(first), values[list(first.values())]
        return Piece(start, names, values, text_cells)

    def _compare(self, name: str, kept: npt.NDArray[np.float64], again: Any) -> None:
        """Have no value where two columns of a metric do not say the same."""
        differ = (kept != again) & ~(np.isnan(kept) & np.isnan(again))
        if differ.any():
            self.contradicted[name] += int(differ.sum())
            kept[differ] = np.nan

    def _columns(self, tails: list[bytes]) -> Iterator[Column]:
        """Wanted columns of many rows."""
        frame = self._frame(tails)
        for position in self._wanted:
            column = frame[position - self._skip]
            numbers, offsets = _numbers(column, self._style, self._names[position])
            yield numbers, offsets, column.to_numpy(dtype=object)[offsets]

    def _few_columns(self, tails: list[bytes]) -> list[Column] | None:
        """Wanted columns of a few rows; None of many, or where a row is not as others are.

        A table of a few rows, which each of a thousand sessions has, takes pandas ten times as
        long.
        """
        if len(tails) > _FEW_ROWS:
            return None
        width = len(self._names) - self._skip
        rows = [row for tail in tails if (row := split_row(tail)) and len(row) == width]
        if len(rows) < len(tails):
            return None
        cells = list(zip(*rows, strict=True))
        return [
            _few_numbers(cells[position - self._skip], self._style, self._names[position])
            for position in self._wanted
        ]

    def _frame(self, tails: list[bytes]) -> pd.DataFrame:
        data = b"\n".join(tails)
        if self._style.spaced:
            data = SPACED_BYTES.sub(b"", data)
        positions = [i - self._skip for i in self._wanted]
        texts = {p for p in positions if self._names[p + self._skip] in TEXT_METRICS}
        if _has_misplaced(data, self._style) or _may_be_huge(data):
            texts.update(positions)  # pandas takes `90,45` for 9045, and `1e999` for missing
        try:
            frame = pd.read_csv(
                io.BytesIO(data),
                header=None,
                names=range(len(self._names) - self._skip),
                usecols=positions,
                dtype=dict.fromkeys(texts, str),
                thousands=self._style.thousands,
                decimal=self._style.decimal,
                na_values=list(MISSING),
                keep_default_na=False,
                skip_blank_lines=False,
                low_memory=False,
                encoding_errors="replace",
            )
        except (ValueError, OverflowError) as error:
            raise ParseError(f"ncu rows could not be read: {error}") from error
        if len(frame) != len(tails):
            raise ParseError(f"ncu rows could not be read: {len(frame)} of {len(tails)} came back")
        return frame


def _has_misplaced(data: bytes, style: NumberStyle) -> bool:
    """Whether any cell but long lists has digits that are not set apart by thousands."""
    places, number = misplaced_separators(data, style.thousands), 0
    while number < len(places):
        place = int(places[number])
        start, end = data.rfind(b'"', 0, place) + 1, data.find(b'"', place)
        if not _LONG_LIST.fullmatch(data, start, end):
            return True
        number = int(np.searchsorted(places, end))  # of a long list most separators are
    return False


def _may_be_huge(data: bytes) -> bool:
    quotes = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord('"'))
    is_long = np.diff(quotes).max(initial=0) > 300 and _MANY_DIGITS.search(data) is not None
    return is_long or any(pattern.search(data) for pattern in _HUGE_EXPONENTS)


@lru_cache(maxsize=8)
def _names_and_units(
    header: Header, head: int
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]:
    """Metric names, their units, from the units row or else from `name [unit]`, and their factors.

    Those of a table that was read before are known: a run can have a thousand alike.
    """
    names = list(header.names[head:])
    units = [""] * len(names) if header.units is None else list(header.units[head:])
    for i, name in enumerate(names if header.units is None else ()):
        label, bracket, unit = name.removesuffix("]").rpartition(" [")
        if bracket and name.endswith("]") and is_known(unit):
            names[i], units[i] = label, unit
    factors = tuple(factor_to_base(name, unit) for name, unit in zip(names, units, strict=True))
    return tuple(names), tuple(units), factors


def _is_nvtx(header: str) -> bool:
    return is_identity(header) and "Domain:" in header


def _picker(positions: list[int]) -> Any:
    """A function that takes the cells at these positions, always as a tuple."""
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda cells: tuple(cells[i] for i in positions)


def _cells(tails: list[bytes]) -> Iterator[str]:
    for tail in tails:
        yield from split_row(tail) or ()


def _few_numbers(cells: Sequence[str], style: NumberStyle, name: str) -> Column:
    parse = _missing_or_text if name in TEXT_METRICS else number_parser(style)
    numbers = [parse(text) for text in cells]
    values = np.array([math.nan if number is None else number for number in numbers])
    offsets = np.array([n for n, number in enumerate(numbers) if number is None], dtype=np.intp)
    return values, offsets, np.array(cells, dtype=object)[offsets]


def _missing_or_text(text: str) -> float | None:
    return math.nan if text in MISSING else None


def _attribute(cell: str, style: NumberStyle) -> str | float:
    number = parse_number(cell, style)
    return cell if number is None else number


def _numbers(
    column: pd.Series[Any], style: NumberStyle, name: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.intp]]:
    """Numbers of a column, and the offsets of the cells that hold texts instead."""
    if column.dtype.kind in "iuf":
        return column.to_numpy(dtype=np.float64), np.empty(0, dtype=np.intp)
    codes, distinct = pd.factorize(column)
    numbers = [
        None if name in TEXT_METRICS else parse_number(str(text), style) for text in distinct
    ]
    is_text = np.array([number is None for number in numbers] + [False], dtype=bool)
    values = np.array([np.nan if n is None else n for n in numbers] + [np.nan])
    return values[codes], np.flatnonzero(is_text[codes])
