"""Collects launches and their values, table by table, into one frame."""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.parse.nvtx_cells import NvtxRange, parse_ranges

Floats = npt.NDArray[np.float64]
TextCells = tuple[npt.NDArray[np.intp], npt.NDArray[Any]]
"""Rows in which a metric has a text instead of a number, and these texts."""

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
PUSH_POP_HEADER = "thread Domain:"
START_END_HEADER = "Id:Domain:"
# Not metrics, and not kept: the host's name is private.
IGNORED_HEADERS = frozenset({"Host Name", "Kernel Time"})

_CELL_COLUMNS = LAUNCH_COLUMNS[1:-1]
_INTEGER_COLUMNS = ("process_id", "context", "device")
_NONE = ("", "n/a")
_DIGITS = re.compile(r"[-+]?\d[\d.,' ]*")
"""What is no word: a number set apart in a way that nobody reads."""
_MAX_DIGITS = 18
"""Decimal digits that always fit into 64 bits."""


def is_identity(header: str) -> bool:
    """Whether a header names something about the launch itself, not a metric."""
    return (
        header in IDENTITY_HEADERS
        or header in IGNORED_HEADERS
        or header.startswith((PUSH_POP_HEADER, START_END_HEADER))
    )


class IdentityColumns:
    """Where the identity of a launch stands in the rows of one table."""

    def __init__(self, names: Sequence[str]) -> None:
        position = {name: index for index, name in reversed(list(enumerate(names)))}
        self._positions = {
            column: position[header]
            for header, column in IDENTITY_HEADERS.items()
            if header in position
        }
        self._nvtx = tuple(
            next((i for i, name in enumerate(names) if name.startswith(start)), None)
            for start in (PUSH_POP_HEADER, START_END_HEADER)
        )

    def identity(self, fields: Sequence[str]) -> dict[str, str | None]:
        """Cells by launch column, None where the cell or the column is missing."""
        cells: dict[str, str | None] = {}
        for column, position in self._positions.items():
            cell = fields[position] if position < len(fields) else ""
            cells[column] = None if cell in _NONE else cell
        return cells

    def ranges(self, fields: Sequence[str]) -> tuple[NvtxRange, ...]:
        """NVTX ranges that were open."""
        push_pop, start_end = (
            "" if i is None or i >= len(fields) else fields[i] for i in self._nvtx
        )
        return parse_ranges(push_pop, start_end)


def launch_id(text: str | bytes) -> int | None:
    """The id of a launch, None where the text is no id."""
    return int(text) if text.isdigit() and text.isascii() and len(text) <= _MAX_DIGITS else None


BadCells = tuple[str, int, str]
"""A metric, how many of its values are texts where numbers were expected, and one of them."""


@dataclass
class Piece:
    """Values of a run of launches: one row of `values` per name; texts stand beside it."""

    start: int
    names: tuple[str, ...]
    values: Floats
    text_cells: Mapping[str, TextCells]
    """By metric: offsets within this piece, and the texts there."""


@dataclass
class Launches:
    """Identities and values of all launches so far; `frame` ends the collection."""

    ids: array[int] = field(default_factory=lambda: array("q"))
    _identity_codes: array[int] = field(default_factory=lambda: array("q"))
    _nvtx_codes: array[int] = field(default_factory=lambda: array("q"))
    _identities: list[tuple[str | None, ...]] = field(default_factory=list)
    """Cells of `_CELL_COLUMNS`; where all kernels have names of their own, as many as launches."""
    _cells: dict[str | None, str | None] = field(default_factory=dict)
    """Each cell but names of kernels once."""
    _nvtx: list[tuple[NvtxRange, ...]] = field(default_factory=list)
    _pieces: list[Piece] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def add_identity(self, identity: dict[str, str | None]) -> int:
        """Keep an identity; launches then refer to it by the returned code."""
        once = self._cells.setdefault
        cells = ((name, identity.get(name)) for name in _CELL_COLUMNS)
        self._identities.append(
            tuple(cell if name == "kernel" else once(cell, cell) for name, cell in cells)
        )
        return len(self._identities) - 1

    def add_nvtx(self, ranges: tuple[NvtxRange, ...]) -> int:
        """Keep NVTX ranges; launches then refer to them by the returned code."""
        self._nvtx.append(ranges)
        return len(self._nvtx) - 1

    def add_launch(self, number: int, identity: int, nvtx: int) -> None:
        """Add one launch by its id and the codes of its identity and its ranges."""
        self.ids.append(number)
        self._identity_codes.append(identity)
        self._nvtx_codes.append(nvtx)

    def add_values(self, piece: Piece) -> None:
        """Add values of launches that were added before."""
        self._pieces.append(piece)

    def frame(self) -> tuple[pd.DataFrame, list[BadCells]]:
        """One row per launch: `LAUNCH_COLUMNS`, then numbers, then metrics that are texts.

        Ends the collection: the pieces are given up as they are copied.
        """
        names = list(dict.fromkeys(name for piece in self._pieces for name in piece.names))
        values, text_cells = self._join(names)
        is_text = [
            name in text_cells and bool(np.isnan(values[i]).all()) for i, name in enumerate(names)
        ]
        bad = [
            _bad_cells(name, text_cells[name])
            for name, text in zip(names, is_text, strict=True)
            if name in text_cells and (not text or _is_misread(name, text_cells[name]))
        ]
        parts = [self._identity_frame(), _number_frame(names, values, is_text)]
        texts = {name: text_cells[name] for name in compress(names, is_text)}
        if texts:
            parts.append(self._text_frame(texts))
        return pd.concat(parts, axis=1), bad

    def _join(self, names: list[str]) -> tuple[Floats, dict[str, list[TextCells]]]:
        """Values of all pieces, one row per name, and the texts that stand among them."""
        row_of = {name: row for row, name in enumerate(names)}
        values = np.full((len(names), len(self)), np.nan)
        text_cells: dict[str, list[TextCells]] = {}
        while self._pieces:
            piece = self._pieces.pop()
            stop = piece.start + piece.values.shape[1]
            values[[row_of[name] for name in piece.names], piece.start : stop] = piece.values
            for name, (offsets, texts) in piece.text_cells.items():
                text_cells.setdefault(name, []).append((offsets + piece.start, texts))
        return values, text_cells

    def _text_frame(self, text_cells: Mapping[str, list[TextCells]]) -> pd.DataFrame:
        columns = {}
        for name, parts in text_cells.items():
            column = np.full(len(self), None, dtype=object)
            for rows, texts in parts:
                column[rows] = texts
            columns[name] = column
        return pd.DataFrame(columns, index=pd.RangeIndex(len(self)))

    def _identity_frame(self) -> pd.DataFrame:
        codes = np.asarray(self._identity_codes, dtype=np.intp)
        columns: dict[str, Any] = {"id": np.asarray(self.ids, dtype=np.int64)}
        for place, name in enumerate(_CELL_COLUMNS):
            cells = [identity[place] for identity in self._identities]
            columns[name] = (
                _integers(cells, codes) if name in _INTEGER_COLUMNS else _take(cells, codes)
            )
        columns["nvtx"] = pd.Series(
            _take(self._nvtx, np.asarray(self._nvtx_codes, dtype=np.intp)), dtype=object
        )
        return pd.DataFrame(columns)


def _number_frame(names: list[str], values: Floats, is_text: list[bool]) -> pd.DataFrame:
    """Frame of the metrics that are numbers, in one block: a hundred blocks are slow to use."""
    if any(is_text):
        values = values[~np.array(is_text)]
    numeric = [name for name, text in zip(names, is_text, strict=True) if not text]
    return pd.DataFrame(values.T, columns=pd.Index(numeric, dtype=object), copy=False)


def _is_misread(name: str, parts: list[TextCells]) -> bool:
    """Whether the texts of a metric without any number are digits; those of a launch may be."""
    _, texts = parts[0]
    return not name.startswith("launch__") and _DIGITS.fullmatch(str(texts[0])) is not None


def _bad_cells(name: str, parts: list[TextCells]) -> BadCells:
    _, texts = min(parts, key=lambda part: int(part[0][0]))
    return name, sum(len(rows) for rows, _ in parts), str(texts[0])


def _take(cells: Sequence[Any], codes: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    distinct = np.fromiter(cells, dtype=object, count=len(cells))
    return distinct[codes]


def _integers(cells: Sequence[str | None], codes: npt.NDArray[np.intp]) -> pd.arrays.IntegerArray:
    numbers = [None if cell is None else launch_id(cell) for cell in cells]
    values = np.array([number or 0 for number in numbers], dtype=np.int64)
    missing = np.array([number is None for number in numbers], dtype=bool)
    return pd.arrays.IntegerArray(values[codes], missing[codes])
