"""Tables of the configurations that autotuners tried and chose, of a run's cells or of a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

from profiler.findings.cell_numbers import CellNumbers
from profiler.findings.findings import Findings
from profiler.model import Cell, Params, TunedConfig
from profiler.render.tables.rows import Column, Datum, Row, SmallTable, cell_row, text_column
from profiler.render.words import numbers
from profiler.render.words.names import kernels_by_cell, plain_kernel
from profiler.render.words.signs import OUTCOME_WORDS

MOST_CHOSEN = 1000
MOST_TRIED = 1000
"""Rows of the two tables of the page of a run; the JSON has all."""
_CALL = "("
"""In the name of an operation with its shapes; kernels have none."""


def tuned_cells(findings: Findings) -> dict[str, Any] | None:
    """Parts of the section; None where nothing was tuned or that was not recorded.

    `table` has a row for each tuned kernel or operation of a cell; `tried`, by name of a cell,
    every configuration that was tried for it.
    """
    cells_with_configs = [
        (cell, configs)
        for cell in findings.programs.cells
        if (configs := findings.programs.status(cell).tuning.tried)
    ]
    if not cells_with_configs:
        return None
    tried = [
        (cell, configs)
        for cell, configs in cells_with_configs
        if len(_by_operation(configs)) < len(configs)
    ]
    totals = accumulate(len(configs) for _, configs in tried)
    shown_cells = tried[: sum(total <= MOST_TRIED for total in totals)]
    return {
        "table": _chosen_table(findings, cells_with_configs),
        "tried": {
            f"{cell.variant.label}, {cell.problem.name}": tuning_tables(configs)
            for cell, configs in shown_cells
        },
        "left_out_tried": len(tried) - len(shown_cells),
    }


def _kernel_names(findings: Findings) -> dict[str, tuple[str, ...]]:
    """Names of the kernels that were seen in each cell, without arguments; by cell id."""
    kernels = kernels_by_cell(findings.report.measured.samples)
    return {cell: tuple(map(plain_kernel, names)) for cell, names in kernels.items()}


class _Tuned(NamedTuple):
    """Configurations that were tried for a kernel or operation of a cell."""

    cell: Cell
    configs: Sequence[TunedConfig]
    kernels: Sequence[str]
    """Names of the kernels that were seen in the cell."""

    @property
    def operation(self) -> str:
        """Kernel or operation."""
        return self.configs[0].operation

    @property
    def best(self) -> TunedConfig | None:
        """The chosen one; None where that is not known."""
        return next((candidate for candidate in self.configs if candidate.best), None)


def _chosen_table(
    findings: Findings, cells_with_configs: Sequence[tuple[Cell, Sequence[TunedConfig]]]
) -> SmallTable:
    """A row for each tuned kernel or operation of a cell."""
    programs, kernels = findings.programs, _kernel_names(findings)
    tuned_kernels = [
        _Tuned(cell, group, kernels.get(cell.id, ()))
        for cell, configs in cells_with_configs
        for group in _by_operation(configs).values()
    ]
    columns: tuple[Column[_Tuned], ...] = (
        text_column("problem", lambda tuned: tuned.cell.problem.name),
        text_column("kernel or operation", lambda tuned: tuned.operation, css="code"),
        text_column("chosen", lambda tuned: _choice(tuned.best), css="code"),
        Column("joined", lambda tuned: _join(tuned.operation, tuned.kernels), is_text=True),
        Column("tried", lambda tuned: Datum(str(len(tuned.configs)), str(len(tuned.configs)))),
        _choice_column("tuner's time", "time_ns", "ns"),
        Column("slowest / chosen", _slowest),
        _choice_column("registers", "registers"),
        _choice_column("spills", "spills"),
        _choice_column("shared memory", "shared_bytes", "byte"),
        *(
            Column(head, partial(_measured, findings.numbers, place))
            for place, head in enumerate(
                ("kernels of the cell", "cell, measured", "measured / tuner's")
            )
        ),
    )
    return SmallTable.of(
        "What the autotuner chose for each cell, beside its measured time",
        "variant",
        columns,
        tuned_kernels[:MOST_CHOSEN],
        lambda tuned: cell_row(programs, tuned.cell, tuned.cell.variant.label),
        left_out=max(0, len(tuned_kernels) - MOST_CHOSEN),
        elsewhere="; the JSON has them",
    )


def _choice(best: TunedConfig | None) -> str:
    return "" if best is None else f"{best.choice} {config_words(best.config)}".strip()


def _join(operation: str, names: Sequence[str]) -> Datum:
    """Words on how the tuned kernel was found among the cell's kernels: by name, or not at all."""
    if _CALL in operation:
        return Datum(
            "by cell only", title="an operation: what it launches is called otherwise", css="words"
        )
    if not names:
        return Datum("by cell only", title="its kernels have no recorded names", css="words")
    if operation in names:
        return Datum("by name", title="among the kernels that were seen in this cell", css="words")
    unseen = "tuned for this cell, but not among the kernels seen"
    return Datum("not seen", title=unseen, css="words")


def _choice_column(head: str, name: str, unit: str = "") -> Column[_Tuned]:
    return Column(head, lambda tuned: _number(getattr(tuned.best, name, None), unit))


def _slowest(tuned: _Tuned) -> Datum:
    """Time of the slowest configuration by that of the chosen one."""
    best = tuned.best
    times = [candidate.time_ns for candidate in tuned.configs if candidate.time_ns is not None]
    worst = max(times) / best.time_ns if best and best.time_ns and len(times) > 1 else None
    return Datum.times(worst, "one configuration only, or no times" if best else "not known")


def _measured(cell_numbers: CellNumbers, place: int, tuned: _Tuned) -> Datum:
    """Launches of the cell, its time, or that time by the tuner's where it is the same kernel."""
    if not cell_numbers.programs.correct(tuned.cell):
        outcome = OUTCOME_WORDS[cell_numbers.programs.status(tuned.cell).outcome]
        return Datum(outcome, css="words") if place == 1 else Datum(css="none")
    time = cell_numbers.value(tuned.cell, "duration_ns").median
    launches = cell_numbers.value(tuned.cell, "kernels").median
    tuner = tuned.best.time_ns if tuned.best else None
    once = launches == 1 and set(tuned.kernels) == {tuned.operation}
    ratio = time / tuner if once and tuner and not numbers.is_missing(time) else None
    without = "only where the cell launches this kernel once and no other"
    return (_number(launches, ""), _number(time, "ns"), Datum.times(ratio, without))[place]


def _number(value: float | None, unit: str) -> Datum:
    return Datum.quantity(value, unit, "not known")


# ---- everything that was tried -------------------------------------------------------------------


_MISSING = "not in the file"
MOST_CONFIGS = 5000
"""Configurations that a page lists; a document has all."""


def tuning_tables(tuned: Sequence[TunedConfig]) -> tuple[SmallTable, ...]:
    """Configurations, fastest first, by operation in the order of the text, MOST_CONFIGS in all."""
    tables = []
    room = MOST_CONFIGS
    for operation, group in _by_operation(tuned).items():
        ordered = sorted(group, key=_time)
        columns: tuple[Column[TunedConfig], ...] = (
            text_column("choice", _choice_words, css="code"),
            _config_column("time", "time_ns", "ns"),
            Column("against the best", partial(_against_best, _time(ordered[0]))),
            _config_column("registers", "registers"),
            _config_column("spills", "spills"),
            _config_column("shared memory", "shared_bytes", "byte"),
        )
        shown_configs = ordered[: max(0, room)]
        room -= len(group)
        table = SmallTable.of(
            operation or "one kernel",
            "configuration",
            columns,
            shown_configs,
            lambda candidate: Row(config_words(candidate.config) or numbers.MISSING),
            left_out=len(group) - len(shown_configs),
            long_names=True,
            elsewhere="; --json has them",
        )
        tables.append(table)
    return tuple(table for table in tables if table.lines)


def _config_column(head: str, name: str, unit: str = "") -> Column[TunedConfig]:
    return Column(head, lambda tried: Datum.quantity(getattr(tried, name), unit, _MISSING))


def _time(candidate: TunedConfig) -> float:
    return math.inf if candidate.time_ns is None else candidate.time_ns


def _choice_words(candidate: TunedConfig) -> str:
    if not candidate.best:
        return candidate.choice
    return f"{candidate.choice} (chosen)" if candidate.choice else "chosen"


def _against_best(quickest_ns: float, candidate: TunedConfig) -> Datum:
    ratio = candidate.time_ns / quickest_ns if candidate.time_ns and quickest_ns else None
    return Datum.times(ratio, _MISSING)


def _by_operation(tuned: Sequence[TunedConfig]) -> dict[str, list[TunedConfig]]:
    groups: dict[str, list[TunedConfig]] = {}
    for candidate in tuned:
        groups.setdefault(candidate.operation, []).append(candidate)
    return groups


def config_words(config: Params) -> str:
    """Block sizes first, then the rest: `XBLOCK=64, num_warps=4`."""
    order = sorted(config, key=lambda key: (key.startswith("num_"), key.upper() != key))
    return ", ".join(f"{key}={config[key]}" for key in order)
