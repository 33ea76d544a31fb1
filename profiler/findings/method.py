"""Stages of a run with the cells left after each, and the sessions it made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.samples import metric_columns
from profiler.model import Cell, CellStatus, Exclusion, Outcome
from profiler.run_folder.load.report import Report

Stage = tuple[str, int, int]
"""Name of a stage, variants of which at least one cell is left after it, and cells."""

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
    remaining_cells = list(cells)
    stages: list[Stage] = []
    for name, lost in _LOSES:
        remaining_cells = [cell for cell in remaining_cells if _outcome(cell, statuses) not in lost]
        stages.append(
            (name, len({cell.variant.id for cell in remaining_cells}), len(remaining_cells))
        )
    left_out = {
        stage: sum(exclusion.count for exclusion in excluded if exclusion.stage == stage)
        for stage in ("variant", "cell")
    }
    if any(left_out.values()):
        _, variants, planned = stages[0]
        possible = ("possible", variants + left_out["variant"], planned + left_out["cell"])
        stages.insert(0, possible)
    return tuple(stages)


def _outcome(cell: Cell, statuses: Mapping[str, CellStatus]) -> Outcome:
    return statuses[cell.id].outcome if cell.id in statuses else Outcome.NOT_MEASURED


@dataclass(frozen=True)
class MadeSession:
    """Session that was made, and the command that ran it."""

    name: str
    collector: str
    kind: str
    visits: int
    """Visits made, where any were: later looks are in no plan. Else visits planned."""
    blocks: int
    metrics: tuple[str, ...]
    command: str


def made_sessions(report: Report) -> Iterator[MadeSession]:
    """Planned sessions, then those that followed from what they found: the finals."""
    # What a cell shares with another of the same machine code was measured for that one.
    aliases = [cell for cell, status in report.statuses.items() if status.duplicate_of]
    measured = report.measured.samples[~report.measured.samples["cell"].isin(aliases)]
    by_session = {str(name): rows for name, rows in measured.groupby("session", sort=False)}
    for session in report.plan.sessions:
        rows = by_session.pop(session.name, None)
        planned = (len(session.visits), len({visit.block for visit in session.visits}))
        visits, blocks = planned if rows is None or rows.empty else _visits_and_blocks(rows)
        yield MadeSession(
            name=session.name,
            collector=session.collector,
            kind=str(session.kind),
            visits=visits,
            blocks=blocks,
            metrics=session.metrics,
            command=report.execution.commands.get(session.name, ""),
        )
    for name, rows in by_session.items():
        visits, blocks = _visits_and_blocks(rows)
        yield MadeSession(
            name=name,
            collector=str(rows["collector"].iloc[0]),
            kind=str(rows["kind"].iloc[0]),
            visits=visits,
            blocks=blocks,
            metrics=tuple(name for name in metric_columns(rows) if rows[name].notna().any()),
            command=report.execution.commands.get(name, ""),
        )


def _visits_and_blocks(rows: pd.DataFrame) -> tuple[int, int]:
    """Visits that have samples, and the number of their blocks."""
    return len(rows[["cell", "block", "arm"]].drop_duplicates()), int(rows["block"].nunique())
