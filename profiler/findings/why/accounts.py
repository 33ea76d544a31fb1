"""Accounts as findings hold them: what the words of pages and consoles are made of."""

from __future__ import annotations

from profiler.analyse.why.account import (
    CLOCK,
    CLOSES_WITHIN,
    IMBALANCE,
    INSTRUCTIONS,
    ONLY,
    RESIDUAL,
    STALL,
    WARPS,
    Account,
    Part,
)
from profiler.analyse.why.roofs import BYTES, RoofAccount
from profiler.analyse.why.waited_for import QUEUE

__all__ = [
    "BYTES",
    "CLOCK",
    "CLOSES_WITHIN",
    "IMBALANCE",
    "INSTRUCTIONS",
    "ONLY",
    "QUEUE",
    "RESIDUAL",
    "STALL",
    "WARPS",
    "Account",
    "Part",
    "RoofAccount",
]
