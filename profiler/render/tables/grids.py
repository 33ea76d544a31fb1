"""Heat maps of a grid page: ratios, one metric of every variant; kernels that its cells launch."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from string import ascii_uppercase
from typing import Any

from profiler.findings.findings import Findings
from profiler.findings.kinds.grids import Grid, GridCell, GridPairs, VariantPair
from profiler.findings.programs import Programs
from profiler.model import Cell, Outcome, Variant, Verdict
from profiler.render.tables.heats import RatioScale
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from profiler.render.words.names import kernels_by_cell, readable_kernel
from profiler.render.words.signs import OUTCOME_WORDS
from profiler.render.words.verdicts import details, heat_mark, word_of

SHADES = 7
"""Classes of magnitudes: `b0` to `b6` of the style sheet."""
OUTCOME_CSS: Mapping[Outcome, str] = {
    Outcome.OUT_OF_MEMORY: " no-memory",
    Outcome.FELL_BACK: " fell-back",
}
ABSENT = Datum("", None, "not in the plan", "absent")


def short_ratio(ratio: float) -> str:
    """Write a ratio in a cell: two decimals and the sign of multiplication."""
    return numbers.short_ratio(ratio) + numbers.TIMES


def short_ratio_datum(ratio: float) -> Datum:
    """A ratio in a narrow cell of a table."""
    return Datum(short_ratio(ratio), numbers.raw(ratio))


def pair_heat(
    programs: Programs, pairs: GridPairs, pair: VariantPair, grid: Grid, scale: RatioScale
) -> dict[str, Any] | None:
    """Time of the one of a pair by that of the other; None where no problem has both planned."""
    cells = {(cell.row, cell.column): cell for cell in pairs.cells_of(pair, grid)}
    if not cells:
        return None

    def datum(row: object, column: object) -> Datum:
        return _pair_datum(programs, cells.get((row, column)), scale)

    return grid_heat(f"{pair.name}, time: below 1 is better", grid, datum)


def grid_heat(title: str, grid: Grid, datum: Callable[[object, object], Datum]) -> dict[str, Any]:
    """A heat map, rows by columns of a grid; `datum` gives what stands at a row and a column."""
    rows = [(row, [datum(row, column) for column in grid.column_values]) for row in grid.row_values]
    return {"title": title, "grid": grid, "rows": rows}


def _pair_datum(programs: Programs, cell: GridCell | None, scale: RatioScale) -> Datum:
    """A cell of a heat map of ratios, which opens the details of both."""
    datum = _ratio_datum(programs, cell, scale)
    if cell is None or cell.over is None or cell.under is None:
        return datum
    over, under = (programs.cell_numbers[compared.id] for compared in (cell.over, cell.under))
    return replace(datum, cell=over, beside=under)


def _ratio_datum(programs: Programs, cell: GridCell | None, scale: RatioScale) -> Datum:
    """A cell of a heat map of ratios."""
    if cell is None or cell.over is None or cell.under is None:
        return ABSENT
    failed = next(
        (compared for compared in (cell.over, cell.under) if not programs.correct(compared)),
        None,
    )
    if failed is not None:
        return lacking(programs, failed, with_variant=failed == cell.under)
    verdict = cell.verdict
    if not verdict.ratio > 0:
        return Datum(Verdict.NO_DATA.word, None, "no blocks in common", "none")
    between = numbers.interval(verdict.low, verdict.high)
    title = f"{f'{word_of(verdict)} {between}'.rstrip()}: {details(verdict)}"
    css = scale.css(verdict.ratio) + heat_mark(verdict)
    return Datum(short_ratio(verdict.ratio), numbers.raw(verdict.ratio), title, css)


def lacking(programs: Programs, cell: Cell, *, with_variant: bool = False) -> Datum:
    """Datum of a cell without a correct result: crossed, with the word of its outcome."""
    status = programs.status(cell)
    word = OUTCOME_WORDS[status.outcome].upper()
    number = programs.cell_numbers[cell.id]
    if not status.outcome.failed:
        return Datum(word, None, status.cause, "absent", number)
    whose = f"{cell.variant.label}: " if with_variant else ""
    cause = f"{cell.variant.label}: {status.cause}".rstrip(": ")
    return Datum(whose + word, None, cause, "crossed" + OUTCOME_CSS.get(status.outcome, ""), number)


@dataclass(frozen=True)
class GridQuantity:
    """A number of every cell that a heat map shows."""

    name: str
    unit: str
    of: Callable[[Cell], float]
    note: Callable[[Cell], str] = lambda _: ""
    """Note beside the number in its cell."""


def metric_heats(programs: Programs, quantity: GridQuantity, grid: Grid) -> dict[str, Any] | None:
    """A heat map for every variant, in one scale of colours; None without any number."""
    values = {
        (variant.id, place): quantity.of(cell)
        for variant in programs.variants
        for place, problem in grid.problems.items()
        if (cell := programs.correct_at(variant, problem))
    }
    positive = sorted(value for value in values.values() if value > 0)
    if not positive:
        return None
    scale = (positive[0], positive[-1])

    def heat(variant: Variant) -> dict[str, Any]:
        def datum(row: object, column: object) -> Datum:
            cell = programs.at(variant, grid.problems.get((row, column)))
            if cell is None:
                return ABSENT
            if not programs.correct(cell):
                return lacking(programs, cell)
            shown_datum = _magnitude(quantity, cell, values[variant.id, (row, column)], scale)
            return replace(shown_datum, cell=programs.cell_numbers[cell.id])

        return grid_heat(f"{variant.label}, {quantity.name.lower()}", grid, datum)

    planned = [
        variant for variant in programs.variants if any(key[0] == variant.id for key in values)
    ]
    return {
        "name": quantity.name,
        "heats": list(map(heat, planned)),
        "legend": _legend(quantity, scale),
    }


def _magnitude(
    quantity: GridQuantity, cell: Cell, value: float, scale: tuple[float, float]
) -> Datum:
    if not math.isfinite(value):
        return Datum(title="not collected for this cell", css="none")
    text = f"{short_value(value, quantity.unit)} {quantity.note(cell)}".strip()
    return Datum(text, numbers.raw(value), "", shade_class(value, scale))


def short_value(value: float, unit: str) -> str:
    """Write a value with three digits in the prefix that suits it: `1.52 µs`, `12.3 M`."""
    if not unit and value == int(value) and value < 1000:
        return str(int(value))
    size, name = numbers.scale(abs(numbers.rounded(value, 3)), unit)
    return f"{numbers.significant(value / size, 3)} {name}".strip()


def shade_class(value: float, scale: tuple[float, float]) -> str:
    """Class of a magnitude on a logarithmic scale: `b0` to `b6`; nothing at all is `b0`."""
    low, high = scale
    if value <= low or high <= low:
        return "b0"
    place = math.log(value / low) / math.log(high / low)
    return f"b{min(SHADES - 1, int(SHADES * place))}"


def _legend(quantity: GridQuantity, scale: tuple[float, float]) -> tuple[str, ...]:
    """The least value of each class."""
    low, high = scale
    if high <= low:
        return (short_value(low, quantity.unit),)
    steps = [low * (high / low) ** (step / SHADES) for step in range(SHADES)]
    return tuple(f"\u2265{short_value(step, quantity.unit)}" for step in steps)


# ---- lists of kernels ----------------------------------------------------------------------------


KernelLists = Mapping[str, tuple[str, ...]]
"""Kernels that a cell launches, by its id."""


def kernel_lists(findings: Findings) -> KernelLists:
    """Kernels of each cell, as its first sample has them; without cells that saw none."""
    lists = kernels_by_cell(findings.report.measured.samples)
    for cell in findings.programs.cells:
        owner = findings.programs.status(cell).duplicate_of
        if cell.id not in lists and owner in lists:
            lists[cell.id] = lists[owner]
    return lists


def kernel_letters(programs: Programs, lists: KernelLists) -> dict[tuple[str, ...], str]:
    """Letters of the different lists, in the order of the plan."""
    different = dict.fromkeys(lists[cell.id] for cell in programs.cells if cell.id in lists)
    return {names: _letter(number) for number, names in enumerate(different)}


def grid_kernels(programs: Programs, lists: KernelLists, grid: Grid) -> list[dict[str, Any]]:
    """The lists of kernels that launches of the cells of a grid are made of, row by row.

    Each with its letter, the names in the order of the launches, and the number of cells that have
    it by the name of their variant.
    """
    letters = kernel_letters(programs, lists)
    places = itertools.product(grid.row_values, grid.column_values, programs.variants)
    counts_by_kernels: dict[tuple[str, ...], Counter[str]] = {}
    for row, column, variant in places:
        cell = programs.at(variant, grid.problems.get((row, column)))
        if cell and cell.id in lists:
            counts_by_kernels.setdefault(lists[cell.id], Counter())[variant.label] += 1
    return [
        {
            "letter": letters[names],
            "names": list(map(readable_kernel, names)),
            "cells": [f"{variant}: {count}" for variant, count in counts.items()],
        }
        for names, counts in counts_by_kernels.items()
    ]


def _letter(number: int) -> str:
    """Name a list: A, B … Z, AA, AB and so on."""
    more, place = divmod(number, len(ascii_uppercase))
    return (_letter(more - 1) if more else "") + ascii_uppercase[place]
