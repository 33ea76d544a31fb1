"""Collects launches and their values, table by table, into one frame."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.parse.nvtx_cells import HEADER_STARTS, NvtxRange, parse_ranges

Floats = npt.NDArray[np.float64]
Column = tuple[Floats, Mapping[int, str]]
"""Values of a metric, and its cells that hold texts instead of numbers, by row."""
Identity = tuple[str | None, ...]
"""Cells of `_CELL_COLUMNS`, shared by launches with equal cells."""

LAUNCH_COLUMNS = (
    "id", "process_id", "process", "kernel", "context", "stream", "block_size", "grid_size",
    "device", "cc", "nvtx",
)  # fmt: skip
"""Columns that every launch has, whatever was measured. `nvtx` holds tuples of NvtxRange."""

IDENTITY_HEADERS: Mapping[str, str] = {
    "ID": "id",
    "Process ID": "process_id",
    "Process Name": "process",
    "Kernel Name": "kernel",
    "Context": "context",
    "Stream": "stream",
    "Block Size": "block_size",
    "Grid Size": "grid_size",
    "Device": "device",
    "CC": "cc",
}
# Not metrics, and not kept: the host's name is private.
IGNORED_HEADERS = frozenset({"Host Name", "Kernel Time"})

_CELL_COLUMNS = LAUNCH_COLUMNS[1:-1]
_CELL_HEADERS = tuple(IDENTITY_HEADERS)[1:]
_INTEGER_COLUMNS = ("process_id", "context", "device")
_NONE = ("", "n/a")
_DIGITS = re.compile(r"[-+]?\d[\d.,' ]*")
"""Digits with separators of an unknown notation."""
_MAX_DIGITS = 18
"""Decimal digits that always fit into 64 bits."""


def is_identity(header: str) -> bool:
    """Whether a header names something about the launch itself, not a metric."""
    return (
        header in IDENTITY_HEADERS or header in IGNORED_HEADERS or header.startswith(HEADER_STARTS)
    )


def identity_reader(
    names: Sequence[str],
) -> Callable[[Sequence[str]], tuple[Identity, tuple[NvtxRange, ...]]]:
    """Function that reads the identity of a launch from a row of a table with these columns."""
    places = {name: place for place, name in reversed(list(enumerate(names)))}
    cells_of = itemgetter(*(places.get(header, -1) for header in _CELL_HEADERS))
    nvtx_of = itemgetter(
        *(
            next((place for place, name in enumerate(names) if name.startswith(start)), -1)
            for start in HEADER_STARTS
        )
    )
    identities: dict[tuple[str, ...], Identity] = {}
    # Equal cells share one string, but for names of kernels.
    shared_cells: dict[str | None, str | None] = {}

    def shared_cell(column: str, cell: str) -> str | None:
        cell_or_none = None if cell in _NONE else cell
        if column == "kernel":
            return cell_or_none
        return shared_cells.setdefault(cell_or_none, cell_or_none)

    def identity_of(fields: Sequence[str]) -> tuple[Identity, tuple[NvtxRange, ...]]:
        """Cells of one row by `_CELL_COLUMNS`, and the NVTX ranges that were open."""
        cells_and_none = [*fields, ""]
        cells = cells_of(cells_and_none)
        identity = identities.get(cells)
        if identity is None:
            identity = identities[cells] = tuple(map(shared_cell, _CELL_COLUMNS, cells))
        return identity, parse_ranges(*nvtx_of(cells_and_none))

    return identity_of


def launch_id(text: str) -> int | None:
    """Id of a launch; None where the text is no id."""
    return int(text) if text.isdigit() and text.isascii() and len(text) <= _MAX_DIGITS else None


BadCells = tuple[str, int, str]
"""A metric, the number of its values that are texts in place of numbers, and one such text."""


@dataclass
class Launches:
    """Launches of a file, their values, and the device attributes of its tables."""

    ids: array[int] = field(default_factory=lambda: array("q"))
    wrong_units: dict[str, str] = field(default_factory=dict)
    """Units that cannot be those of their metrics."""
    contradictions: Counter[str] = field(default_factory=Counter)
    """Number of rows with different values in the columns of one metric, by metric."""
    attributes: dict[str, str | float] = field(default_factory=dict)
    lacks_units: bool = False
    """Whether a table has no units."""
    _identities: list[Identity] = field(default_factory=list)
    _nvtx: list[tuple[NvtxRange, ...]] = field(default_factory=list)
    _columns: list[tuple[int, Mapping[str, Column]]] = field(default_factory=list)
    """Values of consecutive launches, with the row of the first launch."""

    def __len__(self) -> int:
        return len(self.ids)

    def add_launch(self, number: int, identity: Identity, ranges: tuple[NvtxRange, ...]) -> None:
        """Add one launch by its id."""
        self.ids.append(number)
        self._identities.append(identity)
        self._nvtx.append(ranges)

    def add_values(self, start: int, columns: Mapping[str, Column]) -> None:
        """Add values of launches that were added before, from row `start` on."""
        self._columns.append((start, columns))

    def frame(self) -> tuple[pd.DataFrame, list[BadCells]]:
        """One row per launch: `LAUNCH_COLUMNS`, then numbers, then metrics that are texts.

        Ends the collection: columns are freed as they are copied.
        """
        names = list(dict.fromkeys(name for _, columns in self._columns for name in columns))
        values, texts = self._join(names)
        is_text = [
            name in texts and bool(np.isnan(values[i]).all()) for i, name in enumerate(names)
        ]
        bad_cells = [
            (name, len(texts[name]), texts[name][min(texts[name])])
            for name, text in zip(names, is_text, strict=True)
            if name in texts and (not text or _is_misread(name, texts[name]))
        ]
        parts = [self._identity_frame(), _number_frame(names, values, is_text)]
        columns = {name: self._text_column(texts[name]) for name in compress(names, is_text)}
        if columns:
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, axis=1), bad_cells

    def _join(self, names: list[str]) -> tuple[Floats, dict[str, dict[int, str]]]:
        """Values of all launches, one row per name, and the texts among them by launch."""
        row_of = {name: row for row, name in enumerate(names)}
        values = np.full((len(names), len(self)), np.nan)
        texts: dict[str, dict[int, str]] = {}
        while self._columns:
            start, columns = self._columns.pop()
            for name, (numbers, cells) in columns.items():
                values[row_of[name], start : start + len(numbers)] = numbers
                if cells:
                    texts_of_metric = texts.setdefault(name, {})
                    texts_of_metric.update((start + place, text) for place, text in cells.items())
        return values, texts

    def _text_column(self, texts: Mapping[int, str]) -> npt.NDArray[Any]:
        return _objects([texts.get(row) for row in range(len(self))])

    def _identity_frame(self) -> pd.DataFrame:
        cells = (
            zip(*self._identities, strict=True) if self._identities else ((),) * len(_CELL_COLUMNS)
        )
        columns: dict[str, Any] = {"id": np.asarray(self.ids, dtype=np.int64)}
        for name, column in zip(_CELL_COLUMNS, cells, strict=True):
            columns[name] = _integers(column) if name in _INTEGER_COLUMNS else _objects(column)
        columns["nvtx"] = pd.Series(_objects(self._nvtx), dtype=object)
        return pd.DataFrame(columns)


def _number_frame(names: list[str], values: Floats, is_text: list[bool]) -> pd.DataFrame:
    """Frame of the numeric metrics as one block: a hundred blocks are slow to use."""
    if any(is_text):
        values = values[~np.array(is_text)]
    numeric = [name for name, text in zip(names, is_text, strict=True) if not text]
    return pd.DataFrame(values.T, columns=pd.Index(numeric, dtype=object), copy=False)


def _is_misread(name: str, texts: Mapping[int, str]) -> bool:
    """Whether the texts of a metric without any number are digits; `launch__` metrics may be."""
    first = texts[min(texts)]
    return not name.startswith("launch__") and _DIGITS.fullmatch(first) is not None


def _objects(cells: Sequence[Any]) -> npt.NDArray[Any]:
    return np.fromiter(cells, dtype=object, count=len(cells))


def _integers(cells: Sequence[str | None]) -> pd.arrays.IntegerArray:
    number_of = {cell: None if cell is None else launch_id(cell) for cell in set(cells)}
    numbers = [number_of[cell] for cell in cells]
    values = np.array([number or 0 for number in numbers], dtype=np.int64)
    return pd.arrays.IntegerArray(values, np.array([n is None for n in numbers], dtype=bool))
