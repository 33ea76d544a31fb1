"""Launches of a file that a user already has, grouped by kernel, grid, block and NVTX range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
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
COUNT, TOTAL, SHORTEST, LONGEST = "launches", "total_ns", "shortest_ns", "longest_ns"
"""Columns of the table of groups beside IDENTITY and the metrics; the last two are durations."""
MOST_GROUPS, MOST_LETTERS = 1000, 250_000
"""Groups that a page lists, and letters of their names: it has three megabytes then."""
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


@dataclass(frozen=True, eq=False)
class LaunchGroups:
    """All groups, those with the largest total duration first."""

    table: pd.DataFrame
    """A row for each group: IDENTITY, COUNT, TOTAL, SHORTEST, LONGEST."""
    medians: pd.DataFrame
    """In the same rows, a column for each metric that any launch has: those of the catalogue in its
    order, then raw names."""
    launches: int

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def rows(self) -> tuple[LaunchGroup, ...]:
        """The first groups, as many as a page has room for."""
        parts = (self.table.head(MOST_GROUPS), self.medians.head(MOST_GROUPS))
        records = zip(*(part.to_dict("records") for part in parts), strict=True)
        groups = [_group(facts, medians) for facts, medians in records]
        room = rows_with_room([group.kernel + group.range for group in groups])
        return tuple(groups[: max(1, room)])

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that any launch has."""
        return tuple(self.medians.columns)

    @property
    def has_ranges(self) -> bool:
        """Whether any launch was in a range."""
        return bool((self.table["range"] != "").any())

    @property
    def has_spread(self) -> bool:
        """Whether the durations of any group are far apart."""
        return bool(_is_wide(self.table[SHORTEST], self.table[LONGEST]).any())

    @property
    def shown(self) -> tuple[str, ...]:
        """The first metrics of the catalogue, for tables without room for all."""
        return tuple(name for name in self.metrics if name in CATALOGUE)[:MOST_SHOWN]


def group_launches(launches: pd.DataFrame) -> LaunchGroups:
    """Group launches and take the median of every metric; missing stays missing."""
    metrics = _metrics(launches)
    identity = launches.reindex(columns=list(IDENTITY)).astype(object)
    keys = pd.DataFrame({name: identity[name].map(word) for name in IDENTITY}, dtype=object)
    codes = keys.groupby(list(IDENTITY), sort=False).ngroup()
    values = launches[list(metrics)].apply(pd.to_numeric, errors="coerce").groupby(codes)
    duration = launches.get(DURATION, pd.Series(math.nan, index=launches.index)).groupby(codes)
    # Groups are numbered as they come: so are the first rows of each.
    table = keys[~codes.duplicated()].reset_index(drop=True)
    table[COUNT] = codes.value_counts(sort=False).sort_index()
    table[TOTAL] = duration.sum(min_count=1)
    table[SHORTEST], table[LONGEST] = duration.min(), duration.max()
    order = table[TOTAL].sort_values(ascending=False, kind="stable", na_position="last").index
    medians = values.median()
    table, medians = (part.loc[order].reset_index(drop=True) for part in (table, medians))
    return LaunchGroups(table, medians, len(launches))


def _group(facts: Mapping[Any, Any], medians: Mapping[Any, float]) -> LaunchGroup:
    shortest, longest = facts[SHORTEST], facts[LONGEST]
    return LaunchGroup(
        kernel=facts["kernel"],
        grid=facts["grid_size"],
        block=facts["block_size"],
        range=facts["range"],
        count=facts[COUNT],
        medians={str(name): value for name, value in medians.items() if not math.isnan(value)},
        total_ns=facts[TOTAL],
        spread_ns=(shortest, longest) if _is_wide(shortest, longest) else None,
    )


def _is_wide(shortest: Any, longest: Any) -> Any:
    return longest > WIDE * shortest


def rows_with_room(names: Iterable[str]) -> int:
    """How many of the first rows of a table have room, by the letters of their names."""
    return sum(letters <= MOST_LETTERS for letters in accumulate(map(len, names)))


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
