"""The tables of timelines: phases, calls, ranges, gaps, kernels, launches, operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from profiler.findings.timelines.cells import (
    CellTimelineFindings,
    Phase,
    TimelineFindings,
    UnitPart,
)
from profiler.metrics.queries import label
from profiler.notices import counted
from profiler.render.tables.rows import (
    PAGE_ONLY,
    Column,
    Datum,
    FrameRow,
    Row,
    SmallTable,
    frame_column,
    frame_table,
    name_of,
    quantity,
    text_column,
)
from profiler.render.words import numbers
from profiler.runner.protocol import NVTX_DOMAIN

MOST_KERNELS = 40
MOST_GAPS = 15
MOST_LATENCIES = 15
MOST_OPERATORS = 20
MOST_TREE_ROWS = 150
_LAUNCH = "launch"
"""Name of units that are launches."""


@dataclass(frozen=True)
class NamedTimeline:
    """Findings of a timeline, under the name of its cell."""

    variant: str
    problem: str
    mark: int
    timeline: CellTimelineFindings

    @property
    def name(self) -> str:
        """Variant and problem."""
        return f"{self.variant}, {self.problem}" if self.problem else self.variant

    @property
    def units(self) -> str:
        """Repeating unit and its count: `100 step_*`."""
        timeline = self.timeline
        return _counted(timeline.units, timeline.unit) if timeline.unit else "nothing repeats"


# ---- over cells ----------------------------------------------------------------------------------


_PhaseKey = tuple[UnitPart, str]
_PART_ORDER = ("whole", "range", "outside")


def phase_shares(cells: Sequence[NamedTimeline]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Names of phases, and a row for each cell with its GPU busy shares: medians over units.

    The first number of a row says what repeats, and how often.
    """
    by_key = [{(phase.part, phase.name): phase for phase in cell.timeline.phases} for cell in cells]
    keys: dict[_PhaseKey, None] = dict.fromkeys(key for phases in by_key for key in phases)
    ordered = sorted(keys, key=lambda key: _PART_ORDER.index(key[0]))
    rows = tuple(
        Row(
            cell.variant,
            (_text_datum(cell.units), *(_share_datum(phases.get(key)) for key in ordered)),
            note=cell.problem,
            mark=cell.mark,
        )
        for cell, phases in zip(cells, by_key, strict=True)
    )
    return tuple(_phase_name(*key, "whole") for key in ordered), rows


def _counted(number: int, name: str) -> str:
    """Count and noun: `3 launches`, `100 step_*`."""
    return counted(number, name, "launches" if name == _LAUNCH else name).rstrip()


def slowed_words(cell_timelines: Iterable[NamedTimeline], timelines: TimelineFindings) -> str:
    """Sentence on the slowdown by recording; empty where there was none, or it is not known."""
    slowed = timelines.most_slowed
    if slowed is None:
        return ""
    name = next(cell.name for cell in cell_timelines if cell.timeline is slowed)
    recorded, timed = (numbers.show(time, "ns") for time in (slowed.launch_ns, slowed.timed_ns))
    return (
        "Recording slows the host down, so busy shares are lower here than in a run without it: "
        f"a launch of {name} took {recorded} in the recording and {timed} by CUDA events (which "
        "hide as much of the host's time as their flush of the caches takes)."
    )


def _phase_name(part: UnitPart, name: str, unit: str) -> str:
    """Name of a phase; `unit`: name of the whole unit."""
    return {"whole": unit, "outside": "outside of them"}.get(part, name)


def _share_datum(phase: Phase | None) -> Datum:
    if phase is None:
        return Datum(title="no such range here", css="none")
    if numbers.is_missing(phase.busy_share):
        return Datum(title="nothing ran in it", css="none")
    low, high = map(numbers.share, phase.busy_share_range)
    title = (
        f"{low} to {high} over {phase.units}; "
        f"time {numbers.show(phase.gpu_ns, 'ns')}, idle {numbers.show(phase.idle_ns, 'ns')}"
    )
    return Datum.quantity(100 * phase.busy_share, "%", "", title)


def phase_table(cell_timelines: Iterable[NamedTimeline], device: str) -> SmallTable:
    """Host and GPU time of every phase of every cell: medians over units."""
    busy = (
        "Time in which an operation of it ran, of the time from its first to its last; of the "
        "whole, since the last of the unit before"
    )
    columns: tuple[Column[tuple[NamedTimeline, Phase]], ...] = (
        text_column("problem", lambda row: row[0].problem, without=""),
        text_column("phase", _phase_words, "Ranges right inside what repeats"),
        text_column(
            "of",
            lambda row: _counted(row[1].units, row[0].timeline.unit),
            "What repeats, and how often it was seen",
        ),
        Column(
            "operations",
            lambda row: _number(row[1].operations),
            "Kernels, copies and memsets in each",
        ),
        Column(
            f"{device} time",
            lambda row: _time(row[1].gpu_ns),
            "Sum of the durations of its operations",
        ),
        Column(
            "lowest to highest",
            lambda row: _span(row[1].gpu_ns_range),
            is_text=True,
        ),
        Column("busy share", lambda row: _percent(row[1].busy_share), busy),
        Column(
            "lowest to highest ",
            lambda row: _span(row[1].busy_share_range, "%", 100),
            is_text=True,
        ),
        Column(
            "idle",
            lambda row: _time(row[1].idle_ns),
            "The rest of that time: nothing of it ran; of a phase, nothing at all",
        ),
        Column(
            f"of the {device}'s time",
            lambda row: _percent(row[1].share_of_gpu),
            "Busy time of the phase, of that of all",
        ),
        Column(
            "host time",
            lambda row: _time(row[1].host_ns, "no range of its own"),
            "How long its ranges were open on the host",
        ),
    )
    return SmallTable.of(
        "Phases: medians, from the lowest to the highest over units",
        "variant",
        columns,
        [(cell, phase) for cell in cell_timelines for phase in cell.timeline.phases],
        lambda row: Row(row[0].variant, mark=row[0].mark),
    )


def _phase_words(row: tuple[NamedTimeline, Phase]) -> str:
    cell, phase = row
    return _phase_name(phase.part, phase.name, f"whole {cell.timeline.unit}".rstrip())


def call_table(cell_timelines: Iterable[NamedTimeline], names: Sequence[str]) -> SmallTable | None:
    """CUDA calls by cell and name: how many a launch makes, and how long they take on the host."""
    if not names:
        return None
    calls, times = "Calls per launch", "Host time per launch, median"
    columns: list[Column[NamedTimeline]] = [
        text_column("problem", lambda cell: cell.problem, without=""),
        Column("all calls", lambda cell: _call_totals(cell)[0], calls),
        Column("all calls: time", lambda cell: _call_totals(cell)[1], "Sum of those of the calls"),
    ]
    for name in names:
        columns += [
            Column(name, partial(_call_datum, name, 0), calls),
            Column(f"{name}: time", partial(_call_datum, name, 1), times),
        ]
    return SmallTable.of(
        "CUDA calls per launch: how many, and how long on the host",
        "variant",
        columns,
        [cell for cell in cell_timelines if not cell.timeline.on_cpu],
        lambda cell: Row(cell.variant, mark=cell.mark),
    )


def _call_datum(name: str, place: int, cell: NamedTimeline) -> Datum:
    """Number (0) or host time (1) of the calls of a name in a cell."""
    table = cell.timeline.calls
    rows = table[table["name"] == name].to_dict("records")
    if not rows:
        return (Datum("0", "0"), Datum(title="not called", css="none"))[place]
    row = rows[0]
    title = f"{numbers.show(row['low_ns'], 'ns')} to {numbers.show(row['high_ns'], 'ns')}"
    return (_number(row["calls"]), Datum.quantity(row["host_ns"], "ns", "", title))[place]


def _call_totals(cell: NamedTimeline) -> tuple[Datum, Datum]:
    table = cell.timeline.calls
    if table.empty:
        return Datum("0", "0"), Datum(title="no calls were recorded", css="none")
    return _number(table["calls"].sum()), _time(table["host_ns"].sum())


# ---- of one cell ---------------------------------------------------------------------------------


def tree_table(timeline: CellTimelineFindings) -> SmallTable | None:
    """Ranges with host and GPU time, and the counters of ncu by range where there are any."""
    if timeline.ranges.empty:
        return None
    hint = "Of all instances in one launch under ncu, where kernels run one by one; a mean over "
    counters = [
        frame_column(
            f"{label(name).label}, ncu, one launch",
            name,
            label(name).unit,
            f"{hint}visits",
            "not collected for this range",
        )
        for name in timeline.range_metrics
    ]
    caption = "Ranges: time of all instances together"
    return range_table(caption, timeline.ranges, timeline.device, MOST_TREE_ROWS, counters)


def range_table(
    caption: str,
    ranges: pd.DataFrame,
    device: str,
    most: int,
    more: Sequence[Column[FrameRow]],
) -> SmallTable:
    """The first rows of a tree of ranges (TREE_COLUMNS), with further columns."""
    columns = (
        frame_column("instances", "instances", hint="How often it was opened"),
        frame_column("host", "host_ns", "ns", "How long all of them were open on the host"),
        frame_column("operations", "operations", hint=_INSIDE),
        frame_column(device, "gpu_ns", "ns", "Sum of their durations", _NOTHING),
        frame_column(f"own {device}", "self_gpu_ns", "ns", _OWN, _NOTHING),
        frame_column("busy", "busy_ns", "ns", "Time in which an operation ran", _NOTHING),
        frame_column("idle inside", "idle_ns", "ns", _IDLE, _NOTHING),
        *more,
    )
    some = ranges["operations"] > 0
    times = ("gpu_ns", "self_gpu_ns", "busy_ns", "idle_ns")
    shown_ranges = ranges.assign(**{name: ranges[name].where(some) for name in times})
    return frame_table(
        caption, "range", columns, shown_ranges, most, head_row=_range_row, long_names=False
    )


_INSIDE = "Kernels, copies and memsets inside, also further in"
_OWN = "Without what lies in a range further in"
_IDLE = (
    "Time from the first to the last operation of each instance in which nothing ran; waits "
    "between instances are left out"
)
_NOTHING = "nothing ran in it, as far as it is known"


def _range_row(row: FrameRow) -> Row:
    domain = "" if row["domain"] in ("", NVTX_DOMAIN) else f"{row['domain']}@"
    return Row(f"{domain}{name_of(row['name'])}", depth=int(row["depth"]) - 1)


def gap_table(timeline: CellTimelineFindings) -> SmallTable | None:
    """Stretches in which the GPU ran nothing, by what ran before and after."""
    if timeline.gaps.empty:
        return None
    columns = [
        Column(
            "in", _between, "Ranges of the operation before the gap, and of the one after it", True
        ),
        frame_column("together", "total_ns", "ns", "All gaps between these two"),
        frame_column("gaps", "count"),
        frame_column("median", "med_ns", "ns"),
        frame_column("longest", "max_ns", "ns"),
    ]
    if not timeline.on_cpu:
        columns.append(
            Column(
                "host late",
                lambda row: _percent(row["host_late"], "their launches were not recorded"),
                "How many of them ended with an operation that was launched only then",
            )
        )
    return frame_table(
        f"Idle gaps of the {timeline.device}, most time together first",
        "between",
        columns,
        timeline.gaps,
        MOST_GAPS,
        head_row=lambda row: Row(f"{row['before']} \u2192 {row['after']}"),
    )


def _between(row: FrameRow) -> Datum:
    paths = (row["before_path"], row["after_path"])
    first, second = (" / ".join(path) or "no range" for path in paths)
    return Datum(first if first == second else f"{first} \u2192 {second}", css="prose")


def kernel_table(timeline: CellTimelineFindings) -> SmallTable | None:
    """Kernels as `nsys stats` sums them up, then copies, memsets and whole graphs."""
    kernels, other_operations = timeline.kernels, timeline.other_operations
    parts = [part for part in (kernels.head(MOST_KERNELS), other_operations) if len(part)]
    if not parts:
        return None
    caption, first = (
        ("Operators of the CPU", "operator")
        if timeline.on_cpu
        else ("Kernels; then copies and memsets, percent of their own", "kernel")
    )
    table = summary_table(caption, first, pd.concat(parts), MOST_KERNELS + len(other_operations))
    return replace(table, left_out=max(0, len(kernels) - MOST_KERNELS))


def summary_table(caption: str, first: str, frame: pd.DataFrame, most: int) -> SmallTable:
    """Operations or calls by name (SUMMARY_COLUMNS); `first` heads their names."""
    columns = (
        frame_column("time", "time_pct", "%", "Percent of the time of all of its kind"),
        frame_column("total", "total_ns", "ns"),
        frame_column("instances", "instances"),
        frame_column("average", "avg_ns", "ns"),
        frame_column("median", "med_ns", "ns"),
        frame_column("shortest", "min_ns", "ns", drop=PAGE_ONLY),
        frame_column("longest", "max_ns", "ns", drop=PAGE_ONLY),
        frame_column(
            "standard deviation", "stddev_ns", "ns", "Of a sample", "ran once", drop=PAGE_ONLY
        ),
    )
    return frame_table(caption, first, columns, frame, most)


def latency_table(latency: pd.DataFrame, most: int = MOST_LATENCIES) -> SmallTable | None:
    """Time from a launching call to the start of what it launched, by name (LATENCY_COLUMNS)."""
    if latency.empty:
        return None
    calls = "Calls that launched it; of a graph only its first node has a latency"
    columns = (
        frame_column("launches", "launches", hint=calls),
        frame_column("median", "med_ns", "ns", "From the call to the start on the GPU"),
        frame_column("average", "avg_ns", "ns"),
        frame_column("shortest", "min_ns", "ns", drop=PAGE_ONLY),
        frame_column("longest", "max_ns", "ns"),
    )
    return frame_table("Launch latency", "operation", columns, latency, most)


OPERATOR_HEADS = ("calls", "own device time", "device time", "own CPU time", "CPU time")


def operator_rows(timeline: CellTimelineFindings) -> tuple[list[dict[str, Any]], int]:
    """The first operators of torch.profiler, and the number of those that had no room.

    Each has its `data` for OPERATOR_HEADS, and the Python calls that led to it, its `stack`.
    """
    table = timeline.operators
    rows = list(map(_operator, table.head(MOST_OPERATORS).to_dict("records")))
    return rows, len(table) - len(rows)


def _operator(row: FrameRow) -> dict[str, Any]:
    times = (row[name] for name in ("self_device_us", "device_us", "self_cpu_us", "cpu_us"))
    stack = row["stack"] if isinstance(row["stack"], list | tuple) else ()
    return {
        "name": str(row["name"]),
        "data": (_number(row["calls"]), *(_time(time * 1000) for time in times)),
        "stack": list(map(str, stack)),
    }


# ---- data ----------------------------------------------------------------------------------------


def _text_datum(text: str) -> Datum:
    return Datum(text, css="words")


def _number(value: float) -> Datum:
    return quantity(value, "", "not known")


def _time(value: float | None, without: str = "nothing ran in it") -> Datum:
    return quantity(value, "ns", without)


def _percent(share: float | None, without: str = "nothing ran in it") -> Datum:
    return Datum.quantity(None if share is None else 100 * share, "%", without)


def _span(ends: tuple[float, float], unit: str = "ns", scale: float = 1) -> Datum:
    """Lowest to highest of values that are shown in a unit; `scale`: that unit in theirs."""
    low, high = (scale * end for end in ends)
    if numbers.is_missing(low) or numbers.is_missing(high):
        return Datum(title="nothing ran in it", css="none")
    return _text_datum(f"{numbers.show(low, unit)} to {numbers.show(high, unit)}")
