"""A timeline as rows of bars that do not overlap, and its data for the page's script."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.findings.timelines.bars import API, GPU, RANGE, SETS, SPAN, TimelineBars, UnitWindow

MOST_OPERATIONS = 40_000
"""Operations (and calls, and ranges) of a cell in its picture: beyond, only the first launches."""

_MAIN = "main thread"
_TOGETHER = 3.0
"""Host and GPU share an axis where both together take at most this many times the longer one."""

Integers = npt.NDArray[np.int64]


PictureRow = tuple[str, str]
"""Kind of a row, one of SETS, and its label; empty where the row above says it."""


def in_rows(bars: TimelineBars, *, on_cpu: bool = False) -> TimelineBars:
    """Bars of a timeline in rows in which they do not overlap."""
    frames = bars.frames
    labels = {
        RANGE: _thread_labels(frames[RANGE]["thread"], "NVTX", bars.main_thread),
        API: _thread_labels(frames[API]["thread"], "CUDA calls", bars.main_thread),
        SPAN: ["NVTX on the GPU"] * len(frames[SPAN]),
        GPU: _stream_labels(frames[GPU], on_cpu=on_cpu),
    }
    rows: list[PictureRow] = []
    placed: dict[str, pd.DataFrame] = {}
    for kind in SETS:
        rows_of_kind, row_of_bar = _place(frames[kind], kind, labels[kind], len(rows))
        rows += rows_of_kind
        placed[kind] = frames[kind].assign(row=row_of_bar)
    return replace(bars, frames=placed, rows=tuple(rows))


def _thread_labels(threads: pd.Series, thread_kind: str, main: int) -> Sequence[str]:
    numbers = threads.tolist()
    distinct = [number for number in dict.fromkeys(numbers) if number != main]
    if not distinct or len({*numbers}) < 2:
        return [thread_kind] * len(numbers)
    # The numbers of an operating system's threads say nothing, their order does.
    names = {
        number: f"{thread_kind}, thread {place}" for place, number in enumerate(distinct, start=2)
    }
    names[main] = f"{thread_kind}, {_MAIN}"
    return [names[number] for number in numbers]


def _stream_labels(operations: pd.DataFrame, *, on_cpu: bool) -> Sequence[str]:
    if on_cpu:
        return ["operators on the CPU"] * len(operations)
    devices, streams = operations["device"].tolist(), operations["stream"].tolist()
    several = len(set(devices)) > 1
    return [
        f"GPU {device}, stream {stream}" if several else f"GPU, stream {stream}"
        for device, stream in zip(devices, streams, strict=True)
    ]


def _place(
    frame: pd.DataFrame, kind: str, labels: Sequence[str], first: int
) -> tuple[list[PictureRow], Integers]:
    """Rows that the bars take, those of one label together, and the number of each bar's row."""
    rows: list[PictureRow] = []
    row_of_bar = np.zeros(len(frame), np.int64)
    codes, distinct = pd.factorize(np.array(labels, dtype=object))
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    for code in _in_order(distinct.tolist()):
        bars = np.flatnonzero(codes == code)
        lanes = _lanes(start[bars], end[bars])
        row_of_bar[bars] = first + len(rows) + lanes
        rows += [
            (kind, str(distinct[code]) if not lane else "")
            for lane in range(int(lanes.max(initial=0)) + 1)
        ]
    return rows, row_of_bar


def _in_order(labels: Sequence[str]) -> list[int]:
    """The main thread first, then by name as it came."""
    return sorted(range(len(labels)), key=lambda code: not labels[code].endswith(_MAIN))


def _lanes(start: Integers, end: Integers) -> Integers:
    """Lowest lane that is free for each bar, in order of start: the depth of nested bars."""
    if not len(start) or (start[1:] >= np.maximum.accumulate(end)[:-1]).all():
        return np.zeros(len(start), np.int64)
    lanes = np.zeros(len(start), np.int64)
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    used = 0
    for bar, (begin, until) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        lanes[bar] = lane
        heapq.heappush(busy, (until, lane))
    return lanes


# ---- for the page's script -----------------------------------------------------------------------


def picture_data(
    bars: TimelineBars,
    phases: Sequence[str],
    numbers: dict[str, int],
    window: UnitWindow | None,
) -> dict[str, Any]:
    """Data that the page's script draws, bars of each kind by columns, their times in ns.

    `bars` are in rows, `phases` are names of phases. `numbers`: of every name of the page its
    number; those of this picture are added. `windows`: names, starts and ends of what a reader
    looks at first.
    """
    ends = (int(frame["end_ns"].max()) for frame in bars.frames.values() if len(frame))
    return {
        "rows": list(map(list, bars.rows)),
        "phases": list(phases),
        "end": max(ends, default=0),
        "windows": [] if window is None else [list(part) for part in window_parts(window)],
        **{kind: _columns(bars.frames[kind], numbers) for kind in SETS},
    }


def _columns(frame: pd.DataFrame, numbers: dict[str, int]) -> dict[str, list[int]]:
    return {
        "start": frame["start_ns"].tolist(),
        "ns": (frame["end_ns"] - frame["start_ns"]).tolist(),
        "name": [numbers.setdefault(str(name), len(numbers)) for name in frame["name"]],
        "row": frame["row"].tolist(),
        "phase": frame["phase"].tolist(),
        "inside": frame["inside"].tolist(),
    }


# ---- one unit, for paper and for readers without a script ----------------------------------------


def far_apart(window: UnitWindow) -> bool:
    """Whether the GPU is so far behind the host that one axis cannot show both."""
    start, end = window.extent
    longest = max(until - begin for begin, until in (window.host, window.gpu or window.host))
    return end - start > _TOGETHER * max(longest, 1)


def window_parts(window: UnitWindow) -> tuple[tuple[str, int, int], ...]:
    """Times to look at, each with a word for it, the most telling first."""
    if far_apart(window) and window.gpu is not None:
        return ("One on the GPU", *window.gpu), ("One on the host", *window.host)
    return (("One", *window.extent),)


def bars_within(frame: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """Bars that lie at least partly in a window, cut to it."""
    start, end = window
    inside = frame[(frame["start_ns"] < end) & (frame["end_ns"] > start)]
    cut = {
        "start_ns": inside["start_ns"].clip(lower=start),
        "end_ns": inside["end_ns"].clip(upper=end),
    }
    return inside.assign(**cut)


def drawn_bars(frame: pd.DataFrame, window: tuple[int, int], pixels: int) -> pd.DataFrame:
    """Bars of a window of so many pixels; those that no eye could tell apart are one."""
    return joined_bars(bars_within(frame, window), (window[1] - window[0]) / pixels)


def joined_bars(frame: pd.DataFrame, least_ns: float) -> pd.DataFrame:
    """Bars with those that no eye could tell apart as one: neighbours of one row and phase.

    Two are joined where each is shorter than `least_ns` and so is the gap between them. A joined
    bar has no name.
    """
    if frame.empty:
        return frame
    frame = frame.sort_values(["row", "start_ns"], kind="stable")
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    short = end - start < least_ns
    is_joined = np.ones(len(frame) - 1, bool)
    for name in ("row", "phase"):
        values = frame[name].to_numpy()
        is_joined &= values[1:] == values[:-1]
    joined = is_joined & short[1:] & short[:-1] & (start[1:] - end[:-1] < least_ns)
    grouped = frame.groupby(np.concatenate([[0], np.cumsum(~joined)]), sort=True)
    result = grouped.first()
    result["end_ns"] = grouped["end_ns"].max()
    alone = grouped.size() == 1
    result = result.assign(**{name: result[name].where(alone, "") for name in ("name", "short")})
    return result.reset_index(drop=True)
