"""Tables of a timeline: GPU time by range and by kernel, idle gaps, launch latency.

Pure functions over the frames of `profiler.parse`: operations (`kind start_ns end_ns name demangled
device launch launch_ns stack by_time`), ranges (`kind start_ns end_ns name domain stack`), and
stacks (`parent range depth`, a stack of open ranges as its innermost range and the stack around it;
-1: none). All times are nanoseconds.

Two kinds of GPU time are kept apart. `gpu_ns` is the sum of the durations: work that ran at once on
several streams counts several times. `busy_ns` is the time in which at least one operation ran, per
device, summed over devices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

TREE_COLUMNS = (
    "parent",
    "depth",
    "domain",
    "name",
    "instances",
    "host_ns",
    "operations",
    "by_time",
    "gpu_ns",
    "busy_ns",
    "self_operations",
    "self_gpu_ns",
    "self_busy_ns",
    "span_ns",
    "idle_ns",
)
"""One row per path of names, parents before children, siblings by their first start.

`parent`: row of the tree, -1 at the top; `instances`: ranges; `host_ns`: sum of their durations on
the host; `operations`, `gpu_ns`, `busy_ns`: with everything inside; `self_…`: without what lies in
a range further in; `by_time`: operations placed by time alone; `span_ns`: from the first operation
of an instance to its last, summed over instances; `idle_ns`: of that, no operation ran at all."""

INSTANCE_COLUMNS = ("range", "first_ns", "last_ns", "operations", "gpu_ns")
"""One row per range that holds an operation: its row in the ranges, first start and last end of its
operations, their number and their GPU time."""

GAP_COLUMNS = (
    "device",
    "start_ns",
    "end_ns",
    "idle_ns",
    "before",
    "after",
    "stack",
    "host_late",
)
"""One row per stretch in which a device ran nothing. `before`, `after`: rows of the operations on
both sides; `stack`: ranges that hold both; `host_late`: the operation after it was launched only
when the device was idle already, missing where its launch is not known."""

SUMMARY_COLUMNS = (
    "name",
    "time_pct",
    "total_ns",
    "instances",
    "avg_ns",
    "med_ns",
    "min_ns",
    "max_ns",
    "stddev_ns",
)
"""As `nsys stats --report cuda_gpu_kern_sum`, by total time. `stddev_ns` is that of a sample: NaN
for a single instance."""

GROUP_COLUMNS = ("operations", "by_time", "gpu_ns", "busy_ns", "span_ns", "idle_ns")
"""One row per group of operations, numbered from 0; columns as in the tree."""

LATENCY_COLUMNS = ("name", "launches", "avg_ns", "med_ns", "min_ns", "max_ns")
_STATISTICS = {"mean": "avg_ns", "median": "med_ns", "min": "min_ns", "max": "max_ns"}
_SUMMED = {"sum": "total_ns", "size": "instances", **_STATISTICS, "std": "stddev_ns"}

_LATEST = 2**62
"""Later than any time."""
_NUMBERED = re.compile(r"(.+)_\d+", re.DOTALL)


def kernel_summary(operations: pd.DataFrame) -> pd.DataFrame:
    """Summary of kernels by their demangled names: SUMMARY_COLUMNS."""
    return operation_summary(operations, ("kernel",), "demangled")


def operation_summary(
    operations: pd.DataFrame, kinds: Sequence[str], name: str = "name"
) -> pd.DataFrame:
    """Summary of the operations of some kinds: SUMMARY_COLUMNS, in percent of their total."""
    return _summary(operations[operations["kind"].isin(list(kinds))], name)


def api_summary(api: pd.DataFrame) -> pd.DataFrame:
    """Summary of CUDA calls, as `nsys stats --report cuda_api_sum`: SUMMARY_COLUMNS."""
    return _summary(api, "name")


def _summary(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    # Names as objects: an operation without one (an unknown kind of copy) keeps its row.
    names = rows[name].astype(object)
    durations = (rows["end_ns"] - rows["start_ns"]).groupby(names, dropna=False)
    table = durations.agg([*_SUMMED]).rename(columns=_SUMMED).rename_axis("name").reset_index()
    table["time_pct"] = 100.0 * table["total_ns"] / table["total_ns"].sum()
    table = table.sort_values(["total_ns", "name"], ascending=[False, True], ignore_index=True)
    return table[list(SUMMARY_COLUMNS)]


def busy_time(operations: pd.DataFrame) -> int:
    """Time in which at least one operation ran, summed over devices."""
    rows = np.arange(len(operations))
    return int(_added_busy_time(operations, rows, np.zeros_like(rows)).sum())


def busy_bins(
    operations: pd.DataFrame, window: tuple[int, int], count: int
) -> npt.NDArray[np.float64]:
    """Busy share of each of `count` equal stretches of a window.

    Operations in the order of their start.
    """
    start, end = window
    edges = np.linspace(start, end, count + 1)
    begins, ends = _times(operations)
    if not len(begins) or end <= start:
        return np.zeros(count)
    latest = np.concatenate([[begins[0]], np.maximum.accumulate(ends)[:-1]])
    begins, ends = np.maximum(begins, latest), np.maximum(ends, latest)  # nothing counts twice
    lengths = np.concatenate([[0], np.cumsum(ends - begins)])
    place = np.searchsorted(ends, edges, side="left")
    inner = np.append(begins, np.inf)[place]
    until = lengths[place] + np.where(edges > inner, edges - inner, 0.0)
    return np.diff(until) / np.diff(edges)


def group_times(operations: pd.DataFrame, groups: Integers, size: int) -> pd.DataFrame:
    """GPU time of groups of operations: GROUP_COLUMNS, `size` rows.

    `groups`: number below `size` of each operation, -1 where it belongs to none.
    """
    totals = _totals(operations, np.arange(len(operations)), groups, size)
    spans = _span_times(operations, size, lambda rows: _extents(operations, rows, groups, size))
    return pd.DataFrame({**totals, **spans})[list(GROUP_COLUMNS)]


def launch_latency(operations: pd.DataFrame) -> pd.Series:
    """Time from the beginning of the launching call to the start of each operation; may be NaN.

    Only the first operation of a call has one: later nodes of a graph wait for earlier ones. Work
    that is queued behind other work waits, too, so a long one can mean a host far ahead.
    """
    first = ~operations["launch"].duplicated() & operations["launch"].notna()
    latency = operations["start_ns"] - operations["launch_ns"].astype("Float64")
    return latency.where(first).astype("float64").rename("latency_ns")


def latency_summary(operations: pd.DataFrame) -> pd.DataFrame:
    """Launch latency by operation name, most launches first: LATENCY_COLUMNS."""
    latency = launch_latency(operations)
    grouped = latency[latency.notna()].groupby(operations["name"].astype(object), dropna=False)
    names = {"size": "launches", **_STATISTICS}
    table = grouped.agg([*names]).rename(columns=names).rename_axis("name").reset_index()
    table = table.sort_values(["launches", "name"], ascending=[False, True], ignore_index=True)
    return table[list(LATENCY_COLUMNS)]


MOST_NUMBERED = 12
"""Numbered ranges of one name (`step_0`, …) up to so many have a row each in a tree; more of them
are one name with a star."""


def merge_numbered(ranges: pd.DataFrame, prefixes: Collection[str]) -> pd.DataFrame:
    """Ranges in which `step_0`, `step_1`, … are one name `step_*`, for each prefix (`step`)."""
    if not prefixes:
        return ranges
    names = ranges["name"].astype(object)
    distinct = {name: merged_name(name, prefixes) for name in names.dropna().unique()}
    return ranges.assign(name=names.map(distinct).astype("category"))


def merged_name(name: str, prefixes: Collection[str]) -> str:
    """`step_*` for a numbered name of one of the prefixes; any other name as it is."""
    match = _NUMBERED.fullmatch(name)
    return f"{match[1]}_*" if match is not None and match[1] in prefixes else name


def numbered_prefixes(names: Iterable[str], least: int = 2) -> tuple[str, ...]:
    """Prefixes (`step`) of at least so many numbered names: `step_0`, `step_1`."""
    numbered = (match for name in dict.fromkeys(names) if (match := _NUMBERED.fullmatch(name)))
    counts = Counter(match[1] for match in numbered)
    return tuple(prefix for prefix, count in counts.items() if count >= least)


# ---- ranges --------------------------------------------------------------------------------------


def range_tree(
    operations: pd.DataFrame, ranges: pd.DataFrame, stacks: pd.DataFrame
) -> pd.DataFrame:
    """Tree of ranges by name, with inclusive and exclusive GPU time: TREE_COLUMNS."""
    labels, label_of_range = _distinct_labels(ranges)
    tree = Tree(_parents(stacks), stacks["depth"].to_numpy())
    path_of_stack, paths = _paths_of_stacks(tree, stacks["range"].to_numpy(), label_of_range)
    size = len(paths)
    path_tree = Tree(paths["parent"].to_numpy(), paths["depth"].to_numpy())
    path_of_operation = _values_at(path_of_stack, operations["stack"].to_numpy())
    direct = _totals(operations, np.arange(len(operations)), path_of_operation, size)
    inclusive = {
        name: path_tree.with_descendants(direct[name], np.add)
        for name in ("operations", "by_time", "gpu_ns")
    }
    spans = _span_times(operations, len(tree), lambda rows: _extents_inside(operations, rows, tree))
    columns = {
        "parent": paths["parent"],
        "depth": paths["depth"],
        "domain": labels["domain"].to_numpy()[paths["label"]],
        "name": labels["name"].to_numpy()[paths["label"]],
        **_path_instances(ranges, stacks, path_of_stack, size),
        **inclusive,
        "busy_ns": _busy_inside(operations, path_of_operation, path_tree),
        **{f"self_{key}": direct[key] for key in ("operations", "gpu_ns", "busy_ns")},
        **{name: _sum(path_of_stack, values, size) for name, values in spans.items()},
    }
    frame = pd.DataFrame({name: columns[name] for name in TREE_COLUMNS})
    return _rows_in_tree_order(frame, paths["first"].to_numpy())


def range_instances(operations: pd.DataFrame, stacks: pd.DataFrame) -> pd.DataFrame:
    """Operations of every single range that holds any, and their times: INSTANCE_COLUMNS."""
    tree = Tree(_parents(stacks), stacks["depth"].to_numpy())
    first, last = _extents_inside(operations, np.arange(len(operations)), tree)
    of_operations = operations["stack"].to_numpy()
    direct = _totals(operations, np.arange(len(operations)), of_operations, len(stacks))
    summed = {
        name: tree.with_descendants(direct[name], np.add) for name in ("operations", "gpu_ns")
    }
    times = {"first_ns": first, "last_ns": last}
    frame = pd.DataFrame({"range": stacks["range"], **times, **summed})
    by_range = frame[first <= last].groupby("range", sort=True)
    return by_range.agg(
        {"first_ns": "min", "last_ns": "max", "operations": "sum", "gpu_ns": "sum"}
    ).reset_index()


def idle_gaps(operations: pd.DataFrame, stacks: pd.DataFrame) -> pd.DataFrame:
    """Stretches between two operations in which their device ran nothing at all: GAP_COLUMNS."""
    start, end = _times(operations)
    devices = _devices(operations)
    pairs = [_device_gaps(start, end, np.flatnonzero(devices == d)) for d in np.unique(devices)]
    before = np.concatenate([np.empty(0, np.int64), *(pair[0] for pair in pairs)])
    after = np.concatenate([np.empty(0, np.int64), *(pair[1] for pair in pairs)])
    stack = operations["stack"].to_numpy()
    tree = Tree(_parents(stacks), stacks["depth"].to_numpy())
    frame = pd.DataFrame(
        {
            "device": operations["device"].array[after],
            "start_ns": end[before],
            "end_ns": start[after],
            "idle_ns": start[after] - end[before],
            "before": before,
            "after": after,
            "stack": tree.common_ancestors(stack[before], stack[after]),
            "host_late": operations["launch_ns"].array[after] >= end[before],
        }
    )
    frame = frame.sort_values(["start_ns", "before"], ignore_index=True)
    return frame[list(GAP_COLUMNS)]


def _device_gaps(start: Integers, end: Integers, rows: Integers) -> tuple[Integers, Integers]:
    """Operations before and after each gap of one device, which has some in `rows`."""
    rows = rows[np.argsort(start[rows], kind="stable")]
    latest = np.maximum.accumulate(end[rows])
    raised = np.concatenate([[True], end[rows][1:] > latest[:-1]])
    last = np.maximum.accumulate(np.where(raised, np.arange(len(rows)), 0))
    gaps = np.flatnonzero(start[rows][1:] > latest[:-1])
    return rows[last[gaps]], rows[gaps + 1]


# ---- paths ---------------------------------------------------------------------------------------


def _distinct_labels(ranges: pd.DataFrame) -> tuple[pd.DataFrame, Integers]:
    """Distinct pairs of domain and name, and the number of the pair of each range."""
    domains, domain_names = pd.factorize(ranges["domain"].astype(object))
    names, texts = pd.factorize(ranges["name"].astype(object))
    distinct, codes = np.unique((domains + 1) * (len(texts) + 1) + names + 1, return_inverse=True)
    domain, name = np.divmod(distinct, len(texts) + 1)
    # A missing name has the code -1, which finds the None at the end.
    labels = pd.DataFrame(
        {
            "domain": np.array([*domain_names, None], dtype=object)[domain - 1],
            "name": np.array([*texts, None], dtype=object)[name - 1],
        }
    )
    return labels, codes.astype(np.int64)


def _paths_of_stacks(
    tree: Tree, range_of_stack: Integers, label_of_range: Integers
) -> tuple[Integers, pd.DataFrame]:
    """Path of names of each stack, and the paths: parent, label, depth, first range."""
    label_count = int(label_of_range.max()) + 1 if len(label_of_range) else 1
    path_of_stack = np.full(len(tree), NONE)
    no_integers = np.empty(0, np.int64)
    parts: list[tuple[Integers, Integers, Integers]] = [(no_integers, no_integers, no_integers)]
    count = 0
    for depth, level in enumerate(tree.levels, start=1):
        outer_path = _values_at(path_of_stack, tree.parents[level])
        keys = (outer_path + 1) * label_count + label_of_range[range_of_stack[level]]
        distinct, codes = np.unique(keys, return_inverse=True)
        path_of_stack[level] = count + codes
        parent, label = np.divmod(distinct, label_count)
        parts.append((parent - 1, label, np.full(len(distinct), depth)))
        count += len(distinct)
    columns = (np.concatenate(column) for column in zip(*parts, strict=True))
    paths = pd.DataFrame(dict(zip(("parent", "label", "depth"), columns, strict=True)))
    paths["first"] = pd.Series(range_of_stack).groupby(path_of_stack).min()
    return path_of_stack, paths


def _path_instances(
    ranges: pd.DataFrame, stacks: pd.DataFrame, path_of_stack: Integers, size: int
) -> dict[str, Integers]:
    """Number of ranges of each path, and their time on the host."""
    pairs = pd.DataFrame({"path": path_of_stack, "range": stacks["range"]}).drop_duplicates()
    path, rows = pairs["path"].to_numpy(), pairs["range"].to_numpy()
    duration = (ranges["end_ns"] - ranges["start_ns"]).to_numpy()[rows]
    return {
        "instances": _sum(path, np.ones(len(path), np.int64), size),
        "host_ns": _sum(path, duration, size),
    }


def _rows_in_tree_order(frame: pd.DataFrame, first: Integers) -> pd.DataFrame:
    """Rows with each parent above its children, siblings by their first range."""
    children: dict[int, list[int]] = {}
    parents = frame["parent"].tolist()
    for row in np.argsort(first, kind="stable").tolist():
        children.setdefault(parents[row], []).append(row)
    order: list[int] = []
    waiting = children.get(NONE, [])[::-1]
    while waiting:
        row = waiting.pop()
        order.append(row)
        waiting += children.get(row, [])[::-1]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    frame = frame.iloc[order].reset_index(drop=True)
    frame["parent"] = _values_at(place, frame["parent"].to_numpy())
    return frame


# ---- sums and unions -----------------------------------------------------------------------------


def _totals(
    operations: pd.DataFrame, rows: Integers, key: Integers, size: int
) -> dict[str, Integers]:
    """Number and GPU time of the operations at each key below `size`; the key -1 is left out."""
    rows, key = rows[key != NONE], key[key != NONE]
    start, end = _times(operations)
    return {
        "operations": _sum(key, np.ones(len(key), np.int64), size),
        "by_time": _sum(key, operations["by_time"].to_numpy()[rows].astype(np.int64), size),
        "gpu_ns": _sum(key, (end - start)[rows], size),
        "busy_ns": _sum(key, _added_busy_time(operations, rows, key), size),
    }


def _added_busy_time(operations: pd.DataFrame, rows: Integers, key: Integers) -> Integers:
    """Time that each pair of operation and key adds to the busy time of its key and device."""
    devices = _devices(operations)
    start, end = (times[rows] for times in _times(operations))
    group = key * (int(devices.max(initial=0)) + 1) + devices[rows]
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    latest = pd.Series(end).groupby(group).cummax().to_numpy()
    covered = np.where(group[1:] == group[:-1], latest[:-1], start[1:])
    added = end - start
    added[1:] = np.maximum(0, end[1:] - np.maximum(start[1:], covered))
    result = np.empty_like(added)
    result[order] = added
    return result


def _busy_inside(operations: pd.DataFrame, nodes: Integers, tree: Tree) -> Integers:
    """Busy time by node, of the operations at it and inside it: what runs at once counts once.

    Of what runs alone that is a sum. The others go from the deepest nodes outward, each from its
    node to the parent of that.
    """
    start, end = _times(operations)
    rows = np.flatnonzero((nodes != NONE) & (end > start))
    rows = rows[np.lexsort((start[rows], _devices(operations)[rows]))]
    time, inside = (end - start)[rows], nodes[rows]
    begins_beside = _added_busy_time(operations, rows, np.zeros_like(rows)) < time
    alone = ~(begins_beside | np.append(begins_beside, False)[1:])
    busy = tree.with_descendants(_sum(inside[alone], time[alone], len(tree)), np.add)
    rows, inside = rows[~alone], inside[~alone]
    parents, depths = np.append(tree.parents, NONE), np.append(tree.depths, 0)
    for depth in range(int(depths[inside].max(initial=0)), 0, -1):
        here = np.flatnonzero(depths[inside] == depth)
        busy += _sum(
            inside[here], _added_busy_time(operations, rows[here], inside[here]), len(tree)
        )
        inside[here] = parents[inside[here]]
    return busy


def _extents(
    operations: pd.DataFrame, rows: Integers, keys: Integers, size: int
) -> tuple[Integers, Integers]:
    """First start and last end of the operations of `rows` at each key; last < first: none."""
    rows = rows[keys[rows] != NONE]
    first, last = np.full(size, _LATEST), np.full(size, -_LATEST)
    start, end = _times(operations)
    np.minimum.at(first, keys[rows], start[rows])
    np.maximum.at(last, keys[rows], end[rows])
    return first, last


def _extents_inside(
    operations: pd.DataFrame, rows: Integers, tree: Tree
) -> tuple[Integers, Integers]:
    """First start and last end of the operations at or inside each node, by their `stack`."""
    first, last = _extents(operations, rows, operations["stack"].to_numpy(), len(tree))
    return tree.with_descendants(first, np.minimum), tree.with_descendants(last, np.maximum)


def _span_times(
    operations: pd.DataFrame, size: int, extents: Callable[[Integers], tuple[Integers, Integers]]
) -> dict[str, Integers]:
    """Time from the first to the last operation of each of `size` groups, and idle time in it.

    Both are sums over devices. `extents`: first start and last end by group, of the operations in
    some rows.
    """
    start, end = _times(operations)
    devices = _devices(operations)
    spans, idle_times = np.zeros((2, size), np.int64)
    for device in np.unique(devices):
        rows = np.flatnonzero(devices == device)
        first, last = extents(rows)
        has_operations = last >= first
        spans[has_operations] += (last - first)[has_operations]
        before, after = _device_gaps(start, end, rows)
        idle_times[has_operations] += _idle_times(
            start[after], end[before], first[has_operations], last[has_operations]
        )
    return {"span_ns": spans, "idle_ns": idle_times}


def _idle_times(
    gap_ends: Integers, gap_starts: Integers, first: Integers, last: Integers
) -> Integers:
    """Idle time of a device in each stretch from a `first` to a `last` operation.

    Gaps lie between operations, so none is cut by the first or last one of a stretch.
    """
    idle = np.concatenate([[0], np.cumsum(gap_ends - gap_starts)])
    until_last = idle[np.searchsorted(gap_ends, last)]
    until_first = idle[np.searchsorted(gap_ends, first, side="right")]
    within: Integers = until_last - until_first
    return within


def _times(operations: pd.DataFrame) -> tuple[Integers, Integers]:
    return operations["start_ns"].to_numpy(), operations["end_ns"].to_numpy()


def _devices(operations: pd.DataFrame) -> Integers:
    """Devices as numbers from 0."""
    codes, _ = pd.factorize(operations["device"], use_na_sentinel=False)
    return codes.astype(np.int64)


def _parents(stacks: pd.DataFrame) -> Integers:
    return stacks["parent"].to_numpy()


def _values_at(values: Integers, rows: Integers) -> Integers:
    """Values at the rows; -1 where a row is -1."""
    return np.append(values, NONE)[rows]


def _sum(index: Integers, values: Integers | pd.Series, size: int) -> Integers:
    """Sum of the values at each index; exact up to 2^53 ns, which are 104 days."""
    return np.bincount(index, weights=np.asarray(values), minlength=size).astype(np.int64)


# ---- trees of ranges -----------------------------------------------------------------------------


NONE = -1
"""No node: the parent of the nodes at the top."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
    """Nodes as numbers, parents before their children.

    No method makes a pair for each node and ancestor: ranges can be nested by the thousand.
    """

    parents: Integers
    depths: Integers
    """From 1."""

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def levels(self) -> tuple[Integers, ...]:
        """Nodes of each depth, in their order."""
        order = np.argsort(self.depths, kind="stable")
        deepest = int(self.depths.max(initial=0))
        starts = np.searchsorted(self.depths[order], np.arange(2, deepest + 1))
        return tuple(np.split(order, starts)) if deepest else ()

    def with_descendants(self, values: Integers, combine: np.ufunc) -> Integers:
        """Value of each node combined with those of all its descendants."""
        result = values.copy()
        for level in self.levels[:0:-1]:
            combine.at(result, self.parents[level], result[level])
        return result

    def common_ancestors(self, first: Integers, second: Integers) -> Integers:
        """Lowest common ancestor of both nodes of each pair; -1 where there is none."""
        parents, depths = np.append(self.parents, NONE), np.append(self.depths, 0)
        first, second = first.copy(), second.copy()
        while (apart := np.flatnonzero(first != second)).size:
            ones, others = first[apart], second[apart]
            first[apart] = np.where(depths[ones] >= depths[others], parents[ones], ones)
            second[apart] = np.where(depths[others] >= depths[ones], parents[others], others)
        return first
