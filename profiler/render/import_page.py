"""The page of `profiler import`: the launches of a file that a user already has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import pandas as pd

from profiler.findings.why.hot_lines import ListedKernel
from profiler.metrics.labels import labels
from profiler.notices import Notice
from profiler.render.page import notice_rows, render
from profiler.render.source_page import listed_kernel_parts
from profiler.render.tables.launches import (
    LaunchGroup,
    LaunchGroups,
    rows_with_room,
    spread_words,
    word,
)
from profiler.render.tables.rows import Datum
from profiler.render.words.names import shorten

MOST_LAUNCHES = 2000
"""A row for each launch of a long trace would make the page unusable: groups hold all of them."""
MOST_VALUES = 8000
"""Rows of all metrics of the groups: as many groups show them as have so many together."""
_LONGEST_NAME = 4000
"""Characters of a kernel's name; those of CUTLASS have a thousand."""


def whole_on_page(groups: LaunchGroups) -> bool:
    """Whether the page has a row for each group, and all of its metrics."""
    return len(groups.rows) == len(groups) and len(_detailed(groups)) == len(groups)


def _detailed(groups: LaunchGroups) -> Sequence[LaunchGroup]:
    """The groups that show all of their metrics."""
    values = accumulate(len(group.medians) for group in groups.rows)
    return groups.rows[: max(1, sum(so_far <= MOST_VALUES for so_far in values))]


def render_import_page(  # noqa: PLR0913 - everything that the page shows
    launches: pd.DataFrame,
    groups: LaunchGroups,
    notices: Sequence[Notice],
    files: Sequence[str],
    kernels: Sequence[ListedKernel] = (),
    *,
    account: str = "",
    csv: str = "",
) -> str:
    """Render imported launches as HTML; `files` are names without folders.

    `launches` has `kernel grid_size block_size id full_range` and one column per metric;
    `kernels` are those whose instructions were counted; `account`: text on what two files differ
    by; `csv`: name of a file beside the page with all groups, empty where there is none.
    """
    shown = labels(groups.shown or groups.metrics[:1])
    detailed = _detailed(groups)
    listed = _launch_rows(
        launches, [metric.name for metric in shown], [metric.unit for metric in shown]
    )
    parts = {
        "files": list(files),
        "account": account,
        "notice_rows": notice_rows(notices),
        "count": groups.launches,
        "kinds": len(groups),
        "csv": csv,
        "groups": [replace(row, kernel=_short(row.kernel)) for row in groups.rows],
        "has_ranges": groups.has_ranges,
        "spreads": [spread_words(row) for row in groups.rows] if groups.has_spread else [],
        "shown": shown,
        "metrics": labels(groups.metrics),
        "totals": [_number(row.total_ns, "ns") for row in groups.rows],
        "group_data": [
            [_number(row.medians.get(metric.name), metric.unit) for metric in shown]
            for row in groups.rows
        ],
        "everything": [
            [
                (metric, _number(row.medians[metric.name], metric.unit))
                for metric in labels(groups.metrics)
                if metric.name in row.medians
            ]
            for row in detailed
        ],
        "launches": listed,
        **listed_kernel_parts(kernels),
        "left_out": len(launches) - len(listed),
    }
    return render("import.html", parts)


def _short(name: str) -> str:
    return shorten(name, _LONGEST_NAME)


def _number(value: float | None, unit: str) -> Datum:
    return Datum.quantity(value, unit, "not in the file")


def _launch_rows(
    launches: pd.DataFrame, metrics: Sequence[str], units: Sequence[str]
) -> list[tuple[str, str, str, list[Datum]]]:
    """Id, kernel, NVTX ranges and metrics of the first launches, as many as there is room for."""
    head = launches.head(MOST_LAUNCHES)
    identity = head.reindex(columns=["id", "kernel", "full_range"]).astype(object)
    columns = [head[name].astype(float).tolist() for name in metrics]
    data: list[list[Datum]] = [[] for _ in range(len(head))]
    for column, unit in zip(columns, units, strict=True):
        for row, value in zip(data, column, strict=True):
            row.append(_number(value, unit))
    ids, kernels, ranges = (identity[name].map(word).map(_short).tolist() for name in identity)
    rows = list(zip(ids, kernels, ranges, data, strict=True))
    names = [kernel + around for kernel, around in zip(kernels, ranges, strict=True)]
    return rows[: max(1, rows_with_room(names))]
