"""File of the clocks of a GPU while a session ran, beside the journal of its attempt.

The file holds times and numbers, nothing that names the machine.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from profiler.errors import ParseError
from profiler.parse.bounded_files import plain_or_packed, read_named

CLOCKS_FILE = "clocks.csv"
CLOCK_COLUMNS = ("time_s", "sm_mhz", "memory_mhz", "reasons", "temperature_c", "power_w")

PERIOD_S = 0.02
"""Seconds from one sample to the next. A visit under ncu takes about 70 ms (2784 of them in 190 s
in the softmax recording), so that most have several samples, for 50 short polls a second."""


_MOST_REASONS = 2**53
"""Larger bit masks are none of NVML's, and not exact in a float."""


def empty_clocks() -> pd.DataFrame:
    """A frame of clocks without rows."""
    return _no_clocks().copy(deep=False)


@cache
def _no_clocks() -> pd.DataFrame:
    columns: dict[str, Any] = {name: np.empty(0) for name in CLOCK_COLUMNS}
    return pd.DataFrame({**columns, "reasons": pd.array([], dtype="Int64")})


def read_clocks(path: Path) -> pd.DataFrame:
    """Clocks of `clocks.csv` or its `.gz`, whichever is there; no file gives no rows.

    Columns are CLOCK_COLUMNS: seconds since the epoch, MHz, MHz, bits of `ClockReason` (Int64),
    degrees Celsius, watts. Missing is NaN (NA for the reasons). Rows are in the order of time; a
    last row that a kill cut off, and rows that are no numbers, are left out. Raises ParseError
    where the file is damaged as a whole.
    """
    try:
        text = _file_text(path)
    except OSError as error:
        raise ParseError(f"{path.name}: damaged: {error}") from error
    complete_lines = text[: text.rfind("\n") + 1]
    if not complete_lines:
        return empty_clocks()
    try:
        table = _table(complete_lines)
    except (ValueError, pd.errors.ParserError) as error:
        raise ParseError(f"{path.name}: not a table: {error}") from error
    if "time_s" not in table.columns:
        raise ParseError(f"{path.name}: has no column time_s")
    return _typed_clocks(table.reindex(columns=list(CLOCK_COLUMNS)))


def _table(text: str) -> pd.DataFrame:
    """Table of a CSV text: columns of numbers, else of strings, some of which may be numbers."""
    try:
        return pd.read_csv(io.StringIO(text), dtype="float64", on_bad_lines="skip")
    except ValueError:
        return pd.read_csv(io.StringIO(text), dtype=str, on_bad_lines="skip")


def _file_text(path: Path) -> str:
    """Content of a file, or of its gzip under the name with `.gz`; empty where neither is."""
    file = plain_or_packed(path.with_suffix("") if path.suffix == ".gz" else path)
    return "" if file is None else read_named(file).decode("utf-8", errors="replace")


def _typed_clocks(table: pd.DataFrame) -> pd.DataFrame:
    numbers = pd.DataFrame(
        {
            name: pd.to_numeric(table[name], errors="coerce").astype("float64")
            for name in CLOCK_COLUMNS
        }
    )
    bits = numbers["reasons"]
    are_bits = (bits >= 0) & (bits < _MOST_REASONS) & (bits % 1 == 0)
    numbers["reasons"] = bits.where(are_bits).astype("Int64")
    numbers = numbers[np.isfinite(numbers["time_s"])]
    return sorted_by_time(numbers)


def sorted_by_time(clocks: pd.DataFrame) -> pd.DataFrame:
    """Clocks in order of time: the system's clock may be set back while a session runs."""
    ordered: pd.DataFrame = clocks.sort_values("time_s", kind="stable", ignore_index=True)
    return ordered
