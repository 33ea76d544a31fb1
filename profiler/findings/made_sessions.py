"""The sessions that a run made: as planned, and those that followed from what these gave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from profiler.analyse.samples import metric_columns
from profiler.run_folder.load.report import Report


@dataclass(frozen=True)
class MadeSession:
    """One session, and the command that ran it."""

    name: str
    collector: str
    kind: str
    visits: int
    """Visits made, where any were: later looks are in no plan. Else visits planned."""
    blocks: int
    metrics: tuple[str, ...]
    command: str


def made_sessions(report: Report) -> tuple[MadeSession, ...]:
    """Planned sessions, then those that followed from what they found: the finals."""
    return tuple(_sessions(report))


def _sessions(report: Report) -> Iterator[MadeSession]:
    # What a cell shares with another of the same machine code was measured for that one.
    aliases = [cell for cell, status in report.statuses.items() if status.duplicate_of]
    measured = report.measured.samples[~report.measured.samples["cell"].isin(aliases)]
    by_session = {str(name): rows for name, rows in measured.groupby("session", sort=False)}
    for session in report.plan.sessions:
        rows = by_session.pop(session.name, None)
        planned = (len(session.visits), len({visit.block for visit in session.visits}))
        visits, blocks = planned if rows is None or rows.empty else _made(rows)
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
        visits, blocks = _made(rows)
        yield MadeSession(
            name=name,
            collector=str(rows["collector"].iloc[0]),
            kind=str(rows["kind"].iloc[0]),
            visits=visits,
            blocks=blocks,
            metrics=tuple(name for name in metric_columns(rows) if rows[name].notna().any()),
            command=report.execution.commands.get(name, ""),
        )


def _made(rows: pd.DataFrame) -> tuple[int, int]:
    """Visits that have samples, and the number of their blocks."""
    return len(rows[["cell", "block", "arm"]].drop_duplicates()), int(rows["block"].nunique())
