"""Grids that are counted in waves: tail efficiency of each, and how many blocks a variant needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profiler.analyse.waves import GOOD, RULE_BLOCKS_PER_SM, Steady, steady, tail_efficiency
from profiler.findings.values import NAN, NOTHING, Value
from profiler.model import Cell

__all__ = [
    "COLUMNS",
    "GOOD",
    "RULE_BLOCKS_PER_SM",
    "Steady",
    "WaveFindings",
    "find_waves",
]

COLUMNS = ("variant", "waves", "blocks", "blocks_per_sm", "time_ns", "occupancy")


@dataclass(frozen=True, eq=False)
class WaveFindings:
    """Every grid of a run, and what each variant needs to keep its tail efficiency."""

    grids: pd.DataFrame
    """`COLUMNS` (`variant` is an id), `ideal_ns` and `efficiency`; one row per correct cell."""
    needs: tuple[Steady, ...]


def find_waves(
    cells: Sequence[Cell], values: Mapping[tuple[str, str], Value], sm_count: int | None
) -> WaveFindings:
    """Tail efficiencies of correct cells whose waves are known.

    Waves are those that ncu gives, else the problem's own parameter of this name. Without grid
    sizes, blocks are the waves: within a variant these are in proportion.
    """
    rows = [_row(cell, values, sm_count) for cell in cells]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table = table[table["waves"].notna() & table["time_ns"].notna()].reset_index(drop=True)
    if table["blocks"].isna().any():
        table["blocks"] = table["waves"]
    grids = tail_efficiency(table)
    return WaveFindings(grids, steady(grids))


def _row(
    cell: Cell, values: Mapping[tuple[str, str], Value], sm_count: int | None
) -> tuple[Any, ...]:
    def median(metric: str) -> float:
        return values.get((cell.id, metric), NOTHING).median

    waves, blocks = median("waves"), median("grid_size")
    if math.isnan(waves):
        asked = cell.problem.params.get("waves")
        waves = float(asked) if isinstance(asked, int | float) else NAN
    return (
        cell.variant.id,
        waves,
        blocks,
        blocks / sm_count if sm_count else NAN,
        median("duration_ns"),
        median("achieved_occupancy_pct"),
    )
