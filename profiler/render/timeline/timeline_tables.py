"""The tables of timelines: phases, calls, ranges, gaps, kernels, launches, operators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from profiler.findings.timelines.cells import (
    CellTimelineFindings,
    Phase,
    TimelineFindings,
    UnitPart,
)
from profiler.metrics.labels import label
from profiler.render.tables.rows import Datum, Row, SmallTable
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


@dataclass(frozen=True)
class NamedTimelines:
    """The timelines of a page, in its order, and what is true of all of them."""

    cells: tuple[NamedTimeline, ...]
    timelines: TimelineFindings


# ---- over cells ----------------------------------------------------------------------------------


_PhaseKey = tuple[UnitPart, str]
_PART_ORDER = (UnitPart.WHOLE, UnitPart.RANGE, UnitPart.OUTSIDE)


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
    plural = "es" if name == _LAUNCH and number != 1 else ""
    return f"{number} {name}{plural}".rstrip()


def slowed_words(named: NamedTimelines) -> str:
    """Sentence on the slowdown by recording; empty where there was none, or it is not known."""
    slowed = named.timelines.most_slowed
    if slowed is None:
        return ""
    name = next(cell.name for cell in named.cells if cell.timeline is slowed)
    recorded, timed = (numbers.show(time, "ns") for time in (slowed.launch_ns, slowed.timed_ns))
    return (
        "Recording slows the host down, so busy shares are lower here than in a run without it: "
        f"a launch of {name} took {recorded} in the recording and {timed} by CUDA events (which "
        "hide as much of the host's time as their flush of the caches takes)."
    )


def _phase_name(part: UnitPart, name: str, unit: str) -> str:
    """Name of a phase; `unit`: name of the whole unit."""
    return {UnitPart.WHOLE: unit, UnitPart.OUTSIDE: "outside of them"}.get(part, name)


def _share_datum(phase: Phase | None) -> Datum:
    if phase is None:
        return Datum(title="no such range here", css="none")
    if numbers.is_missing(phase.busy_share):
        return Datum(title="nothing ran in it", css="none")
    title = (
        f"{percent(phase.busy_share_low)} to {percent(phase.busy_share_high)} over {phase.units}; "
        f"time {numbers.show(phase.gpu_ns, 'ns')}, idle {numbers.show(phase.idle_ns, 'ns')}"
    )
    return Datum.quantity(100 * phase.busy_share, "%", "", title)


def percent(share: float) -> str:
    """Write a share as percent."""
    return numbers.show(100 * share, "%")


def phase_table(named: NamedTimelines) -> SmallTable:
    """Host and GPU time of every phase of every cell: medians over units."""
    lines = tuple(line for cell in named.cells for line in _phase_lines(cell))
    device = named.timelines.device
    return SmallTable(
        "Phases: medians, from the lowest to the highest over units",
        "variant",
        (
            ("problem", ""),
            ("phase", "Ranges right inside what repeats"),
            ("of", "What repeats, and how often it was seen"),
            ("operations", "Kernels, copies and memsets in each"),
            (f"{device} time", "Sum of the durations of its operations"),
            ("lowest to highest", ""),
            (
                "busy share",
                "Time in which an operation of it ran, of the time from its first to its last; of "
                "the whole, since the last of the unit before",
            ),
            ("lowest to highest ", ""),
            (
                "idle",
                "The rest of that time: nothing of it ran; of a phase, nothing at all",
            ),
            (f"of the {device}'s time", "Busy time of the phase, of that of all"),
            ("host time", "How long its ranges were open on the host"),
        ),
        lines,
        text_heads=("problem", "phase", "of", "lowest to highest", "lowest to highest "),
    )


def _phase_lines(cell: NamedTimeline) -> Iterator[Row]:
    unit = cell.timeline.unit
    for phase in cell.timeline.phases:
        data = (
            _text_datum(cell.problem),
            _text_datum(_phase_name(phase.part, phase.name, f"whole {unit}".rstrip())),
            _text_datum(_counted(phase.units, unit)),
            _number(phase.operations),
            _time(phase.gpu_ns),
            _span(phase.gpu_ns_low, phase.gpu_ns_high),
            _percent(phase.busy_share),
            _span(100 * phase.busy_share_low, 100 * phase.busy_share_high, "%"),
            _time(phase.idle_ns),
            _percent(phase.share_of_gpu),
            _time(phase.host_ns, "no range of its own"),
        )
        yield Row(cell.variant, data, mark=cell.mark)


def call_table(named: NamedTimelines) -> SmallTable | None:
    """CUDA calls by cell and name: how many a launch makes, and how long they take on the host."""
    names = named.timelines.call_names
    if not names:
        return None
    heads = [("all calls", "Calls per launch"), ("all calls: time", "Sum of those of the calls")]
    heads += [
        head
        for name in names
        for head in ((name, "Calls per launch"), (f"{name}: time", _CALL_HINT))
    ]
    lines = tuple(
        Row(
            cell.variant,
            (_text_datum(cell.problem), *_calls_of(cell.timeline.calls, names)),
            mark=cell.mark,
        )
        for cell in named.cells
        if not cell.timeline.on_cpu
    )
    return SmallTable(
        "CUDA calls per launch: how many, and how long on the host",
        "variant",
        (("problem", ""), *heads),
        lines,
        text_heads=("problem",),
    )


_CALL_HINT = "Host time per launch, median"


def _calls_of(table: pd.DataFrame, names: Sequence[str]) -> Iterator[Datum]:
    """Number and host time of all calls of a cell, then of each name."""
    yield from _call_totals(table)
    by_name = {str(row["name"]): row for row in table.to_dict("records")}
    for name in names:
        yield from _call_data(by_name.get(name))


def _call_data(row: Mapping[Any, Any] | None) -> tuple[Datum, Datum]:
    if row is None:
        return Datum("0", "0"), Datum(title="not called", css="none")
    title = f"{numbers.show(row['low_ns'], 'ns')} to {numbers.show(row['high_ns'], 'ns')}"
    return _number(row["calls"]), Datum.quantity(row["host_ns"], "ns", "", title)


def _call_totals(table: pd.DataFrame) -> tuple[Datum, Datum]:
    if table.empty:
        return Datum("0", "0"), Datum(title="no calls were recorded", css="none")
    return _number(table["calls"].sum()), _time(table["host_ns"].sum())


# ---- of one cell ---------------------------------------------------------------------------------


def tree_table(timeline: CellTimelineFindings) -> SmallTable | None:
    """Ranges with host and GPU time, and the counters of ncu by range where there are any."""
    if timeline.ranges.empty:
        return None
    counters = tuple(
        RangeColumn(
            f"{label(name).label}, ncu, one launch",
            "Of all instances in one launch under ncu, where kernels run one by one; a mean over "
            "visits",
            name,
            label(name).unit,
            "not collected for this range",
        )
        for name in timeline.range_metrics
    )
    caption = "Ranges: time of all instances together"
    return range_table(timeline.ranges, caption, timeline.device, MOST_TREE_ROWS, counters)


class RangeColumn(NamedTuple):
    """A further column of a table of ranges: its words, where it stands, why a value is missing."""

    head: str
    hint: str
    column: str
    unit: str
    without: str


def range_table(
    ranges: pd.DataFrame, caption: str, device: str, most: int, more: Sequence[RangeColumn] = ()
) -> SmallTable:
    """The first rows of a tree of ranges (TREE_COLUMNS), with further columns of numbers."""
    lines = tuple(_tree_line(row, more) for row in ranges.head(most).to_dict("records"))
    heads = (
        ("instances", "How often it was opened"),
        ("host", "How long all of them were open on the host"),
        ("operations", "Kernels, copies and memsets inside, also further in"),
        (device, "Sum of their durations"),
        (f"own {device}", "Without what lies in a range further in"),
        ("busy", "Time in which an operation ran"),
        (
            "idle inside",
            "Time from the first to the last operation of each instance in which nothing ran; "
            "waits between instances are left out",
        ),
        *((column.head, column.hint) for column in more),
    )
    return SmallTable(caption, "range", heads, lines, max(0, len(ranges) - most))


def _tree_line(row: Mapping[Any, Any], more: Sequence[RangeColumn]) -> Row:
    without = "nothing ran in it" if row["operations"] == 0 else "not known"
    times = (row[name] for name in ("gpu_ns", "self_gpu_ns", "busy_ns", "idle_ns"))
    data = (
        _number(row["instances"]),
        _time(row["host_ns"]),
        _number(row["operations"]),
        *(_time(time if row["operations"] > 0 else None, without) for time in times),
        *(_quantity(row[column.column], column.unit, column.without) for column in more),
    )
    domain = "" if row["domain"] in ("", NVTX_DOMAIN) else f"{row['domain']}@"
    return Row(f"{domain}{name_of(row['name'])}", data, depth=int(row["depth"]) - 1)


def gap_table(timeline: CellTimelineFindings) -> SmallTable | None:
    """Stretches in which the GPU ran nothing, by what ran before and after."""
    groups = timeline.gaps
    if groups.empty:
        return None
    lines = tuple(
        Row(
            f"{row['before']} \u2192 {row['after']}",
            (
                Datum(_between(row["before_path"], row["after_path"]), css="prose"),
                _time(row["total_ns"]),
                _number(row["count"]),
                _time(row["med_ns"]),
                _time(row["max_ns"]),
                *(() if timeline.on_cpu else (_host_late(row["host_late"]),)),
            ),
        )
        for row in groups.head(MOST_GAPS).to_dict("records")
    )
    return SmallTable(
        caption=f"Idle gaps of the {timeline.device}, most time together first",
        first="between",
        heads=(
            ("in", "Ranges of the operation before the gap, and of the one after it"),
            ("together", "All gaps between these two"),
            ("gaps", ""),
            ("median", ""),
            ("longest", ""),
            *(() if timeline.on_cpu else (("host late", _HOST_LATE_HINT),)),
        ),
        lines=lines,
        left_out=max(0, len(groups) - MOST_GAPS),
        long_names=True,
        text_heads=("in",),
    )


_HOST_LATE_HINT = "How many of them ended with an operation that was launched only then"


def _host_late(share: float) -> Datum:
    return _percent(share, "their launches were not recorded")


def _between(before: Sequence[str], after: Sequence[str]) -> str:
    first, second = (" / ".join(path) or "no range" for path in (before, after))
    return first if first == second else f"{first} \u2192 {second}"


def kernel_table(timeline: CellTimelineFindings) -> SmallTable | None:
    """Kernels as `nsys stats` sums them up, then copies, memsets and whole graphs."""
    kernels, others = timeline.kernels, timeline.other_operations
    if kernels.empty and others.empty:
        return None
    shown = [*kernels.head(MOST_KERNELS).to_dict("records"), *others.to_dict("records")]
    caption, first = (
        ("Operators of the CPU", "operator")
        if timeline.on_cpu
        else ("Kernels; then copies and memsets, percent of their own", "kernel")
    )
    return summary_table(shown, caption, first, max(0, len(kernels) - MOST_KERNELS))


def summary_table(
    rows: Iterable[Mapping[Any, Any]], caption: str, first: str, left_out: int
) -> SmallTable:
    """Operations or calls by name (SUMMARY_COLUMNS); `first` heads their names."""
    lines = tuple(
        Row(
            name_of(row["name"]),
            (
                _quantity(row["time_pct"], "%", "not known"),
                _time(row["total_ns"]),
                _number(row["instances"]),
                *(_time(row[name]) for name in ("avg_ns", "med_ns", "min_ns", "max_ns")),
                _time(row["stddev_ns"], "ran once"),
            ),
        )
        for row in rows
    )
    return SmallTable(
        caption=caption,
        first=first,
        heads=(
            ("time", "Percent of the time of all of its kind"),
            ("total", ""),
            ("instances", ""),
            ("average", ""),
            ("median", ""),
            ("shortest", ""),
            ("longest", ""),
            ("standard deviation", "Of a sample"),
        ),
        lines=lines,
        left_out=left_out,
        long_names=True,
        page_only=("shortest", "longest", "standard deviation"),
    )


def latency_table(latency: pd.DataFrame, most: int = MOST_LATENCIES) -> SmallTable | None:
    """Time from a launching call to the start of what it launched, by name (LATENCY_COLUMNS)."""
    if latency.empty:
        return None
    lines = tuple(
        Row(
            name_of(row["name"]),
            (
                _number(row["launches"]),
                *(_time(row[name]) for name in ("med_ns", "avg_ns", "min_ns", "max_ns")),
            ),
        )
        for row in latency.head(most).to_dict("records")
    )
    return SmallTable(
        caption="Launch latency",
        first="operation",
        heads=(
            ("launches", "Calls that launched it; of a graph only its first node has a latency"),
            ("median", "From the beginning of the call to the start on the GPU"),
            ("average", ""),
            ("shortest", ""),
            ("longest", ""),
        ),
        lines=lines,
        left_out=max(0, len(latency) - most),
        long_names=True,
        page_only=("shortest",),
    )


@dataclass(frozen=True)
class Operator:
    """One operator of torch with the Python calls that led to it."""

    name: str
    data: tuple[Datum, ...]
    stack: tuple[str, ...]


OPERATOR_HEADS = ("calls", "own device time", "device time", "own CPU time", "CPU time")


def operator_rows(timeline: CellTimelineFindings) -> tuple[tuple[Operator, ...], int]:
    """The first operators of torch.profiler, and the number of those that had no room."""
    table = timeline.operators
    rows = tuple(_operator(row) for row in table.head(MOST_OPERATORS).to_dict("records"))
    return rows, len(table) - len(rows)


def _operator(row: Mapping[Any, Any]) -> Operator:
    times = (row[name] for name in ("self_device_us", "device_us", "self_cpu_us", "cpu_us"))
    data = (_number(row["calls"]), *(_time(time * 1000) for time in times))
    return Operator(str(row["name"]), data, tuple(str(line) for line in _as_lines(row["stack"])))


def _as_lines(stack: object) -> Iterable[object]:
    return stack if isinstance(stack, list | tuple) else ()


# ---- data ----------------------------------------------------------------------------------------


def _text_datum(text: str) -> Datum:
    return Datum(text, css="words")


def name_of(value: object) -> str:
    """Name of an operation or a range as a table shows it."""
    return value if isinstance(value, str) and value else "without a name"


def _quantity(value: Any, unit: str, without: str) -> Datum:
    return Datum.quantity(None if pd.isna(value) else float(value), unit, without)


def _number(value: float, without: str = "not known") -> Datum:
    return _quantity(value, "", without)


def _time(value: float | None, without: str = "nothing ran in it") -> Datum:
    return _quantity(value, "ns", without)


def _percent(share: float | None, without: str = "nothing ran in it") -> Datum:
    return Datum.quantity(None if share is None else 100 * share, "%", without)


def _span(low: float, high: float, unit: str = "ns") -> Datum:
    if numbers.is_missing(low) or numbers.is_missing(high):
        return Datum(title="nothing ran in it", css="none")
    return _text_datum(f"{numbers.show(low, unit)} to {numbers.show(high, unit)}")
