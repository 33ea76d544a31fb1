"""Differences of machine code as findings hold them: what pages show of them."""

from __future__ import annotations

from profiler.analyse.why.sass_diff import Hunk, Side

__all__ = ["Hunk", "Side"]
