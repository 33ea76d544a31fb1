"""Launches of a file that a user already has, grouped by kernel, grid, block and NVTX range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profiler.metrics.queries import CATALOGUE
from profiler.render.words import numbers

IDENTITY = ("kernel", "grid_size", "block_size", "range")
DURATION = "duration_ns"
WIDE = 1.2
"""Launches of one group whose longest takes more than so many times the shortest show both."""
_NOT_METRICS = frozenset(
    {
        *IDENTITY,
        "id",
        "process_id",
        "process",
        "context",
        "stream",
        "device",
        "cc",
        "nvtx",
    }
)
MOST_SHOWN = 10
"""Metrics in the narrow table; the page's own list has every friendly one."""


@dataclass(frozen=True)
class LaunchGroup:
    """Launches of the same kernel with the same grid and block, in the same NVTX ranges."""

    kernel: str
    grid: str
    block: str
    range: str
    """Path of NVTX ranges; empty where there was none."""
    count: int
    medians: Mapping[str, float]
    """By metric; a metric without any value is not in it."""
    total_ns: float
    """Durations of all launches together; NaN where none is known."""
    spread_ns: tuple[float, float] | None
    """Shortest and longest duration where they are WIDE apart."""


@dataclass(frozen=True)
class LaunchGroups:
    """All groups, those with the largest total duration first."""

    rows: tuple[LaunchGroup, ...]
    metrics: tuple[str, ...]
    """Metrics that any launch has: those of the catalogue in its order, then raw names."""

    @property
    def has_ranges(self) -> bool:
        """Whether any launch was in a range."""
        return any(row.range for row in self.rows)

    @property
    def has_spread(self) -> bool:
        """Whether the durations of any group are far apart."""
        return any(row.spread_ns for row in self.rows)

    @property
    def shown(self) -> tuple[str, ...]:
        """The first metrics of the catalogue, for tables without room for all."""
        return tuple(name for name in self.metrics if name in CATALOGUE)[:MOST_SHOWN]


def group_launches(launches: pd.DataFrame) -> LaunchGroups:
    """Group launches and take the median of every metric; missing stays missing."""
    metrics = _metrics(launches)
    if launches.empty:
        return LaunchGroups((), metrics)
    identity = launches.reindex(columns=list(IDENTITY)).astype(object)
    keys = [identity[name].map(word) for name in IDENTITY]
    values = launches[list(metrics)].apply(pd.to_numeric, errors="coerce")
    grouped = values.groupby(keys, sort=False)
    medians, sizes = grouped.median(), grouped.size()
    total, spread = _total(values, keys), _spread(values, keys)
    order = total.sort_values(ascending=False, kind="stable", na_position="last").index
    rows = [
        LaunchGroup(
            kernel=key[0],
            grid=key[1],
            block=key[2],
            range=key[3],
            count=int(sizes[key]),
            medians={
                str(name): float(value)
                for name, value in medians.loc[key].items()
                if pd.notna(value)
            },
            total_ns=float(total[key]),
            spread_ns=spread.get(key),
        )
        for key in order
    ]
    return LaunchGroups(tuple(rows), metrics)


def _total(values: pd.DataFrame, keys: list[pd.Series[str]]) -> pd.Series[float]:
    """Time by group; a group without any duration has none, not 0."""
    return _durations(values).groupby(keys, sort=False).sum(min_count=1)


def _spread(
    values: pd.DataFrame, keys: list[pd.Series[str]]
) -> dict[tuple[str, ...], tuple[float, float]]:
    """Shortest and longest duration of the groups in which they are far apart."""
    grouped = _durations(values).groupby(keys, sort=False)
    low, high = grouped.min(), grouped.max()
    wide: list[Any] = low.index[high > WIDE * low].tolist()
    return {key: (float(low[key]), float(high[key])) for key in wide}


def _durations(values: pd.DataFrame) -> pd.Series[float]:
    missing = pd.Series(float("nan"), index=values.index)
    return values.get(DURATION, missing)


def spread_words(group: LaunchGroup) -> str:
    """Shortest and longest duration of a group; empty where they are near each other."""
    if group.spread_ns is None:
        return ""
    return " … ".join(numbers.show(value, "ns") for value in group.spread_ns)


def word(value: object) -> str:
    """Write a kernel name, a grid `(64, 64, 1)` or a number of blocks; empty where missing."""
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else ""
    return "" if value is None or value is pd.NA else str(value)


def _metrics(launches: pd.DataFrame) -> tuple[str, ...]:
    numeric = [
        str(name)
        for name in launches.columns
        if name not in _NOT_METRICS
        and pd.api.types.is_numeric_dtype(launches[name])
        and launches[name].notna().any()
    ]
    catalogued = [name for name in CATALOGUE if name in numeric]
    return tuple(dict.fromkeys([*catalogued, *numeric]))
