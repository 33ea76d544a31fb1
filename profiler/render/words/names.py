"""Shortened names."""

from __future__ import annotations

LONGEST_NAME = 44
"""Characters of a name that figures have room for."""


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Cut a name in its middle, so that the two ends that tell variants apart both stay."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}\u2026{name[-half:]}"
