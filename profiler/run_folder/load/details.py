"""Timelines and profiles of cells, from the files of an attempt."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from profiler.analyse.cell_timeline import (
    CellTimeline,
    samples_from_program,
    samples_from_timeline,
)
from profiler.analyse.parts import PartSamples
from profiler.analyse.samples import (
    SampleOrigin,
    cell_of_part,
    cells_by_shape,
    empty_samples,
    visit_of_ranges,
)
from profiler.analyse.why.inside import PmSamples, read_samples
from profiler.analyse.why.kernel_profiles import EXECUTED, KernelProfile, Launches
from profiler.collect.nsys import PRIVATE_FOLDER
from profiler.collect.registry import COLLECTORS
from profiler.errors import ParseError
from profiler.model import SessionKind, Visit
from profiler.notices import Notice, NoticeKind
from profiler.parse import runner_journal
from profiler.parse.bounded_files import read_packed
from profiler.parse.ncu_csv import NcuTable, read_ncu_csv
from profiler.parse.ncu_launches import LAUNCH_COLUMNS
from profiler.parse.ncu_source import OPCODE, Listing, join_lines, read_source_page
from profiler.parse.nsys import RecordedTimeline
from profiler.parse.nsys_attribution import (
    Attribution,
    full_window,
    launch_times,
    launches,
    part_of_each_window,
    visits,
    window_of,
)
from profiler.parse.timeline_files import TimelineFacts, read_timeline
from profiler.run_folder.folder import EXPLAIN_FILES, Attempt
from profiler.runner import protocol

FIRST_BLOCK = 0
"""The block whose timeline is shown."""

Record = Mapping[str, Any]
T = TypeVar("T")


def visit_timelines(
    attempt: Attempt, records: Sequence[Record], current: Collection[str]
) -> tuple[frozenset[Visit], pd.DataFrame, dict[str, CellTimeline]]:
    """Visits that an attempt recorded of `current` cells, with their samples and timelines.

    Timelines are by cell: that of its first block and arm, where this attempt made that visit.
    Raises ParseError where a file is damaged.
    """
    recorded = read_timeline(attempt.folder)
    if recorded is None:
        return frozenset(), empty_samples(), {}
    timeline, facts = recorded
    parts_by_visit = {
        visit: part
        for visit, part in _visit_parts(attempt, timeline, facts, records).items()
        if visit.cell in current and _tool_saw_work(attempt, part, facts)
    }
    samples = [
        _visit_samples(attempt, visit, part, facts) for visit, part in parts_by_visit.items()
    ]
    filled = [frame for frame in samples if len(frame)]
    return (
        frozenset(parts_by_visit),
        pd.concat(filled, ignore_index=True) if filled else empty_samples(),
        {
            visit.cell: CellTimeline(
                cell=visit.cell,
                collector=facts.collector,
                operations=part.operations,
                ranges=part.ranges,
                stacks=part.stacks,
                api=part.api,
                launches=len(launches(part.ranges)),
                operators=_operators(visit, records),
                originals=_original_files(attempt, visit, facts, records),
            )
            for visit, part in parts_by_visit.items()
            if visit.block == FIRST_BLOCK and visit.arm == 0
        },
    )


def _tool_saw_work(attempt: Attempt, part: Attribution, facts: TimelineFacts) -> bool:
    """Whether the tool saw work in a visit; a workload on the CPU launches nothing."""
    on_host = facts.device == "cpu" and attempt.record.visit is None
    return on_host or len(part.operations) > 0


def _visit_parts(
    attempt: Attempt, timeline: RecordedTimeline, facts: TimelineFacts, records: Sequence[Record]
) -> dict[Visit, Attribution]:
    """The part of the timeline in each finished visit."""
    single_visit = attempt.record.visit
    finished = [Visit(*visit) for visit in runner_journal.finished_visits(records)]
    if single_visit is None and facts.capture in (
        protocol.CAPTURE_VISITS,
        protocol.CAPTURE_PROGRAM,
    ):
        windows = visits(timeline.ranges)
        keys = windows[["cell", "block", "arm"]].itertuples(index=False, name=None)
        parts = {
            Visit(*key): part
            for key, part in zip(keys, part_of_each_window(timeline, windows), strict=True)
        }
        return {visit: parts[visit] for visit in finished if visit in parts}
    # Of a program, or of a range that the user named, an attempt holds one visit.
    single_visits = [Visit(**single_visit)] if single_visit is not None else finished[:1]
    return dict(
        zip(single_visits, part_of_each_window(timeline, full_window(timeline)), strict=False)
    )


def _visit_samples(
    attempt: Attempt, visit: Visit, part: Attribution, facts: TimelineFacts
) -> pd.DataFrame:
    record, operations = attempt.record, part.operations
    origin = SampleOrigin(record.session, record.collector, SessionKind.TIMELINE)
    if record.visit is not None:
        return samples_from_program(operations, visit, origin)
    launch_ranges = launches(part.ranges)
    rows = operations.assign(launch_row=window_of(launch_times(operations), launch_ranges))
    return samples_from_timeline(rows, launch_ranges, visit, origin, on_host=facts.device == "cpu")


def _original_files(
    attempt: Attempt, visit: Visit, facts: TimelineFacts, records: Iterable[Record]
) -> tuple[str, ...]:
    """Paths of the tool's own files of a visit in the run folder."""
    kind = COLLECTORS.get(facts.collector)
    report = kind.report_file if kind is not None else None
    private = (
        f"{PRIVATE_FOLDER}/{record['trace']}"
        for record in _measured_records(visit, records)
        if "trace" in record
    )
    files = (report,) if report is not None else tuple(private)
    return tuple(f"raw/{attempt.folder.name}/{file}" for file in files)


def _measured_records(visit: Visit, records: Iterable[Record]) -> Iterator[Record]:
    """Journal records of the end of a visit."""
    for record in runner_journal.measurement_records(records):
        if Visit(*runner_journal.visit_of(record)) == visit:
            yield record


def _operators(visit: Visit, records: Iterable[Record]) -> pd.DataFrame:
    """Operators of a visit by torch.profiler: `protocol.OPERATOR_FIELDS`."""
    operators = [
        operator
        for record in _measured_records(visit, records)
        for operator in record.get("operators") or ()
    ]
    frame = pd.DataFrame(operators, columns=list(protocol.OPERATOR_FIELDS))
    stacks = pd.Series([tuple(stack) for stack in frame["stack"]], index=frame.index, dtype=object)
    return frame.assign(stack=stacks)


def joined_timelines(attempts: Iterable[Mapping[str, CellTimeline]]) -> dict[str, CellTimeline]:
    """One timeline per cell: of its first collector, with operators of the other collectors.

    `attempts`: of each, its valid timelines by cell.
    """
    by_cell: dict[str, dict[str, CellTimeline]] = {}
    for timelines in attempts:
        for cell, timeline in timelines.items():
            by_cell.setdefault(cell, {}).setdefault(timeline.collector, timeline)
    return {cell: _joined_timeline(by_collector) for cell, by_collector in by_cell.items()}


def shared_timelines(
    timelines: Mapping[str, CellTimeline], aliases: Mapping[str, str]
) -> dict[str, CellTimeline]:
    """Timelines of cells and their aliases: an alias has the timeline of its measured cell.

    `aliases`: cell id → the cell that was measured for it.
    """
    shared = {
        cell: replace(timelines[original], cell=cell)
        for cell, original in aliases.items()
        if original in timelines and cell not in timelines
    }
    return {**timelines, **shared}


def _joined_timeline(by_collector: Mapping[str, CellTimeline]) -> CellTimeline:
    order = tuple(COLLECTORS)
    registered = sorted((name for name in by_collector if name in order), key=order.index)
    timelines = [
        by_collector[name] for name in (*registered, *(by_collector.keys() - set(registered)))
    ]
    first = next((timeline for timeline in timelines if len(timeline.operators)), timelines[0])
    originals = tuple(original for timeline in timelines for original in timeline.originals)
    return replace(timelines[0], operators=first.operators, originals=originals)


# ---- profiles of an explain session: its CSV and the pages of its report -------------------------

RULES_FILE, SASS_FILE, SOURCE_FILE, SERIES_FILE = EXPLAIN_FILES
_SAME_COUNT = 0.05
"""How far the instructions of a listing may be off those of its launch: they are counted in another
pass of the same launch."""
_MOST_POLLED = 0.5
"""How many more instructions than its launch a listing may have, or fewer, where how often a kernel
tries again is a matter of time: where it polls mbarriers, or compares and swaps.

Counting instruction by instruction slows a kernel down, and what waits polls more often: 0.5 % seen
in cuDNN's attention, 10 to 22 % in kernels with a producer warpgroup (H200).
"""
_TRIED_AGAIN = ("SYNCS.PHASECHK", "ATOMS.CAS", "ATOMG.E.CAS", "ATOM.E.CAS", "ATOMG.CAS")
"""Opcodes that are repeated until they succeed: a look at an mbarrier (`mbarrier.try_wait`), and
compare-and-swap."""


def cell_profiles(
    folder: Path, table: NcuTable | None, cells: Callable[[pd.DataFrame], Sequence[str]]
) -> tuple[dict[str, Launches], tuple[Notice, ...]]:
    """Profiles by cell id, and notices on unreadable pages.

    `cells` gives the cell of each launch (`finished_cells`, `first_sample_cells`), empty for none.
    """
    if table is None or table.launches.empty:
        return {}, ()
    launches = table.launches
    listings, listing_notices = _listings(folder, [str(name) for name in launches["kernel"]])
    rules, rule_notices = _read_page(folder, RULES_FILE, _rules)
    samples, sample_notices = _read_page(folder, SERIES_FILE, _samples)
    profiles: dict[str, list[KernelProfile]] = {}
    instructions = _listings_of_launches(listings, launches)
    for row, cell in enumerate(cells(launches)):
        if cell:
            profile = _kernel_profile(
                launches.iloc[row], rules or {}, samples or {}, instructions[row]
            )
            profiles.setdefault(cell, []).append(profile)
    notices = (*listing_notices, *rule_notices, *sample_notices)
    return {cell: tuple(kernels) for cell, kernels in profiles.items()}, notices


def finished_cells(launches: pd.DataFrame, finished: Collection[str]) -> list[str]:
    """Cell id of each launch by the runner's ranges, empty where its visit is not `finished`."""
    visits = (visit_of_ranges(ranges) for ranges in launches["nvtx"])
    return [visit[0] if visit is not None and visit[0] in finished else "" for visit in visits]


def first_sample_cells(launches: pd.DataFrame, cell: str, parts: PartSamples | None) -> list[str]:
    """Cell id of each launch of an external command: by its part, else by kernel, grid and block.

    Only of the first sample of each; empty for the launches of others, and where they do not fit
    the parts.
    """
    if parts is None:
        cells = cells_by_shape(launches, cell)
        samples: Iterable[int] = range(len(cells))
    else:
        samples = [int(code) for code in parts.codes]
        cells = [cell_of_part(cell, parts.params[code]) if code >= 0 else "" for code in samples]
    first: dict[str, int] = {}
    for name, sample in zip(cells, samples, strict=True):
        first.setdefault(name, sample)
    return [
        name if first[name] == sample else "" for name, sample in zip(cells, samples, strict=True)
    ]


def _kernel_profile(
    launch: pd.Series,
    rules: Mapping[int, pd.DataFrame],
    samples: Mapping[int, PmSamples],
    listing: Listing | None,
) -> KernelProfile:
    values = {
        str(name): float(value)
        for name, value in launch.items()
        if name not in LAUNCH_COLUMNS and isinstance(value, int | float) and math.isfinite(value)
    }
    return KernelProfile(
        name=str(launch["kernel"]),
        values=values,
        rules=rules.get(int(launch["id"]), pd.DataFrame()),
        listing=listing,
        inside=samples.get(int(launch["id"])),
    )


def _listings_of_launches(
    listings: Sequence[Listing], launches: pd.DataFrame
) -> list[Listing | None]:
    """Listing of each launch: pages name no launch, so order decides, and each is checked.

    A listing that executed other instructions than the launch in its place is not used.
    """
    if len(listings) != len(launches) or EXECUTED not in launches:
        return [None] * len(launches)
    pairs = zip(listings, launches[EXECUTED].astype("float64"), strict=True)
    return [listing if _matches_launch(listing, counted) else None for listing, counted in pairs]


def _matches_launch(listing: Listing, counted: float) -> bool:
    """Whether a listing's executed instructions match its launch, up to replayed ones."""
    listed_count = float(listing.instructions["executed"].sum())
    tries = listing.instructions[OPCODE].str.startswith(_TRIED_AGAIN).any()
    tolerance = _MOST_POLLED if tries else _SAME_COUNT
    return counted / (1 + tolerance) <= listed_count <= (1 + tolerance) * counted


def _listings(folder: Path, kernels: Sequence[str]) -> tuple[Sequence[Listing], tuple[Notice, ...]]:
    """Instructions of each launch, with source lines where they are known."""

    def listings(page: Path, *, counters: bool) -> Sequence[Listing]:
        return read_source_page(read_packed(page), kernels, counters=counters)[0]

    sass, notices = _read_page(folder, SASS_FILE, partial(listings, counters=True))
    lines, more_notices = _read_page(folder, SOURCE_FILE, partial(listings, counters=False))
    return join_lines(sass or (), lines or ()), (*notices, *more_notices)


def _rules(page: Path) -> Mapping[int, pd.DataFrame]:
    """Advice of ncu's rules by launch id."""
    by_launch = read_ncu_csv(page).rules.rename(columns={"description": "text"}).groupby("id")
    return {int(advice["id"].iloc[0]): advice for _, advice in by_launch}


def _samples(page: Path) -> Mapping[int, PmSamples]:
    """Samples inside launches, by launch id."""
    try:
        return read_samples(read_packed(page))
    except (ValueError, KeyError, TypeError) as error:
        raise ParseError(f"{page.name}: {error!r}") from error


def _read_page(
    folder: Path, name: str, read: Callable[[Path], T]
) -> tuple[T | None, tuple[Notice, ...]]:
    """Content of a packed page; None where it is missing, or damaged, of which a notice tells."""
    page = folder / f"{name}.gz"
    if not page.exists():
        return None, ()
    try:
        return read(page), ()
    except (ParseError, OSError):
        return None, (Notice(NoticeKind.ATTEMPT_FILE_DAMAGED, {"file": page.name}),)
