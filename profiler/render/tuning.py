"""What autotuners tried and chose, of each cell of a run or in a file that one wrote, as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profiler.findings.findings import CellNumbers, Findings, Programs
from profiler.model import Cell, Params, TunedConfig
from profiler.render.tables.rows import Datum, Row, SmallTable
from profiler.render.words import numbers
from profiler.render.words.names import kernels_by_cell
from profiler.render.words.outcomes import OUTCOME_WORDS

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
    having = [cell for cell in findings.programs.cells if findings.programs.status(cell).tuned]
    if not having:
        return None
    names = _kernel_names(findings)
    rows = [row for cell in having for row in _rows(findings.numbers, cell, names.get(cell.id, ()))]
    tried = [cell for cell in having if _was_a_choice(findings.programs.status(cell).tuned)]
    shown = _fitting(findings.programs, tried)
    return {
        "table": SmallTable(
            caption="What the autotuner chose for each cell, beside its measured time",
            first="variant",
            heads=tuple((head, "") for head in (*_CHOSEN_TEXTS, *_CHOSEN_NUMBERS)),
            lines=tuple(rows[:MOST_CHOSEN]),
            left_out=max(0, len(rows) - MOST_CHOSEN),
            text_heads=_CHOSEN_TEXTS,
            elsewhere="; the JSON has them",
        ),
        "tried": {
            f"{cell.variant.label}, {cell.problem.name}": tuning_tables(
                findings.programs.status(cell).tuned
            )
            for cell in shown
        },
        "left_out_tried": len(tried) - len(shown),
    }


_CHOSEN_TEXTS = ("problem", "kernel or operation", "chosen", "joined")
_CHOSEN_NUMBERS = (
    "tried",
    "tuner's time",
    "slowest / chosen",
    "registers",
    "spills",
    "shared memory",
    "kernels of the cell",
    "cell, measured",
    "measured / tuner's",
)


def _was_a_choice(tuned: Sequence[TunedConfig]) -> bool:
    return len({candidate.operation for candidate in tuned}) < len(tuned)


def _fitting(programs: Programs, cells: Sequence[Cell]) -> list[Cell]:
    """The first cells whose configurations have room together."""
    room, fitting = MOST_TRIED, []
    for cell in cells:
        room -= len(programs.status(cell).tuned)
        if room < 0:
            break
        fitting.append(cell)
    return fitting


def _kernel_names(findings: Findings) -> dict[str, tuple[str, ...]]:
    """Names of the kernels that were seen in each cell, without arguments; by cell id."""
    kernels = kernels_by_cell(findings.report.measured.samples)
    return {cell: tuple(map(_plain, names)) for cell, names in kernels.items()}


def _plain(name: str) -> str:
    return name.strip().removeprefix("void ").partition("<")[0].partition("(")[0]


def _rows(numbers: CellNumbers, cell: Cell, names: Sequence[str]) -> list[Row]:
    groups = _by_operation(numbers.programs.status(cell).tuned)
    return [_row(numbers, cell, names, group) for group in groups.values()]


def _row(
    cell_numbers: CellNumbers, cell: Cell, names: Sequence[str], group: Sequence[TunedConfig]
) -> Row:
    operation = group[0].operation
    best = next((candidate for candidate in group if candidate.best), None)
    choice = "" if best is None else f"{best.choice} {config_words(best.config)}".strip()
    texts = (
        Datum(cell.problem.name, css="words"),
        Datum(operation, css="code"),
        Datum(choice or numbers.MISSING, css="code"),
    )
    return Row(
        cell.variant.label,
        (
            *texts,
            _join(operation, names),
            Datum(str(len(group)), str(len(group))),
            *_chosen_data(best, group),
            *_measured_data(cell_numbers, cell, best, alone=tuple(set(names)) == (operation,)),
        ),
        cell_numbers.programs.marks[cell.variant.id],
        cell=cell_numbers.programs.cell_numbers[cell.id],
    )


def _join(operation: str, names: Sequence[str]) -> Datum:
    """How the tuned kernel was matched to the cell's kernels: by its name, or not at all."""
    if _CALL in operation:
        return Datum(
            "by cell only", title="an operation: what it launches is called otherwise", css="words"
        )
    if not names:
        return Datum("by cell only", title="its kernels have no recorded names", css="words")
    if operation in names:
        return Datum("by name", title="among the kernels that were seen in this cell", css="words")
    return Datum(
        "not seen", title="tuned for this cell, but not among the kernels seen", css="words"
    )


def _chosen_data(best: TunedConfig | None, group: Sequence[TunedConfig]) -> tuple[Datum, ...]:
    if best is None:
        return tuple(_number(None, "") for _ in range(5))
    times = [candidate.time_ns for candidate in group if candidate.time_ns is not None]
    worst = max(times) / best.time_ns if best.time_ns and len(times) > 1 else None
    return (
        _number(best.time_ns, "ns"),
        _ratio(worst, "one configuration only, or no times"),
        _number(best.registers, ""),
        _number(best.spills, ""),
        _number(best.shared_bytes, "byte"),
    )


def _measured_data(
    cell_numbers: CellNumbers, cell: Cell, best: TunedConfig | None, *, alone: bool
) -> tuple[Datum, ...]:
    """Launches of the cell, its time, and that time by the tuner's where it is the same kernel."""
    if not cell_numbers.programs.correct(cell):
        outcome = OUTCOME_WORDS[cell_numbers.programs.status(cell).outcome]
        return (Datum(css="none"), Datum(outcome, css="words"), Datum(css="none"))
    time = cell_numbers.value(cell, "duration_ns").median
    launches = cell_numbers.value(cell, "kernels").median
    tuner = None if best is None else best.time_ns
    once = alone and launches == 1
    ratio = time / tuner if once and tuner and not numbers.is_missing(time) else None
    return (
        _number(launches, ""),
        _number(time, "ns"),
        _ratio(ratio, "only where the cell launches this kernel once and no other"),
    )


def _number(value: float | None, unit: str) -> Datum:
    return Datum.quantity(value, unit, "not known")


def _ratio(value: float | None, otherwise: str) -> Datum:
    return Datum.times(value, otherwise)


# ---- everything that was tried -------------------------------------------------------------------


_MISSING = "not in the file"
MOST_CONFIGS = 5000
"""Configurations that a page lists; a document has all."""


def tuning_tables(tuned: Sequence[TunedConfig], most: int = MOST_CONFIGS) -> tuple[SmallTable, ...]:
    """Configurations, fastest first, by operation in the order of the text: `most` together."""
    tables = []
    room = most
    for operation, group in _by_operation(tuned).items():
        ordered = sorted(group, key=_time)
        best_ns = _time(ordered[0])
        lines = tuple(_tuned_row(config, best_ns) for config in ordered[: max(0, room)])
        room -= len(group)
        tables.append(
            SmallTable(
                caption=operation or "one kernel",
                first="configuration",
                heads=tuple((head, "") for head in _TUNED_HEADS),
                lines=lines,
                left_out=len(group) - len(lines),
                text_heads=("choice",),
                long_names=True,
                elsewhere="; --json has them",
            )
        )
    return tuple(table for table in tables if table.lines)


_TUNED_HEADS = ("choice", "time", "against the best", "registers", "spills", "shared memory")


def _time(candidate: TunedConfig) -> float:
    return math.inf if candidate.time_ns is None else candidate.time_ns


def _tuned_row(candidate: TunedConfig, quickest: float) -> Row:
    choice = candidate.choice
    if candidate.best:
        choice = f"{choice} (chosen)" if choice else "chosen"
    ratio = None if candidate.time_ns is None or quickest == 0 else candidate.time_ns / quickest
    data = (
        Datum(choice or numbers.MISSING, css="code"),
        Datum.quantity(candidate.time_ns, "ns", _MISSING),
        Datum.times(ratio, _MISSING),
        Datum.quantity(candidate.registers, "", _MISSING),
        Datum.quantity(candidate.spills, "", _MISSING),
        Datum.quantity(candidate.shared_bytes, "byte", _MISSING),
    )
    return Row(config_words(candidate.config) or numbers.MISSING, data)


def _by_operation(tuned: Sequence[TunedConfig]) -> dict[str, list[TunedConfig]]:
    groups: dict[str, list[TunedConfig]] = {}
    for candidate in tuned:
        groups.setdefault(candidate.operation, []).append(candidate)
    return groups


def config_words(config: Params) -> str:
    """Block sizes first, then the rest: `XBLOCK=64, num_warps=4`."""
    order = sorted(config, key=lambda key: (key.startswith("num_"), key.upper() != key))
    return ", ".join(f"{key}={config[key]}" for key in order)
