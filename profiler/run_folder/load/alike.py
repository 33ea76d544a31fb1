"""Reads similar attempts as one frame, because pandas has a fixed cost per frame.

Of a run that went on a thousand times each attempt has some rows. Nothing is decided here: what is
odd in any of them leaves all of its group to be read one by one (`attempts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from profiler.analyse.range_counters import range_visits
from profiler.analyse.samples import (
    SampleOrigin,
    impossible_durations,
    metric_columns,
    samples_of_files,
)
from profiler.collect import ncu
from profiler.model import SessionKind
from profiler.parse import runner_journal
from profiler.parse.ncu_csv import JoinedTables, NcuTable, read_joined_tables, read_ncu_csv
from profiler.parse.runner_journal import JournalContent
from profiler.run_folder.folder import Attempt
from profiler.runner import protocol

PASSES = "profiler__replayer_passes"
"""Column of ncu: number of passes over a kernel."""

_SAMPLED = (SessionKind.TIMING, SessionKind.FINAL, SessionKind.COUNTERS)


@dataclass(frozen=True, eq=False)
class ReadAhead:
    """Data of an attempt that were read before it is loaded, mostly together with others."""

    journal: JournalContent
    tables: JoinedTables
    file: Path
    samples: pd.DataFrame | None = None
    """Samples of all its finished visits, rows of the group's frame; None to read them alone."""

    @property
    def table(self) -> NcuTable:
        """The table of the attempt's file."""
        return self.tables.table(self.file)

    @property
    def launches(self) -> int:
        """Launches that ncu profiled."""
        return len(self.tables.rows[self.file])

    def plain_samples(self, current: Iterable[str]) -> pd.DataFrame | None:
        """The samples, if all of their cells count; else None."""
        cells = {cell for cell, _, _ in runner_journal.finished_visits(self.journal.records)}
        return self.samples if cells <= set(current) else None


def read_together(
    attempts: Iterable[Attempt], compute_capability: str | None
) -> dict[Path, ReadAhead]:
    """Data of similar attempts by folder; other attempts are not read."""
    by_file = {path: attempt for attempt in attempts if (path := attempt.csv()) is not None}
    ahead_by_folder: dict[Path, ReadAhead] = {}
    for tables in read_joined_tables(list(by_file)):
        members = [by_file[path] for path in tables.rows]
        journals = [runner_journal.read_whole_journal(attempt.journal) for attempt in members]
        samples: Sequence[pd.DataFrame | None] = [None] * len(members)
        origin = _origin_of_all(members, compute_capability)
        if origin is not None and _is_plain(tables, journals, origin):
            samples = _samples(tables, journals, origin) or samples
        ahead_by_folder |= {
            attempt.folder: ReadAhead(journal, tables, file, frame)
            for attempt, journal, file, frame in zip(
                members, journals, tables.rows, samples, strict=True
            )
        }
    return ahead_by_folder


def read_alone(attempt: Attempt, file: Path) -> ReadAhead:
    """Journal and table of one attempt; raises ParseError where its file has no table."""
    table = read_ncu_csv(file)
    tables = JoinedTables(table, {file: range(len(table.launches))})
    return ReadAhead(runner_journal.read_whole_journal(attempt.journal), tables, file)


def _origin_of_all(
    attempts: Sequence[Attempt], compute_capability: str | None
) -> SampleOrigin | None:
    """The ncu session that all attempts belong to; None without a common session."""
    first = attempts[0].record
    of_runner = first.collector == ncu.KIND.name and first.kind in _SAMPLED
    identity = (first.session, first.collector, first.kind, first.metrics, None)
    for record in (attempt.record for attempt in attempts):
        if identity != (
            *(record.session, record.collector, record.kind, record.metrics),
            record.visit,
        ):
            return None
    return SampleOrigin(*identity[:4], compute_capability) if of_runner else None


def _is_plain(
    tables: JoinedTables, journals: Sequence[runner_journal.JournalContent], origin: SampleOrigin
) -> bool:
    """Whether all rows are launches of visits: no roofs, ranges, streams or passes."""
    launches = tables.joined.launches
    file = np.repeat(np.arange(len(tables.rows)), [len(rows) for rows in tables.rows.values()])
    roofs = (protocol.ROOF_STARTED, protocol.ROOF_FINISHED)
    return not (
        any(record.get("event") in roofs for journal in journals for record in journal.records)
        or launches[["process_id", "id"]].assign(file=file).duplicated().any()
        or (PASSES in launches and (launches[PASSES] > 1).any())
        or ("stream" in launches and launches["stream"].nunique() > 1)
        or len(range_visits(launches, origin))
    )


def _samples(
    tables: JoinedTables, journals: Sequence[runner_journal.JournalContent], origin: SampleOrigin
) -> list[pd.DataFrame] | None:
    """Samples of each file; None where values are missing or durations impossible."""
    finished = [set(runner_journal.finished_visits(journal.records)) for journal in journals]
    samples, rows = samples_of_files(
        tables.joined.launches, list(tables.rows.values()), finished, origin
    )
    metrics = metric_columns(samples)
    if not metrics or samples[metrics[0]].isna().any() or impossible_durations(samples).any():
        return None
    return [samples.iloc[file_rows.start : file_rows.stop] for file_rows in rows]
