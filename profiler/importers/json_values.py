"""Cells of frames as JSON can hold them."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

_LARGEST_EXACT = 2**53
"""Integers below it are exact as floats, so that a float may be written as one."""


def json_value(value: Any) -> Any:
    """A plain value: None where it is missing or not finite, an integer for a whole float."""
    if value is None or value is pd.NA:
        return None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float):
        if not math.isfinite(plain):
            return None
        return int(plain) if plain.is_integer() and abs(plain) < _LARGEST_EXACT else plain
    return plain
