"""Names of functions in a user's file: `reference.py:transpose`; no torch."""

from __future__ import annotations

import re

_NAMED = re.compile(r"(?P<file>[^:]+\.py):(?P<function>[A-Za-z_][A-Za-z0-9_]*)")


def split_function(text: str) -> tuple[str, str] | None:
    """File and name of a function; None where a text is no such name."""
    match = _NAMED.fullmatch(text.strip())
    return None if match is None else (match["file"], match["function"])
