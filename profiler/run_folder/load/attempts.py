"""Loads one attempt of a session: samples, journal, clocks; without cells edited since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from profiler.analyse.clocks import add_power, measured_visits, throttled_visits
from profiler.analyse.parts import PartSamples, part_samples
from profiler.analyse.range_counters import empty_range_visits, range_visits
from profiler.analyse.samples import (
    Origin,
    cell_of_part,
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
from profiler.analyse.why.kernel_profiles import CellProfile
from profiler.analyse.why.practical_roofs import practical_shares
from profiler.collect import timer
from profiler.collect.kind import Records
from profiler.collect.registry import COLLECTORS
from profiler.errors import ParseError
from profiler.model import KERNEL_SEPARATOR, Params, SessionKind, TunedConfig, Visit
from profiler.notices import Notice, NoticeKind
from profiler.parse.clock_file import CLOCKS_FILE, empty_clocks, read_clocks
from profiler.parse.inductor import tuned_of_record
from profiler.parse.ncu_csv import NcuTable, NothingProfiledError, read_alike, read_ncu_csv
from profiler.parse.stamps import KernelStamps, read_stamps
from profiler.parse.timeline_files import FACTS_FILE
from profiler.run_folder.folder import Attempt
from profiler.run_folder.load.descriptions import described_by_cell
from profiler.run_folder.load.explained import cell_profiles, finished_cells, first_sample_cells
from profiler.run_folder.load.timelines import VisitTimelines, visit_timelines
from profiler.runner import protocol
from profiler.runner.protocol import STAMPS_FILE

NO_FILES: Mapping[str, str] = MappingProxyType({})
NO_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType({})

_NAMED_CELLS = 3
_PASSES = "profiler__replayer_passes"
"""Column of ncu: in how many passes it counted a kernel."""
FINISHED = "finished"
"""AttemptResult.cause of a session that ended as it should."""


_TIMED = (SessionKind.TIMING, SessionKind.FINAL)


@dataclass(frozen=True, eq=False)
class Loaded:
    """Results of one attempt for the cells whose key is unchanged."""

    attempt: Attempt
    records: tuple[dict[str, Any], ...]
    current: frozenset[str]
    """Cells of the attempt whose key is still the same."""
    samples: pd.DataFrame = field(default_factory=empty_samples)
    of_reading: tuple[Notice, ...] = ()
    """Notices of reading its files, whatever its end."""
    unreadable: str = ""
    """File of the tool that could not be read; empty where there is none."""
    attributes: Mapping[str, str | float] = field(default_factory=dict)
    """What the tool says about the GPU: `device__attribute_*`."""
    clocks: pd.DataFrame = field(default_factory=empty_clocks)
    """Samples of the clock, in the columns of `read_clocks`; no rows where none were taken."""
    ranges: pd.DataFrame = field(default_factory=empty_range_visits)
    """Counters of ranges inside visits; without rows where the workload pushed none."""
    without_duration: frozenset[Visit] = frozenset()
    """Visits that were made and whose duration is none (`impossible_durations`)."""
    timeline: VisitTimelines | None = None
    """What a session of timelines recorded; None of others."""
    profiles: Mapping[str, CellProfile] | None = None
    """What an explain session counted, by cell id; None of others."""
    stamps: Mapping[Visit, KernelStamps] | None = None
    """What an in-kernel session recorded, by visit; None of others."""
    parts: Mapping[str, Params] = field(default_factory=dict)
    """Parameters of the parts of an external command, by the cell id of their samples."""
    part_fault: str = ""
    """Why the launches of a command are not those of its parts; it has no samples then."""
    launches: int = 0
    """Launches that ncu profiled."""
    streams: Mapping[str, int] = field(default_factory=dict)
    """Most streams that a visit has kernels on, by cell id; none where all have one in common."""
    practical_roofs: Mapping[str, float] = field(default_factory=dict)
    """Shares of the hardware's roofs that plain kernels reached, by roof."""

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices of its files and of its end, which is written down after they are read."""
        damaged = (
            Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": name}) for name in self.attempt.damaged
        )
        return (
            *_unreadable(self.attempt, self.unreadable),
            *self.of_reading,
            *_gpu_shared(self.attempt),
            *damaged,
        )

    def visits(self) -> set[Visit]:
        """Visits that have a sample with a value; a faulting kernel leaves a row without any.

        A visit with a timeline needs none: that it launches no kernel may be what it shows.
        """
        if self.timeline is not None:
            return set(self.timeline.visits)
        if self.stamps is not None:
            return set(self.stamps)
        single_visit = self.attempt.record.visit
        if self.profiles is not None:
            if single_visit is not None:
                return {Visit(**single_visit)} if self.profiles else set()
            return {Visit(cell, 0) for cell in self.profiles}
        if single_visit is not None:
            made = len(self.samples) > 0 or len(self.without_duration) > 0
            return {Visit(**single_visit)} if made else set()
        return set(self._sampled_visits | self.without_duration)

    @cached_property
    def _sampled_visits(self) -> frozenset[Visit]:
        return _visits_of(self.samples)

    def throttled(self) -> set[Visit]:
        """Visits during which the GPU was slowed down, by heat for example."""
        return set(self._throttled_visits)

    @cached_property
    def _throttled_visits(self) -> frozenset[Visit]:
        if self.clocks.empty:
            return frozenset()
        keys = throttled_visits(self.clocks, self.visit_times)
        return frozenset(Visit(*key) for key in keys) & self.visits()

    @cached_property
    def visit_times(self) -> pd.DataFrame:
        """When each visit was measured, as `clocks.measured_visits` has it."""
        return measured_visits(self.records)

    def flushed_by_runner(self) -> bool | None:
        """Whether the runner emptied the caches in place of ncu; None where no journal says it."""
        return _flushed_by_runner(self.records)

    def tried(self) -> set[str]:
        """Cells that this attempt started to check or measure."""
        single_visit = self.attempt.record.visit
        if single_visit is not None:
            return {single_visit["cell"]} & self.current
        if self.attempt.record.kind == SessionKind.CHECK:
            return set(self.current)
        result = self.attempt.result
        blamed = set() if result is None else result.failed.keys() & self.current
        return blamed | self._tried_in_journal

    @cached_property
    def _tried_in_journal(self) -> frozenset[str]:
        return frozenset(record["cell"] for record in self.records if _tries(record))

    @cached_property
    def opened(self) -> Mapping[str, str]:
        """Digest by name of each file that the session opened and did not write."""
        return protocol.opened_files(self.records)

    @cached_property
    def failed_records(self) -> tuple[Mapping[str, Any], ...]:
        """Records of what failed and the runner survived."""
        return tuple(record for record in self.records if record.get("event") == protocol.FAILED)

    @cached_property
    def described(self) -> Mapping[str, Mapping[str, Any]]:
        """Facts of launches and results in the journal, by name, by cell id."""
        return described_by_cell(self.records)

    @cached_property
    def tuned(self) -> tuple[tuple[str, tuple[TunedConfig, ...]], ...]:
        """Configurations that a compiler's autotuner tried, each time, with the id of the cell."""
        trials = (
            (str(record.get("cell")), tuned_of_record(record[protocol.TUNED]))
            for record in self.records
            if protocol.TUNED in record
        )
        return tuple((cell, configs) for cell, configs in trials if configs)

    def checked(self) -> set[str]:
        """Cells that were compared with the reference, or by a command, and found right.

        None of an in-kernel session: what was compared there is another build.
        """
        if self.stamps is not None:
            return set()
        result = self.attempt.result
        if self.attempt.record.kind == SessionKind.CHECK:
            passed = result is not None and result.cause == FINISHED and not result.failed
            return set(self.current) if passed else set()
        return set(self._checked_in_journal)

    @cached_property
    def _checked_in_journal(self) -> frozenset[str]:
        return frozenset(
            record["cell"]
            for record in self.records
            if record.get("event") == protocol.FINISHED and record.get("phase") == protocol.CHECK
        )

    def kernels(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Every list of kernels that a cell launched, by cell id, in the order of the visits.

        Empty for external commands: each kernel is a cell of its own there.
        """
        if self.attempt.record.visit is not None:
            return {}
        seen = (self.samples[name].tolist() for name in ("cell", "kernel_names"))
        lists: dict[str, dict[tuple[str, ...], None]] = {}
        for cell, names in zip(*seen, strict=True):
            if names != "":
                lists.setdefault(str(cell), {})[tuple(str(names).split(KERNEL_SEPARATOR))] = None
        return {cell: tuple(distinct) for cell, distinct in lists.items()}

    def fell_back(self) -> dict[str, str]:
        """Reason why the kernels of a cell are not its variant's, by cell id."""
        check = self.attempt.kernel_check
        fell_back = check.fell_back if check is not None else {}
        return {cell: reason for cell, reason in fell_back.items() if cell in self.current}

    def unchecked(self) -> frozenset[str]:
        """Cells whose kernels were recorded but not checked by the workload's space."""
        check = self.attempt.kernel_check
        cells = frozenset(self.kernels())
        return cells if check is None else cells & frozenset(check.undecided)

    def unseen(self) -> set[str]:
        """Cells that finished a visit without a kernel being seen, as decided after the attempt."""
        check = self.attempt.kernel_check
        return set() if check is None else set(check.no_kernel) & self.current

    def roof_faults(self) -> dict[str, str]:
        """Why a practical roof could not be measured, by roof."""
        failed = (r for r in self.records if r.get("event") == protocol.ROOF_FAILED)
        return {record["roof"]: str(record["cause"]) for record in failed}

    def finished_without_kernel(self) -> set[str]:
        """Cells that finished a visit in a session that ended well, and have no sample here."""
        result = self.attempt.result
        if result is None or result.cause != FINISHED:
            return set()
        finished = {cell for cell, _, _ in protocol.finished_visits(self.records)}
        seen = {visit.cell for visit in self.visits()}  # of these, single visits are made again
        return finished - seen


def median_durations(attempts: Iterable[Loaded]) -> dict[str, float]:
    """Median duration in ns by cell id, over the timing samples of attempts."""
    frames = [
        loaded.samples
        for loaded in attempts
        if loaded.attempt.record.kind in _TIMED and "duration_ns" in loaded.samples
    ]
    if not frames:
        return {}
    medians = pd.concat(frames).groupby("cell")["duration_ns"].median().dropna()
    return {str(cell): float(duration) for cell, duration in medians.items()}


def _load(
    attempt: Attempt,
    journal: protocol.JournalContent,
    current: set[str],
    compute_capability: str | None,
    table: NcuTable | None,
) -> Loaded:
    """Results of an attempt, of the cells that count; `table`: of its CSV, if it was read ahead."""
    clocks, clock_notices = _read_clocks(attempt)
    loaded = Loaded(
        attempt=attempt,
        records=tuple(
            record
            for record in journal.records
            if "cell" not in record or record["cell"] in current
        ),
        current=frozenset(current),
        of_reading=(*clock_notices, *_odd_records(attempt, journal.skipped)),
        clocks=clocks,
    )
    if attempt.record.kind == SessionKind.TIMELINE:
        return _with_timelines(loaded)
    if attempt.record.kind == SessionKind.IN_KERNEL:
        return _with_stamps(loaded)
    table, unreadable = _read_csv(attempt, journal.records, table)
    if table is not None:
        loaded = replace(loaded, of_reading=(*table.notices, *loaded.of_reading))
    loaded = replace(loaded, unreadable=unreadable)
    if attempt.record.kind == SessionKind.EXPLAIN:
        return _with_profiles(loaded, table)
    unflushed = _unflushed(attempt, journal.records, table)
    return _with_samples(loaded, table, compute_capability, unflushed)


def _with_profiles(loaded: Loaded, table: NcuTable | None) -> Loaded:
    """Results of an explain session."""
    profiles, of_pages = cell_profiles(
        loaded.attempt.folder, table, partial(_explained_cells, loaded, table)
    )
    return replace(loaded, profiles=profiles, of_reading=(*loaded.of_reading, *of_pages))


def _with_samples(
    loaded: Loaded,
    table: NcuTable | None,
    compute_capability: str | None,
    unflushed: tuple[Notice, ...],
) -> Loaded:
    """Results of a session whose visits have samples; `unflushed`: notices of its caches."""
    attempt, record = loaded.attempt, loaded.attempt.record
    origin = Origin(
        record.session, record.collector, record.kind, record.metrics, compute_capability
    )
    parts = _part_samples(attempt, table)
    samples = _with_values(_samples(loaded, table, origin, parts))
    if record.visit is not None and record.visit["cell"] not in loaded.current:
        samples = samples.iloc[:0]
    if record.collector == timer.CUDA_EVENTS.name:
        samples = add_power(samples, loaded.visit_times, loaded.clocks)
    impossible = impossible_durations(samples)
    notices = (*loaded.of_reading, *_left_out(attempt, samples, impossible), *unflushed)
    possible = _with_values(without_durations(samples, impossible)) if impossible.any() else samples
    loaded = replace(
        loaded,
        samples=possible,
        of_reading=notices,
        without_duration=_visits_of(samples[impossible]) if impossible.any() else frozenset(),
        parts=_params_by_cell(attempt, parts),
        part_fault=parts.fault if parts is not None else "",
        practical_roofs=_practical_roofs(loaded, table, compute_capability),
    )
    if table is None:
        return replace(loaded, attributes=_attributes(loaded.records))
    return replace(
        loaded,
        attributes=table.attributes,
        ranges=_ranges(loaded, table, origin),
        launches=len(table.launches),
        streams=streams_by_cell(table.launches),
    )


def _counted(
    attempt: Attempt,
    keys: Mapping[str, str],
    settings: Mapping[str, Mapping[str, Any]],
    opened: Mapping[str, str],
    read: Mapping[str, str],
) -> set[str]:
    """Cells of an attempt that count, as `AttemptReader.load` has them; `read`: files it opened."""
    record = attempt.record
    if settings.get(record.collector, record.settings) != record.settings:
        return set()
    if any(opened.get(file, digest) != digest for file, digest in read.items()):
        return set()
    return {cell for cell, key in record.keys.items() if keys.get(cell) == key}


class AttemptReader:
    """Reads attempts of one run, each once while the same cells of it count.

    After its session an attempt changes by its end alone: its files are packed, and what became of
    it is written down. So what was read to learn what is missing is what the report is made of.
    """

    def __init__(self) -> None:
        self._loaded: dict[Path, Loaded] = {}
        self._tables: dict[Path, NcuTable] = {}
        """What was read ahead, by the folder of the attempt."""

    def read_ahead(self, attempts: Iterable[Attempt]) -> None:
        """Read the tables of attempts that are loaded next, those that are alike as one."""
        new = (attempt for attempt in attempts if attempt.folder not in self._loaded)
        tables = read_alike([path for attempt in new if (path := attempt.csv()) is not None])
        self._tables = {path.parent: table for path, table in tables.items()}

    def load(
        self,
        attempt: Attempt,
        keys: Mapping[str, str],
        compute_capability: str | None,
        settings: Mapping[str, Mapping[str, Any]] = NO_SETTINGS,
        opened: Mapping[str, str] = NO_FILES,
    ) -> Loaded:
        """Results of an attempt; rows of cells whose key is another in `keys` are left out.

        So is a whole attempt at timelines that was made otherwise than `settings` say of its
        collector, and one that opened a file whose content is another in `opened`
        (RunRecord.opened).
        """
        loaded = self._loaded.get(attempt.folder)
        table = self._tables.pop(attempt.folder, None)
        if loaded is None or loaded.unreadable:
            journal = protocol.read_whole_journal(attempt.journal)
            read = protocol.opened_files(journal.records)
            current = _counted(attempt, keys, settings, opened, read)
            loaded = _load(attempt, journal, current, compute_capability, table)
        else:
            current = _counted(attempt, keys, settings, opened, loaded.opened)
            if loaded.current != current:
                journal = protocol.read_whole_journal(attempt.journal)
                loaded = _load(attempt, journal, current, compute_capability, table)
            elif loaded.attempt != attempt:
                loaded = replace(loaded, attempt=attempt)
        self._loaded[attempt.folder] = loaded
        return loaded


def _explained_cells(loaded: Loaded, table: NcuTable | None, launches: pd.DataFrame) -> list[str]:
    """Cell of each launch of an explain session, empty where it does not count."""
    visit = loaded.attempt.record.visit
    if visit is None:
        finished = {cell for cell, _, _ in protocol.finished_visits(loaded.records)}
        return finished_cells(launches, finished & loaded.current)
    if visit["cell"] not in loaded.current:
        return [""] * len(launches)
    return first_sample_cells(launches, visit["cell"], _part_samples(loaded.attempt, table))


def _practical_roofs(
    loaded: Loaded, table: NcuTable | None, compute_capability: str | None
) -> dict[str, float]:
    """Shares of the hardware's roofs by roof; none where no cell counts."""
    if not loaded.current:
        return {}
    records = loaded.records
    finished = [str(r["roof"]) for r in records if r.get("event") == protocol.ROOF_FINISHED]
    named = [roof for roof in finished if roof in protocol.PRACTICAL_ROOFS]
    launches = roof_launches_of_journal(records) if table is None else table.launches
    return practical_shares(launches, named, compute_capability)


def _part_samples(attempt: Attempt, table: NcuTable | None) -> PartSamples | None:
    """Which launches of a visit belong to which part of its command; None where it has no parts."""
    record = attempt.record
    if record.parts is None or record.visit is None or table is None or table.launches.empty:
        return None
    return part_samples(table.launches, record.parts, counted=record.counted)


def _params_by_cell(attempt: Attempt, parts: PartSamples | None) -> dict[str, Params]:
    visit = attempt.record.visit
    if parts is None or visit is None:
        return {}
    return {cell_of_part(visit["cell"], params): params for params in parts.params}


def _left_out(
    attempt: Attempt, samples: pd.DataFrame, impossible: pd.Series[bool]
) -> tuple[Notice, ...]:
    """Notices on durations that are none."""
    if not impossible.any():
        return ()
    cells = sorted(set(samples.loc[impossible, "cell"]))
    values: dict[str, str | int | float] = {
        "session": attempt.record.session,
        "count": int(impossible.sum()),
        "total": len(samples),
        "cells": ", ".join(cells[:_NAMED_CELLS]) + (", …" if len(cells) > _NAMED_CELLS else ""),
    }
    return (Notice(NoticeKind.DURATIONS_IMPOSSIBLE, values),)


def _flushed_by_runner(records: Iterable[Mapping[str, Any]]) -> bool | None:
    flush = _start(records).get("flush")
    return flush if isinstance(flush, bool) else None


def _attributes(records: Iterable[Mapping[str, Any]]) -> dict[str, str | float]:
    """What the runner says of the GPU, by ncu's names."""
    attributes = _start(records).get("attributes")
    numbers = attributes.items() if isinstance(attributes, dict) else ()
    return {name: value for name, value in numbers if isinstance(value, int)}


def _start(records: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The record with which a runner began; empty where there is none."""
    started = (record for record in records if record.get("event") == protocol.SESSION_STARTED)
    return next(started, {})


def _unflushed(
    attempt: Attempt, records: Iterable[Mapping[str, Any]], table: NcuTable | None
) -> tuple[Notice, ...]:
    """Notice of launches of several passes where the runner emptied the caches, before the first.

    The plan knows which counters fit in one pass for the GPUs that it was told of.
    """
    if not _flushed_by_runner(records) or table is None or _PASSES not in table.launches:
        return ()
    count = int((table.launches[_PASSES] > 1).sum())
    values: dict[str, str | int | float] = {
        "session": attempt.record.session,
        "count": count,
        "total": len(table.launches),
    }
    return (Notice(NoticeKind.PASSES_UNFLUSHED, values),) if count else ()


def _tries(record: Mapping[str, Any]) -> bool:
    """Whether a record says that a cell was tried: its work is declared before any cell is."""
    started = record.get("event") == protocol.STARTED and record.get("phase") != protocol.DECLARE
    return started or record.get("event") == protocol.FAILED


def _visits_of(samples: pd.DataFrame) -> frozenset[Visit]:
    made = zip(*(samples[name].tolist() for name in ("cell", "block", "arm")), strict=True)
    return frozenset(Visit(str(cell), int(block), int(arm)) for cell, block, arm in set(made))


def _read_clocks(attempt: Attempt) -> tuple[pd.DataFrame, tuple[Notice, ...]]:
    """Clocks of an attempt; where they cannot be read none, and a notice."""
    try:
        return read_clocks(attempt.folder / CLOCKS_FILE), ()
    except ParseError:
        return empty_clocks(), (Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": CLOCKS_FILE}),)


def _odd_records(attempt: Attempt, skipped: int) -> tuple[Notice, ...]:
    values: dict[str, str | int | float] = {"file": attempt.journal.name, "count": skipped}
    return (Notice(NoticeKind.JOURNAL_ODD, values),) if skipped else ()


def _gpu_shared(attempt: Attempt) -> tuple[Notice, ...]:
    """Notice of the other processes that had the GPU open during an attempt."""
    processes = {} if attempt.result is None else attempt.result.gpu_processes
    if not processes:
        return ()
    named = ", ".join(
        f"process {pid}" + (f" ({memory / 2**30:.1f} GiB)" if memory else "")
        for pid, memory in processes.items()
    )
    values = {"session": attempt.record.session, "processes": named}
    return (Notice(NoticeKind.GPU_SHARED, values),)


def _with_timelines(loaded: Loaded) -> Loaded:
    """Results of an attempt with a timeline, from its cleaned files alone."""
    try:
        timelines = visit_timelines(loaded.attempt, loaded.records, loaded.current)
    except ParseError:
        return replace(loaded, unreadable=FACTS_FILE, timeline=VisitTimelines())
    if timelines is None:
        return replace(loaded, timeline=VisitTimelines())
    return replace(loaded, samples=_with_values(timelines.samples), timeline=timelines)


def _with_stamps(loaded: Loaded) -> Loaded:
    """Results of an in-kernel session: stamps of the cells whose key is unchanged."""
    try:
        stamps = read_stamps(loaded.attempt.folder)
    except ParseError:
        return replace(loaded, unreadable=STAMPS_FILE, stamps={})
    counted = {visit: found for visit, found in stamps.items() if visit.cell in loaded.current}
    return replace(loaded, stamps=counted)


def _with_values(samples: pd.DataFrame) -> pd.DataFrame:
    metrics = list(metric_columns(samples))
    if not metrics:
        return samples.iloc[:0]
    if samples[metrics[0]].notna().all():
        return samples
    has_values = samples[metrics].notna().any(axis=1)
    return samples if has_values.all() else samples[has_values]


def _samples(
    loaded: Loaded, table: NcuTable | None, origin: Origin, parts: PartSamples | None
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
        finished = set(protocol.finished_visits(loaded.records))
        return samples_from_launches(launches, origin, finished)
    visit = Visit(**single_visit)
    if parts is None:
        return samples_from_command(launches, origin, visit)
    return samples_of_parts(launches, origin, visit, parts)


def _ranges(loaded: Loaded, table: NcuTable, origin: Origin) -> pd.DataFrame:
    """Counters of ranges inside visits; an external command has no visits of ours."""
    if loaded.attempt.record.visit is not None:
        return empty_range_visits()
    visits = range_visits(table.launches, origin, set(protocol.finished_visits(loaded.records)))
    return visits if visits.empty else visits[visits["cell"].isin(loaded.current)]


def _read_csv(
    attempt: Attempt, records: Sequence[Mapping[str, Any]], table: NcuTable | None
) -> tuple[NcuTable | None, str]:
    """The tool's table; or None, and the name of its file where that cannot be read.

    `records` are those of its whole journal. Where no visit was measured, because all checks
    failed, ncu has nothing to profile, and a file that says so lacks nothing.
    """
    path = attempt.csv()
    if path is None:
        return None, ""
    try:
        return _each_launch_once(table or read_ncu_csv(path), path.name), ""
    except NothingProfiledError:
        measured = attempt.record.visit is not None or any(protocol.measured(records))
        return None, path.name if measured else ""
    except ParseError:
        return None, path.name


def _each_launch_once(table: NcuTable, name: str) -> NcuTable:
    """Without rows of a launch that has one: kernels of one visit are added up.

    A session is one process of ncu, which numbers the launches of each process.
    """
    if table.page != "raw" or table.launches["id"].is_unique:
        return table
    repeated = table.launches.duplicated(["process_id", "id"])
    if not repeated.any():
        return table
    values: dict[str, str | int | float] = {"file": name, "count": int(repeated.sum())}
    notices = (*table.notices, Notice(NoticeKind.CSV_REPEATED_ROWS, values))
    once = table.launches[~repeated].reset_index(drop=True)
    return replace(table, launches=once, notices=notices)


def _unreadable(attempt: Attempt, name: str) -> tuple[Notice, ...]:
    """Notice of an unreadable file; none where the tool was killed, which may cut it off.

    Nor where the only visit of an attempt has failed: its file lacks nothing.
    """
    result = attempt.result
    only_visit_failed = result is not None and attempt.record.visit is not None and result.failed
    whole = result is not None and result.cause == FINISHED and not only_visit_failed
    return (Notice(NoticeKind.CSV_UNREADABLE, {"file": name}),) if name and whole else ()
