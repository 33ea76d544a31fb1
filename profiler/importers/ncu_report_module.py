"""Reports of ncu by NVIDIA's Python module `ncu_report`, as the raw page that ncu would print.

The module comes with Nsight Compute (`extras/python`) and works without the rest of it. Its
documentation: docs.nvidia.com/nsight-compute, PythonReportInterface and NvRulesAPI. Values are in
base units; it does not say which process launched a kernel.
"""

from __future__ import annotations

import csv
import importlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from profiler.errors import ParseError
from profiler.parse.ncu_launches import PUSH_POP_HEADER, START_END_HEADER

_MODULE = "ncu_report"
_NVTX = "PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
_IDENTITY = (
    *("ID", "Kernel Name", "Block Size", "Grid Size"),
    f"{PUSH_POP_HEADER}Push/Pop_Range:{_NVTX}",
    f"{START_END_HEADER}Start/Stop_Range:{_NVTX}",
)
_COUNTED = "inst_executed"
"""Metric whose instances are the counts of single instructions."""


def report_module() -> Any | None:
    """The module, None where it cannot be imported."""
    try:
        return importlib.import_module(_MODULE)
    except (ImportError, OSError):  # OSError: a library of it that does not fit
        return None


def raw_page(module: Any, report: Path, name: str) -> tuple[str, int]:
    """Raw page of a report as CSV, and how many launches have counters of instructions.

    Raises ParseError where the module cannot read it.
    """
    try:
        actions = list(_actions(module.load_report(str(report))))
        metrics = list(dict.fromkeys(metric for a in actions for metric in a.metric_names()))
        units: dict[str, str] = {}
        rows = [_row(number, action, metrics, units) for number, action in enumerate(actions)]
        counted = sum(_is_counted(action) for action in actions)
    except Exception as error:  # whatever a library of others raises
        raise ParseError(f"{name}: the module {_MODULE} cannot read it: {error}") from error
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*_IDENTITY, *metrics])
    writer.writerow([*[""] * len(_IDENTITY), *(units.get(metric, "") for metric in metrics)])
    writer.writerows(rows)
    return written.getvalue(), counted


def _actions(context: Any) -> Iterator[Any]:
    for number in range(context.num_ranges()):
        of_range = context.range_by_idx(number)
        for place in range(of_range.num_actions()):
            yield of_range.action_by_idx(place)


def _row(number: int, action: Any, metrics: list[str], units: dict[str, str]) -> list[str]:
    known = set(action.metric_names())
    values = {name: action.metric_by_name(name) for name in metrics if name in known}
    for name, metric in values.items():
        if metric is not None and metric.unit():
            units.setdefault(name, metric.unit())
    sizes = [
        _sizes([values.get(f"launch__{what}_dim_{axis}") for axis in "xyz"])
        for what in ("block", "grid")
    ]
    cells = [_text(values.get(name)) for name in metrics]
    return [
        str(number),
        action.name(action.NameBase_DEMANGLED),
        *sizes,
        *_ranges(action.nvtx_state()),
        *cells,
    ]


def _text(metric: Any | None) -> str:
    """Value of a metric as a cell; empty where it has none."""
    value = None if metric is None or not metric.has_value() else metric.value()
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return str(value).replace("\n", " ")


def _sizes(metrics: list[Any | None]) -> str:
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
        push_pop += [_item(domain.name(), name) for name in domain.push_pop_ranges()]
        start_end += [_item(domain.name(), name) for name in domain.start_end_ranges()]
    cells = (f'"{item}"' for item in push_pop), (f'"0:{item}"' for item in start_end)
    return "  ".join(cells[0]), "  ".join(cells[1])


def _item(domain: str, name: str) -> str:
    # Nothing in such a cell is escaped.
    return f"{domain}:{name}:none:none:none:none:none:none".replace('"', "'").replace("\n", " ")


def _is_counted(action: Any) -> bool:
    metric = action.metric_by_name(_COUNTED)
    return metric is not None and metric.num_instances() > 0
