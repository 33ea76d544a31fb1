"""Loads one attempt of a session: samples, journal, clocks, without cells edited since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from profiler.analyse.parts import PartSamples, part_samples
from profiler.analyse.range_counters import empty_range_visits, range_visits
from profiler.analyse.samples import (
    SampleOrigin,
    empty_samples,
    impossible_durations,
    launches_of_journal,
    metric_columns,
    roof_launches_of_journal,
    samples_from_command,
    samples_from_journal,
    samples_from_launches,
    samples_of_parts,
    streams_by_cell,
    without_durations,
)
from profiler.analyse.why.roofs import practical_shares
from profiler.collect import Records
from profiler.collect.registry import COLLECTORS
from profiler.errors import ParseError
from profiler.model import SessionKind, Visit
from profiler.notices import Notice, NoticeKind
from profiler.parse import runner_journal
from profiler.parse.clock_file import CLOCKS_FILE, empty_clocks, read_clocks
from profiler.parse.ncu_csv import NcuTable, NothingProfiledError, read_ncu_csv
from profiler.parse.stamps import read_stamps
from profiler.parse.timeline_files import FACTS_FILE
from profiler.run_folder.folder import Attempt
from profiler.run_folder.load.alike import PASSES, ReadAhead, read_alone, read_together
from profiler.run_folder.load.details import (
    cell_profiles,
    finished_cells,
    first_sample_cells,
    visit_timelines,
)
from profiler.run_folder.load.loaded import FINISHED, Loaded, ToolFacts, visits_of
from profiler.run_folder.load.report import Details
from profiler.runner import protocol
from profiler.runner.protocol import STAMPS_FILE

NO_FILES: Mapping[str, str] = MappingProxyType({})
NO_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

_NAMED_CELLS = 3


def _load(
    attempt: Attempt,
    journal: runner_journal.JournalContent,
    current: set[str],
    compute_capability: str | None,
    ahead: ReadAhead | None,
) -> Loaded:
    """Results of an attempt for the cells that count; `ahead`: data read before."""
    clocks, clock_notices = _read_clocks(attempt)
    loaded = Loaded(
        attempt=attempt,
        records=tuple(
            record
            for record in journal.records
            if "cell" not in record or record["cell"] in current
        ),
        current_cells=frozenset(current),
        reading_notices=(*clock_notices, *_journal_notices(attempt, journal)),
        clocks=clocks,
    )
    if attempt.record.kind == SessionKind.TIMELINE:
        return _with_timelines(loaded)
    if attempt.record.kind == SessionKind.IN_KERNEL:
        return _with_stamps(loaded)
    samples = ahead.plain_samples(current) if ahead is not None else None
    if ahead is not None and samples is not None:
        return replace(
            loaded,
            samples=samples,
            tool_facts=ToolFacts(ahead.tables.joined.attributes, ahead.launches),
        )
    table, unreadable = _read_csv(attempt, journal.records, ahead)
    if table is not None:
        loaded = replace(loaded, reading_notices=(*table.notices, *loaded.reading_notices))
    loaded = replace(loaded, unreadable=unreadable)
    if attempt.record.kind == SessionKind.EXPLAIN:
        return _with_profiles(loaded, table)
    return _with_samples(loaded, table, compute_capability)


def _with_profiles(loaded: Loaded, table: NcuTable | None) -> Loaded:
    """Results of an explain session."""
    profiles, of_pages = cell_profiles(
        loaded.attempt.folder, table, partial(_explained_cells, loaded, table)
    )
    visit = loaded.attempt.record.visit
    visits = [Visit(cell, 0) for cell in profiles] if visit is None else [Visit(**visit)]
    return replace(
        loaded,
        details=Details(profiles=profiles),
        visits_without_sample=frozenset(visits if profiles else ()),
        reading_notices=(*loaded.reading_notices, *of_pages),
    )


def _with_samples(loaded: Loaded, table: NcuTable | None, compute_capability: str | None) -> Loaded:
    """Results of a session whose visits have samples."""
    attempt, record = loaded.attempt, loaded.attempt.record
    origin = SampleOrigin(
        record.session, record.collector, record.kind, record.metrics, compute_capability
    )
    parts = _part_samples(attempt, table)
    samples = _with_values(_samples(loaded, table, origin, parts))
    if record.visit is not None and record.visit["cell"] not in loaded.current_cells:
        samples = samples.iloc[:0]
    impossible = impossible_durations(samples)
    left_out, unflushed = (
        _left_out_notices(attempt, samples, impossible),
        _flush_notice(loaded, table),
    )
    not_sustained = _unsettled_notices(loaded)
    possible = _with_values(without_durations(samples, impossible)) if impossible.any() else samples
    roofs = _practical_roofs(loaded, table, compute_capability)
    loaded = replace(
        loaded,
        samples=possible,
        reading_notices=(*loaded.reading_notices, *left_out, *unflushed, *not_sustained),
        visits_without_sample=visits_of(samples[impossible]) if impossible.any() else frozenset(),
        parts=parts,
    )
    if table is None:
        return replace(loaded, tool_facts=ToolFacts(_attributes(loaded), practical_roofs=roofs))
    launches = table.launches
    return replace(
        loaded,
        tool_facts=ToolFacts(table.attributes, len(launches), streams_by_cell(launches), roofs),
        ranges=_ranges(loaded, table, origin),
    )


def _counted_cells(
    attempt: Attempt,
    keys: Mapping[str, str],
    settings: Mapping[str, Mapping[str, Any]],
    opened: Mapping[str, str],
    opened_by_attempt: Mapping[str, str],
) -> set[str]:
    """Cells of an attempt that count (see `AttemptReader.load`).

    `opened_by_attempt`: digests of its opened files. A file whose parts are in keys counts with the
    content at the time of the keys.
    """
    record = attempt.record
    if settings.get(record.collector, record.settings) != record.settings:
        return set()
    contents = {**opened, **record.parted}
    if any(contents.get(file, digest) != digest for file, digest in opened_by_attempt.items()):
        return set()
    return {cell for cell, key in record.keys.items() if keys.get(cell) == key}


class AttemptReader:
    """Reads attempts of one run, each once as long as the same of its cells count.

    After its session an attempt changes by its end alone: its files are packed, and what became of
    it is written down. So what was read to learn what is missing is what the report is made of.
    """

    def __init__(self) -> None:
        self._loaded: dict[Path, Loaded] = {}
        self._ahead: dict[Path, ReadAhead] = {}
        """By the folder of the attempt."""

    def read_table(self, attempt: Attempt) -> None:
        """Read a finished attempt before it is known which of its cells count.

        What cannot be read is left to `load`.
        """
        if attempt.result is None:
            return
        runner_journal.read_whole_journal(attempt.journal)  # it keeps the table that it has read
        path = attempt.csv()
        if path is not None:
            with suppress(ParseError):
                self._ahead[attempt.folder] = read_alone(attempt, path)

    def read_ahead(self, attempts: Iterable[Attempt], compute_capability: str | None) -> None:
        """Read attempts that are loaded next, similar ones as one frame."""
        read_folders = self._loaded.keys() | self._ahead.keys()
        unread_attempts = (attempt for attempt in attempts if attempt.folder not in read_folders)
        self._ahead |= read_together(unread_attempts, compute_capability)

    def load(
        self,
        attempt: Attempt,
        keys: Mapping[str, str],
        compute_capability: str | None,
        settings: Mapping[str, Mapping[str, Any]] = NO_SETTINGS,
        opened: Mapping[str, str] = NO_FILES,
    ) -> Loaded:
        """Results of an attempt, without rows of cells with another key in `keys`.

        No cell counts in an attempt at timelines whose settings differ from its collector's in
        `settings`, or that opened a file with another content than in `opened`
        (RunRecord.opened).
        """
        loaded = self._loaded.get(attempt.folder)
        ahead = self._ahead.pop(attempt.folder, None)
        if loaded is None or loaded.unreadable:
            journal = ahead.journal if ahead else runner_journal.read_whole_journal(attempt.journal)
            opened_by_attempt = runner_journal.opened_files(journal.records)
            current = _counted_cells(attempt, keys, settings, opened, opened_by_attempt)
            loaded = _load(attempt, journal, current, compute_capability, ahead)
        else:
            current = _counted_cells(attempt, keys, settings, opened, loaded.opened_files)
            if loaded.current_cells != current:
                journal = runner_journal.read_whole_journal(attempt.journal)
                loaded = _load(attempt, journal, current, compute_capability, ahead)
            elif loaded.attempt != attempt:
                loaded = replace(loaded, attempt=attempt)
        self._loaded[attempt.folder] = loaded
        return loaded


def _explained_cells(loaded: Loaded, table: NcuTable | None, launches: pd.DataFrame) -> list[str]:
    """Cell id of each launch of an explain session, empty where the cell does not count."""
    visit = loaded.attempt.record.visit
    if visit is None:
        finished = {cell for cell, _, _ in runner_journal.finished_visits(loaded.records)}
        return finished_cells(launches, finished & loaded.current_cells)
    if visit["cell"] not in loaded.current_cells:
        return [""] * len(launches)
    return first_sample_cells(launches, visit["cell"], _part_samples(loaded.attempt, table))


def _practical_roofs(
    loaded: Loaded, table: NcuTable | None, compute_capability: str | None
) -> dict[str, float]:
    """Shares of the hardware's roofs by roof; empty where no cell counts."""
    if not loaded.current_cells:
        return {}
    records = loaded.records
    finished = [str(r["roof"]) for r in records if r.get("event") == protocol.ROOF_FINISHED]
    roofs = [roof for roof in finished if roof in protocol.PRACTICAL_ROOFS]
    launches = roof_launches_of_journal(records) if table is None else table.launches
    return practical_shares(launches, roofs, compute_capability)


def _part_samples(attempt: Attempt, table: NcuTable | None) -> PartSamples | None:
    """Assignment of a visit's launches to parts of its command; None without parts."""
    record = attempt.record
    if record.parts is None or record.visit is None or table is None or table.launches.empty:
        return None
    return part_samples(table.launches, record.parts, counted=record.counted)


def _left_out_notices(
    attempt: Attempt, samples: pd.DataFrame, impossible: pd.Series[bool]
) -> tuple[Notice, ...]:
    """Notices on rows that were left out: impossible durations."""
    if not impossible.any():
        return ()
    values: dict[str, str | int | float] = {
        "session": attempt.record.session,
        "count": int(impossible.sum()),
        "total": len(samples),
        "cells": _first_cells(samples.loc[impossible, "cell"]),
    }
    return (Notice(NoticeKind.DURATIONS_IMPOSSIBLE, values),)


def _first_cells(cells: Iterable[str]) -> str:
    names = sorted(set(cells))
    return ", ".join(names[:_NAMED_CELLS]) + (", …" if len(names) > _NAMED_CELLS else "")


def _unsettled_notices(loaded: Loaded) -> Iterator[Notice]:
    """Notices on back-to-back visits that had not settled, or whose launches have gaps."""
    visits = [
        record
        for record in runner_journal.measurement_records(loaded.records)
        if record.get("sustained")
    ]
    unsettled = [str(v["cell"]) for v in visits if v["sustained"].get("settled") == 0]
    gaps = [
        str(visit["cell"])
        for visit in visits
        if (visit["sustained"].get("host_share") or 0) > protocol.HOST_SHARE_WITH_GAPS
    ]
    session = loaded.attempt.record.session
    if unsettled:
        values: dict[str, str | int | float] = {"session": session, "total": len(visits)}
        values |= {"cells": _first_cells(unsettled), "count": len(unsettled)}
        yield Notice(NoticeKind.NOT_SETTLED, values)
    if gaps:
        of_gaps = {"session": session, "cells": _first_cells(gaps)}
        yield Notice(NoticeKind.LAUNCHES_WITH_GAPS, of_gaps)


def _attributes(loaded: Loaded) -> dict[str, str | float]:
    """GPU attributes that the runner reports, by ncu's names."""
    attributes = loaded.start.get("attributes")
    numbers = attributes.items() if isinstance(attributes, dict) else ()
    return {name: value for name, value in numbers if isinstance(value, int)}


def _flush_notice(loaded: Loaded, table: NcuTable | None) -> tuple[Notice, ...]:
    """Notice of launches with several passes where the runner emptied caches before the first only.

    The plan knows which counters fit in one pass for the GPUs that it was told of.
    """
    if not loaded.flushed_by_runner or table is None or PASSES not in table.launches:
        return ()
    count = int((table.launches[PASSES] > 1).sum())
    values: dict[str, str | int | float] = {
        "session": loaded.attempt.record.session,
        "count": count,
        "total": len(table.launches),
    }
    return (Notice(NoticeKind.PASSES_UNFLUSHED, values),) if count else ()


def _read_clocks(attempt: Attempt) -> tuple[pd.DataFrame, tuple[Notice, ...]]:
    """Clocks of an attempt; no clocks and a notice where they cannot be read."""
    try:
        return read_clocks(attempt.folder / CLOCKS_FILE), ()
    except ParseError:
        return empty_clocks(), (Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": CLOCKS_FILE}),)


def _journal_notices(attempt: Attempt, journal: runner_journal.JournalContent) -> Iterator[Notice]:
    """Notices on a journal that is damaged, truncated, or gone."""
    file = {"file": attempt.journal.name}
    if journal.skipped:
        yield Notice(NoticeKind.JOURNAL_ODD, {**file, "count": journal.skipped})
    result = attempt.result
    of_runner = attempt.record.visit is None and attempt.record.kind != SessionKind.CHECK
    has_ended = of_runner and result is not None and result.cause == FINISHED
    breaks = journal.breaks + (has_ended and (journal.lost_end or not journal.records))
    if breaks:
        yield Notice(NoticeKind.JOURNAL_LINES_LOST, {**file, "count": breaks})


def _with_timelines(loaded: Loaded) -> Loaded:
    """Results of an attempt with timelines, from its cleaned files alone."""
    try:
        visits, samples, timelines = visit_timelines(
            loaded.attempt, loaded.records, loaded.current_cells
        )
    except ParseError:
        return replace(loaded, unreadable=FACTS_FILE)
    samples = _with_values(samples)
    return replace(
        loaded,
        samples=samples,
        visits_without_sample=visits - visits_of(samples),
        details=Details(timelines=timelines),
    )


def _with_stamps(loaded: Loaded) -> Loaded:
    """Results of an in-kernel session: stamps of the cells whose key is unchanged."""
    try:
        stamps = read_stamps(loaded.attempt.folder)
    except ParseError:
        return replace(loaded, unreadable=STAMPS_FILE)
    counted = {visit: stamps[visit] for visit in stamps if visit.cell in loaded.current_cells}
    return replace(
        loaded,
        visits_without_sample=frozenset(counted),
        details=Details(in_kernel={visit.cell: counted[visit] for visit in counted}),
    )


def _with_values(samples: pd.DataFrame) -> pd.DataFrame:
    metrics = list(metric_columns(samples))
    if not metrics:
        return samples.iloc[:0]
    if samples[metrics[0]].notna().all():
        return samples
    has_values = samples[metrics].notna().any(axis=1)
    return samples if has_values.all() else samples[has_values]


def _samples(
    loaded: Loaded, table: NcuTable | None, origin: SampleOrigin, parts: PartSamples | None
) -> pd.DataFrame:
    kind = COLLECTORS.get(origin.collector)
    in_journal = kind is not None and kind.in_journal
    if kind is not None and in_journal and kind.records is not Records.COUNTERS:
        return samples_from_journal(loaded.records, origin)
    if table is None and not in_journal:
        return empty_samples()
    launches = launches_of_journal(loaded.records) if table is None else table.launches
    single_visit = loaded.attempt.record.visit
    if single_visit is None:
        finished = set(runner_journal.finished_visits(loaded.records))
        return samples_from_launches(launches, origin, finished)
    visit = Visit(**single_visit)
    if parts is None:
        return samples_from_command(launches, origin, visit)
    return samples_of_parts(launches, origin, visit, parts)


def _ranges(loaded: Loaded, table: NcuTable, origin: SampleOrigin) -> pd.DataFrame:
    """Counters of ranges inside visits; None for an external command, which has no visits."""
    if loaded.attempt.record.visit is not None:
        return empty_range_visits()
    visits = range_visits(
        table.launches, origin, set(runner_journal.finished_visits(loaded.records))
    )
    return visits if visits.empty else visits[visits["cell"].isin(loaded.current_cells)]


def _read_csv(
    attempt: Attempt, records: Sequence[Mapping[str, Any]], ahead: ReadAhead | None
) -> tuple[NcuTable | None, str]:
    """The tool's table; else None and the name of its unreadable file.

    `records` are those of its whole journal. Where no visit was measured, because all checks
    failed, ncu has nothing to profile, and a file that says so lacks nothing.
    """
    path = attempt.csv()
    if path is None:
        return None, ""
    try:
        table = read_ncu_csv(path) if ahead is None else ahead.table
        return _each_launch_once(table, path.name), ""
    except NothingProfiledError:
        measured = attempt.record.visit is not None or any(
            runner_journal.measurement_records(records)
        )
        return None, path.name if measured else ""
    except ParseError:
        return None, path.name


def _each_launch_once(table: NcuTable, name: str) -> NcuTable:
    """The table without repeated rows of a launch, because kernels of one visit are added up.

    A session is one process of ncu, which numbers the launches of each process.
    """
    if table.page != "raw" or table.launches["id"].is_unique:
        return table
    repeated = table.launches.duplicated(["process_id", "id"])
    if not repeated.any():
        return table
    values: dict[str, str | int | float] = {"file": name, "count": int(repeated.sum())}
    notices = (*table.notices, Notice(NoticeKind.CSV_REPEATED_ROWS, values))
    distinct_launches = table.launches[~repeated].reset_index(drop=True)
    return replace(table, launches=distinct_launches, notices=notices)
