"""Imported launches of ncu: grouped by kernel, as the tables of a page and of the console."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import pandas as pd

from profiler.findings.why.hot_lines import ListedKernel
from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.labels import Label, labels
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Axis
from profiler.render.figures.version_figures import bars
from profiler.render.imported import (
    MISSING,
    MOST_KERNELS,
    ImportedPage,
    ImportedSection,
    first_of,
    source_sections,
    source_sentence,
)
from profiler.render.tables.rows import PAGE_ONLY, Column, Datum, Row, SmallTable
from profiler.render.words import numbers
from profiler.render.words.names import plain_kernel, readable_kernel, shorten
from profiler.render.words.sentences import Sentence, sentence_of, strong

MOST_LAUNCHES = 2000
"""A row for each launch of a long trace would make the page unusable: groups hold all of them."""
MOST_VALUES = 8000
"""Rows of all metrics of the groups: as many groups show them as have so many together."""
_LONGEST_NAME = 4000
"""Characters of a kernel's name; those of CUTLASS have a thousand."""
_MOST_TEXT_COLUMNS = 6
"""Metrics that the terminal has columns for."""


def launches_page(
    launches: pd.DataFrame, groups: LaunchGroups, kernels: Sequence[ListedKernel] = ()
) -> ImportedPage:
    """Launches by kind, all metrics of each kind, hot lines, and every launch.

    `launches` has `kernel grid_size block_size id full_range` and one column per metric;
    `kernels` are those whose instructions were counted.
    """
    return ImportedPage(
        lead=_lead(groups, kernels),
        sections=(*_sections(launches, groups), *source_sections(kernels)),
        answer=_launches_sentence(groups) or source_sentence(kernels),
        chart=_time_chart(groups),
        left_out=_left_out(groups, kernels),
    )


def _lead(groups: LaunchGroups, kernels: Sequence[ListedKernel]) -> str:
    if kernels and not groups.launches:
        return f"{_counted(len(kernels), 'launch', 'launches')} with counters of instructions."
    return (
        f"{groups.launches} launches of {len(groups)} kinds. A kind is a kernel with one grid and "
        f"one block size{' in one NVTX range' if groups.has_ranges else ''}; numbers are medians "
        "over its launches."
    )


def _sections(launches: pd.DataFrame, groups: LaunchGroups) -> tuple[ImportedSection, ...]:
    if not groups.launches:
        return ()
    metrics = tuple(_metrics_table(groups, group) for group in _detailed(groups))
    every = (_launches_table(launches, groups),)
    return (
        ImportedSection("Kernels", (_kinds_table(groups),), id="kinds"),
        ImportedSection(
            "All metrics of each kind", metrics, id="metrics", is_code=True, folded=True
        ),
        ImportedSection("Launches", every, id="launches", folded=True),
    )


def _left_out(groups: LaunchGroups, kernels: Sequence[ListedKernel]) -> str:
    if not groups.whole_on_page:
        return (
            f"The first {len(groups.rows)} of {len(groups)} kinds are listed, and all metrics of "
            f"the first {len(_detailed(groups))}"
        )
    return first_of(MOST_KERNELS, len(kernels), "kernels")


def _detailed(groups: LaunchGroups) -> Sequence[LaunchGroup]:
    """The groups that show all of their metrics."""
    values = accumulate(len(group.medians) for group in groups.rows)
    return groups.rows[: max(1, sum(so_far <= MOST_VALUES for so_far in values))]


def _kinds_table(groups: LaunchGroups) -> SmallTable:
    """A row for each group that has room: medians of the first metrics of the catalogue."""
    around = _text("range", lambda of: of.range, "NVTX ranges around the launch, outermost first")
    spread = _text(
        "from … to", _spread_words, "Shortest and longest duration, where they are far apart"
    )
    total = "Duration of all launches of this kind together"
    columns = (
        *((around,) * groups.has_ranges),
        _text("grid", lambda of: of.grid),
        _text("block", lambda of: of.block),
        Column("launches", lambda of: Datum(str(of.count), str(of.count))),
        Column("total", lambda of: _number(of.total_ns, "ns"), total, drop=PAGE_ONLY),
        *(_median_column(metric, place) for place, metric in enumerate(_shown(groups))),
        *((spread,) * groups.has_spread),
    )
    return SmallTable.of(
        f"{_counted(groups.launches, 'launch', 'launches')} of "
        f"{_counted(len(groups), 'kind', 'kinds')}",
        "kernel",
        columns,
        groups.rows,
        lambda of: Row(shorten(of.kernel, _LONGEST_NAME)),
        long_names=True,
        reading="Sorted by the time that all launches of a kind took together.",
    )


def _text(head: str, of: Callable[[LaunchGroup], str], hint: str = "") -> Column[LaunchGroup]:
    return Column(
        head, lambda group: Datum(of(group) or numbers.MISSING, css="words"), hint, is_text=True
    )


def _median_column(metric: Label, place: int) -> Column[LaunchGroup]:
    return Column(
        metric.label,
        lambda group: _number(group.medians.get(metric.name), metric.unit),
        metric.hint,
        drop=PAGE_ONLY if place >= _MOST_TEXT_COLUMNS else None,
    )


def _spread_words(group: LaunchGroup) -> str:
    """Shortest and longest duration; empty where they are near each other."""
    return " … ".join(numbers.show(value, "ns") for value in group.spread_ns or ())


def _counted(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


def _shown(groups: LaunchGroups) -> tuple[Label, ...]:
    return labels(groups.shown or groups.metrics[:1])


def _metrics_table(groups: LaunchGroups, group: LaunchGroup) -> SmallTable:
    columns: tuple[Column[Label], ...] = (
        Column("median", lambda metric: _number(group.medians[metric.name], metric.unit)),
        Column("name", lambda metric: Datum(metric.source, css="code"), is_text=True),
    )
    where = (shorten(group.kernel, _LONGEST_NAME), group.range, group.grid, group.block)
    return SmallTable.of(
        " ".join(filter(None, where)),
        "metric",
        columns,
        labels(name for name in groups.metrics if name in group.medians),
        lambda metric: Row(metric.label, note=metric.hint),
    )


def _launches_table(launches: pd.DataFrame, groups: LaunchGroups) -> SmallTable:
    """The first launches, as many as there is room for, with the whole names of their ranges."""
    shown = _shown(groups)
    head = launches.head(MOST_LAUNCHES)
    identity = head.reindex(columns=["id", "kernel", "full_range"]).astype(object)
    ids, kernels, ranges = (
        [shorten(word(value), _LONGEST_NAME) for value in identity[name]] for name in identity
    )
    values = head[[metric.name for metric in shown]].astype(float).to_numpy().tolist()
    lines = tuple(
        Row(
            kernel,
            (
                Datum(number, number),
                *((Datum(around or numbers.MISSING, css="words"),) * groups.has_ranges),
                *(_number(value, of.unit) for value, of in zip(row, shown, strict=True)),
            ),
        )
        for number, kernel, around, row in zip(ids, kernels, ranges, values, strict=True)
    )
    room = rows_with_room([kernel + around for kernel, around in zip(kernels, ranges, strict=True)])
    lines = lines[: max(1, room)]
    around = (("range", "NVTX ranges around the launch, whole, outermost first"),)
    return SmallTable(
        caption=f"{len(lines)} launches in the order of the file",
        first="kernel",
        heads=(
            ("id", ""),
            *around * groups.has_ranges,
            *((metric.label, metric.hint) for metric in shown),
        ),
        lines=lines,
        left_out=len(launches) - len(lines),
        text_heads=("range",),
        long_names=True,
        elsewhere="; they are in the numbers above",
    )


# ---- the answer: which kernels take the time -----------------------------------------------------


_MOST_BARS = 12


def _times(groups: LaunchGroups) -> pd.Series[float]:
    """Time of all launches of each kernel together, most first; empty where none is known."""
    times = groups.table.groupby("kernel", sort=False)[TOTAL].sum(min_count=1).dropna()
    return times[times > 0].sort_values(ascending=False, kind="stable")


def _launches_sentence(groups: LaunchGroups) -> Sentence:
    """Which kernel takes most of the time; empty where no durations are known."""
    times = _times(groups)
    if times.empty:
        return ()
    names = [plain_kernel(readable_kernel(str(name))) for name in times.index]
    total = float(times.sum())
    shares = [numbers.show(100 * float(ns) / total, "%") for ns in times]
    text = (
        f"{strong(shorten(names[0]))} takes {strong(shares[0])} of the "
        f"{numbers.show(total, 'ns')} of {groups.launches:,} launches"
    )
    if len(names) > 1:
        text += f"; the next, {strong(shorten(names[1]))}, {shares[1]}"
    return sentence_of(f"{text}.")


def _time_chart(groups: LaunchGroups) -> Chart | None:
    """Time of each kernel as a bar; None where no durations are known."""
    times = _times(groups)
    if times.empty:
        return None
    shown, total = times[:_MOST_BARS], float(times.sum())
    names = [shorten(plain_kernel(readable_kernel(str(name)))) for name in shown.index]
    texts = [f"{numbers.show(ns, 'ns')}, {numbers.show(100 * ns / total, '%')}" for ns in shown]
    missing = [math.nan] * len(shown)
    columns = {"name": names, "value": shown.tolist(), "low": missing, "high": missing}
    table = pd.DataFrame({**columns, "text": texts, "role": "best", "mark": -1})
    left_out = len(times) - len(shown)
    reading = "All launches of a kernel together."
    if left_out:
        reading += f" {left_out} more take less."
    return make_chart("first", "Time by kernel", reading, bars(table, Axis("Time", "ns")))


def _number(value: float | None, unit: str) -> Datum:
    return Datum.quantity(value, unit, MISSING)


# ---- groups --------------------------------------------------------------------------------------


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
    def whole_on_page(self) -> bool:
        """Whether the page has a row for each group, and all of its metrics."""
        return len(self.rows) == len(self) == len(_detailed(self))

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
