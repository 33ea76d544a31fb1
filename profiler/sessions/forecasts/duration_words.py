"""Durations in words."""

from __future__ import annotations


def duration_words(seconds: float) -> str:
    """`9 s`, `4 min` or `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
