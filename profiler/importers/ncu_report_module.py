"""Reports of ncu by NVIDIA's Python module `ncu_report`, as the pages that ncu would print.

The module comes with Nsight Compute (`extras/python`) and as a package (`pip install ncu-report`),
and works without the tool. Its documentation: docs.nvidia.com/nsight-compute,
PythonReportInterface and NvRulesAPI. Values are in base units; it does not say which process
launched a kernel. Of instructions it has executed counts, samples and source lines.
"""

from __future__ import annotations

import csv
import importlib
import io
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from profiler.errors import ParseError
from profiler.parse.ncu_source import (
    ADDRESS,
    FILE,
    LINE,
    SASS,
    TEXT,
    Listing,
    read_source_page,
    with_lines,
)
from profiler.parse.nvtx_cells import HEADERS, item_text

_MODULE = "ncu_report"
_IDENTITY = ("ID", "Kernel Name", "Block Size", "Grid Size", *HEADERS)
_COUNT_METRIC = "inst_executed"
"""Metric whose instances are the counts of single instructions."""
_SAMPLED = re.compile(r"smsp__pcsamp_warps_issue_(stalled_\w+?)(_not_issued)?")
"""Metrics whose instances are samples of single instructions, by reason."""


def report_module() -> Any | None:
    """The module; None where it cannot be imported."""
    try:
        return importlib.import_module(_MODULE)
    except (ImportError, OSError):  # OSError: its library cannot be loaded
        return None


def report_pages_by(module: Any, report: Path, name: str) -> tuple[str, tuple[Listing, ...]]:
    """Raw page of a report as CSV, and listings of launches whose instructions were counted.

    Raises ParseError where the module cannot read it.
    """
    try:
        actions = list(_actions(module.load_report(str(report))))
        pages = _raw_page(actions), tuple(_listing(a) for a in actions if _has_counts(a))
    except Exception as error:  # a foreign library may raise anything
        raise ParseError(f"{name}: the module {_MODULE} cannot read it: {error}") from error
    if not actions:  # the module accepts a file that is no report
        raise ParseError(f"{name}: the module {_MODULE} finds no launch in it")
    return pages


def _raw_page(actions: list[Any]) -> str:
    metrics = list(dict.fromkeys(metric for a in actions for metric in a.metric_names()))
    units: dict[str, str] = {}
    rows = [_launch_cells(number, action, metrics, units) for number, action in enumerate(actions)]
    header = [*_IDENTITY, *metrics]
    unit_cells = [*[""] * len(_IDENTITY), *(units.get(metric, "") for metric in metrics)]
    return _csv([header, unit_cells, *rows])


def _csv(rows: list[list[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def _actions(context: Any) -> Iterator[Any]:
    for number in range(context.num_ranges()):
        profile_range = context.range_by_idx(number)
        for index in range(profile_range.num_actions()):
            yield profile_range.action_by_idx(index)


def _launch_cells(number: int, action: Any, metrics: list[str], units: dict[str, str]) -> list[str]:
    own_names = set(action.metric_names())
    values = {name: action.metric_by_name(name) for name in metrics if name in own_names}
    for name, metric in values.items():
        if metric is not None and metric.unit():
            units.setdefault(name, metric.unit())
    sizes = [
        _size_text([values.get(f"launch__{size}_dim_{axis}") for axis in "xyz"])
        for size in ("block", "grid")
    ]
    return [
        str(number),
        action.name(action.NameBase_DEMANGLED),
        *sizes,
        *_ranges(action.nvtx_state()),
        *(_text(values.get(name)) for name in metrics),
    ]


def _text(metric: Any | None) -> str:
    """Value of a metric as a cell; empty without a value."""
    value = None if metric is None or not metric.has_value() else metric.value()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return str(value).replace("\n", " ")


def _size_text(metrics: list[Any | None]) -> str:
    texts = [_text(metric) for metric in metrics]
    return f"({', '.join(texts)})" if all(texts) else ""


def _ranges(state: Any | None) -> tuple[str, str]:
    """The two NVTX cells of a launch."""
    if state is None:
        return "", ""
    push_pop: list[str] = []
    start_end: list[str] = []
    for key in state.domains():
        domain = state.domain_by_id(key)
        push_pop += [item_text(domain.name(), name) for name in domain.push_pop_ranges()]
        start_end += [item_text(domain.name(), name) for name in domain.start_end_ranges()]
    cells = (f'"{item}"' for item in push_pop), (f'"0:{item}"' for item in start_end)
    return "  ".join(cells[0]), "  ".join(cells[1])


def _has_counts(action: Any) -> bool:
    metric = action.metric_by_name(_COUNT_METRIC)
    return metric is not None and metric.num_instances() > 0


def _listing(action: Any) -> Listing:
    """Listing of a launch by the page that ncu would print, with source lines."""
    columns = {
        "Instructions Executed": _values_by_address(action.metric_by_name(_COUNT_METRIC)),
        **_samples(action),
    }
    rows = [
        [
            hex(address),
            action.sass_by_pc(address),
            *(str(counts.get(address, 0)) for counts in columns.values()),
        ]
        for address in sorted({address for counts in columns.values() for address in counts})
    ]
    kernel = action.name(action.NameBase_DEMANGLED)
    page = _csv([["Kernel Name", kernel], ["Address", "Source", *columns], *rows])
    (listing,), _ = read_source_page(page)
    return with_lines(listing, replace(listing, instructions=_source_lines(action, listing)))


def _samples(action: Any) -> dict[str, dict[int, float]]:
    """Samples of each instruction by title of ncu's column: of each reason, and of all."""
    by_title: dict[str, dict[int, float]] = {}
    for name in action.metric_names():
        match = _SAMPLED.fullmatch(name)
        if match is None:
            continue
        sampled, reason = ("Not-issued", " (Not Issued)") if match[2] else ("All", "")
        counts = _values_by_address(action.metric_by_name(name))
        total = by_title.setdefault(f"Warp Stall Sampling ({sampled} Samples)", {})
        for address, count in counts.items():
            total[address] = total.get(address, 0) + count
        by_title[f"{match[1].replace('stalled', 'stall', 1)}{reason}"] = counts
    return by_title


def _values_by_address(metric: Any) -> dict[int, float]:
    """Values of a metric's instances by the address of the instruction."""
    addresses = metric.correlation_ids()
    return {addresses.as_uint64(n): metric.as_double(n) for n in range(metric.num_instances())}


def _source_lines(action: Any, listing: Listing) -> pd.DataFrame:
    """File, line and text of each instruction of a listing."""
    texts = {file: text.splitlines() for file, text in action.source_files().items()}
    code = listing.instructions[[ADDRESS, SASS]]
    places = [
        _source_line(action.source_info(address), texts) for address in code[ADDRESS].tolist()
    ]
    return code.join(pd.DataFrame(places, columns=[FILE, LINE, TEXT], dtype=object))


def _source_line(
    info: Any | None, texts: dict[str, list[str]]
) -> tuple[str | None, int | Any, str | None]:
    if info is None:
        return None, pd.NA, None
    file, line = info.file_name(), info.line()
    lines = texts.get(file, [])
    return file, line, lines[line - 1].strip() if 0 < line <= len(lines) else None
