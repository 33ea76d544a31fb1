"""Raw pages of ncu's CSV: one wide row per launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, compress, islice, takewhile

import numpy as np

from profiler.parse.ncu_launches import Column, Launches, identity_reader, is_identity, launch_id
from profiler.parse.ncu_lines import Header, Scanner, split_row
from profiler.parse.ncu_numbers import (
    MISSING,
    NumberStyle,
    detect_style,
    factor_to_base,
    is_known_unit,
    number_parser,
    parse_number,
)

ATTRIBUTE_PREFIX = "device__attribute_"
CONSTANT_PREFIXES = (ATTRIBUTE_PREFIX, "c2clink__", "numa__", "nvlink__")
"""Facts of the machine that every row repeats: two thirds of the columns.

They are left out; attributes of the device are kept once, in `attributes`."""

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

_BATCH_ROWS = 64
"""Rows whose cells are texts at one time: of 300 columns, what a cache of a processor holds. Enough
to find numbers that can be read one way only, where the first row has none."""
_SEPARATOR = b'","'


def read_raw(header: Header, scanner: Scanner, launches: Launches) -> None:
    """Read the rows of one raw table into `launches`."""
    identity_count = 1 + max(place for place, name in enumerate(header.names) if is_identity(name))
    names, units, factors = _names_and_units(header, identity_count)
    is_read = [not name.startswith(CONSTANT_PREFIXES) for name in names]
    read_columns = list(compress(range(len(names)), is_read))
    read_names, read_factors = [names[i] for i in read_columns], [factors[i] for i in read_columns]
    launches.wrong_units |= {names[i]: units[i] for i in read_columns if math.isnan(factors[i])}
    rows = _metric_cells(header, identity_count, scanner, launches)
    style: NumberStyle | None = None
    start = len(launches)
    while batch := list(islice(rows, _BATCH_ROWS)):
        if style is None:
            style = detect_style(chain.from_iterable(batch))
            launches.attributes = launches.attributes or _attributes(names, batch[0], style)
            launches.lacks_units |= header.units is None
        cells = [list(compress(row, is_read)) for row in batch]
        columns: dict[str, Column] = {}
        for name, column in zip(
            read_names, _metric_columns(cells, style, read_names, read_factors), strict=True
        ):
            if name in columns:
                launches.contradictions[name] += _contradictions(columns[name], column)
            else:
                columns[name] = column
        launches.add_values(start, columns)
        start = len(launches)


def _metric_cells(
    header: Header, head: int, scanner: Scanner, launches: Launches
) -> Iterator[list[str]]:
    """Metric cells of each complete row, whose launch is added to `launches` first.

    The leading constants, two thirds of a row, are the same bytes in nearly every row.
    """
    identity_of, metrics = identity_reader(header.names[:head]), header.names[head:]
    leading = takewhile(lambda name: name.startswith(CONSTANT_PREFIXES), metrics)
    stop = head + sum(1 for _ in leading)
    constants = b"\n" if stop > head else b""  # in no line, in any line
    constant_cells: list[str] = []
    for line in scanner.rows():
        *identity_bytes, metric_bytes = line.split(_SEPARATOR, head)
        plain = identity_cells = None
        if metric_bytes.startswith(constants):
            plain = _without_quotes(metric_bytes[len(constants) :])
            identity_cells = split_row(_SEPARATOR.join(identity_bytes) + b'"')
        if plain is not None and identity_cells is not None and len(identity_cells) == head:
            cells = [*constant_cells, *plain]
        else:  # a raw page quotes even its last cell, so that a row without that was cut off
            fields = (split_row(line) if line.endswith(b'"') else None) or [""]
            identity_cells, cells = fields[:head], fields[head:]
            if stop > head:
                constant_cells = cells[: stop - head]
                constants = _SEPARATOR.join([*(cell.encode() for cell in constant_cells), b""])
        number = launch_id(identity_cells[0])
        if number is None or len(cells) != len(metrics):
            scanner.reject(line)
        else:
            launches.add_launch(number, *identity_of(identity_cells))
            yield cells


def _without_quotes(cells: bytes) -> list[str] | None:
    """The last cells of a row, up to its last quote; None where cells hold quotes."""
    plain = cells.endswith(b'"') and cells.count(b'"') == 2 * cells.count(_SEPARATOR) + 1
    return cells[:-1].decode("utf-8", "replace").split('","') if plain else None


@lru_cache(maxsize=8)
def _names_and_units(
    header: Header, head: int
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]:
    """Names, units and factors of metrics; units by the units row, else by `name [unit]`.

    Cached by header: a run can have a thousand files with one header.
    """
    names = list(header.names[head:])
    units = [""] * len(names) if header.units is None else list(header.units[head:])
    for i, name in enumerate(names if header.units is None else ()):
        label, bracket, unit = name.removesuffix("]").rpartition(" [")
        if bracket and name.endswith("]") and is_known_unit(unit):
            names[i], units[i] = label, unit
    factors = tuple(factor_to_base(name, unit) for name, unit in zip(names, units, strict=True))
    return tuple(names), tuple(units), factors


def _attributes(
    names: Sequence[str], cells: Sequence[str], style: NumberStyle
) -> dict[str, str | float]:
    """Attributes of the device by name, for those with a value in the row."""
    present_cells = {
        name: cell
        for name, cell in zip(names, cells, strict=True)
        if name.startswith(ATTRIBUTE_PREFIX) and parse_number(cell) == parse_number(cell)
    }
    numbers = {name: parse_number(cell, style) for name, cell in present_cells.items()}
    return {name: present_cells[name] if n is None else n for name, n in numbers.items()}


def _metric_columns(
    rows: Sequence[Sequence[str]],
    style: NumberStyle,
    names: Sequence[str],
    factors: Sequence[float],
) -> Iterator[Column]:
    """Numbers of each metric in its base unit, and the cells that are texts, by row."""
    parse = number_parser(style)
    numbers = [list(map(parse, cells)) for cells in rows]
    text_columns = [place for place, name in enumerate(names) if name in TEXT_METRICS]
    texts: list[dict[int, str]] = [{} for _ in names]
    for row_number, (cells, row) in enumerate(zip(rows, numbers, strict=True)):
        for place in text_columns:
            row[place] = math.nan
            if cells[place] not in MISSING:
                texts[place][row_number] = cells[place]
        if None in row:
            for place in (place for place, number in enumerate(row) if number is None):
                texts[place][row_number] = cells[place]
    values = np.array(numbers, dtype=np.float64).T * np.array(factors)[:, np.newaxis]  # None is NaN
    values[np.isinf(values)] = np.nan
    return zip(values, texts, strict=True)


def _contradictions(first: Column, second: Column) -> int:
    """Number of rows in which two columns of a metric differ, where the first is set to NaN."""
    values, second_values = first[0], second[0]
    differ = (values != second_values) & ~(np.isnan(values) & np.isnan(second_values))
    values[differ] = np.nan
    return int(differ.sum())
