"""The parts of a timeline that belong to a visit, or to one launch of it.

Told apart by the runner's own ranges, and what lies in them by time: one thread
makes the visits, one after another, and each ends when the device is idle. An operation belongs to
the time at which it was launched, whichever thread launched it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.parse.nsys import Timeline
from profiler.parse.nsys_attribution import Attribution, attribute
from profiler.parse.nsys_tables import Integers
from profiler.runner import protocol

VISIT_COLUMNS = ("cell", "block", "arm", "start_ns", "end_ns")
LAUNCH_COLUMNS = ("launch", "start_ns", "end_ns")
"""Columns of `visits` and `launches`, by start."""

NOWHERE = -1
"""In none of the windows."""

Mask = npt.NDArray[np.bool_]


def visits(ranges: pd.DataFrame) -> pd.DataFrame:
    """Visits that were recorded from beginning to end: VISIT_COLUMNS. `ranges`: RANGE_COLUMNS."""
    ours = _runner_ranges(ranges)
    parsed = [protocol.parse_range_name(name) for name in ours["name"]]
    rows = [
        (*visit, start, end)
        for visit, start, end in zip(parsed, ours["start_ns"], ours["end_ns"], strict=True)
        if visit is not None
    ]
    return _windows(rows, VISIT_COLUMNS)


def launches(ranges: pd.DataFrame) -> pd.DataFrame:
    """Launches that were recorded from beginning to end: LAUNCH_COLUMNS."""
    ours = _runner_ranges(ranges)
    parsed = [protocol.parse_launch_range_name(name) for name in ours["name"]]
    rows = [
        (launch, start, end)
        for launch, start, end in zip(parsed, ours["start_ns"], ours["end_ns"], strict=True)
        if launch is not None
    ]
    return _windows(rows, LAUNCH_COLUMNS)


def _runner_ranges(ranges: pd.DataFrame) -> pd.DataFrame:
    """Ranges that the runner opened and closed: `name start_ns end_ns`."""
    ours = (ranges["domain"] == protocol.NVTX_DOMAIN) & ~ranges["open"].astype(bool)
    return ranges.loc[ours, ["name", "start_ns", "end_ns"]]


def _windows(rows: Sequence[tuple[object, ...]], columns: Sequence[str]) -> pd.DataFrame:
    integers = {name: "int64" for name in columns if name != "cell"}
    frame = pd.DataFrame(rows, columns=list(columns)).astype(integers)
    return frame.sort_values("start_ns", kind="stable", ignore_index=True)


def window_of(times: Integers, windows: pd.DataFrame) -> Integers:
    """Row of the window that each time lies in, NOWHERE outside; windows are in order of start."""
    starts, ends = windows["start_ns"].to_numpy(), windows["end_ns"].to_numpy()
    if not len(windows):
        return np.full(len(times), NOWHERE)
    latest = np.searchsorted(starts, times, side="right") - 1
    inside = (latest >= 0) & (times < ends[np.maximum(latest, 0)])
    return np.where(inside, latest, NOWHERE)


def launch_times(operations: pd.DataFrame) -> Integers:
    """Launch time of each operation in ns; its start where the call was not recorded.

    `operations` as in an `Attribution`.
    """
    launched = operations["launch_ns"].notna()
    times = operations["launch_ns"].where(launched, operations["start_ns"])
    return times.to_numpy(dtype=np.int64)


_Places = Mapping[str, Integers]
"""The window that each row of a timeline's frames lies in, or NOWHERE, by the name of the frame."""


def _places(timeline: Timeline, windows: pd.DataFrame) -> _Places:
    """Operations by their launch, calls by their start, ranges only where they are whole."""
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


def inside(timeline: Timeline, windows: pd.DataFrame) -> Timeline:
    """The parts of a timeline in these windows (`start_ns end_ns`, none in another, by start)."""
    places = _places(timeline, windows)
    return replace(
        timeline, **{name: _rows(timeline, name, at != NOWHERE) for name, at in places.items()}
    )


def _rows(timeline: Timeline, name: str, mask: Mask) -> Any:
    """Some rows of a frame of a timeline, numbered anew."""
    return getattr(timeline, name)[mask].reset_index(drop=True)


@dataclass(frozen=True)
class Cut:
    """A window of a timeline by itself, its operations in their ranges."""

    attribution: Attribution
    """Times are since the beginning of the window."""
    launches: pd.DataFrame
    """LAUNCH_COLUMNS, in the same time."""


def cuts(timeline: Timeline, windows: pd.DataFrame) -> list[Cut]:
    """The part of a timeline in each of these windows, its times since the window's start."""
    places = _places(timeline, windows)
    return [
        _cut(timeline, places, number, int(start))
        for number, start in enumerate(windows["start_ns"])
    ]


def _cut(timeline: Timeline, places: _Places, number: int, start_ns: int) -> Cut:
    frames: dict[str, Any] = {
        name: _earlier(_rows(timeline, name, at == number), start_ns) for name, at in places.items()
    }
    part = replace(timeline, **frames)
    return Cut(attribute(part), launches(part.ranges))


def _earlier(frame: pd.DataFrame, by_ns: int) -> pd.DataFrame:
    names = ("start_ns", "end_ns")
    return frame.assign(**{name: frame[name] - by_ns for name in names})


def full_window(timeline: Timeline) -> pd.DataFrame:
    """One window over all of a timeline (`start_ns end_ns`)."""
    frames = [part for part in (timeline.operations, timeline.ranges, timeline.api) if len(part)]
    first = min((int(frame["start_ns"].min()) for frame in frames), default=0)
    last = max((int(frame["end_ns"].max()) for frame in frames), default=-1)
    return pd.DataFrame({"start_ns": [first], "end_ns": [last + 1]})
