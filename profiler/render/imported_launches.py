"""Imported launches of ncu: grouped by kernel, as the tables of a page and of the console."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from profiler.findings.why.hot_lines import ListedKernel
from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.queries import Label, labels
from profiler.notices import counted
from profiler.render.figures.charts import Chart, make_chart
from profiler.render.figures.drawing import Mark
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
from profiler.render.tables.rows import (
    PAGE_ONLY,
    Column,
    Datum,
    FrameRow,
    Row,
    SmallTable,
    frame_column,
    frame_table,
    frame_text,
    quantity,
)
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
        return f"{counted(len(kernels), 'launch', 'launches')} with counters of instructions."
    return (
        f"{counted(groups.launches, 'launch', 'launches')} of "
        f"{counted(len(groups), 'kind')}. A kind is a kernel with one grid and "
        f"one block size{' in one NVTX range' if groups.has_ranges else ''}; numbers are medians "
        "over its launches."
    )


def _sections(launches: pd.DataFrame, groups: LaunchGroups) -> tuple[ImportedSection, ...]:
    if not groups.launches:
        return ()
    rows = groups.listed.head(groups.detailed).to_dict("records")
    metrics = tuple(_metrics_table(groups, row) for row in rows)
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
            f"The first {len(groups.listed)} of {len(groups)} kinds are listed, and all metrics of "
            f"the first {groups.detailed}"
        )
    return first_of(MOST_KERNELS, len(kernels), "kernels")


def _kinds_table(groups: LaunchGroups) -> SmallTable:
    """A row for each group that has room: medians of the first metrics of the catalogue."""
    total = "Duration of all launches of this kind together"
    spread = "Shortest and longest duration, where they are far apart"
    around = "NVTX ranges around the launch, outermost first"
    columns = (
        *((frame_text("range", "range", around),) * groups.has_ranges),
        frame_text("grid", "grid_size"),
        frame_text("block", "block_size"),
        frame_column("launches", COUNT),
        frame_column("total", TOTAL, "ns", total, MISSING, drop=PAGE_ONLY),
        *_metric_columns(groups),
        *((Column("from … to", _spread, spread, is_text=True),) * groups.has_spread),
    )
    caption = f"{counted(groups.launches, 'launch', 'launches')} of {counted(len(groups), 'kind')}"
    reading = "Sorted by the time that all launches of a kind took together."
    rows = groups.listed
    return frame_table(
        caption, "kernel", columns, rows, len(rows), head_row=_kernel_row, reading=reading
    )


def _metric_columns(groups: LaunchGroups) -> Iterator[Column[FrameRow]]:
    """Columns of the metrics that tables have room for; the terminal has fewer."""
    for place, metric in enumerate(_shown_metrics(groups)):
        drop = PAGE_ONLY if place >= _MOST_TEXT_COLUMNS else None
        yield frame_column(metric.label, metric.name, metric.unit, metric.hint, MISSING, drop=drop)


def _kernel_row(row: FrameRow) -> Row:
    return Row(shorten(row["kernel"], _LONGEST_NAME))


def _spread(row: FrameRow) -> Datum:
    """Shortest and longest duration; nothing where they are near each other."""
    ends = (row[SHORTEST], row[LONGEST])
    ends_text = " … ".join(numbers.show(end, "ns") for end in ends) if _is_wide(*ends) else ""
    return Datum(ends_text, css="words")


def _shown_metrics(groups: LaunchGroups) -> tuple[Label, ...]:
    return labels(groups.shown or groups.metrics[:1])


def _metrics_table(groups: LaunchGroups, row: FrameRow) -> SmallTable:
    """All metrics of a kind."""
    columns: tuple[Column[Label], ...] = (
        Column("median", lambda metric: quantity(row[metric.name], metric.unit, MISSING)),
        Column("name", lambda metric: Datum(metric.source, css="code"), is_text=True),
    )
    where = (_kernel_row(row).name, *(row[name] for name in ("range", "grid_size", "block_size")))
    return SmallTable.of(
        " ".join(filter(None, where)),
        "metric",
        columns,
        labels(name for name in groups.metrics if not math.isnan(row[name])),
        lambda metric: Row(metric.label, note=metric.hint),
    )


def _launches_table(launches: pd.DataFrame, groups: LaunchGroups) -> SmallTable:
    """The first launches, as many as there is room for, with the whole names of their ranges."""
    names = ["id", "kernel", "full_range", *(metric.name for metric in _shown_metrics(groups))]
    head = launches.head(MOST_LAUNCHES).reindex(columns=names)
    texts = {name: head[name].astype(object).map(word) for name in names[:3]}
    head = head.assign(id=texts["id"], kernel=texts["kernel"], range=texts["full_range"])
    around = "NVTX ranges around the launch, whole, outermost first"
    columns = (
        Column[FrameRow]("id", lambda row: Datum(row["id"], row["id"])),
        *((frame_text("range", "range", around),) * groups.has_ranges),
        *_metric_columns(groups),
    )
    room = with_room(head)
    return frame_table(
        f"{counted(room, 'launch', 'launches')} in the order of the file",
        "kernel",
        columns,
        head,
        room,
        head_row=_kernel_row,
        left_out=len(launches) - room,
        elsewhere="; they are in the numbers above",
    )


# ---- the answer: which kernels take the time -----------------------------------------------------


_MOST_BARS = 12


def _times(groups: LaunchGroups) -> pd.Series[float]:
    """Time of all launches by short name of the kernel, most first; empty where none is known."""
    names = groups.table["kernel"].map(lambda name: plain_kernel(readable_kernel(str(name))))
    by_name = groups.table.groupby(names, sort=False)
    times, instances = by_name[TOTAL].sum(min_count=1), by_name["kernel"].nunique()
    times.index = pd.Index(
        [
            shorten(str(name)) + (f" ({count} instantiations)" if count > 1 else "")
            for name, count in instances.items()
        ]
    )
    times = times.dropna()
    return times[times > 0].sort_values(ascending=False, kind="stable")


def _launches_sentence(groups: LaunchGroups) -> Sentence:
    """Sentence on the kernel that takes most of the time; empty where no durations are known."""
    times = _times(groups)
    if times.empty:
        return ()
    names = list(map(str, times.index))
    total = float(times.sum())
    shares = [numbers.show(100 * float(ns) / total, "%") for ns in times]
    text = (
        f"{strong(names[0])} takes {strong(shares[0])} of the {numbers.show(total, 'ns')} of "
        f"{groups.launches:,} launch{'' if groups.launches == 1 else 'es'}"
    )
    if len(names) > 1:
        text += f"; the next, {strong(names[1])}, {shares[1]}"
    return sentence_of(f"{text}.")


def _time_chart(groups: LaunchGroups) -> Chart | None:
    """Time of each kernel as a bar; None where no durations are known."""
    times = _times(groups)
    if times.empty:
        return None
    shown_times, total = times[:_MOST_BARS], float(times.sum())
    texts = [
        f"{numbers.show(ns, 'ns')}, {numbers.show(100 * ns / total, '%')}" for ns in shown_times
    ]
    marks = [
        Mark(str(name), float(ns), text=text, role="best")
        for name, ns, text in zip(shown_times.index, shown_times, texts, strict=True)
    ]
    left_out = len(times) - len(shown_times)
    reading = "All launches of a kernel together."
    if left_out:
        reading += f" {left_out} more take less."
    return make_chart("first", "Time by kernel", reading, bars(marks, "Time", "ns"))


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


@dataclass(frozen=True, eq=False)
class LaunchGroups:
    """All groups, those with the largest total duration first."""

    table: pd.DataFrame
    """A row for each group: IDENTITY, COUNT, TOTAL, SHORTEST, LONGEST, medians of the metrics."""
    metrics: tuple[str, ...]
    """Metrics that any launch has: of the catalogue in its order, then raw names."""
    launches: int

    def __len__(self) -> int:
        return len(self.table)

    @cached_property
    def listed(self) -> pd.DataFrame:
        """The first groups, as many as a page has room for."""
        head = self.table.head(MOST_GROUPS)
        return head.head(with_room(head))

    @cached_property
    def detailed(self) -> int:
        """Number of groups of which a page has room for all metrics."""
        values = self.listed[list(self.metrics)].count(axis="columns").cumsum()
        return min(len(self.listed), max(1, int((values <= MOST_VALUES).sum())))

    @property
    def whole_on_page(self) -> bool:
        """Whether the page has a row for each group, and all of its metrics."""
        return len(self.listed) == len(self) == self.detailed

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
    values = launches[list(metrics)].groupby(codes)
    duration = launches.get(DURATION, pd.Series(math.nan, index=launches.index)).groupby(codes)
    # Groups are numbered as they come: so are the first rows of each.
    table = keys[~codes.duplicated()].reset_index(drop=True)
    table[COUNT] = codes.value_counts(sort=False).sort_index()
    table[TOTAL] = duration.sum(min_count=1)
    table[SHORTEST], table[LONGEST] = duration.min(), duration.max()
    order = table[TOTAL].sort_values(ascending=False, kind="stable", na_position="last").index
    table = table.join(values.median()).loc[order].reset_index(drop=True)
    return LaunchGroups(table, metrics, len(launches))


def _is_wide(shortest: Any, longest: Any) -> Any:
    return longest > WIDE * shortest


def with_room(table: pd.DataFrame) -> int:
    """Number of the first rows of a table that have room, by the letters of their names."""
    letters = (table["kernel"].str.len() + table["range"].str.len()).cumsum()
    return min(len(table), max(1, int((letters <= MOST_LETTERS).sum())))


def word(value: object) -> str:
    """Write a kernel name, a grid `(64, 64, 1)` or a number of blocks; empty where missing."""
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else ""
    return "" if value is None or value is pd.NA else str(value)


def _metrics(launches: pd.DataFrame) -> tuple[str, ...]:
    have_values = launches.select_dtypes(["number", "bool"]).notna().any()
    numeric = [str(name) for name in have_values.index[have_values] if name not in _NOT_METRICS]
    catalogued = [name for name in CATALOGUE if name in numeric]
    return tuple(dict.fromkeys([*catalogued, *numeric]))
