"""Units and phases of a timeline: launches or their steps, and the ranges right inside a unit.

Pure functions over the frames of a `CellTimeline` (columns: `profiler.analyse.timeline`). A unit is
a repeated range: that of a launch, or the one kind of range right inside every launch (`step_0`,
`step_1`, …). Its phases are the ranges right inside it (`forward`, `backward`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.timeline import (
    GROUP_COLUMNS,
    MOST_NUMBERED,
    NONE,
    Integers,
    Tree,
    group_times,
    idle_gaps,
    merge_numbered,
    numbered_prefixes,
)
from profiler.parse.nsys_attribution import NOWHERE, window_of
from profiler.runner.protocol import NVTX_DOMAIN, parse_launch_range_name, parse_range_name

VISIT, LAUNCH = "visit", "launch"
"""Names of the profiler's own ranges."""
CPU_OPERATOR = "cpu_op"
"""Kind of the operations of a timeline that was recorded on a CPU."""

PHASE_TIMES = (*GROUP_COLUMNS, "host_ns")
PHASE_COLUMNS = ("unit", "phase", *PHASE_TIMES)
"""One row per unit and phase of it, in order of both. `unit`: row of the ranges; `phase`: a name,
WHOLE (all of the unit) or OUTSIDE (what lies in none of its ranges). Of a whole unit `span_ns` is
the time since the last operation of the unit before."""
WHOLE, OUTSIDE, NAMELESS = "", "\N{EM DASH}", "without a name"

SUMMARY_COLUMNS = (
    "phase",
    "units",
    "operations",
    *(f"{name}{end}" for name in ("gpu_ns", "busy_share") for end in ("", "_low", "_high")),
    "host_ns",
    "idle_ns",
    "share_of_gpu",
)
"""One row per phase: medians over units, of GPU time and busy share the lowest and highest, too.
`units`: how many have the phase; `busy_share`: busy_ns / span_ns, NaN without an operation;
`share_of_gpu`: its busy time by that of the whole units. GPU columns are NaN where nothing ran on a
GPU."""

API_CALL_COLUMNS = ("name", "calls", "host_ns", "low_ns", "high_ns")
"""CUDA calls per launch, most time first: mean number, median, lowest and highest time together."""

GAP_GROUP_COLUMNS = (
    "before",
    "after",
    "before_path",
    "after_path",
    "count",
    "total_ns",
    "med_ns",
    "max_ns",
    "host_late",
)
"""Idle gaps between operations of two names in two places, most time first. `before_path`,
`after_path`: as `stack_paths` has them. `host_late`: share of those whose launch is known that were
launched only when the device was idle; may be NaN."""


@dataclass(frozen=True, eq=False)
class Units:
    """Repeated ranges of a timeline."""

    name: str
    """`launch`, or the name of the ranges with a star for their numbers; empty: nothing repeats."""
    rows: Integers
    """Rows of the ranges, in order of start."""


def plain_ranges(ranges: pd.DataFrame) -> pd.DataFrame:
    """Ranges with the names VISIT and LAUNCH for the profiler's own ranges."""
    names = ranges["name"].astype(object)
    plain_names = {
        name: short
        for name in names[(ranges["domain"] == NVTX_DOMAIN).to_numpy()].dropna().unique()
        if (short := _short_name(str(name)))
    }
    if not plain_names:
        return ranges
    renamed = names.where(
        (ranges["domain"] != NVTX_DOMAIN).to_numpy(), names.map(plain_names).fillna(names)
    )
    return ranges.assign(name=renamed.astype("category"))


def _short_name(name: str) -> str:
    if parse_launch_range_name(name) is not None:
        return LAUNCH
    return VISIT if parse_range_name(name) is not None else ""


def tree_ranges(ranges: pd.DataFrame, units: Units) -> pd.DataFrame:
    """Ranges as a tree shows them: many numbered ranges share one name, and so do all units."""
    plain = plain_ranges(ranges)
    names = (str(name) for name in plain["name"].dropna().unique())
    prefixes = numbered_prefixes(names, MOST_NUMBERED + 1)
    if units.name.endswith("_*"):
        prefixes = tuple({*prefixes, units.name.removesuffix("_*")})
    return merge_numbered(plain, prefixes)


def find_units(ranges: pd.DataFrame, stacks: pd.DataFrame) -> Units:
    """Units of a timeline: launches, or the only kind of range inside them that has parts itself.

    Without launches (an external command) it is the only kind of outermost range.
    """
    names = _names_without_numbers(plain_ranges(ranges))
    launches = launch_rows(ranges)
    inner = _children(ranges, stacks, launches) if len(launches) else _outermost(ranges, stacks)
    units = Units(LAUNCH if len(launches) else "", launches)
    while len(inner) and len({names[row] for row in inner}) == 1:
        name, parts = names[int(inner[0])], _children(ranges, stacks, inner)
        if not len(parts) and not _is_repeated(name, inner, units):
            break
        units = Units(name, inner)
        inner = parts
    return units


def _is_repeated(name: str, inner: Integers, outer: Units) -> bool:
    """Whether ranges without parts repeat themselves: `step_7` alone in `launch=7`."""
    if not len(outer.rows):
        return len(inner) > 1
    return name.endswith("_*") and len(inner) == len(outer.rows)


def launch_rows(ranges: pd.DataFrame) -> Integers:
    """Rows of the ranges of launches, in order of start."""
    ours = ((ranges["domain"] == NVTX_DOMAIN) & (ranges["kind"] != "mark")).to_numpy()
    names = ranges["name"].astype(object).tolist()
    rows = [row for row in np.flatnonzero(ours) if _short_name(str(names[row])) == LAUNCH]
    return np.array(rows, dtype=np.int64)


def lasting_ranges(ranges: pd.DataFrame, until_ns: float) -> Integers:
    """Rows of the ranges that last and begin before a time, without that of the visit."""
    names = ranges["name"].astype(object)
    visit = names.str.startswith("cell=", na=False) & (ranges["domain"] == NVTX_DOMAIN)
    lasting = (ranges["end_ns"] > ranges["start_ns"]) & (ranges["start_ns"] < until_ns)
    return np.flatnonzero((lasting & ~visit & (names != VISIT)).to_numpy(bool))


def _names_without_numbers(ranges: pd.DataFrame) -> list[str]:
    """Names with a star in place of a number at their end."""
    distinct = map(str, ranges["name"].dropna().unique())
    merged = merge_numbered(ranges, numbered_prefixes(distinct, least=1))
    return [str(name) for name in merged["name"].astype(object).fillna("")]


def _children(ranges: pd.DataFrame, stacks: pd.DataFrame, rows: Integers) -> Integers:
    """Rows of the ranges right inside any of the ranges `rows`."""
    parents = _parent_ranges(ranges, stacks)
    return np.flatnonzero(np.isin(parents, rows) & (parents != NONE))


def _outermost(ranges: pd.DataFrame, stacks: pd.DataFrame) -> Integers:
    has_stack = ranges["stack"].to_numpy() != NONE
    return np.flatnonzero((_parent_ranges(ranges, stacks) == NONE) & has_stack)


def _parent_ranges(ranges: pd.DataFrame, stacks: pd.DataFrame) -> Integers:
    """Row of the innermost range around each range; -1: none."""
    parents = np.append(stacks["parent"].to_numpy(), NONE)
    inner: Integers = np.append(stacks["range"].to_numpy(), NONE)
    enclosing: Integers = inner[parents[ranges["stack"].to_numpy()]]
    return enclosing


# ---- phases --------------------------------------------------------------------------------------


def phase_summary(times: pd.DataFrame) -> pd.DataFrame:
    """`PhasedTimeline.times` over units: SUMMARY_COLUMNS, WHOLE first, then as in the table."""
    ran = times["span_ns"] > 0
    frame = times.assign(busy_share=times["busy_ns"] / times["span_ns"].where(ran))
    frame["host_ns"] = frame["host_ns"].where((times["phase"] != OUTSIDE).to_numpy())
    for name in ("gpu_ns", "idle_ns"):
        frame[name] = frame[name].where(ran)
    grouped = frame.groupby("phase", sort=False)
    table = pd.DataFrame({"units": grouped.size(), "operations": grouped["operations"].median()})
    for name in ("host_ns", "idle_ns"):
        table[name] = grouped[name].median()
    for name in ("gpu_ns", "busy_share"):
        table[name] = grouped[name].median()
        table[f"{name}_low"], table[f"{name}_high"] = grouped[name].min(), grouped[name].max()
    busy = grouped["busy_ns"].sum()
    whole_busy = float(busy.get(WHOLE, 0))
    table["share_of_gpu"] = busy / (whole_busy if whole_busy > 0 else np.nan)
    table = table.rename_axis("phase").reset_index()
    table = table.sort_values("phase", key=_table_position, kind="stable", ignore_index=True)
    return table[list(SUMMARY_COLUMNS)]


def _table_position(phases: pd.Series) -> pd.Series:
    return phases.map({WHOLE: -1, OUTSIDE: 1}).fillna(0)


def _phases(
    ranges: pd.DataFrame, stacks: pd.DataFrame, units: Units
) -> tuple[tuple[str, ...], Integers]:
    """Names of the phases by their first start, and the phase that each range is; -1: none."""
    names = ranges["name"].astype(object).tolist()
    phase_of_range = np.full(len(ranges), NONE)
    numbers: dict[str, int] = {}
    for row in _children(ranges, stacks, units.rows):
        name = names[row] if isinstance(names[row], str) and names[row] else NAMELESS
        phase_of_range[row] = numbers.setdefault(name, len(numbers))
    return tuple(numbers), phase_of_range


def _units_and_phases_of_stacks(
    stacks: pd.DataFrame, units: Units, phase_of_range: Integers
) -> tuple[Integers, Integers]:
    """Number of the unit and of the phase that each stack lies in; -1: none."""
    parents, rows = stacks["parent"].to_numpy(), stacks["range"].to_numpy()
    own_unit = _unit_numbers(rows, units)
    unit, phase = np.full(len(stacks), NONE), np.full(len(stacks), NONE)
    for level in Tree(parents, stacks["depth"].to_numpy()).levels:
        outer_unit = np.append(unit, NONE)[parents[level]]
        outer_phase = np.append(phase, NONE)[parents[level]]
        unit[level] = np.where(own_unit[level] != NONE, own_unit[level], outer_unit)
        own_phase = np.where(outer_unit == NONE, NONE, phase_of_range[rows[level]])
        phase[level] = np.where(outer_phase != NONE, outer_phase, own_phase)
    return unit, phase


def _unit_numbers(rows: Integers, units: Units) -> Integers:
    """Number of the unit that each range is, from 0; -1: none."""
    if not len(units.rows):
        return np.full(len(rows), NONE)
    position = np.minimum(np.searchsorted(units.rows, rows), len(units.rows) - 1)
    return np.where(units.rows[position] == rows, position, NONE)


@dataclass(frozen=True, eq=False)
class PhasedTimeline:
    """A timeline with its units and phases, and their numbers by operation and range; -1: none."""

    timeline: CellTimeline
    units: Units
    phases: tuple[str, ...]
    """Names, by first start."""
    ranges: pd.DataFrame
    """Ranges of the timeline, with the names of `tree_ranges`."""
    operation_phase: Integers
    operation_unit: Integers
    range_phase: Integers
    phase_of_range: Integers
    """Phase of each range right inside a unit."""

    @cached_property
    def times(self) -> pd.DataFrame:
        """Host and GPU time of every unit and each phase of it: PHASE_COLUMNS."""
        operations, ranges, rows = self.timeline.operations, self.ranges, self.units.rows
        number, size = np.arange(len(rows)), len(self.phases) + 1  # the last: outside of all phases
        unit, phase = self.operation_unit, self.operation_phase
        place = unit * size + np.where(phase == NONE, size - 1, phase)
        parts = group_times(operations, np.where(unit == NONE, NONE, place), len(rows) * size)
        duration = (ranges["end_ns"] - ranges["start_ns"]).to_numpy()
        inner = np.flatnonzero(self.phase_of_range != NONE)
        parent_units = _unit_numbers(
            _parent_ranges(ranges, self.timeline.stacks)[inner], self.units
        )
        host = np.zeros(len(parts), np.int64)
        np.add.at(host, parent_units * size + self.phase_of_range[inner], duration[inner])
        whole_units = self._times_from_previous_end(group_times(operations, unit, len(rows)))
        table = whole_units.assign(unit=rows, phase=WHOLE, host_ns=duration[rows], n=number)
        if self.phases:
            parts = parts.assign(
                unit=np.repeat(rows, size),
                phase=[*self.phases, OUTSIDE] * len(rows),
                host_ns=host,
                n=np.repeat(number, size),
            )
            table = pd.concat([table, parts], ignore_index=True)
        is_empty = (table["operations"] == 0) & (table["host_ns"] == 0)
        table = table[~is_empty].sort_values("n", kind="stable", ignore_index=True)
        return table[list(PHASE_COLUMNS)]

    def _times_from_previous_end(self, times: pd.DataFrame) -> pd.DataFrame:
        """Times of whole units; each span begins where the last operation of the unit before ended.

        So a unit has the time in which the device waited for its first operation, and shares of
        units that follow each other add up; that of the first begins with its range on the host.
        """
        operations, unit = self.timeline.operations, self.operation_unit
        begins = self.ranges["start_ns"].to_numpy()[self.units.rows].astype(np.float64)
        inside = unit != NONE
        of_unit = operations[inside].groupby(unit[inside])
        every = range(len(begins))
        ends = of_unit["end_ns"].max().reindex(every).to_numpy(dtype=np.float64)
        devices = of_unit["device"].nunique(dropna=False).reindex(every).to_numpy(dtype=np.float64)
        before = np.concatenate([begins[:1], np.fmax.accumulate(ends)[:-1]])
        # A unit without operations leaves none to begin from; the host may be ahead of the device.
        empty_before = np.concatenate([[False], np.isnan(ends)[:-1]])
        since = np.where(empty_before | np.isnan(before), np.fmax(begins, before), before)
        # Operations of two units may overlap; spans of several devices add up, as busy times do.
        span = np.fmax((ends - since) * devices, times["span_ns"])
        span = np.where(np.isnan(ends), 0, span).astype(np.int64)
        return times.assign(span_ns=span, idle_ns=span - times["busy_ns"])

    @property
    def on_cpu(self) -> bool:
        """Whether operations are torch's operators on a CPU: calls and operations are the same."""
        kinds = self.timeline.operations["kind"]
        return bool(len(kinds)) and bool((kinds == CPU_OPERATOR).all())

    @property
    def launch_ns(self) -> float:
        """Median time from the end of a launch's last operation to that of the next launch.

        It holds the waits of the device between launches. NaN where nothing repeats.
        """
        operations, launches = self.timeline.operations, self.timeline.launches
        inside = self.operation_unit != NONE
        ends = operations.loc[inside, "end_ns"].groupby(self.operation_unit[inside]).max()
        if launches < 1 or len(ends) < 2:
            return float("nan")
        return float(ends.diff().median()) * len(self.units.rows) / launches

    def median_unit(self, before_ns: float = np.inf) -> int | None:
        """Row of the unit with the median time, among the units that end before a time, or None.

        By its span where it has any operations, else by host time.
        """
        ends = self.timeline.ranges["end_ns"].to_numpy()[self.times["unit"].to_numpy()]
        whole_units = self.times[(self.times["phase"] == WHOLE).to_numpy() & (ends <= before_ns)]
        if whole_units.empty:
            return None
        by = "span_ns" if whole_units["span_ns"].any() else "host_ns"
        ordered = whole_units.sort_values([by, "unit"])
        return int(ordered["unit"].iloc[(len(ordered) - 1) // 2])


def find_phases(timeline: CellTimeline) -> PhasedTimeline:
    """The timeline with its units and phases."""
    ranges, stacks = timeline.ranges, timeline.stacks
    units = find_units(ranges, stacks)
    named_ranges = tree_ranges(ranges, units)
    phases, phase_of_range = _phases(named_ranges, stacks, units)
    unit, phase = _units_and_phases_of_stacks(stacks, units, phase_of_range)
    stack = timeline.operations["stack"].to_numpy()
    return PhasedTimeline(
        timeline=timeline,
        units=units,
        phases=phases,
        ranges=named_ranges,
        operation_phase=np.append(phase, NONE)[stack],
        operation_unit=np.append(unit, NONE)[stack],
        range_phase=np.append(phase, NONE)[ranges["stack"].to_numpy()],
        phase_of_range=phase_of_range,
    )


# ---- calls and gaps ------------------------------------------------------------------------------


def api_calls(api: pd.DataFrame, ranges: pd.DataFrame) -> pd.DataFrame:
    """CUDA calls that begin inside a launch, on any thread: API_CALL_COLUMNS.

    Without launches (an external command) all calls, as if it were one launch.
    """
    windows = ranges.iloc[launch_rows(ranges)]
    launch = np.zeros(len(api), np.int64)
    if len(windows):
        launch = window_of(api["start_ns"].to_numpy(), windows)
    inside, launches = launch != NOWHERE, max(len(windows), 1)
    names = api["name"].astype(object).to_numpy()[inside]
    times = (api["end_ns"] - api["start_ns"]).to_numpy()[inside]
    frame = pd.DataFrame({"name": names, "launch": launch[inside], "ns": times})
    if frame.empty:
        return pd.DataFrame({name: [] for name in API_CALL_COLUMNS})
    sums = frame.pivot_table(index="name", columns="launch", values="ns", aggfunc="sum")
    sums = sums.reindex(columns=range(launches)).fillna(0)
    table = pd.DataFrame(
        {
            "calls": frame.groupby("name").size() / launches,
            "host_ns": sums.median(axis=1),
            "low_ns": sums.min(axis=1),
            "high_ns": sums.max(axis=1),
        }
    )
    table = table.rename_axis("name").reset_index()
    table = table.sort_values(["host_ns", "name"], ascending=[False, True], ignore_index=True)
    return table[list(API_CALL_COLUMNS)]


def gap_groups(
    operations: pd.DataFrame, ranges: pd.DataFrame, stacks: pd.DataFrame
) -> pd.DataFrame:
    """Idle gaps by the operations and the ranges on both sides: GAP_GROUP_COLUMNS.

    `ranges`: with names that repeat, as `tree_ranges` gives them.
    """
    gaps = idle_gaps(operations, stacks)
    numbers, paths = stack_paths(ranges, stacks)
    names = operations["name"].astype(object).to_numpy()
    stack = operations["stack"].to_numpy()
    columns: dict[str, object] = {"idle_ns": gaps["idle_ns"].to_numpy()}
    for side in ("before", "after"):
        rows = gaps[side].to_numpy()
        columns[side] = names[rows]
        columns[f"{side}_path"] = numbers[stack[rows]]
    columns["host_late"] = gaps["host_late"].astype("Float64").to_numpy(float, na_value=np.nan)
    frame = pd.DataFrame(columns)
    keys = ["before", "after", "before_path", "after_path"]
    grouped = frame.groupby(keys, dropna=False, sort=False)
    table = grouped.agg(
        count=("idle_ns", "size"),
        total_ns=("idle_ns", "sum"),
        med_ns=("idle_ns", "median"),
        max_ns=("idle_ns", "max"),
        host_late=("host_late", "mean"),
    ).reset_index()
    for name in ("before_path", "after_path"):
        table[name] = pd.Series([paths[number] for number in table[name]], dtype=object)
    table = table.sort_values("total_ns", ascending=False, kind="stable", ignore_index=True)
    return table[list(GAP_GROUP_COLUMNS)]


Path = tuple[str, ...]
"""Names of the ranges of a stack, outermost first; MORE stands for those between the outermost and
the innermost `_NAMED_ENDS`, where there are more than both."""
MORE = "\N{HORIZONTAL ELLIPSIS}"
_NAMED_ENDS = 8


def stack_paths(ranges: pd.DataFrame, stacks: pd.DataFrame) -> tuple[Integers, tuple[Path, ...]]:
    """Number of the path of each stack, then of no stack, and the paths.

    The range of the visit is left out: everything lies in it.
    """
    names = ranges["name"].astype(object).tolist()
    domains = ranges["domain"].astype(object).tolist()
    paths: list[Path] = [()]
    number_of: dict[tuple[int, str], int] = {}
    numbers = [0] * (len(stacks) + 1)
    rows = zip(stacks["parent"].tolist(), stacks["range"].tolist(), strict=True)
    for stack, (parent, row) in enumerate(rows):
        around = numbers[parent]
        name = "" if names[row] == VISIT and domains[row] == NVTX_DOMAIN else str(names[row])
        numbers[stack] = number_of.setdefault((around, name), len(paths)) if name else around
        if numbers[stack] == len(paths):
            paths.append(longer_path(paths[around], name))
    return np.array(numbers, dtype=np.int64), tuple(paths)


def longer_path(path: Path, name: str) -> Path:
    """Path of a range of that name right inside the last range of `path`."""
    if len(path) < 2 * _NAMED_ENDS:
        return (*path, name)
    return (*path[:_NAMED_ENDS], MORE, *path[1 - _NAMED_ENDS :], name)
