"""Frames with texts from outside, and what holds such frames, made safe to show."""

from __future__ import annotations

from typing import Any, TypeVar

import pandas as pd

from profiler.outside_text import safe, safe_values

T = TypeVar("T")


def safe_frames(value: T) -> T:
    """A value in which every text is safe (`outside_text.safe`), those of its frames too."""
    return safe_values(value, leaf=_safe_leaf)


def _safe_leaf(value: Any) -> Any:
    return _safe_frame(value) if isinstance(value, pd.DataFrame) else value


def _safe_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with safe texts, in its columns and their names; itself where all are."""
    columns = {
        name: changed
        for name, column in frame.items()
        if not pd.api.types.is_numeric_dtype(column.dtype)
        and (changed := _safe_column(column)) is not column
    }
    names = [safe(name) if isinstance(name, str) else name for name in frame.columns]
    if not columns and names == list(frame.columns):
        return frame
    made = frame.copy(deep=False)
    for name, column in columns.items():
        made[name] = column
    made.columns = pd.Index(names)
    return made


def _safe_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column with safe values, each different one looked at once; itself where all are safe."""
    try:
        values = column.unique()
        safe_of = {value: made for value in values if (made := safe_values(value)) is not value}
    except TypeError:  # lists cannot be told apart by their hash
        changed = [safe_values(value) for value in column]
        if all(made is value for made, value in zip(changed, column, strict=True)):
            return column
        return pd.Series(changed, index=column.index, dtype=object)
    if not safe_of:
        return column
    return column.map(lambda value: safe_of.get(value, value))
