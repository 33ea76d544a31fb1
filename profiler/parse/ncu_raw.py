"""Raw pages of ncu's CSV: one wide row per launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice, takewhile

import numpy as np

from profiler.parse.ncu_launches import (
    Column,
    IdentityColumns,
    Launches,
    is_identity,
    launch_id,
)
from profiler.parse.ncu_lines import Header, Scanner, split_row
from profiler.parse.ncu_numbers import (
    MISSING,
    NumberStyle,
    base_unit,
    detect_style,
    factor_to_base,
    is_known,
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

_BATCH_ROWS = 128
"""Rows whose cells are texts at one time: of 300 columns, what a cache of a processor holds."""
_SEPARATOR = b'","'
_STYLE_ROWS = 64
"""Enough to find numbers that can be read one way only, where the first row has none."""


def read_raw(header: Header, scanner: Scanner, launches: Launches) -> None:
    """Read the rows of one raw table into `launches`."""
    head = 1 + max(place for place, name in enumerate(header.names) if is_identity(name))
    names, units, factors = _names_and_units(header, head)
    wanted = [i for i, name in enumerate(names) if not name.startswith(CONSTANT_PREFIXES)]
    launches.units |= {names[i]: base_unit(units[i]).unit for i in wanted}
    launches.odd_units |= {names[i]: units[i] for i in wanted if math.isnan(factors[i])}
    rows = _metric_cells(header, head, scanner, launches)
    style: NumberStyle | None = None
    start = len(launches)
    while batch := list(islice(rows, _BATCH_ROWS)):
        if style is None:
            style = detect_style(cell for row in batch[:_STYLE_ROWS] for cell in row)
            launches.attributes = launches.attributes or _attributes(names, batch[0], style)
            launches.without_units |= header.units is None
        cells = list(zip(*batch, strict=True))
        columns: dict[str, Column] = {}
        for place in wanted:
            name = names[place]
            column = _column(cells[place], style, name, factors[place])
            if name in columns:
                launches.contradicted[name] += _contradictions(columns[name], column)
            else:
                columns[name] = column
        launches.add_values(start, columns)
        start = len(launches)


def _metric_cells(
    header: Header, head: int, scanner: Scanner, launches: Launches
) -> Iterator[list[str]]:
    """Cells of the metrics of each whole row; its launch is added before.

    The leading constants, two thirds of a row, are the same bytes in nearly every row.
    """
    identity = IdentityColumns(header.names[:head])
    leading = takewhile(lambda name: name.startswith(CONSTANT_PREFIXES), header.names[head:])
    stop = head + sum(1 for _ in leading)
    constants, their_cells = (b"\n" if stop > head else b""), list[str]()  # in no line, in any line
    for line in scanner.rows():
        *first, rest = line.split(_SEPARATOR, head)
        plain = _without_quotes(rest[len(constants) :]) if rest.startswith(constants) else None
        named = None if plain is None else split_row(_SEPARATOR.join(first) + b'"')
        if plain is not None and named is not None and len(named) == head:
            fields: list[str] | None = [*named, *their_cells, *plain]
        else:  # a raw page quotes even its last cell, so that a row without that was cut off
            fields = split_row(line) if line.endswith(b'"') else None
            if fields is not None and stop > head:
                their_cells = fields[head:stop]
                constants = _SEPARATOR.join([*(cell.encode() for cell in their_cells), b""])
        number = None if fields is None else launch_id(fields[0])
        if fields is None or number is None or len(fields) != len(header.names):
            scanner.reject(line)
        else:
            launches.add_launch(number, *identity.of(fields[:head]))
            yield fields[head:]


def _without_quotes(cells: bytes) -> list[str] | None:
    """The last cells of a row, up to its last quote; None where they hold others."""
    plain = cells.endswith(b'"') and cells.count(b'"') == 2 * cells.count(_SEPARATOR) + 1
    return cells[:-1].decode("utf-8", "replace").split('","') if plain else None


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


def _attributes(
    names: Sequence[str], cells: Sequence[str], style: NumberStyle
) -> dict[str, str | float]:
    """Attributes of the device by their names; those that the row has no value of are absent."""
    known = {
        name: cell
        for name, cell in zip(names, cells, strict=True)
        if name.startswith(ATTRIBUTE_PREFIX) and parse_number(cell) == parse_number(cell)
    }
    numbers = {name: parse_number(cell, style) for name, cell in known.items()}
    return {name: known[name] if n is None else n for name, n in numbers.items()}


def _column(cells: Sequence[str], style: NumberStyle, name: str, factor: float) -> Column:
    """Numbers of a metric in its base unit, with the cells that hold texts instead."""
    parse = _missing_or_text if name in TEXT_METRICS else number_parser(style)
    numbers = list(map(parse, cells))
    values = np.array(numbers, dtype=np.float64) * factor  # None is NaN
    values[np.isinf(values)] = np.nan
    has_texts = None in numbers
    texts = (
        {place: cells[place] for place, n in enumerate(numbers) if n is None} if has_texts else {}
    )
    return values, texts


def _missing_or_text(text: str) -> float | None:
    return math.nan if text in MISSING else None


def _contradictions(kept: Column, again: Column) -> int:
    """Rows in which two columns of a metric do not say the same; they have no value then."""
    values, others = kept[0], again[0]
    differ = (values != others) & ~(np.isnan(values) & np.isnan(others))
    values[differ] = np.nan
    return int(differ.sum())
