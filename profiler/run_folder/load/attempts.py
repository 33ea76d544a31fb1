"""What one attempt of a session left: samples, journal, clocks; nothing of edited cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pandas as pd

from profiler.analyse.range_counters import empty_range_visits, range_visits
from profiler.analyse.samples import (
    empty_samples,
    metric_columns,
    samples_from_command,
    samples_from_journal,
    samples_from_launches,
)
from profiler.errors import ParseError
from profiler.machine.clocks import (
    CLOCKS_FILE,
    empty_clocks,
    measured_visits,
    read_clocks,
    throttled_visits,
)
from profiler.model import SessionKind, Visit
from profiler.notices import Notice, NoticeKind
from profiler.parse.ncu_csv import NcuTable, read_ncu_csv
from profiler.parse.timeline_files import FACTS_FILE
from profiler.run_folder.folder import Attempt
from profiler.run_folder.load.timelines import VisitTimelines, visit_timelines
from runner import protocol

_OWN_TIMERS = frozenset({"timer", "torch_kernels", "plain_timer"})
"""Collectors whose durations the runner measures itself: they stand in the journal."""

NO_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

FINISHED = "finished"
"""AttemptResult.cause of a session that ended as it should."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """What one attempt says about the cells whose key is still the same."""

    attempt: Attempt
    samples: pd.DataFrame
    records: tuple[dict[str, Any], ...]
    current: frozenset[str]
    """Cells of the attempt whose key is still the same."""
    notices: tuple[Notice, ...] = ()
    attributes: Mapping[str, str | float] = field(default_factory=dict)
    """What the tool says about the GPU: `device__attribute_*`."""
    clocks: pd.DataFrame = field(default_factory=empty_clocks)
    """As `read_clocks` gives it; without rows where nothing was sampled."""
    ranges: pd.DataFrame = field(default_factory=empty_range_visits)
    """Counters of ranges inside visits; without rows where the workload pushed none."""
    timeline: VisitTimelines | None = None
    """What a session of timelines recorded; None of others."""

    def visits(self) -> set[Visit]:
        """Visits that have a sample with a value; a faulting kernel leaves a row without any.

        A visit with a timeline needs none: that it launches no kernel may be what it shows.
        """
        if self.timeline is not None:
            return set(self.timeline.visits)
        own = self.attempt.record.visit
        if own is not None:
            return {Visit(**own)} if len(self.samples) else set()
        made = self.samples[["cell", "block", "arm"]].itertuples(index=False)
        return {Visit(str(cell), int(block), int(arm)) for cell, block, arm in made}

    def throttled(self) -> set[Visit]:
        """Visits during which the GPU was slowed down, by heat for example."""
        found = throttled_visits(self.clocks, measured_visits(self.records))
        return {Visit(*key) for key in found} & self.visits()

    def tried(self) -> set[str]:
        """Cells that this attempt began to work on."""
        own = self.attempt.record.visit
        if own is not None:
            return {own["cell"]} & self.current
        started = (r for r in self.records if r.get("event") == protocol.STARTED)
        return {record["cell"] for record in started}

    def checked(self) -> set[str]:
        """Cells that were compared with the reference and found right."""
        return {
            record["cell"]
            for record in self.records
            if record.get("event") == protocol.FINISHED and record.get("phase") == protocol.CHECK
        }

    def unseen(self) -> set[str]:
        """Cells that finished a visit in a session that ended well, without a kernel being seen."""
        result = self.attempt.result
        if result is None or result.cause != FINISHED:
            return set()
        finished = {cell for cell, _, _ in protocol.finished_visits(self.records)}
        seen = {visit.cell for visit in self.visits()}  # of these, single visits are made again
        return finished - seen


def load_attempt(
    attempt: Attempt,
    keys: Mapping[str, str],
    compute_capability: str | None,
    settings: Mapping[str, Mapping[str, Any]] = NO_SETTINGS,
) -> Loaded:
    """Read one attempt; rows of cells whose key is another in `keys` are left out.

    So is a whole attempt at timelines that was made otherwise than `settings` say of its collector.
    """
    record = attempt.record
    current = {cell for cell, key in record.keys.items() if keys.get(cell) == key}
    if settings.get(record.collector, record.settings) != record.settings:
        current = set()
    records = tuple(
        record
        for record in protocol.read_journal(attempt.journal)
        if "cell" not in record or record["cell"] in current
    )
    if record.kind == SessionKind.TIMELINE:
        return _load_timelines(attempt, records, current)
    table, notices = _read_csv(attempt)
    samples = _samples(attempt, records, table, compute_capability)
    return Loaded(
        attempt,
        _with_values(_of_cells(samples, attempt, current)),
        records,
        frozenset(current),
        notices,
        table.attributes if table is not None else {},
        read_clocks(attempt.folder / CLOCKS_FILE),
        _ranges(attempt, records, table, compute_capability, current),
    )


def _load_timelines(
    attempt: Attempt, records: tuple[dict[str, Any], ...], current: set[str]
) -> Loaded:
    """Read the cleaned files of an attempt, and nothing else that its tool wrote."""
    found: VisitTimelines | None = None
    notices: tuple[Notice, ...] = ()
    try:
        found = visit_timelines(attempt, records, current)
    except ParseError:
        notices = _unreadable(attempt, FACTS_FILE)
    return Loaded(
        attempt,
        empty_samples() if found is None else _with_values(found.samples),
        records,
        frozenset(current),
        notices,
        clocks=read_clocks(attempt.folder / CLOCKS_FILE),
        timeline=found or VisitTimelines(),
    )


def _of_cells(samples: pd.DataFrame, attempt: Attempt, current: set[str]) -> pd.DataFrame:
    visit = attempt.record.visit
    if visit is not None:  # its samples have ids of their own, one per kernel, grid and block
        return samples if visit["cell"] in current else samples.iloc[:0]
    return samples[samples["cell"].isin(current)]


def _with_values(samples: pd.DataFrame) -> pd.DataFrame:
    metrics = list(metric_columns(samples))
    return samples[samples[metrics].notna().any(axis=1)] if metrics else samples.iloc[:0]


def _samples(
    attempt: Attempt,
    records: Sequence[Mapping[str, Any]],
    table: NcuTable | None,
    compute_capability: str | None,
) -> pd.DataFrame:
    record = attempt.record
    if record.collector in _OWN_TIMERS:
        return samples_from_journal(
            records, session=record.session, collector=record.collector, kind=record.kind
        )
    if table is None:
        return empty_samples()
    if record.visit is not None:
        return samples_from_command(
            table.launches,
            visit=Visit(**record.visit),
            session=record.session,
            collector=record.collector,
            kind=record.kind,
            metrics=record.metrics,
            compute_capability=compute_capability,
        )
    return samples_from_launches(
        table.launches,
        session=record.session,
        collector=record.collector,
        kind=record.kind,
        metrics=record.metrics,
        compute_capability=compute_capability,
        finished=set(protocol.finished_visits(records)),
    )


def _ranges(
    attempt: Attempt,
    records: Sequence[Mapping[str, Any]],
    table: NcuTable | None,
    compute_capability: str | None,
    current: set[str],
) -> pd.DataFrame:
    """Counters of ranges inside visits; an external command has no visits of ours."""
    record = attempt.record
    if table is None or record.visit is not None:
        return empty_range_visits()
    visits = range_visits(
        table.launches,
        session=record.session,
        kind=record.kind,
        metrics=record.metrics,
        compute_capability=compute_capability,
        finished=set(protocol.finished_visits(records)),
    )
    return visits[visits["cell"].isin(current)]


def _read_csv(attempt: Attempt) -> tuple[NcuTable | None, tuple[Notice, ...]]:
    """The tool's table, and what reading it had to say."""
    path = attempt.csv()
    if path is None:
        return None, ()
    try:
        table = read_ncu_csv(path)
    except ParseError:
        return None, _unreadable(attempt, path.name)
    return table, table.notices


def _unreadable(attempt: Attempt, name: str) -> tuple[Notice, ...]:
    """Say so, unless the tool was killed: then its file may well lack its end."""
    ended_well = attempt.result is not None and attempt.result.cause == FINISHED
    return (Notice(NoticeKind.CSV_UNREADABLE, {"file": name}),) if ended_well else ()
