"""Grids that are counted in waves: tail efficiency of each, and how many blocks a variant needs.

A wave is as many blocks as the GPU holds at once. Definitions, within one variant, whose blocks are
taken to do the same work each:

- A grid is of full waves where its number of waves is whole (to within `FULL`).
- The ideal time of a grid is its blocks times the least time per block of any grid of full waves.
- Its tail efficiency is the ideal time by the measured one: what the last wave, which is seldom
  full, leaves of the rate of full ones. It is above 1 where a grid does better than full waves do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.json_model import JsonObject, Number, Source
from profiler.model import Cell

FULL = 0.004
"""How far from a whole number full waves may be: ncu writes them with two decimals."""

GOOD = 0.9
"""Tail efficiency that is asked for."""

RULE_BLOCKS_PER_SM = 4.0
"""The rule of thumb that is put to the test: at least so many blocks for each multiprocessor."""


@dataclass(frozen=True)
class SteadyGrid:
    """Smallest grid of a variant from which on its tail efficiency is at least `GOOD`."""

    variant: str
    waves: float
    """Waves of the smallest grid from which on every measured one is good; NaN without such."""
    blocks_per_sm: float
    """Blocks per SM of that grid; NaN where the number of multiprocessors is not known."""
    largest_waves: float
    """Waves of the largest grid that was measured: nothing is known beyond it."""
    rule_grids: int
    """Measured grids of at least `RULE_BLOCKS_PER_SM` blocks for each multiprocessor."""
    rule_least: float
    """Least tail efficiency of the `rule_grids`; NaN without any."""
    rule_least_at: float
    """Number of waves of the grid with `rule_least`."""

    @property
    def rule_holds(self) -> bool | None:
        """Whether all of those grids are good; None where there are none."""
        return None if math.isnan(self.rule_least) else self.rule_least >= GOOD


def tail_efficiency(table: pd.DataFrame) -> pd.DataFrame:
    """The table (columns `variant waves blocks time_ns`) with columns `ideal_ns efficiency`.

    Both are NaN for a variant without a measured grid of full waves.
    """
    per_block = table["time_ns"] / table["blocks"].where(table["blocks"] > 0)
    best = per_block.where(_is_full(table["waves"])).groupby(table["variant"]).transform("min")
    ideal = best * table["blocks"]
    efficiency = ideal / table["time_ns"].where(table["time_ns"] > 0)
    return table.assign(ideal_ns=ideal, efficiency=efficiency)


def steady_grids(table: pd.DataFrame) -> tuple[SteadyGrid, ...]:
    """Grid of each variant from which on its tail efficiency is good, in the order of the table.

    Columns `variant waves blocks_per_sm efficiency`; grids without an efficiency do not count.
    """
    measured = table[table["efficiency"].notna()]
    return tuple(
        _steady_grid(str(variant), rows.sort_values("waves", kind="stable"))
        for variant, rows in measured.groupby("variant", sort=False)
    )


def _steady_grid(variant: str, rows: pd.DataFrame) -> SteadyGrid:
    bad = rows.loc[rows["efficiency"] < GOOD, "waves"]
    after = rows[rows["waves"] > bad.max()] if len(bad) else rows
    waves, per_sm = (
        (float(after["waves"].iloc[0]), float(after["blocks_per_sm"].iloc[0]))
        if len(after)
        else (math.nan, math.nan)
    )
    ruled = rows[rows["blocks_per_sm"] >= RULE_BLOCKS_PER_SM]
    least = int(ruled["efficiency"].to_numpy().argmin()) if len(ruled) else None
    return SteadyGrid(
        variant=variant,
        waves=waves,
        blocks_per_sm=per_sm,
        largest_waves=float(rows["waves"].max()),
        rule_grids=len(ruled),
        rule_least=math.nan if least is None else float(ruled["efficiency"].iloc[least]),
        rule_least_at=math.nan if least is None else float(ruled["waves"].iloc[least]),
    )


def _is_full(waves: pd.Series[float]) -> pd.Series[bool]:
    nearest = waves.round()
    return (nearest >= 1) & ((waves - nearest).abs() <= FULL)


COLUMNS = ("variant", "waves", "blocks", "blocks_per_sm", "time_ns", "occupancy")


def find_waves(numbers: CellNumbers, sm_count: int | None) -> pd.DataFrame:
    """Tail efficiencies of correct cells whose waves are known, one row per cell.

    `COLUMNS` (`variant` is an id), `ideal_ns` and `efficiency`.

    Waves are those that ncu gives, else the problem's own parameter of this name. Without grid
    sizes, blocks are the waves: within a variant these are in proportion.
    """
    rows = [_row(numbers, cell, sm_count) for cell in numbers.programs.correct_cells.values()]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table = table[table["waves"].notna() & table["time_ns"].notna()].reset_index(drop=True)
    if table["blocks"].isna().any():
        table["blocks"] = table["waves"]
    return tail_efficiency(table)


def _row(numbers: CellNumbers, cell: Cell, sm_count: int | None) -> tuple[Any, ...]:
    waves, blocks, time_ns, occupancy = (
        numbers.value(cell, metric).median
        for metric in ("waves", "grid_size", "duration_ns", "achieved_occupancy_pct")
    )
    if math.isnan(waves):
        waves_of_problem = cell.problem.params.get("waves")
        waves = float(waves_of_problem) if isinstance(waves_of_problem, int | float) else math.nan
    per_sm = blocks / sm_count if sm_count else math.nan
    return cell.variant.id, waves, blocks, per_sm, time_ns, occupancy


# ---- as JSON -------------------------------------------------------------------------------------


class WaveNeedDocument(JsonObject):
    """Smallest grid of a variant from which on its tail efficiency stays good."""

    get = Source[SteadyGrid]()
    variant: str = get(lambda need: need.variant)
    good_from_waves: Number = get(lambda need: need.waves)
    good_from_blocks_per_sm: Number = get(lambda need: need.blocks_per_sm)
    measured_up_to_waves: Number = get(lambda need: need.largest_waves)
    rule_grids: int = get(lambda need: need.rule_grids)
    rule_least_efficiency: Number = get(lambda need: need.rule_least)
    rule_least_at_waves: Number = get(lambda need: need.rule_least_at)
    rule_holds: bool | None = get(lambda need: need.rule_holds)


class WavesDocument(JsonObject):
    """Tail efficiencies of grids that are counted in waves."""

    get = Source[pd.DataFrame]()
    variants = get.rows(WaveNeedDocument, steady_grids)
    grids: list[dict[Any, Any]] = get(lambda grids: grids.to_dict("records"))
