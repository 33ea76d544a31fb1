"""Waits for warpgroup matrix instructions (`wgmma`) that ncu shows as something else.

A warp that waits for the results of products (`wgmma.wait_group`, WARPGROUP.DEPBAR in SASS) is
sampled and counted as waiting at a barrier: of cuDNN's attention on an H200 (ncu 2025.3.1) 95 % of
the samples with this reason are at that instruction, and its few barriers have the rest. And the
reason `gmma` has no column on the source page: its samples are those that no column has.
"""

from __future__ import annotations

import pandas as pd

from profiler.parse.ncu_source import NOT_ISSUED, OPCODE, STALL, UNNAMED

PRODUCTS, BARRIER = "gmma", "barrier"
_WAIT = "WARPGROUP.DEPBAR"
_MATRIX = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")


def share_of_barrier_waits(instructions: pd.DataFrame | None) -> float:
    """Part of the samples at barriers that wait for products; 0 without a source page."""
    name = f"{STALL}{BARRIER}"
    if instructions is None or name not in instructions:
        return 0.0
    samples = pd.to_numeric(instructions[name], errors="coerce").fillna(0.0)
    total = float(samples.sum())
    return float(samples[_waits(instructions)].sum()) / total if total else 0.0


def with_products_named(instructions: pd.DataFrame) -> pd.DataFrame:
    """The instructions with samples of waits for products under their reason."""
    if not _has_products(instructions):
        return instructions
    waits = _waits(instructions)
    named = instructions.copy()
    for suffix in ("", NOT_ISSUED):
        products, barrier, unnamed = (
            f"{name}{suffix}" for name in (f"{STALL}{PRODUCTS}", f"{STALL}{BARRIER}", UNNAMED)
        )
        if not {products, barrier, unnamed} <= set(named.columns):
            continue
        at_wait = named[barrier].where(waits, 0.0).fillna(0.0)
        named[products] = named[products].fillna(0.0) + at_wait + named[unnamed].fillna(0.0)
        named[barrier] = named[barrier] - at_wait
        named[unnamed] = 0.0
    return named


def _waits(instructions: pd.DataFrame) -> pd.Series:
    waits = [str(opcode).startswith(_WAIT) for opcode in instructions[OPCODE]]
    return pd.Series(waits, index=instructions.index, dtype=bool)


def _has_products(instructions: pd.DataFrame) -> bool:
    return any(str(opcode).startswith(_MATRIX) for opcode in instructions[OPCODE])
