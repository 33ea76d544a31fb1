"""Configurations that an autotuner tried, one table per operation, fastest first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from profiler.model import Params, TunedConfig
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers

_MISSING = "not in the file"
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
    """One operation with all its tried configurations, fastest first."""

    operation: str
    rows: tuple[TuningRow, ...]


def tuning_tables(tuned: Sequence[TunedConfig]) -> tuple[TuningTable, ...]:
    """Group configurations by operation, in the order of the text."""
    groups: dict[str, list[TunedConfig]] = {}
    for candidate in tuned:
        groups.setdefault(candidate.operation, []).append(candidate)
    return tuple(
        TuningTable(operation, _rows(sorted(group, key=_time)))
        for operation, group in groups.items()
    )


def _time(candidate: TunedConfig) -> float:
    return math.inf if candidate.time_ns is None else candidate.time_ns


def _rows(group: Sequence[TunedConfig]) -> tuple[TuningRow, ...]:
    quickest = _time(group[0])
    return tuple(
        TuningRow(
            candidate.choice,
            config_words(candidate.config),
            candidate.best,
            _data(candidate, quickest),
        )
        for candidate in group
    )


def _data(candidate: TunedConfig, quickest: float) -> tuple[Datum, ...]:
    ratio = None if candidate.time_ns is None or quickest == 0 else candidate.time_ns / quickest
    return (
        _number(candidate.time_ns, "ns"),
        _missing() if ratio is None else Datum(numbers.ratio(ratio), numbers.raw(ratio)),
        _number(candidate.registers, ""),
        _number(candidate.spills, ""),
        _number(candidate.shared_bytes, "byte"),
    )


def _number(value: float | None, unit: str) -> Datum:
    return Datum.quantity(value, unit, _MISSING)


def _missing() -> Datum:
    return Datum(title=_MISSING, css="none")


def config_words(config: Params) -> str:
    """Block sizes first, then the rest: `XBLOCK=64, num_warps=4`."""
    order = sorted(config, key=lambda key: (key.startswith("num_"), key.upper() != key))
    return ", ".join(f"{key}={config[key]}" for key in order)
