"""From the cleaned files of an attempt to the visits, samples and timelines of cells."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline, Original
from profiler.analyse.samples import empty_samples
from profiler.analyse.timeline_samples import (
    Source,
    samples_from_program,
    samples_from_timeline,
)
from profiler.model import Visit
from profiler.parse.nsys import Timeline
from profiler.parse.timeline_files import TimelineFacts, read_timeline
from profiler.parse.timeline_visits import Cut, cuts, full_window, launch_times, visits, window_of
from profiler.run_folder.folder import Attempt
from runner import protocol

FIRST_BLOCK = 0
"""The block whose timeline is shown."""

_REPORT = "report.nsys-rep.gz"

Record = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class VisitTimelines:
    """What one attempt recorded of its visits."""

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
    found = read_timeline(attempt.folder)
    if found is None:
        return None
    timeline, facts = found
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
    own = attempt.record.visit
    finished = [Visit(*visit) for visit in protocol.finished_visits(records)]
    if own is None and facts.capture in (protocol.CAPTURE_VISITS, protocol.CAPTURE_PROGRAM):
        windows = visits(timeline.ranges)
        made = windows[["cell", "block", "arm"]].itertuples(index=False, name=None)
        parts = {Visit(*key): part for key, part in zip(made, cuts(timeline, windows), strict=True)}
        return {visit: parts[visit] for visit in finished if visit in parts}
    # Of a program, or of a range that the user named, an attempt holds one visit.
    alone = [Visit(**own)] if own is not None else finished[:1]
    return dict(zip(alone, cuts(timeline, full_window(timeline)), strict=False))


def _samples(attempt: Attempt, visit: Visit, part: Cut, facts: TimelineFacts) -> pd.DataFrame:
    record, operations = attempt.record, part.attribution.operations
    source = Source(record.session, record.collector, on_host=facts.device == "cpu")
    if record.visit is not None:
        return samples_from_program(operations, visit, source)
    launch_of = window_of(launch_times(operations), part.launches)
    return samples_from_timeline(operations, launch_of, part.launches, visit, source)


def _cell_timeline(
    attempt: Attempt, visit: Visit, part: Cut, facts: TimelineFacts, records: Sequence[Record]
) -> CellTimeline:
    found = part.attribution
    return CellTimeline(
        cell=visit.cell,
        collector=facts.collector,
        operations=found.operations,
        ranges=found.ranges,
        stacks=found.stacks,
        api=found.api,
        launches=len(part.launches),
        operators=_operators(visit, records),
        originals=_originals(attempt, visit, facts, records),
    )


def _originals(
    attempt: Attempt, visit: Visit, facts: TimelineFacts, records: Iterable[Record]
) -> tuple[Original, ...]:
    """What the tool itself wrote of a visit, by the name that it has when its attempt has ended."""
    files = (_REPORT,) if facts.collector == "nsys" else _traces(visit, records)
    return tuple(
        Original(facts.collector, f"raw/{attempt.folder.name}/private/{file}") for file in files
    )


def _traces(visit: Visit, records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(str(record["trace"]) for record in _measured(visit, records) if "trace" in record)


def _measured(visit: Visit, records: Iterable[Record]) -> Iterator[Record]:
    """What the journal says of the end of a visit."""
    for record in protocol.measured(records):
        if Visit(*protocol.visit_of(record)) == visit:
            yield record


def _operators(visit: Visit, records: Iterable[Record]) -> pd.DataFrame:
    """What torch.profiler said of the operators of a visit: `protocol.OPERATOR_FIELDS`."""
    told = [
        operator
        for record in _measured(visit, records)
        for operator in record.get("operators") or ()
    ]
    frame = pd.DataFrame(told, columns=list(protocol.OPERATOR_FIELDS))
    stacks = pd.Series([tuple(stack) for stack in frame["stack"]], index=frame.index, dtype=object)
    return frame.assign(stack=stacks)


def joined_timelines(attempts: Iterable[Mapping[str, CellTimeline]]) -> dict[str, CellTimeline]:
    """One timeline per cell: the first that was made, nsys before torch, with torch's operators.

    `attempts`: by cell, what each of them has that counts.
    """
    found: dict[str, dict[str, CellTimeline]] = {}
    for each in attempts:
        for cell, timeline in each.items():
            found.setdefault(cell, {}).setdefault(timeline.collector, timeline)
    return {cell: _joined(by_collector) for cell, by_collector in found.items()}


def shared_timelines(
    timelines: Mapping[str, CellTimeline], twins: Mapping[str, str]
) -> dict[str, CellTimeline]:
    """Give cells that are the same program as another the timeline that was recorded for both.

    `twins`: cell id → the cell that was measured for it.
    """
    shared = {
        cell: replace(timelines[twin], cell=cell)
        for cell, twin in twins.items()
        if twin in timelines and cell not in timelines
    }
    return {**timelines, **shared}


def _joined(by_collector: Mapping[str, CellTimeline]) -> CellTimeline:
    nsys, torch = by_collector.get("nsys"), by_collector.get("torch")
    if nsys is not None and torch is not None:
        originals = (*nsys.originals, *torch.originals)
        return replace(nsys, operators=torch.operators, originals=originals)
    return next(iter(by_collector.values()))
