"""The page of `profiler import`: the launches of a file that a user already has."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from profiler.findings.why.hot_lines import ListedKernel
from profiler.metrics.labels import labels
from profiler.notices import Notice
from profiler.render.page import notice_rows, render
from profiler.render.source_page import listed_kernel_rows
from profiler.render.tables.launches import LaunchGroup, group_launches, spread_words, word
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers

MOST_LAUNCHES = 2000
"""A row for each launch of a long trace would make the page unusable: groups hold all of them."""


def render_import_page(
    launches: pd.DataFrame,
    notices: Sequence[Notice],
    files: Sequence[str],
    kernels: Sequence[ListedKernel] = (),
    account: str = "",
) -> str:
    """Render imported launches as HTML; `files` are names without folders.

    `launches` has `kernel grid_size block_size id` and one column per metric; `kernels` are those
    whose instructions were counted; `account`: text on what two files differ by.
    """
    groups = group_launches(launches)
    shown = labels(groups.shown or groups.metrics[:1])
    parts = {
        "files": list(files),
        "account": account,
        "notice_rows": notice_rows(notices),
        "count": len(launches),
        "groups": groups.rows,
        "has_ranges": groups.has_ranges,
        "spreads": [spread_words(row) for row in groups.rows] if groups.has_spread else [],
        "shown": shown,
        "metrics": labels(groups.metrics),
        "totals": [_number(row.total_ns, "ns") for row in groups.rows],
        "group_data": [
            [_datum(row, name.name, name.unit) for name in shown] for row in groups.rows
        ],
        "everything": [
            [
                (metric, _datum(row, metric.name, metric.unit))
                for metric in labels(groups.metrics)
                if metric.name in row.medians
            ]
            for row in groups.rows
        ],
        "launches": _launch_rows(
            launches, [metric.name for metric in shown], [metric.unit for metric in shown]
        ),
        "listed_kernels": listed_kernel_rows(kernels),
        "left_out": max(0, len(launches) - MOST_LAUNCHES),
    }
    return render("import.html", parts)


def _datum(row: LaunchGroup, name: str, unit: str) -> Datum:
    return _number(row.medians.get(name, float("nan")), unit)


def _number(value: float, unit: str) -> Datum:
    if numbers.is_missing(value):
        return Datum(title="not in the file", css="none")
    return Datum(numbers.show(value, unit), numbers.raw(value))


def _launch_rows(
    launches: pd.DataFrame, metrics: Sequence[str], units: Sequence[str]
) -> list[tuple[str, str, list[Datum]]]:
    """Id, kernel and metrics of the first launches."""
    head = launches.head(MOST_LAUNCHES)
    identity = head.reindex(columns=["id", "kernel"]).astype(object)
    columns = [head[name].astype(float).tolist() for name in metrics]
    data: list[list[Datum]] = [[] for _ in range(len(head))]
    for column, unit in zip(columns, units, strict=True):
        for row, value in zip(data, column, strict=True):
            row.append(_number(value, unit))
    ids, kernels = (identity[name].map(word).tolist() for name in ("id", "kernel"))
    return list(zip(ids, kernels, data, strict=True))
