"""The bars of a timeline: which ranges, calls and operations can be drawn, and where each belongs.

A bar is a range, a CUDA call or an operation. Bars of a kind are a frame, in order of start, with
columns

- `start_ns`, `end_ns`;
- `name`: in full; `short`: what stands on the bar;
- `phase`: its number, -1: none;
- `inside`: number of the range's bar around it, -1: none;
- `thread`, `device`, `stream`: where it ran, -1: not known or not of this kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analyse.phases import Path, PhasedTimeline, lasting_ranges, launch_rows, longer_path
from profiler.analyse.timeline import range_instances

_UNKNOWN = -1

Integers = npt.NDArray[np.int64]


RANGE, API, SPAN, GPU = "range", "api", "span", "gpu"
"""Kinds of bars: ranges on the host without that of the visit, which holds everything; CUDA calls,
none on a CPU, where a call is the operation itself; ranges from the first to the last of their
operations on the GPU, none on a CPU; and the operations."""
SETS = (RANGE, API, SPAN, GPU)


@dataclass(frozen=True, eq=False)
class TimelineBars:
    """The bars of one timeline; of a large one those of its first launches."""

    frames: Mapping[str, pd.DataFrame]
    """By kind, one of SETS."""
    main_thread: int
    """The thread that opened the first range: that of the visit, or of the program's own."""
    launches: int
    """How many launches are shown from their beginning to their end."""
    left_out: int
    """Number of operations that are not shown."""
    until_ns: float
    """Time on the host from which on nothing is shown; may be infinite."""
    rows: tuple[tuple[str, str], ...] = ()
    """Kind and label of each row, where bars were put into rows; frames have a column `row` then.
    A label is empty where the row above says it."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(map(len, self.frames.values()))


@dataclass(frozen=True)
class UnitWindow:
    """Times of one unit, or of the whole timeline: once on the host, once on the GPU."""

    host: tuple[int, int]
    gpu: tuple[int, int] | None
    """None where nothing ran on a GPU."""
    unit: str | None = None
    """Name of its range; None: the whole timeline."""

    @property
    def extent(self) -> tuple[int, int]:
        """From the first to the last of both."""
        gpu = self.gpu or self.host
        return min(self.host[0], gpu[0]), max(self.host[1], gpu[1])


def find_bars(phased: PhasedTimeline, most: int) -> TimelineBars:
    """Bars of at most `most` operations, and of at most twice as many calls."""
    timeline = phased.timeline
    until, launches = _cut(phased, most)
    shown_ranges = lasting_ranges(timeline.ranges, until)
    numbers = np.full(len(timeline.ranges) + 1, -1)
    numbers[shown_ranges] = np.arange(len(shown_ranges))
    shown_calls = (timeline.api["start_ns"].to_numpy() < until) & (not phased.on_cpu)
    calls = np.flatnonzero(shown_calls)[: 2 * most]
    operations = np.flatnonzero(_launch_times(timeline.operations) < until)[:most]
    threads = timeline.ranges["thread"].dropna()
    return TimelineBars(
        frames={
            RANGE: _range_bars(phased, shown_ranges, numbers),
            API: _bars(timeline.api.iloc[calls]),
            SPAN: _span_bars(phased, operations[: 0 if phased.on_cpu else None], numbers),
            GPU: _operation_bars(phased, operations, numbers),
        },
        main_thread=int(threads.iloc[0]) if len(threads) else _UNKNOWN,
        launches=launches,
        left_out=len(timeline.operations) - len(operations),
        until_ns=until,
    )


def bar_paths(ranges: pd.DataFrame) -> list[Path]:
    """Names of each range's bar with those around it, as `phases.Path` has them."""
    paths: list[Path] = []
    for name, inside in zip(ranges["name"].tolist(), ranges["inside"].tolist(), strict=True):
        # A range lies in one that began before it, so in a bar further up.
        around = paths[inside] if 0 <= inside < len(paths) else ()
        paths.append(longer_path(around, str(name)))
    return paths


def _launch_times(operations: pd.DataFrame) -> Integers:
    """When each operation was launched; when it began, where that is not known."""
    times: Integers = operations["launch_ns"].fillna(operations["start_ns"]).to_numpy(np.int64)
    return times


def _cut(phased: PhasedTimeline, most: int) -> tuple[float, int]:
    """Host time from which on nothing is shown, and the number of complete launches before it."""
    timeline = phased.timeline
    starts = (
        np.sort(_launch_times(timeline.operations)),
        np.sort(timeline.ranges["start_ns"].to_numpy(np.int64)),
        np.sort(timeline.api["start_ns"].to_numpy(np.int64)),
    )
    begins = timeline.ranges["start_ns"].to_numpy()[launch_rows(timeline.ranges)]
    limit = min((float(times[most]) for times in starts if len(times) > most), default=np.inf)
    if limit == np.inf:
        return limit, len(begins)
    # Launch n is complete where launch n + 1 begins before the limit.
    complete = int(np.searchsorted(begins, limit, side="right")) - 1
    return (float(begins[complete]), complete) if complete > 0 else (limit, 0)


def _bars(frame: pd.DataFrame) -> pd.DataFrame:
    names = frame["name"].astype(object).fillna("").to_numpy()
    return pd.DataFrame(
        {
            "start_ns": frame["start_ns"].to_numpy(np.int64),
            "end_ns": frame["end_ns"].to_numpy(np.int64),
            "name": names,
            "short": names,
            "phase": -1,
            "inside": -1,
            **{name: _identifiers(frame, name) for name in ("thread", "device", "stream")},
        }
    )


def _identifiers(frame: pd.DataFrame, name: str) -> Integers:
    if name not in frame:
        return np.full(len(frame), _UNKNOWN)
    identifiers: Integers = frame[name].to_numpy(np.int64, na_value=_UNKNOWN)
    return identifiers


def _range_bars(phased: PhasedTimeline, rows: Integers, numbers: Integers) -> pd.DataFrame:
    frame, stacks = _bars(phased.timeline.ranges.iloc[rows]), phased.timeline.stacks
    frame["phase"] = phased.range_phase[rows]
    parents = np.append(stacks["parent"].to_numpy(), -1)
    around = parents[phased.timeline.ranges["stack"].to_numpy()[rows]]
    frame["inside"] = _bar_around(around, stacks, numbers)
    return frame


def _operation_bars(phased: PhasedTimeline, rows: Integers, numbers: Integers) -> pd.DataFrame:
    operations, stacks = phased.timeline.operations, phased.timeline.stacks
    frame = _bars(operations.iloc[rows])
    frame["name"] = operations["demangled"].astype(object).fillna("").to_numpy()[rows]
    frame["phase"] = phased.operation_phase[rows]
    frame["inside"] = _bar_around(operations["stack"].to_numpy()[rows], stacks, numbers)
    return frame


def _span_bars(phased: PhasedTimeline, rows: Integers, numbers: Integers) -> pd.DataFrame:
    """Ranges that are shown, from the first to the last of their shown operations on the GPU."""
    timeline = phased.timeline
    spans = range_instances(timeline.operations.iloc[rows].reset_index(drop=True), timeline.stacks)
    spans = spans[numbers[spans["range"].to_numpy()] != -1].sort_values("range")
    # What lies inside another one comes after it, so that it gets a lower row.
    spans = spans.sort_values(["first_ns", "last_ns"], ascending=[True, False], kind="stable")
    bar_numbers = numbers[spans["range"].to_numpy()]
    bars = _range_bars(phased, spans["range"].to_numpy(), numbers)
    times = {"start_ns": spans["first_ns"].to_numpy(), "end_ns": spans["last_ns"].to_numpy()}
    return bars.assign(**times, inside=bar_numbers)


def _bar_around(stack: Integers, stacks: pd.DataFrame, numbers: Integers) -> Integers:
    """Bar of the innermost range of each stack that has one; -1: none."""
    inner = np.append(stacks["range"].to_numpy(), -1)
    bars: Integers = numbers[inner[stack]]
    return bars


def find_window(phased: PhasedTimeline, until_ns: float) -> UnitWindow | None:
    """Times of the unit in the middle; of all where nothing repeats; None where there is nothing.

    `until_ns`: units that end after it are left out.
    """
    timeline, middle = phased.timeline, phased.median_unit(until_ns)
    operations = timeline.operations
    if middle is None:
        return _complete_window(until_ns, timeline.ranges, timeline.api, operations)
    row = timeline.ranges.iloc[middle]
    host = int(row["start_ns"]), int(row["end_ns"])
    number = int(np.searchsorted(phased.units.rows, middle))
    of_unit = operations[phased.operation_unit == number]
    if of_unit.empty:
        return UnitWindow(host, None, str(row["name"]))
    gpu = int(of_unit["start_ns"].min()), int(of_unit["end_ns"].max())
    return UnitWindow(host, gpu, str(row["name"]))


def _complete_window(until_ns: float, *frames: pd.DataFrame) -> UnitWindow | None:
    filled = [frame for frame in frames if len(frame)]
    if not filled:
        return None
    start = min(int(frame["start_ns"].min()) for frame in filled)
    end = int(min(max(int(frame["end_ns"].max()) for frame in filled), until_ns))
    return UnitWindow((start, end), (start, end) if len(frames[-1]) else None)
