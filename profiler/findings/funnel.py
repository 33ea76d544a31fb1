"""Cells left after each stage: planned, built, distinct, correct, measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profiler.model import Cell, CellStatus, Exclusion, Outcome
from profiler.run_folder.load.report import Report


@dataclass(frozen=True)
class Stage:
    """What is left after one stage."""

    name: str
    variants: int
    """Variants of which at least one cell is left."""
    cells: int


_LOSES: tuple[tuple[str, frozenset[Outcome]], ...] = (
    ("planned", frozenset()),
    ("built", frozenset({Outcome.COMPILE_FAILED})),
    ("distinct machine code", frozenset({Outcome.DUPLICATE})),
    ("right result, or not checked", frozenset({Outcome.WRONG_RESULT})),
    ("measured", frozenset(Outcome) - {Outcome.MEASURED}),
)
"""Each stage with the outcomes that end at it."""


def run_funnel(report: Report) -> tuple[Stage, ...]:
    """The stages of a run; after a search those of its finalists and of what was not searched.

    What rules left out are configurations of the search then, which its finalists do not add up
    with.
    """
    excluded = () if report.search is not None else report.plan.excluded
    return funnel(report.plan.cells, report.statuses, excluded)


def funnel(
    cells: Sequence[Cell], statuses: Mapping[str, CellStatus], excluded: Sequence[Exclusion]
) -> tuple[Stage, ...]:
    """Count what is left after each stage; no number is larger than the one before it.

    What rules left out of the plan comes first, where they left out anything. A variant that is the
    same program as another ends before `distinct`: the other one was measured for both.
    """
    left = list(cells)
    stages = []
    for name, lost in _LOSES:
        left = [cell for cell in left if _outcome(cell, statuses) not in lost]
        stages.append(Stage(name, len({cell.variant.id for cell in left}), len(left)))
    left_out = {
        what: sum(exclusion.count for exclusion in excluded if exclusion.stage == what)
        for what in ("variant", "cell")
    }
    if any(left_out.values()):
        planned = stages[0]
        possible = Stage(
            "possible", planned.variants + left_out["variant"], planned.cells + left_out["cell"]
        )
        stages.insert(0, possible)
    return tuple(stages)


def _outcome(cell: Cell, statuses: Mapping[str, CellStatus]) -> Outcome:
    return statuses[cell.id].outcome if cell.id in statuses else Outcome.NOT_MEASURED
