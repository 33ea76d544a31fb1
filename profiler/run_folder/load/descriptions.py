"""What journals say of the launches and the results of cells, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from profiler.runner import protocol

_DESCRIBED = (
    *protocol.AMOUNTS,
    *("result_bytes", "max_abs_error", "max_rel_error"),
    *protocol.LAUNCH_FACTS,
    *protocol.VISIT_FACTS,
)


def described_by_cell(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Facts of launches and results in a journal, by name, by cell id; the last of each.

    A wrong result has its errors, too.
    """
    cells: dict[str, dict[str, Any]] = {}
    for record in records:
        values = {name: record[name] for name in _DESCRIBED if name in record}
        if "result_dtypes" in record:
            values["result_dtypes"] = tuple(record["result_dtypes"])
        if values and "cell" in record:
            add_description(cells.setdefault(record["cell"], {}), values)
    return cells


def add_description(described: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Lay what is said later over what is known of a cell; of compilations the longest counts."""
    longest = {
        name: max(values[name], described.get(name, 0.0))
        for name in ("compile_seconds",)
        if name in values
    }
    described |= {**values, **longest}
