"""The cells of a step from one run to the next as rows, the slowest regression first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profiler.analyse.effects import Move
from profiler.comparison.facts import EXACT
from profiler.comparison.joined import Comparison
from profiler.comparison.programs import Program
from profiler.comparison.steps import Step
from profiler.comparison.tuning import Chosen, Retuned
from profiler.findings.counters import TIME_AGAIN, move_size
from profiler.metrics.labels import Label, label
from profiler.model import Cell, Verdict
from profiler.render.runs.words import (
    PROGRAM_WORDS,
    reason_words,
    verdict_datum,
    verdict_of,
)
from profiler.render.tables.moved import change_datum
from profiler.render.tables.rows import Datum
from profiler.render.tables.tuning_tables import config_words
from profiler.render.words import numbers
from profiler.render.words.problems import readable

_ORDER = (Verdict.SLOWER, Verdict.FASTER, Verdict.UNCLEAR, None, Verdict.SAME, Verdict.NO_DATA)
_FOLLOWS_TIME = TIME_AGAIN | {"peak_dram_pct"}
MOVED_FROM = 0.05
"""Counters that moved by less between two runs are left out: a few samples each, hours apart."""
MOST_MOVED = 3


@dataclass(frozen=True)
class Line:
    """One cell of a step."""

    cell: str
    mark: int
    """Place of its variant among all."""
    variant: str
    problem: str
    verdict: Verdict | None
    ratio: float
    low: float
    high: float
    older: Datum
    newer: Datum
    shown_ratio: Datum
    interval: str
    verdict_datum: Datum
    reason: str
    program: str
    changes: str
    """What was tuned otherwise, static facts that differ, and counters that moved."""
    is_control: bool


@dataclass(frozen=True)
class Change:
    """One metric of one cell before and after."""

    cell: str
    variant: str
    problem: str
    label: Label
    older: Datum
    newer: Datum
    change: Datum
    size: float


@dataclass(frozen=True)
class Names:
    """What cells are called."""

    cells: Mapping[str, Cell]
    marks: Mapping[str, int]
    """By variant id."""

    @classmethod
    def of(cls, comparison: Comparison) -> Names:
        """Names as the newest run that has a cell would write them."""
        cells = {
            cell.id: cell for side in comparison.sides for cell in readable(side.report).plan.cells
        }
        variants = dict.fromkeys(cell.variant.id for cell in cells.values())
        return cls(cells, {variant: number for number, variant in enumerate(variants)})

    def variant(self, cell: str) -> str:
        """Name of a cell's variant."""
        return self.cells[cell].variant.name

    def problem(self, cell: str) -> str:
        """Name of a cell's problem, short."""
        return self.cells[cell].problem.name


def lines(step: Step, names: Names) -> tuple[Line, ...]:
    """Every cell that both runs have: slower ones first, the slowest of them on top."""
    changes = _changes_by_cell(step, names)
    rows = step.cells.reset_index().to_dict("records")
    found = [_line(row, step, names, changes.get(str(row["cell"]), ())) for row in rows]
    return tuple(sorted(found, key=_place))


def _place(line: Line) -> tuple[int, float]:
    ratio = 0.0 if numbers.is_missing(line.ratio) else line.ratio
    sign = 1 if line.verdict is Verdict.FASTER else -1
    return _ORDER.index(line.verdict), sign * ratio


def _line(row: Mapping[Any, Any], step: Step, names: Names, changes: tuple[Change, ...]) -> Line:
    cell = str(row["cell"])
    ratio, low, high = (float(row[name]) for name in ("ratio", "ratio_low", "ratio_high"))
    what = f"ratio to {step.control}, newer \u00f7 older" if row["controlled"] else "duration"
    return Line(
        cell=cell,
        mark=names.marks[names.cells[cell].variant.id],
        variant=names.variant(cell),
        problem=names.problem(cell),
        verdict=verdict_of(row),
        ratio=ratio,
        low=low,
        high=high,
        older=_datum(float(row["older_ns"]), "ns"),
        newer=_datum(float(row["newer_ns"]), "ns"),
        shown_ratio=_ratio(ratio, f"{what}; durations alone: {numbers.ratio(row['raw_ratio'])}"),
        interval=numbers.interval(low, high),
        verdict_datum=verdict_datum(row),
        reason=reason_words(row),
        program=PROGRAM_WORDS[Program(row["program"])],
        changes=", ".join(
            (
                *_retuned_of(step, cell),
                *(_words(change) for change in changes),
            )
        ),
        is_control=names.cells[cell].variant.id == step.control,
    )


def _datum(value: float, unit: str) -> Datum:
    return Datum.quantity(value, unit, "not measured")


def _ratio(value: float, title: str) -> Datum:
    return Datum.times(value, "not measured in both runs", title)


# ---- facts and counters --------------------------------------------------------------------------


def fact_changes(step: Step, names: Names) -> tuple[Change, ...]:
    """Metrics that do not scatter and differ: each difference is real."""
    exact = step.metrics[step.metrics["metric"].isin(EXACT)]
    return tuple(change for change in _changes(exact, names) if change.size > 0)


def moved_counters(step: Step, names: Names) -> tuple[Change, ...]:
    """Counters that moved by `MOVED_FROM` or more, in the order of how far."""
    known = step.metrics[~step.metrics["metric"].isin((*EXACT, *_FOLLOWS_TIME))]
    found = [change for change in _changes(known, names) if change.size >= MOVED_FROM]
    return tuple(sorted(found, key=lambda change: -change.size))


def _changes(metrics: pd.DataFrame, names: Names) -> list[Change]:
    differing = metrics[metrics["older"] != metrics["newer"]]
    return [_change(row, names) for row in differing.to_dict("records")]


def _change(row: Mapping[Any, Any], names: Names) -> Change:
    cell, metric = str(row["cell"]), label(str(row["metric"]))
    before, after = float(row["older"]), float(row["newer"])
    return Change(
        cell=cell,
        variant=names.variant(cell),
        problem=names.problem(cell),
        label=metric,
        older=_datum(before, metric.unit),
        newer=_datum(after, metric.unit),
        change=change_datum(after, before, metric),
        size=move_size(metric, Move(1, before, after)),
    )


def _changes_by_cell(step: Step, names: Names) -> dict[str, tuple[Change, ...]]:
    found: dict[str, tuple[Change, ...]] = {}
    for change in fact_changes(step, names):
        found[change.cell] = (*found.get(change.cell, ()), change)
    moved: dict[str, tuple[Change, ...]] = {}
    for change in moved_counters(step, names):
        if len(moved.get(change.cell, ())) < MOST_MOVED:
            moved[change.cell] = (*moved.get(change.cell, ()), change)
    return {cell: (*found.get(cell, ()), *moved.get(cell, ())) for cell in {**found, **moved}}


def _retuned_of(step: Step, cell: str) -> Iterator[str]:
    found = step.retuned.get(cell, ())
    for one in found:
        yield _retuned_words(one, alone=len(found) == 1)


def _retuned_words(one: Retuned, *, alone: bool) -> str:
    """What was chosen otherwise: `autotuner: num_warps 4 → 8`; with its kernel, if not the only."""
    if one.differing:
        what = ", ".join(
            f"{name} {_setting(before)} \u2192 {_setting(after)}"
            for name, before, after in one.differing
        )
    else:
        what = f"{_choices(one.older)} \u2192 {_choices(one.newer)}"
    where = "" if alone and one.differing else f" {one.operation}"
    return f"autotuner{where}: {what}"


def _setting(value: object) -> str:
    return "none" if value is None else str(value)


def _choices(chosen: Sequence[Chosen]) -> str:
    """What ran, by the name of its maker where it has one, and its settings."""
    told = (" ".join((one.choice, config_words(one.config))).strip() for one in chosen)
    return " and ".join(one or "one configuration" for one in told) or "no such kernel"


def _words(change: Change) -> str:
    name = change.label.label
    if change.label.name in EXACT:
        return f"{name} {change.older.text} \u2192 {change.newer.text}"
    return f"{name} {change.change.text}"
