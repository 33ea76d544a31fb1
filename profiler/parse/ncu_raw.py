"""Raw pages of ncu's CSV: one wide row per launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import compress, islice, takewhile

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

_BATCH_ROWS = 64
"""Rows whose cells are texts at one time: of 300 columns, what a cache of a processor holds. Enough
to find numbers that can be read one way only, where the first row has none."""
_SEPARATOR = b'","'


def read_raw(header: Header, scanner: Scanner, launches: Launches) -> None:
    """Read the rows of one raw table into `launches`."""
    head = 1 + max(place for place, name in enumerate(header.names) if is_identity(name))
    names, units, factors = _names_and_units(header, head)
    is_wanted = [not name.startswith(CONSTANT_PREFIXES) for name in names]
    wanted = list(compress(range(len(names)), is_wanted))
    wanted_names, wanted_factors = [names[i] for i in wanted], [factors[i] for i in wanted]
    launches.units |= {names[i]: base_unit(units[i]).unit for i in wanted}
    launches.odd_units |= {names[i]: units[i] for i in wanted if math.isnan(factors[i])}
    rows = _metric_cells(header, head, scanner, launches)
    style: NumberStyle | None = None
    start = len(launches)
    while batch := list(islice(rows, _BATCH_ROWS)):
        if style is None:
            style = detect_style(cell for row in batch for cell in row)
            launches.attributes = launches.attributes or _attributes(names, batch[0], style)
            launches.without_units |= header.units is None
        cells = [list(compress(row, is_wanted)) for row in batch]
        columns: dict[str, Column] = {}
        for name, column in zip(
            wanted_names, _columns(cells, style, wanted_names, wanted_factors), strict=True
        ):
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
    identity, metrics = IdentityColumns(header.names[:head]), header.names[head:]
    leading = takewhile(lambda name: name.startswith(CONSTANT_PREFIXES), metrics)
    stop = head + sum(1 for _ in leading)
    constants, their_cells = (b"\n" if stop > head else b""), list[str]()  # in no line, in any line
    for line in scanner.rows():
        *first, rest = line.split(_SEPARATOR, head)
        plain = _without_quotes(rest[len(constants) :]) if rest.startswith(constants) else None
        named = None if plain is None else split_row(_SEPARATOR.join(first) + b'"')
        if plain is not None and named is not None and len(named) == head:
            cells = [*their_cells, *plain]
        else:  # a raw page quotes even its last cell, so that a row without that was cut off
            fields = (split_row(line) if line.endswith(b'"') else None) or [""]
            named, cells = fields[:head], fields[head:]
            if stop > head:
                their_cells = cells[: stop - head]
                constants = _SEPARATOR.join([*(cell.encode() for cell in their_cells), b""])
        number = launch_id(named[0])
        if number is None or len(cells) != len(metrics):
            scanner.reject(line)
        else:
            launches.add_launch(number, *identity.of(named))
            yield cells


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


def _columns(
    rows: Sequence[Sequence[str]],
    style: NumberStyle,
    names: Sequence[str],
    factors: Sequence[float],
) -> Iterator[Column]:
    """Numbers of each metric in its base unit, with the cells that hold texts instead."""
    parse = number_parser(style)
    numbers = [list(map(parse, cells)) for cells in rows]
    words = [place for place, name in enumerate(names) if name in TEXT_METRICS]
    texts: list[dict[int, str]] = [{} for _ in names]
    for row_number, (cells, row) in enumerate(zip(rows, numbers, strict=True)):
        for place in words:
            row[place] = math.nan
            if cells[place] not in MISSING:
                texts[place][row_number] = cells[place]
        if None in row:
            for place in (place for place, number in enumerate(row) if number is None):
                texts[place][row_number] = cells[place]
    values = np.array(numbers, dtype=np.float64).T * np.array(factors)[:, np.newaxis]  # None is NaN
    values[np.isinf(values)] = np.nan
    return zip(values, texts, strict=True)


def _contradictions(kept: Column, again: Column) -> int:
    """Rows in which two columns of a metric do not say the same; they have no value then."""
    values, others = kept[0], again[0]
    differ = (values != others) & ~(np.isnan(values) & np.isnan(others))
    values[differ] = np.nan
    return int(differ.sum())
