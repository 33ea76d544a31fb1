"""What an autotuner tried, as a page and on the console: one table per operation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from profiler.model import Params, TunedConfig
from profiler.render import numbers
from profiler.render.page import render
from profiler.render.tables import Datum

HEADS = ("time", "against the best", "registers", "spills", "shared memory")


@dataclass(frozen=True)
class TuningRow:
    """One configuration."""

    choice: str
    config: str
    best: bool
    data: tuple[Datum, ...]
    """As `HEADS`."""


@dataclass(frozen=True)
class TuningTable:
    """One operation with everything that was tried for it, the quickest first."""

    operation: str
    rows: tuple[TuningRow, ...]


def tuning_tables(tuned: Sequence[TunedConfig]) -> tuple[TuningTable, ...]:
    """Group configurations by operation, in the order of the text."""
    groups: dict[str, list[TunedConfig]] = {}
    for each in tuned:
        groups.setdefault(each.operation, []).append(each)
    return tuple(
        TuningTable(operation, _rows(sorted(group, key=_time)))
        for operation, group in groups.items()
    )


def _time(each: TunedConfig) -> float:
    return math.inf if each.time_ns is None else each.time_ns


def _rows(group: Sequence[TunedConfig]) -> tuple[TuningRow, ...]:
    quickest = _time(group[0])
    return tuple(
        TuningRow(each.choice, config_words(each.config), each.best, _data(each, quickest))
        for each in group
    )


def _data(each: TunedConfig, quickest: float) -> tuple[Datum, ...]:
    ratio = None if each.time_ns is None or quickest == 0 else each.time_ns / quickest
    return (
        _number(each.time_ns, "ns"),
        _missing() if ratio is None else Datum(numbers.ratio(ratio), numbers.raw(ratio)),
        _number(each.registers, ""),
        _number(each.spills, ""),
        _number(each.shared_bytes, "byte"),
    )


def _number(value: float | None, unit: str) -> Datum:
    if value is None:
        return _missing()
    return Datum(numbers.show(value, unit), numbers.raw(value))


def _missing() -> Datum:
    return Datum(title="not in the file", css="none")


def config_words(config: Params) -> str:
    """Block sizes first, then the rest: `XBLOCK=64, num_warps=4`."""
    order = sorted(config, key=lambda key: (key.startswith("num_"), key.upper() != key))
    return ", ".join(f"{key}={config[key]}" for key in order)


def render_tuning_page(tuned: Sequence[TunedConfig], files: Sequence[str]) -> str:
    """Render configurations as HTML; `files` are names without folders."""
    parts = {
        "files": list(files),
        "tables": tuning_tables(tuned),
        "heads": HEADS,
        "count": len(tuned),
    }
    return render("tuning.html", parts)


def console_tables(tuned: Sequence[TunedConfig]) -> tuple[RenderableType, ...]:
    """Show configurations on the console."""
    return tuple(_console_table(table) for table in tuning_tables(tuned))


def _console_table(table: TuningTable) -> Table:
    shown = Table(title=Text(table.operation), title_justify="left")
    shown.add_column("choice", overflow="fold")
    shown.add_column("configuration", overflow="fold")
    for head in HEADS:
        shown.add_column(head, justify="right")
    for row in table.rows:
        choice = f"{row.choice} (chosen)".strip() if row.best else row.choice
        shown.add_row(Text(choice), Text(row.config), *(Text(each.text) for each in row.data))
    return shown
