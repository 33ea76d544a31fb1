"""NVTX ranges of every GPU operation, and the parts of a timeline by visit.

An operation belongs to the call that launched it (same process, same correlation id); the nodes of
a CUDA graph to the launch of the graph. The ranges of the call are those that were open when it
began: push/pop ranges of its own thread, start/end ranges of any thread of its process.

The engine of torch's autograd launches from a thread of its own, outside every push/pop range. A
call on a thread without an open push/pop range is therefore put into the ranges that the main
thread has open at that time, and marked `by_time`: right for a backward pass that the main thread
waits for, a guess for independent threads.

One sweep over all beginnings and ends in order of time, in O(n log n). Nested ranges make a stack
each, however deep they are. Only where ranges cross (start/end ranges, two domains) does the end of
one make new stacks of all ranges that go on: a timeline with too many stacks is refused.

Parts of a timeline are found by the runner's ranges of visits and launches, and by time: one thread
makes the visits, one after another, and each ends when the device is idle. An operation belongs to
the time at which it was launched, whichever thread launched it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.errors import ParseError
from profiler.parse.nsys import THREAD_BITS, RecordedTimeline
from profiler.parse.nsys_tables import MISSING, Integers
from profiler.parse.nvtx_cells import RangeKind
from profiler.runner import protocol

NO_STACK = -1
"""Stack of an operation in no range."""

STACK_COLUMNS = ("parent", "range", "depth")
"""A stack of open ranges is a row: its innermost range (row of the ranges), and the stack around it
(`parent`, a row above this one, or NO_STACK); `depth` is the number of its ranges."""

MAX_STACKS, MAX_STACKS_PER_EVENT = 1_000_000, 10
"""Most stacks of a timeline, and further stacks for each of its ranges and calls."""

_CORRELATION_BITS = 32
_NO_CALL = -1
_EVENTS_AT_ONCE = 200_000
_END, _START, _CALL = 0, 1, 2  # order at one time: a range ends before, and begins with, a call


@dataclass(frozen=True)
class Attribution:
    """A timeline with the launch and the ranges of each operation."""

    operations: pd.DataFrame
    """Operations of the timeline, and `launch` (row of the call, missing where not recorded),
    `launch_ns`, `launch_end_ns`, `stack` (row of `stacks`, or NO_STACK) and `by_time`."""
    ranges: pd.DataFrame
    """Ranges of the timeline, and `stack`: that whose innermost range it is (NO_STACK of marks
    and of ranges without length)."""
    stacks: pd.DataFrame
    """STACK_COLUMNS."""
    api: pd.DataFrame


def attribute(timeline: RecordedTimeline) -> Attribution:
    """Launch and ranges of every kernel, copy, memset and graph of a timeline.

    Raises ParseError where its ranges cross each other in too many ways.
    """
    launches = _launches(timeline.operations, timeline.api)
    launched = launches != _NO_CALL
    calls = np.unique(launches[launched])
    stacks, range_stacks, call_stacks, call_by_time = _stacks_of_open_ranges(
        timeline.ranges, timeline.api.iloc[calls]
    )
    call_of_operation = np.searchsorted(calls, launches[launched])
    operations = timeline.operations.assign(
        launch=pd.arrays.IntegerArray(np.where(launched, launches, 0), ~launched),
        launch_ns=_times_of_rows(timeline.api["start_ns"], launches),
        launch_end_ns=_times_of_rows(timeline.api["end_ns"], launches),
        stack=_scattered(launched, call_stacks[call_of_operation], NO_STACK),
        by_time=_scattered(launched, call_by_time[call_of_operation], 0).astype(bool),
    )
    return Attribution(
        operations=operations,
        ranges=timeline.ranges.assign(stack=range_stacks),
        stacks=stacks,
        api=timeline.api,
    )


def _launches(operations: pd.DataFrame, api: pd.DataFrame) -> Integers:
    """Row of the call that launched each operation: the outermost of several with one id."""
    processes = np.unique(_plain_integers(api["process"]))
    keys = _launch_keys(
        _plain_integers(api["process"]), _plain_integers(api["correlation"]), processes
    )
    order = np.argsort(keys, kind="stable")  # calls are in order of start: the first stays first
    keys = keys[order]
    launch_keys = _plain_integers(operations["process"])
    if len(processes) == 1:  # an export of old has no process at its operations
        launch_keys = np.where(launch_keys == MISSING, processes[0], launch_keys)
    launch_keys = _launch_keys(launch_keys, _plain_integers(operations["correlation"]), processes)
    if not len(keys):
        return np.full(len(launch_keys), _NO_CALL)
    nearest = np.minimum(np.searchsorted(keys, launch_keys), len(keys) - 1)
    return np.where((keys[nearest] == launch_keys) & (launch_keys >= 0), order[nearest], _NO_CALL)


def _launch_keys(process: Integers, correlation: Integers, processes: Integers) -> Integers:
    """Key of process and correlation id; -1 for an unknown process, or without an id."""
    if not len(processes):
        return np.full(len(process), -1)
    code = np.minimum(np.searchsorted(processes, process), len(processes) - 1)
    valid = (processes[code] == process) & (correlation > 0)  # CUPTI counts from 1
    return np.where(valid, (code << _CORRELATION_BITS) + np.where(valid, correlation, 0), -1)


def _times_of_rows(times: pd.Series, rows: Integers) -> pd.arrays.IntegerArray:
    """Time of each row of `times`; missing without a call."""
    present = rows != _NO_CALL
    values = np.zeros(len(rows), np.int64)
    values[present] = times.to_numpy()[rows[present]]
    return pd.arrays.IntegerArray(values, ~present)


def _scattered(mask: npt.NDArray[np.bool_], values: Integers, otherwise: int) -> Integers:
    column = np.full(len(mask), otherwise)
    column[mask] = values
    return column


def _plain_integers(column: pd.Series) -> Integers:
    """Integers of a column, with MISSING for missing values."""
    return column.to_numpy(dtype=np.int64, na_value=MISSING)


# ---- the sweep -----------------------------------------------------------------------------------


def _stacks_of_open_ranges(
    ranges: pd.DataFrame, calls: pd.DataFrame
) -> tuple[pd.DataFrame, Integers, Integers, Integers]:
    """Stacks, stack of each range, stack of each call, and whether a call's is known by time."""
    thread_of_range, thread_of_call, process, main = _threads(ranges, calls)
    shared = (ranges["kind"] == RangeKind.START_END.value).to_numpy()
    most = MAX_STACKS + MAX_STACKS_PER_EVENT * (len(ranges) + len(calls))
    state = _OpenRanges(process, main, shared.tolist(), _StackTree(len(ranges), most))
    range_stacks = np.full(len(ranges), NO_STACK)
    call_stacks = np.full(len(calls), NO_STACK)
    call_by_time = np.zeros(len(calls), np.int64)
    for event, row, thread in _events(ranges, calls, thread_of_range, thread_of_call):
        if event == _END:
            state.end(row, thread)
        elif event == _START:
            range_stacks[row] = state.start(row, thread)
        else:
            call_stacks[row], call_by_time[row] = state.stack_of_call(thread)
    return state.tree.frame(), range_stacks, call_stacks, call_by_time


def _threads(
    ranges: pd.DataFrame, calls: pd.DataFrame
) -> tuple[Integers, Integers, list[int], list[int]]:
    """Number of the thread of each range and of each call; process and main thread of each thread.

    Threads and processes are numbered from 0.
    """
    serialised = np.concatenate(
        [_plain_integers(ranges["thread"]), _plain_integers(calls["thread"])]
    )
    threads, codes = np.unique(serialised, return_inverse=True)
    _, process = np.unique(threads >> THREAD_BITS, return_inverse=True)
    thread_of_range, thread_of_call = np.split(codes, [len(ranges)])
    pushed = thread_of_range[(ranges["kind"] == RangeKind.PUSH_POP.value).to_numpy()]
    main = _main_threads(threads, process, pushed)
    return thread_of_range, thread_of_call, process.tolist(), [main[p] for p in process.tolist()]


def _main_threads(threads: Integers, process: Integers, pushed: Integers) -> dict[int, int]:
    """Main thread of each process: the thread with the id of the process, if it pushes ranges.

    Else the first thread that pushes any; any thread of a process without push/pop ranges.
    """
    main = {int(p): number for number, p in reversed(list(enumerate(process)))}
    distinct, first = np.unique(pushed, return_index=True)
    for number in distinct[np.argsort(-first)]:
        main[int(process[number])] = int(number)
    mask = (1 << THREAD_BITS) - 1
    for number in distinct:
        if threads[number] & mask == (threads[number] >> THREAD_BITS) & mask:
            main[int(process[number])] = int(number)
    return main


def _events(
    ranges: pd.DataFrame, calls: pd.DataFrame, thread_of_range: Integers, thread_of_call: Integers
) -> Iterator[tuple[int, int, int]]:
    """Beginnings and ends of ranges, and calls, in order of time: event, row, thread."""
    start, end = ranges["start_ns"].to_numpy(), ranges["end_ns"].to_numpy()
    rows = np.flatnonzero(end > start)  # marks and ranges without length hold nothing
    parts = (
        (_END, rows, end[rows], thread_of_range[rows]),
        (_START, rows, start[rows], thread_of_range[rows]),  # rows are in order, outer first
        (_CALL, np.arange(len(calls)), calls["start_ns"].to_numpy(), thread_of_call),
    )
    time = np.concatenate([times for _, _, times, _ in parts])
    event = np.concatenate([np.full(len(part), kind, np.int8) for kind, part, _, _ in parts])
    row = np.concatenate([part for _, part, _, _ in parts])
    thread = np.concatenate([part for _, _, _, part in parts])
    order = np.lexsort((event, time))  # stable: rows stay in order
    for first in range(0, len(order), _EVENTS_AT_ONCE):
        chunk = order[first : first + _EVENTS_AT_ONCE]
        yield from zip(
            event[chunk].tolist(), row[chunk].tolist(), thread[chunk].tolist(), strict=True
        )


class _StackTree:
    """Distinct stacks, each as its innermost range and the stack around it."""

    def __init__(self, ranges: int, most: int) -> None:
        self._ranges = ranges
        self._most = most
        self._numbers: dict[int, int] = {}
        self.parents = array("q")
        self._innermost = array("q")
        self._depths = array("q")

    def stack_inside(self, stack: int, row: int) -> int:
        """Stack of range `row` inside `stack`."""
        key = (stack + 1) * self._ranges + row
        if key in self._numbers:
            return self._numbers[key]
        number = len(self.parents)
        if number >= self._most:
            raise ParseError(
                f"a timeline whose ranges cross each other: more than {self._most} stacks of open "
                "ranges (limit MAX_STACKS in profiler/parse/nsys_attribution)",
                remedy="Record a shorter time, or fewer ranges that are open at once.",
            )
        self._numbers[key] = number
        self.parents.append(stack)
        self._innermost.append(row)
        self._depths.append(1 if stack == NO_STACK else self._depths[stack] + 1)
        return number

    def frame(self) -> pd.DataFrame:
        """STACK_COLUMNS."""
        columns = (self.parents, self._innermost, self._depths)
        arrays = (np.array(column, dtype=np.int64) for column in columns)
        return pd.DataFrame(dict(zip(STACK_COLUMNS, arrays, strict=True)))


class _OpenRanges:
    """Ranges that are open at one moment of the sweep.

    Push/pop ranges of a thread are nested within a domain, but those of two domains may cross, so
    open ranges are kept in order of their beginning, not as a stack whose top alone can leave.
    """

    def __init__(
        self, process: list[int], main: list[int], shared: list[bool], tree: _StackTree
    ) -> None:
        self.tree = tree
        self._is_shared = shared
        self._process, self._main = process, main
        self._pushed: list[dict[int, None]] = [{} for _ in process]
        self._pushed_stack: list[int | None] = [NO_STACK] * len(process)
        """Stack of a thread's push/pop ranges; None where it has to be computed anew."""
        self._shared: list[dict[int, None]] = [{} for _ in process]

    def start(self, row: int, thread: int) -> int:
        """Stack of a range that opens now, of which it is the innermost range."""
        shared = self._shared[self._process[thread]]
        if self._is_shared[row]:
            shared[row] = None
        else:
            outer_stack = self._pushed_stack[thread]
            self._pushed[thread][row] = None
            # While start/end ranges are open, stacks of push/pop ranges alone are not needed.
            stack = (
                None if shared or outer_stack is None else self.tree.stack_inside(outer_stack, row)
            )
            self._pushed_stack[thread] = stack
        return self._stack(thread)

    def end(self, row: int, thread: int) -> None:
        """Close a range."""
        if self._is_shared[row]:
            del self._shared[self._process[thread]][row]
            return
        pushed, stack = self._pushed[thread], self._pushed_stack[thread]
        innermost = next(reversed(pushed)) == row
        del pushed[row]
        if not pushed:
            self._pushed_stack[thread] = NO_STACK
        elif innermost and stack is not None:
            self._pushed_stack[thread] = self.tree.parents[stack]
        else:
            self._pushed_stack[thread] = None

    def stack_of_call(self, thread: int) -> tuple[int, bool]:
        """Stack of a call that begins now, and whether the stack is known by time alone."""
        main = self._main[thread]
        if self._pushed[thread] or not self._pushed[main]:
            return self._stack(thread), False
        return self._stack(main), True

    def _stack(self, thread: int) -> int:
        shared, pushed = self._shared[self._process[thread]], self._pushed[thread]
        pushed_stack = self._pushed_stack[thread]
        if not shared and pushed_stack is not None:
            return pushed_stack
        stack = NO_STACK
        for row in sorted((*pushed, *shared)) if shared else pushed:  # rows are in order of start
            stack = self.tree.stack_inside(stack, row)
        if not shared:
            self._pushed_stack[thread] = stack
        return stack


# ---- visits and launches -------------------------------------------------------------------------

VISIT_COLUMNS = ("cell", "block", "arm", "start_ns", "end_ns")
LAUNCH_COLUMNS = ("launch", "start_ns", "end_ns")
"""Columns of `visits` and `launches`, by start."""

NOWHERE = -1
"""Window of a time in none of the windows."""

Mask = npt.NDArray[np.bool_]


def visits(ranges: pd.DataFrame) -> pd.DataFrame:
    """Visits recorded from beginning to end: VISIT_COLUMNS. `ranges` has RANGE_COLUMNS."""
    return _runner_windows(ranges, protocol.parse_range_name, VISIT_COLUMNS)


def launches(ranges: pd.DataFrame) -> pd.DataFrame:
    """Launches that were recorded from beginning to end: LAUNCH_COLUMNS."""

    def parse_key(name: str) -> tuple[int] | None:
        launch = protocol.parse_launch_range_name(name)
        return None if launch is None else (launch,)

    return _runner_windows(ranges, parse_key, LAUNCH_COLUMNS)


def _runner_windows(
    ranges: pd.DataFrame,
    parse_key: Callable[[str], tuple[object, ...] | None],
    columns: Sequence[str],
) -> pd.DataFrame:
    """Closed ranges of the runner whose names `parse_key` reads, by start."""
    is_runner_range = (ranges["domain"] == protocol.NVTX_DOMAIN) & ~ranges["open"].astype(bool)
    runner_ranges = ranges.loc[is_runner_range, ["name", "start_ns", "end_ns"]].itertuples(
        index=False
    )
    rows = [
        (*key, start, end)
        for name, start, end in runner_ranges
        if (key := parse_key(name)) is not None
    ]
    integers = {name: "int64" for name in columns if name != "cell"}
    frame = pd.DataFrame(rows, columns=list(columns)).astype(integers)
    return frame.sort_values("start_ns", kind="stable", ignore_index=True)


def window_of(times: Integers, windows: pd.DataFrame) -> Integers:
    """Row of the window that each time lies in, NOWHERE outside; windows are in order of start."""
    starts, ends = windows["start_ns"].to_numpy(), windows["end_ns"].to_numpy()
    if not len(windows):
        return np.full(len(times), NOWHERE)
    latest = np.searchsorted(starts, times, side="right") - 1
    parts_in_windows = (latest >= 0) & (times < ends[np.maximum(latest, 0)])
    return np.where(parts_in_windows, latest, NOWHERE)


def launch_times(operations: pd.DataFrame) -> Integers:
    """Launch time of each operation in ns; its start where the call was not recorded.

    `operations` as in an `Attribution`.
    """
    launched = operations["launch_ns"].notna()
    times = operations["launch_ns"].where(launched, operations["start_ns"])
    return times.to_numpy(dtype=np.int64)


_WindowsByFrame = Mapping[str, Integers]
"""Window of each row of a timeline's frames, or NOWHERE, by name of the frame."""


def _windows_by_frame(timeline: RecordedTimeline, windows: pd.DataFrame) -> _WindowsByFrame:
    """Window of operations by launch, of calls by start, of ranges that lie inside a window."""
    ranges = timeline.ranges
    first = window_of(ranges["start_ns"].to_numpy(dtype=np.int64), windows)
    ends = np.append(windows["end_ns"].to_numpy(dtype=np.int64), np.iinfo(np.int64).min)
    # NOWHERE has the last end.
    ends_inside = ranges["end_ns"].to_numpy(dtype=np.int64) <= ends[first]
    launched = launch_times(attribute(timeline).operations)
    called = timeline.api["start_ns"].to_numpy(dtype=np.int64)
    return {
        "operations": window_of(launched, windows),
        "ranges": np.where(ends_inside, first, NOWHERE),
        "api": window_of(called, windows),
    }


def parts_in_windows(timeline: RecordedTimeline, windows: pd.DataFrame) -> RecordedTimeline:
    """Parts of a timeline in these windows (`start_ns end_ns`, without overlap, by start)."""
    places = _windows_by_frame(timeline, windows)
    return replace(
        timeline,
        **{name: _rows(timeline, name, window != NOWHERE) for name, window in places.items()},
    )


def _rows(timeline: RecordedTimeline, name: str, mask: Mask) -> Any:
    """Rows of a frame of a timeline where `mask` is set, numbered from 0."""
    return getattr(timeline, name)[mask].reset_index(drop=True)


def part_of_each_window(timeline: RecordedTimeline, windows: pd.DataFrame) -> list[Attribution]:
    """Part of a timeline in each of these windows, with times since the window's start."""
    places = _windows_by_frame(timeline, windows)
    return [
        _attribution_in_window(timeline, places, number, int(start))
        for number, start in enumerate(windows["start_ns"])
    ]


def _attribution_in_window(
    timeline: RecordedTimeline, places: _WindowsByFrame, number: int, start_ns: int
) -> Attribution:
    frames: dict[str, Any] = {
        name: _with_times_since(_rows(timeline, name, window == number), start_ns)
        for name, window in places.items()
    }
    return attribute(replace(timeline, **frames))


def _with_times_since(frame: pd.DataFrame, by_ns: int) -> pd.DataFrame:
    names = ("start_ns", "end_ns")
    return frame.assign(**{name: frame[name] - by_ns for name in names})


def full_window(timeline: RecordedTimeline) -> pd.DataFrame:
    """One window over all of a timeline (`start_ns end_ns`)."""
    frames = [part for part in (timeline.operations, timeline.ranges, timeline.api) if len(part)]
    first = min((int(frame["start_ns"].min()) for frame in frames), default=0)
    last = max((int(frame["end_ns"].max()) for frame in frames), default=-1)
    return pd.DataFrame({"start_ns": [first], "end_ns": [last + 1]})
