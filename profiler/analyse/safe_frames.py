"""Frames with texts from outside, and values that hold such frames, made safe to show."""

from __future__ import annotations

from typing import Any, TypeVar

import pandas as pd

from profiler.outside_text import safe, safe_values

T = TypeVar("T")


def safe_frames(value: T) -> T:
    """A value in which every text is safe (`outside_text.safe`), in its frames too."""
    return safe_values(value, leaf=_safe_leaf)


def _safe_leaf(value: Any) -> Any:
    return _safe_frame(value) if isinstance(value, pd.DataFrame) else value


def _safe_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with safe texts in columns and column names; the frame itself if all are safe."""
    columns = {
        name: changed
        for name, column in frame.items()
        if not pd.api.types.is_numeric_dtype(column.dtype)
        and (changed := _safe_column(column)) is not column
    }
    names = [safe(name) if isinstance(name, str) else name for name in frame.columns]
    if not columns and names == list(frame.columns):
        return frame
    safe_frame = frame.copy(deep=False)
    for name, column in columns.items():
        safe_frame[name] = column
    safe_frame.columns = pd.Index(names)
    return safe_frame


def _safe_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column with safe values; the column itself if all are safe. Equal values are tried once."""
    try:
        values = column.unique()
        safe_of = {
            value: safe_value for value in values if (safe_value := safe_values(value)) is not value
        }
    except TypeError:  # lists cannot be told apart by their hash
        changed = [safe_values(value) for value in column]
        if all(safe_value is value for safe_value, value in zip(changed, column, strict=True)):
            return column
        return pd.Series(changed, index=column.index, dtype=object)
    if not safe_of:
        return column
    return column.map(lambda value: safe_of.get(value, value))
