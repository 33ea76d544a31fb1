"""From the cleaned files of an attempt to the visits, samples and timelines of cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from profiler.analyse.cell_timeline import (
    CellTimeline,
    Original,
    samples_from_program,
    samples_from_timeline,
)
from profiler.analyse.samples import SampleOrigin, empty_samples
from profiler.collect.nsys import PRIVATE_FOLDER
from profiler.collect.registry import COLLECTORS
from profiler.model import SessionKind, Visit
from profiler.parse.nsys import Timeline
from profiler.parse.timeline_files import TimelineFacts, read_timeline
from profiler.parse.timeline_visits import Cut, cuts, full_window, launch_times, visits, window_of
from profiler.run_folder.folder import Attempt
from profiler.runner import protocol

FIRST_BLOCK = 0
"""The block whose timeline is shown."""

Record = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class VisitTimelines:
    """Recorded visits of one attempt, with their samples and timelines."""

    visits: frozenset[Visit] = frozenset()
    samples: pd.DataFrame = field(default_factory=empty_samples)
    cells: Mapping[str, CellTimeline] = field(default_factory=dict)
    """By cell: that of its first block and arm, where this attempt made that visit."""


def visit_timelines(
    attempt: Attempt, records: Sequence[Record], current: Collection[str]
) -> VisitTimelines | None:
    """Read what an attempt recorded of the cells in `current`; None where it has no timeline.

    Raises ParseError where a file is damaged.
    """
    recorded = read_timeline(attempt.folder)
    if recorded is None:
        return None
    timeline, facts = recorded
    cuts = {
        visit: part
        for visit, part in _cuts(attempt, timeline, facts, records).items()
        if visit.cell in current and _seen(attempt, part, facts)
    }
    samples = [_samples(attempt, visit, part, facts) for visit, part in cuts.items()]
    filled = [frame for frame in samples if len(frame)]
    return VisitTimelines(
        frozenset(cuts),
        pd.concat(filled, ignore_index=True) if filled else empty_samples(),
        {
            visit.cell: _cell_timeline(attempt, visit, part, facts, records)
            for visit, part in cuts.items()
            if visit.block == FIRST_BLOCK and visit.arm == 0
        },
    )


def _seen(attempt: Attempt, part: Cut, facts: TimelineFacts) -> bool:
    """Whether the tool saw the visit's work: a workload on the CPU launches nothing."""
    on_host = facts.device == "cpu" and attempt.record.visit is None
    return on_host or len(part.attribution.operations) > 0


def _cuts(
    attempt: Attempt, timeline: Timeline, facts: TimelineFacts, records: Sequence[Record]
) -> dict[Visit, Cut]:
    """The part of each visit that was made to its end."""
    single_visit = attempt.record.visit
    finished = [Visit(*visit) for visit in protocol.finished_visits(records)]
    if single_visit is None and facts.capture in (
        protocol.CAPTURE_VISITS,
        protocol.CAPTURE_PROGRAM,
    ):
        windows = visits(timeline.ranges)
        made = windows[["cell", "block", "arm"]].itertuples(index=False, name=None)
        parts = {Visit(*key): part for key, part in zip(made, cuts(timeline, windows), strict=True)}
        return {visit: parts[visit] for visit in finished if visit in parts}
    # Of a program, or of a range that the user named, an attempt holds one visit.
    alone = [Visit(**single_visit)] if single_visit is not None else finished[:1]
    return dict(zip(alone, cuts(timeline, full_window(timeline)), strict=False))


def _samples(attempt: Attempt, visit: Visit, part: Cut, facts: TimelineFacts) -> pd.DataFrame:
    record, operations = attempt.record, part.attribution.operations
    origin = SampleOrigin(record.session, record.collector, SessionKind.TIMELINE)
    if record.visit is not None:
        return samples_from_program(operations, visit, origin)
    rows = operations.assign(launch_row=window_of(launch_times(operations), part.launches))
    on_host = facts.device == "cpu"
    return samples_from_timeline(rows, part.launches, visit, origin, on_host=on_host)


def _cell_timeline(
    attempt: Attempt, visit: Visit, part: Cut, facts: TimelineFacts, records: Sequence[Record]
) -> CellTimeline:
    attribution = part.attribution
    return CellTimeline(
        cell=visit.cell,
        collector=facts.collector,
        operations=attribution.operations,
        ranges=attribution.ranges,
        stacks=attribution.stacks,
        api=attribution.api,
        launches=len(part.launches),
        operators=_operators(visit, records),
        originals=_originals(attempt, visit, facts, records),
    )


def _originals(
    attempt: Attempt, visit: Visit, facts: TimelineFacts, records: Iterable[Record]
) -> tuple[Original, ...]:
    """Names of the tool's own files of a visit, as they are after the attempt."""
    kind = COLLECTORS.get(facts.collector)
    report = kind.report_file if kind is not None else None
    private = (f"{PRIVATE_FOLDER}/{trace}" for trace in _traces(visit, records))
    files = (report,) if report is not None else tuple(private)
    return tuple(Original(facts.collector, f"raw/{attempt.folder.name}/{file}") for file in files)


def _traces(visit: Visit, records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(str(record["trace"]) for record in _measured(visit, records) if "trace" in record)


def _measured(visit: Visit, records: Iterable[Record]) -> Iterator[Record]:
    """Records of the end of a visit in the journal."""
    for record in protocol.measured(records):
        if Visit(*protocol.visit_of(record)) == visit:
            yield record


def _operators(visit: Visit, records: Iterable[Record]) -> pd.DataFrame:
    """Operators of a visit by torch.profiler: `protocol.OPERATOR_FIELDS`."""
    operators = [
        operator
        for record in _measured(visit, records)
        for operator in record.get("operators") or ()
    ]
    frame = pd.DataFrame(operators, columns=list(protocol.OPERATOR_FIELDS))
    stacks = pd.Series([tuple(stack) for stack in frame["stack"]], index=frame.index, dtype=object)
    return frame.assign(stack=stacks)


def joined_timelines(attempts: Iterable[Mapping[str, CellTimeline]]) -> dict[str, CellTimeline]:
    """One timeline per cell: that of the first collector, with the operators of the others.

    `attempts`: of each, its valid timelines by cell.
    """
    by_cell: dict[str, dict[str, CellTimeline]] = {}
    for timelines in attempts:
        for cell, timeline in timelines.items():
            by_cell.setdefault(cell, {}).setdefault(timeline.collector, timeline)
    return {cell: _joined(by_collector) for cell, by_collector in by_cell.items()}


def shared_timelines(
    timelines: Mapping[str, CellTimeline], aliases: Mapping[str, str]
) -> dict[str, CellTimeline]:
    """Timelines with those of aliases added: each has that of the cell measured for it.

    `aliases`: cell id → the cell that was measured for it.
    """
    shared = {
        cell: replace(timelines[original], cell=cell)
        for cell, original in aliases.items()
        if original in timelines and cell not in timelines
    }
    return {**timelines, **shared}


def _joined(by_collector: Mapping[str, CellTimeline]) -> CellTimeline:
    order = tuple(COLLECTORS)
    registered = sorted((name for name in by_collector if name in order), key=order.index)
    timelines = [
        by_collector[name] for name in (*registered, *(by_collector.keys() - set(registered)))
    ]
    first = next((timeline for timeline in timelines if len(timeline.operators)), timelines[0])
    originals = tuple(original for timeline in timelines for original in timeline.originals)
    return replace(timelines[0], operators=first.operators, originals=originals)
