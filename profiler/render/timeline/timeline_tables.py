"""The tables of timelines: phases, calls, ranges, gaps, kernels, launches, operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from profiler.analyse.phases import (
    CPU_OPERATOR,
    LAUNCH,
    OUTSIDE,
    WHOLE,
    Phased,
    api_calls,
    gap_groups,
    phase_summary,
)
from profiler.analyse.range_counters import range_label
from profiler.analyse.timeline import (
    kernel_summary,
    latency_summary,
    merged_name,
    operation_summary,
    range_tree,
)
from profiler.findings.values import NAN
from profiler.metrics.labels import label
from profiler.render.tables.rows import Datum
from profiler.render.words import numbers
from runner.protocol import NVTX_DOMAIN

_SLOWED = 1.1
"""Time in a recording by that of the timer above which busy shares are no longer the run's own."""
MOST_KERNELS = 40
MOST_GAPS = 15
MOST_LATENCIES = 15
MOST_OPERATORS = 20
MOST_TREE_ROWS = 150
_OTHERS = ("memcpy", "memset", "graph", CPU_OPERATOR)
_RANGE_METRICS = (
    "duration_ns",
    "dram_read_bytes",
    "dram_write_bytes",
    "dram_bytes",
    "instructions",
)
"""Counters by range that the tree has room for, where they were collected: all add up."""


@dataclass(frozen=True)
class Line:
    """One row of a table whose heads are elsewhere."""

    name: str
    data: tuple[Datum, ...]
    depth: int = 0
    """How far it stands in; of trees."""
    title: str = ""
    mark: int = -1


@dataclass(frozen=True)
class SmallTable:
    """A table with its heads: pairs of words and what they mean. `left_out`: rows without room."""

    caption: str
    first: str
    heads: tuple[tuple[str, str], ...]
    lines: tuple[Line, ...]
    left_out: int = 0
    words: tuple[str, ...] = ()
    """Heads of columns that hold words."""
    long_names: bool = False
    """Whether the names of its rows need several lines."""


@dataclass(frozen=True)
class NamedTimeline:
    """A timeline under the name of its cell."""

    variant: str
    problem: str
    mark: int
    found: Phased
    timed_ns: float = NAN
    """What the timer says of a launch; NaN where it measured nothing."""

    @property
    def name(self) -> str:
        """Variant and problem."""
        return f"{self.variant}, {self.problem}" if self.problem else self.variant

    @property
    def units(self) -> str:
        """What repeats, and how often: `100 step_*`."""
        found = self.found.units
        return _counted(len(found.rows), found.name) if found.name else "nothing repeats"

    @property
    def slowed(self) -> float:
        """Time of a launch in the recording by that of the timer; NaN where one is not known."""
        return NAN if self.found.on_cpu else self.found.launch_ns / self.timed_ns


# ---- over cells ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class PhaseShares:
    """Busy share of each phase, cells as rows; first what repeats, and how often."""

    phases: tuple[str, ...]
    rows: tuple[Line, ...]


def phase_shares(cells: Sequence[NamedTimeline]) -> PhaseShares:
    """GPU busy share by cell and phase: medians over units."""
    summaries = [_by(phase_summary(one.found.times), "phase") for one in cells]
    phases = tuple(dict.fromkeys(name for table in summaries for name in table))
    ordered = tuple(sorted(phases, key=lambda name: {WHOLE: -1, OUTSIDE: 1}.get(name, 0)))
    rows = tuple(
        Line(
            one.variant,
            (_words(one.units), *(_share_datum(table.get(name)) for name in ordered)),
            title=one.problem,
            mark=one.mark,
        )
        for one, table in zip(cells, summaries, strict=True)
    )
    return PhaseShares(tuple(phase_name(name, "whole") for name in ordered), rows)


def _counted(number: int, name: str) -> str:
    """So many of them, as English has it where they are launches."""
    plural = "es" if name == LAUNCH and number != 1 else ""
    return f"{number} {name}{plural}".rstrip()


def slowed_words(cells: Sequence[NamedTimeline]) -> str:
    """Say how far recording stretched the launches; empty where it did not, or nothing tells."""
    slowed = [one for one in cells if one.slowed > _SLOWED]
    if not slowed:
        return ""
    worst = max(slowed, key=lambda one: one.slowed)
    recorded, timed = (numbers.show(one, "ns") for one in (worst.found.launch_ns, worst.timed_ns))
    return (
        "Recording slows the host down, so busy shares are lower here than in a run without it: "
        f"a launch of {worst.name} took {recorded} in the recording and {timed} by the timer "
        "(which hides as much of the host's time as its flush of the caches takes)."
    )


def _by(table: pd.DataFrame, column: str) -> dict[str, Mapping[Any, Any]]:
    """Rows of a table by a column of words."""
    return {str(row[column]): row for row in table.to_dict("records")}


def phase_name(phase: str, whole: str) -> str:
    """What a phase is called; `whole`: what all of the unit is."""
    return {WHOLE: whole, OUTSIDE: "outside of them"}.get(phase, phase)


def _share_datum(row: Mapping[Any, Any] | None) -> Datum:
    if row is None:
        return Datum(title="no such range here", css="none")
    if numbers.is_missing(row["busy_share"]):
        return Datum(title="nothing ran in it", css="none")
    low, high = row["busy_share_low"], row["busy_share_high"]
    title = (
        f"{percent(low)} to {percent(high)} over {row['units']:.0f}; "
        f"time {numbers.show(row['gpu_ns'], 'ns')}, idle {numbers.show(row['idle_ns'], 'ns')}"
    )
    return Datum(percent(row["busy_share"]), numbers.raw(100 * row["busy_share"]), title)


def percent(share: float) -> str:
    """Write a share as percent."""
    return numbers.show(100 * share, "%")


def section_device(cells: Sequence[NamedTimeline]) -> str:
    """What the operations of all cells ran on: `CPU` only where none ran on a GPU."""
    ran = [one.found for one in cells if len(one.found.timeline.operations)]
    return "CPU" if ran and all(one.on_cpu for one in ran) else "GPU"


def phase_table(cells: Sequence[NamedTimeline]) -> SmallTable:
    """Host and GPU time of every phase of every cell: medians over units."""
    lines = tuple(line for one in cells for line in _phase_lines(one))
    device = section_device(cells)
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
        words=("problem", "phase", "of", "lowest to highest", "lowest to highest "),
    )


def _phase_lines(one: NamedTimeline) -> Iterator[Line]:
    unit = one.found.units.name
    for row in phase_summary(one.found.times).to_dict("records"):
        data = (
            _words(one.problem),
            _words(phase_name(str(row["phase"]), f"whole {unit}".rstrip())),
            _words(_counted(int(row["units"]), unit)),
            _number(row["operations"]),
            _time(row["gpu_ns"]),
            _span(row["gpu_ns_low"], row["gpu_ns_high"]),
            _percent(row["busy_share"]),
            _percent_span(row["busy_share_low"], row["busy_share_high"]),
            _time(row["idle_ns"]),
            _percent(row["share_of_gpu"]),
            _time(row["host_ns"], "no range of its own"),
        )
        yield Line(one.variant, data, mark=one.mark)


def call_table(cells: Sequence[NamedTimeline]) -> SmallTable | None:
    """CUDA calls by cell and name: how many a launch makes, and how long they take on the host."""
    cells = [one for one in cells if not one.found.on_cpu]
    tables = [api_calls(one.found.timeline.api, one.found.timeline.ranges) for one in cells]
    time: dict[str, float] = {}
    for table in tables:
        for name, host in zip(table["name"], table["host_ns"], strict=True):
            time[str(name)] = time.get(str(name), 0.0) + float(host)
    if not time:
        return None
    names = sorted(time, key=lambda name: (-time[name], name))
    heads = [("all calls", "Calls per launch"), ("all calls: time", "Sum of those of the calls")]
    heads += [
        head
        for name in names
        for head in ((name, "Calls per launch"), (f"{name}: time", _CALL_HINT))
    ]
    lines = tuple(
        Line(one.variant, (_words(one.problem), *_calls_of(table, names)), mark=one.mark)
        for one, table in zip(cells, tables, strict=True)
    )
    return SmallTable(
        "CUDA calls per launch: how many, and how long on the host",
        "variant",
        (("problem", ""), *heads),
        lines,
        words=("problem",),
    )


_CALL_HINT = "Host time per launch, median"


def _calls_of(table: pd.DataFrame, names: Sequence[str]) -> Iterator[Datum]:
    """Number and host time of all calls of a cell, then of each name."""
    yield from _call_totals(table)
    by_name = _by(table, "name")
    for name in names:
        yield from _call_data(by_name.get(name))


def _call_data(row: Mapping[Any, Any] | None) -> tuple[Datum, Datum]:
    if row is None:
        return Datum("0", "0"), Datum(title="not called", css="none")
    title = f"{numbers.show(row['low_ns'], 'ns')} to {numbers.show(row['high_ns'], 'ns')}"
    host = Datum(numbers.show(row["host_ns"], "ns"), numbers.raw(row["host_ns"]), title)
    return _number(row["calls"]), host


def _call_totals(table: pd.DataFrame) -> tuple[Datum, Datum]:
    if table.empty:
        return Datum("0", "0"), Datum(title="no calls were recorded", css="none")
    return _number(table["calls"].sum()), _time(table["host_ns"].sum())


# ---- of one cell ---------------------------------------------------------------------------------


def tree_table(found: Phased, counters: pd.DataFrame) -> SmallTable | None:
    """Ranges with host and GPU time; `counters`: those of this cell by range, may be empty."""
    timeline = found.timeline
    tree = range_tree(timeline.operations, found.ranges, timeline.stacks)
    if tree.empty:
        return None
    metrics = [
        name
        for name in _RANGE_METRICS
        if name in counters.columns and bool(counters[name].notna().any())
    ]
    by_path = _counters_by_path(counters, metrics, _merged_prefixes(tree))
    lines = tuple(
        _tree_line(row, [_counter(by_path.get(path, {}).get(name), name) for name in metrics])
        for row, path in zip(tree.to_dict("records"), _tree_paths(tree), strict=True)
    )
    heads = (
        ("instances", "How often it was opened"),
        ("host", "How long all of them were open on the host"),
        ("operations", "Kernels, copies and memsets inside, also further in"),
        (found.device, "Sum of their durations"),
        (f"own {found.device}", "Without what lies in a range further in"),
        (
            "busy",
            "Time in which an operation ran, of that from the first to the last of them",
        ),
        ("idle", "Time between them in which nothing ran at all"),
        *((f"{label(name).label}, ncu, one launch", _COUNTER_HINT) for name in metrics),
    )
    return SmallTable(
        "Ranges: time of all instances together",
        "range",
        heads,
        lines[:MOST_TREE_ROWS],
        max(0, len(lines) - MOST_TREE_ROWS),
    )


_COUNTER_HINT = (
    "Of all instances in one launch under ncu, where kernels run one by one; a mean over visits"
)


def _merged_prefixes(tree: pd.DataFrame) -> frozenset[str]:
    """What stands before the star of names that stand for many."""
    names = (str(name) for name in tree["name"] if str(name).endswith("_*"))
    return frozenset(name.removesuffix("_*") for name in names)


def _counters_by_path(
    counters: pd.DataFrame, metrics: Sequence[str], prefixes: Collection[str]
) -> dict[tuple[str, ...], dict[str, float]]:
    """Counters by path; under a name with a star those of all that it stands for together."""
    found: dict[tuple[str, ...], dict[str, float]] = {}
    many: dict[tuple[str, ...], list[dict[str, float]]] = {}
    for row in counters.to_dict("records") if metrics else []:
        path = tuple(str(name) for name in row["path"])
        values = {name: float(row[name]) for name in metrics}
        found[path] = values
        merged = tuple(merged_name(name, prefixes) for name in path)
        if merged != path:
            many.setdefault(merged, []).append(values)
    for path, rows in many.items():
        sums = pd.DataFrame(rows).sum(min_count=len(rows))  # part of a sum would be a wrong one
        found.setdefault(path, {name: float(sums[name]) for name in metrics})
    return found


def _tree_paths(tree: pd.DataFrame) -> list[tuple[str, ...]]:
    """Path of each row as the counters by range write it: without the profiler's own ranges."""
    found: list[tuple[str, ...]] = []
    for parent, domain, name in zip(tree["parent"], tree["domain"], tree["name"], strict=True):
        around = found[parent] if parent >= 0 else ()
        own = () if domain == NVTX_DOMAIN else (range_label(str(domain or ""), str(name)),)
        found.append((*around, *own))
    return found


def _counter(value: float | None, metric: str) -> Datum:
    if value is None or numbers.is_missing(value):
        return Datum(title="not collected for this range", css="none")
    return Datum(numbers.show(value, label(metric).unit), numbers.raw(value))


def _tree_line(row: Mapping[Any, Any], counters: Sequence[Datum]) -> Line:
    some = row["operations"] > 0
    span = row["span_ns"]
    data = (
        _number(row["instances"]),
        _time(row["host_ns"]),
        _number(row["operations"]),
        _time(row["gpu_ns"] if some else None),
        _time(row["self_gpu_ns"] if some else None),
        _percent(row["busy_ns"] / span if span else None),
        _time(row["idle_ns"] if some else None),
        *counters,
    )
    domain = "" if row["domain"] in ("", NVTX_DOMAIN) else f"domain {row['domain']}"
    return Line(str(row["name"] or ""), data, depth=int(row["depth"]) - 1, title=domain)


def gap_table(found: Phased) -> SmallTable | None:
    """Stretches in which the GPU ran nothing, by what ran before and after."""
    timeline = found.timeline
    groups = gap_groups(timeline.operations, found.ranges, timeline.stacks)
    if groups.empty:
        return None
    lines = tuple(
        Line(
            f"{row['before']} \u2192 {row['after']}",
            (
                _prose(_between(str(row["before_path"]), str(row["after_path"]))),
                _time(row["total_ns"]),
                _number(row["count"]),
                _time(row["med_ns"]),
                _time(row["max_ns"]),
                *(() if found.on_cpu else (_host_late(row["host_late"]),)),
            ),
        )
        for row in groups.head(MOST_GAPS).to_dict("records")
    )
    return SmallTable(
        f"Idle gaps of the {found.device}, most time together first",
        "between",
        (
            ("in", "Ranges of the operation before the gap, and of the one after it"),
            ("together", "All gaps between these two"),
            ("gaps", ""),
            ("median", ""),
            ("longest", ""),
            *(() if found.on_cpu else (("host late", _HOST_LATE_HINT),)),
        ),
        lines,
        max(0, len(groups) - MOST_GAPS),
        long_names=True,
        words=("in",),
    )


_HOST_LATE_HINT = "How many of them ended with an operation that was launched only then"


def _host_late(share: float) -> Datum:
    return _percent(share, "their launches were not recorded")


def _between(before: str, after: str) -> str:
    if before == after:
        return before or "no range"
    return f"{before or 'no range'} \u2192 {after or 'no range'}"


def kernel_table(found: Phased) -> SmallTable | None:
    """Kernels as `nsys stats` sums them up, then copies, memsets and whole graphs."""
    operations = found.timeline.operations
    kernels = kernel_summary(operations)
    others = operation_summary(operations, _OTHERS)
    if kernels.empty and others.empty:
        return None
    shown = [*kernels.head(MOST_KERNELS).to_dict("records"), *others.to_dict("records")]
    lines = tuple(
        Line(
            "without a name" if pd.isna(row["name"]) else str(row["name"]),
            (
                _percent(row["time_pct"] / 100),
                _time(row["total_ns"]),
                _number(row["instances"]),
                *(_time(row[name]) for name in ("avg_ns", "med_ns", "min_ns", "max_ns")),
                _time(row["stddev_ns"], "ran once"),
            ),
        )
        for row in shown
    )
    return SmallTable(
        "Operators of the CPU"
        if found.on_cpu
        else "Kernels; then copies and memsets, percent of their own",
        "operator" if found.on_cpu else "kernel",
        (
            ("time", "Percent of the time of all of its kind"),
            ("total", ""),
            ("instances", ""),
            ("average", ""),
            ("median", ""),
            ("shortest", ""),
            ("longest", ""),
            ("standard deviation", "Of a sample"),
        ),
        lines,
        max(0, len(kernels) - MOST_KERNELS),
        long_names=True,
    )


def latency_table(found: Phased) -> SmallTable | None:
    """Time from a launching call to the start of what it launched, by name."""
    table = latency_summary(found.timeline.operations)
    if table.empty:
        return None
    lines = tuple(
        Line(
            "without a name" if pd.isna(row["name"]) else str(row["name"]),
            (
                _number(row["launches"]),
                *(_time(row[name]) for name in ("med_ns", "avg_ns", "min_ns", "max_ns")),
            ),
        )
        for row in table.head(MOST_LATENCIES).to_dict("records")
    )
    return SmallTable(
        "Launch latency",
        "operation",
        (
            ("launches", "Calls that launched it; of a graph only its first node has a latency"),
            ("median", ""),
            ("average", ""),
            ("shortest", ""),
            ("longest", ""),
        ),
        lines,
        max(0, len(table) - MOST_LATENCIES),
        long_names=True,
    )


@dataclass(frozen=True)
class Operator:
    """One operator of torch with the Python calls that led to it."""

    name: str
    data: tuple[Datum, ...]
    stack: tuple[str, ...]


OPERATOR_HEADS = ("calls", "own device time", "device time", "own CPU time", "CPU time")


def operator_rows(found: Phased) -> tuple[tuple[Operator, ...], int]:
    """Operators of torch.profiler by device time, on a CPU by CPU time; how many had no room."""
    table = found.timeline.operators
    if table.empty:
        return (), 0
    by = "self_device_us" if table["self_device_us"].any() else "self_cpu_us"
    ordered = table.sort_values(by, ascending=False, kind="stable")
    rows = tuple(_operator(row) for row in ordered.head(MOST_OPERATORS).to_dict("records"))
    return rows, len(table) - len(rows)


def _operator(row: Mapping[Any, Any]) -> Operator:
    times = (row[name] for name in ("self_device_us", "device_us", "self_cpu_us", "cpu_us"))
    data = (_number(row["calls"]), *(_time(time * 1000) for time in times))
    return Operator(str(row["name"]), data, tuple(str(line) for line in _as_lines(row["stack"])))


def _as_lines(stack: object) -> Iterable[object]:
    return stack if isinstance(stack, list | tuple) else ()


# ---- data ----------------------------------------------------------------------------------------


def _words(text: str) -> Datum:
    return Datum(text, css="words")


def _prose(text: str) -> Datum:
    return Datum(text, css="prose")


def _number(value: float) -> Datum:
    return Datum(numbers.show(float(value)), numbers.raw(float(value)))


def _time(value: float | None, without: str = "nothing ran in it") -> Datum:
    if value is None or numbers.is_missing(value):
        return Datum(title=without, css="none")
    return Datum(numbers.show(value, "ns"), numbers.raw(float(value)))


def _percent(share: float | None, without: str = "nothing ran in it") -> Datum:
    if share is None or numbers.is_missing(share):
        return Datum(title=without, css="none")
    return Datum(percent(share), numbers.raw(100 * share))


def _span(low: float, high: float) -> Datum:
    if numbers.is_missing(low) or numbers.is_missing(high):
        return Datum(title="nothing ran in it", css="none")
    return _words(f"{numbers.show(low, 'ns')} to {numbers.show(high, 'ns')}")


def _percent_span(low: float, high: float) -> Datum:
    if numbers.is_missing(low) or numbers.is_missing(high):
        return Datum(title="nothing ran in it", css="none")
    return _words(f"{percent(low)} to {percent(high)}")
