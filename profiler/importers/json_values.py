"""Cells of frames and notices as JSON can hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from profiler.notices import Notice, severity, text

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


def notices_document(notices: Sequence[Notice]) -> list[dict[str, str]]:
    """Warnings as JSON."""
    return [
        {"kind": notice.kind.value, "severity": severity(notice).value, "text": text(notice)}
        for notice in notices
    ]
