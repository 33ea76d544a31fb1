"""What autotuners tried and chose: of each cell of a run, and in a file that one wrote."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from profiler.findings.findings import CellNumbers, Findings, Programs
from profiler.model import Cell, Params, TunedConfig
from profiler.render.console.terminal import TextTable
from profiler.render.html import render
from profiler.render.tables.rows import Datum, Row
from profiler.render.words import numbers
from profiler.render.words.names import kernels_by_cell
from profiler.render.words.outcomes import OUTCOME_WORDS

MOST_CHOSEN = 1000
MOST_TRIED = 1000
"""Rows of the two tables of a page; the JSON has all."""
_CALL = "("
"""In the name of an operation with its shapes; kernels have none."""


CHOSEN_HEADS = (
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


def tuned_cells(findings: Findings) -> dict[str, Any] | None:
    """Parts of the section; None where nothing was tuned or that was not recorded.

    A row for each tuned kernel or operation of a cell: variant, problem, operation, the best
    configuration, whether this kernel is among those that were seen in the cell; `CHOSEN_HEADS`.
    Then by name of a cell every configuration that was tried for it.
    """
    having = [cell for cell in findings.programs.cells if findings.programs.status(cell).tuned]
    if not having:
        return None
    names = _kernel_names(findings)
    rows = [row for cell in having for row in _rows(findings.numbers, cell, names.get(cell.id, ()))]
    tried = [cell for cell in having if _was_a_choice(findings.programs.status(cell).tuned)]
    shown = _fitting(findings.programs, tried)
    return {
        "heads": CHOSEN_HEADS,
        "rows": rows[:MOST_CHOSEN],
        "left_out": max(0, len(rows) - MOST_CHOSEN),
        "tried_heads": HEADS,
        "tried": {
            f"{cell.variant.label}, {cell.problem.name}": tuning_tables(
                findings.programs.status(cell).tuned
            )
            for cell in shown
        },
        "left_out_tried": len(tried) - len(shown),
    }


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
HEADS = ("time", "against the best", "registers", "spills", "shared memory")


CHOSEN = "chosen"
"""Role of the row of a configuration that the tuner took."""


def tuning_tables(tuned: Sequence[TunedConfig]) -> dict[str, tuple[Row, ...]]:
    """Configurations for `HEADS`, fastest first, by operation in the order of the text.

    The note of a row is the name of its maker.
    """
    groups = _by_operation(tuned)
    return {
        operation: _tuning_rows(sorted(group, key=_time)) for operation, group in groups.items()
    }


def _time(candidate: TunedConfig) -> float:
    return math.inf if candidate.time_ns is None else candidate.time_ns


def _tuning_rows(group: Sequence[TunedConfig]) -> tuple[Row, ...]:
    quickest = _time(group[0])
    return tuple(
        Row(
            config_words(candidate.config),
            _tuned_data(candidate, quickest),
            role=CHOSEN if candidate.best else "other",
            note=candidate.choice,
        )
        for candidate in group
    )


def _tuned_data(candidate: TunedConfig, quickest: float) -> tuple[Datum, ...]:
    ratio = None if candidate.time_ns is None or quickest == 0 else candidate.time_ns / quickest
    return (
        _tuned_number(candidate.time_ns, "ns"),
        Datum.times(ratio, _MISSING),
        _tuned_number(candidate.registers, ""),
        _tuned_number(candidate.spills, ""),
        _tuned_number(candidate.shared_bytes, "byte"),
    )


def _by_operation(tuned: Sequence[TunedConfig]) -> dict[str, list[TunedConfig]]:
    groups: dict[str, list[TunedConfig]] = {}
    for candidate in tuned:
        groups.setdefault(candidate.operation, []).append(candidate)
    return groups


def _tuned_number(value: float | None, unit: str) -> Datum:
    return Datum.quantity(value, unit, _MISSING)


def config_words(config: Params) -> str:
    """Block sizes first, then the rest: `XBLOCK=64, num_warps=4`."""
    order = sorted(config, key=lambda key: (key.startswith("num_"), key.upper() != key))
    return ", ".join(f"{key}={config[key]}" for key in order)


# ---- a file of an autotuner ----------------------------------------------------------------------


MOST_CONFIGS = 5000
"""Configurations that a page lists; a document has all."""


def render_tuning_page(tuned: Sequence[TunedConfig], files: Sequence[str]) -> str:
    """Render configurations as HTML; `files` are names without folders."""
    tables = tuning_tables(tuned)
    parts = {
        "files": list(files),
        "tables": _first_rows(tables),
        "operations": len(tables),
        "left_out": max(0, len(tuned) - MOST_CONFIGS),
        "heads": HEADS,
        "count": len(tuned),
    }
    return render("tuning.html", parts)


def _first_rows(tables: Mapping[str, tuple[Row, ...]]) -> dict[str, tuple[Row, ...]]:
    """Tables with MOST_CONFIGS rows together."""
    room, shown = MOST_CONFIGS, {}
    for operation, rows in tables.items():
        if room > 0:
            shown[operation] = rows[:room]
        room -= len(rows)
    return shown


def console_tables(tuned: Sequence[TunedConfig]) -> tuple[RenderableType, ...]:
    """Show configurations on the console."""
    return tuple(itertools.starmap(_console_table, tuning_tables(tuned).items()))


def _console_table(operation: str, rows: Sequence[Row]) -> TextTable:
    shown = TextTable(operation)
    shown.add_columns("choice", "configuration", name=True)
    for place, head in enumerate(HEADS):
        shown.add_columns(head, right=True, drop=place)
    for row in rows:
        choice = f"{row.note} ({CHOSEN})".strip() if row.role == CHOSEN else row.note
        shown.add_row(choice, row.name, *(datum.text for datum in row.data))
    return shown
