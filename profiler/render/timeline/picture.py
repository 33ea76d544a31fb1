"""A timeline as rows of bars: what stands in which row, where it is cut, and its compact form.

A bar is a range, a CUDA call or an operation; a row holds bars that do not overlap. Bars of a
kind are a frame, in order of start, with columns BAR_COLUMNS.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profiler.analyse.phases import VISIT, Phased, launch_rows
from profiler.analyse.timeline import range_instances
from runner.protocol import NVTX_DOMAIN

MOST_OPERATIONS = 40_000
"""Operations (and calls, and ranges) of a cell in its picture: beyond, only the first launches."""

BAR_COLUMNS = ("start_ns", "end_ns", "name", "short", "row", "phase", "inside")
"""`name`: in full; `short`: what stands on a bar; `row`: number of the row of the picture; `phase`:
number, -1: none; `inside`: number of the bar of the range around it, -1: none."""
RANGE, API, SPAN, GPU = "range", "api", "span", "gpu"
"""Ranges on the host, CUDA calls, ranges from the first to the last of their operations on the GPU,
and the operations."""
SETS = (RANGE, API, SPAN, GPU)

_MAIN, _UNKNOWN = "main thread", -1
_TOGETHER = 3.0
"""Host and GPU share an axis where both together take at most this many times the longer one."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PictureRow:
    """One row."""

    kind: str
    """One of SETS."""
    label: str
    """Empty where the row above says it."""


@dataclass(frozen=True, eq=False)
class Picture:
    """The timeline of one cell, ready to be drawn."""

    rows: tuple[PictureRow, ...]
    bars: Mapping[str, pd.DataFrame]
    """By kind of row."""
    phases: tuple[str, ...]
    end_ns: int
    launches: int
    """How many whole ones are shown."""
    left_out: int
    """Operations that are not shown."""
    until_ns: float
    """Time on the host from which on nothing is shown; may be infinite."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(len(frame) for frame in self.bars.values())


def make_picture(found: Phased, most: int = MOST_OPERATIONS) -> Picture:
    """Rows and bars of a timeline; of a large one the first launches."""
    timeline = found.timeline
    until, launches = _cut(found, most)
    kept_ranges = _shown_ranges(timeline.ranges, until)
    numbers = np.full(len(timeline.ranges) + 1, -1)
    numbers[kept_ranges] = np.arange(len(kept_ranges))
    # On a CPU a call is the operation itself: rows of both would say the same twice.
    shown_calls = (timeline.api["start_ns"].to_numpy() < until) & (not found.on_cpu)
    calls = np.flatnonzero(shown_calls)[: 2 * most]
    launched = timeline.operations["launch_ns"].fillna(timeline.operations["start_ns"])
    operations = np.flatnonzero(launched.to_numpy(np.int64) < until)[:most]
    frames = {
        RANGE: _range_bars(found, kept_ranges, numbers),
        API: _bars(timeline.api.iloc[calls]),
        SPAN: _span_bars(found, operations[: 0 if found.on_cpu else None], numbers),
        GPU: _operation_bars(found, operations, numbers),
    }
    main = _main_thread(timeline.ranges)
    places = {
        RANGE: _thread_labels(timeline.ranges["thread"].iloc[kept_ranges], "NVTX", main),
        API: _thread_labels(timeline.api["thread"].iloc[calls], "CUDA calls", main),
        SPAN: ["NVTX on the GPU"] * len(frames[SPAN]),
        GPU: _stream_labels(timeline.operations.iloc[operations], on_cpu=found.on_cpu),
    }
    rows: list[PictureRow] = []
    for kind in SETS:
        rows += _place(frames[kind], kind, places[kind], len(rows))
    ends = (int(frame["end_ns"].max()) for frame in frames.values() if len(frame))
    return Picture(
        rows=tuple(rows),
        bars=frames,
        phases=found.phases,
        end_ns=max(ends, default=0),
        launches=launches,
        left_out=len(timeline.operations) - len(operations),
        until_ns=until,
    )


def _cut(found: Phased, most: int) -> tuple[float, int]:
    """Host time from which on nothing is shown, and how many launches are whole before it."""
    timeline = found.timeline
    launched = timeline.operations["launch_ns"].fillna(timeline.operations["start_ns"])
    starts = [
        np.sort(one.to_numpy(np.int64))
        for one in (launched, timeline.ranges["start_ns"], timeline.api["start_ns"])
    ]
    begins = timeline.ranges["start_ns"].to_numpy()[launch_rows(timeline.ranges)]
    limit = min((float(one[most]) for one in starts if len(one) > most), default=np.inf)
    if limit == np.inf:
        return limit, len(begins)
    # Launch n is whole where launch n + 1 begins before the limit.
    whole = int(np.searchsorted(begins, limit, side="right")) - 1
    return (float(begins[whole]), whole) if whole > 0 else (limit, 0)


def _shown_ranges(ranges: pd.DataFrame, until: float) -> Integers:
    """Rows of the ranges that last, without that of the visit: it holds everything."""
    names = ranges["name"].astype(object)
    visit = names.str.startswith("cell=", na=False) & (ranges["domain"] == NVTX_DOMAIN)
    lasting = (ranges["end_ns"] > ranges["start_ns"]) & (ranges["start_ns"] < until)
    return np.flatnonzero((lasting & ~visit & (names != VISIT)).to_numpy(bool))


def _bars(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "start_ns": frame["start_ns"].to_numpy(np.int64),
            "end_ns": frame["end_ns"].to_numpy(np.int64),
            "name": frame["name"].astype(object).fillna("").to_numpy(),
            "short": frame["name"].astype(object).fillna("").to_numpy(),
            "row": 0,
            "phase": -1,
            "inside": -1,
        }
    )


def _range_bars(found: Phased, rows: Integers, numbers: Integers) -> pd.DataFrame:
    frame, stacks = _bars(found.timeline.ranges.iloc[rows]), found.timeline.stacks
    frame["phase"] = found.range_phase[rows]
    parents = np.append(stacks["parent"].to_numpy(), -1)
    around = parents[found.timeline.ranges["stack"].to_numpy()[rows]]
    frame["inside"] = _bar_around(around, stacks, numbers)
    return frame


def _operation_bars(found: Phased, rows: Integers, numbers: Integers) -> pd.DataFrame:
    operations, stacks = found.timeline.operations, found.timeline.stacks
    frame = _bars(operations.iloc[rows])
    frame["name"] = operations["demangled"].astype(object).fillna("").to_numpy()[rows]
    frame["phase"] = found.operation_phase[rows]
    frame["inside"] = _bar_around(operations["stack"].to_numpy()[rows], stacks, numbers)
    return frame


def _span_bars(found: Phased, rows: Integers, numbers: Integers) -> pd.DataFrame:
    """Ranges that are shown, from the first to the last of their shown operations on the GPU."""
    timeline = found.timeline
    spans = range_instances(timeline.operations.iloc[rows].reset_index(drop=True), timeline.stacks)
    spans = spans[numbers[spans["range"].to_numpy()] != -1].sort_values("range")
    # What lies inside another one comes after it, so that it gets a lower row.
    spans = spans.sort_values(["first_ns", "last_ns"], ascending=[True, False], kind="stable")
    shown = numbers[spans["range"].to_numpy()]
    bars = _range_bars(found, spans["range"].to_numpy(), numbers)
    times = {"start_ns": spans["first_ns"].to_numpy(), "end_ns": spans["last_ns"].to_numpy()}
    return bars.assign(**times, inside=shown)


def _bar_around(stack: Integers, stacks: pd.DataFrame, numbers: Integers) -> Integers:
    """Bar of the innermost range of each stack that has one; -1: none."""
    inner = np.append(stacks["range"].to_numpy(), -1)
    bars: Integers = numbers[inner[stack]]
    return bars


def _thread_labels(threads: pd.Series, what: str, main: int) -> Sequence[str]:
    numbers = threads.to_numpy(np.int64, na_value=_UNKNOWN).tolist()
    distinct = [number for number in dict.fromkeys(numbers) if number != main]
    if not distinct or len({*numbers}) < 2:
        return [what] * len(numbers)
    # The numbers of an operating system's threads say nothing, their order does.
    names = {number: f"{what}, thread {place}" for place, number in enumerate(distinct, start=2)}
    names[main] = f"{what}, {_MAIN}"
    return [names[number] for number in numbers]


def _main_thread(ranges: pd.DataFrame) -> int:
    """The thread that opened the first range: that of the visit, or of the program's own."""
    known = ranges["thread"].dropna()
    return int(known.iloc[0]) if len(known) else _UNKNOWN


def _stream_labels(operations: pd.DataFrame, *, on_cpu: bool) -> Sequence[str]:
    if on_cpu:
        return ["operators on the CPU"] * len(operations)
    devices, streams = (
        operations[name].to_numpy(np.int64, na_value=-1).tolist() for name in ("device", "stream")
    )
    several = len(set(devices)) > 1
    return [
        f"GPU {device}, stream {stream}" if several else f"GPU, stream {stream}"
        for device, stream in zip(devices, streams, strict=True)
    ]


def _place(frame: pd.DataFrame, kind: str, labels: Sequence[str], first: int) -> list[PictureRow]:
    """Give every bar its row, with those of one label together; the rows that this takes."""
    rows: list[PictureRow] = []
    of_bar = np.zeros(len(frame), np.int64)
    codes, distinct = pd.factorize(np.array(labels, dtype=object))
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    for code in _in_order(distinct.tolist()):
        own = np.flatnonzero(codes == code)
        lanes = _lanes(start[own], end[own])
        of_bar[own] = first + len(rows) + lanes
        rows += [
            PictureRow(kind, str(distinct[code]) if not lane else "")
            for lane in range(int(lanes.max(initial=0)) + 1)
        ]
    frame["row"] = of_bar
    return rows


def _in_order(labels: Sequence[str]) -> list[int]:
    """The main thread first, then by name as it came."""
    return sorted(range(len(labels)), key=lambda code: not labels[code].endswith(_MAIN))


def _lanes(start: Integers, end: Integers) -> Integers:
    """Lowest lane that is free for each bar, in order of start: the depth of what is nested."""
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


# ---- the compact form ----------------------------------------------------------------------------


class NameTable:
    """Every name of a page once, and its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def numbers(self, names: pd.Series) -> Integers:
        """Number of each name."""
        codes, distinct = pd.factorize(names)
        known = [self._numbers.setdefault(str(name), len(self._numbers)) for name in distinct]
        return np.array(known, dtype=np.int64)[codes] if known else codes.astype(np.int64)

    @property
    def names(self) -> list[str]:
        """In the order of their numbers."""
        return list(self._numbers)


def compact(picture: Picture, names: NameTable, window: Window | None) -> dict[str, Any]:
    """What the page's script draws: columns of differences as variable-length bytes in base64.

    `windows`: names, starts and ends of what a reader looks at first. Columns of each kind of bar,
    one after the other: start (from the start before it), duration, number of the name, row,
    phase + 1, and the range around it as the difference to that of the bar before (zigzag: 0, -1,
    1, -2, … are 0, 1, 2, 3, …).
    """
    return {
        "rows": [[row.kind, row.label] for row in picture.rows],
        "phases": list(picture.phases),
        "end": picture.end_ns,
        "windows": [] if window is None else [list(part) for part in window.parts],
        **{kind: _compact_bars(picture.bars[kind], names) for kind in SETS},
    }


def _compact_bars(frame: pd.DataFrame, names: NameTable) -> dict[str, Any]:
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    columns = (
        np.diff(start, prepend=0),
        end - start,
        names.numbers(frame["name"]),
        frame["row"].to_numpy(),
        frame["phase"].to_numpy() + 1,
        _zigzag(np.diff(frame["inside"].to_numpy(), prepend=0)),
    )
    return {"n": len(frame), "data": base64.b64encode(variable_length(columns)).decode("ascii")}


def _zigzag(values: Integers) -> Integers:
    return np.where(values < 0, -2 * values - 1, 2 * values)


def variable_length(columns: Sequence[Integers]) -> bytes:
    """Numbers from 0 on in seven bits a byte, lowest first; the eighth says that more follow."""
    values = np.concatenate([np.empty(0, np.int64), *columns])
    if (values < 0).any():
        raise ValueError("only numbers from 0 on can be written")
    parts: list[npt.NDArray[np.uint8]] = []
    places: list[Integers] = []
    rest, where = values, np.arange(len(values))
    byte = 0
    while len(rest):
        more = rest >= 128
        parts.append(((rest & 127) | np.where(more, 128, 0)).astype(np.uint8))
        places.append(where * 10 + byte)  # at most ten bytes a number
        rest, where, byte = rest[more] >> 7, where[more], byte + 1
    if not parts:
        return b""
    order = np.argsort(np.concatenate(places), kind="stable")
    return np.concatenate(parts)[order].tobytes()


# ---- one unit, for paper and for readers without a script ----------------------------------------


@dataclass(frozen=True)
class Window:
    """The part of a timeline that a still figure shows: once on the host, once on the GPU."""

    host: tuple[int, int]
    gpu: tuple[int, int] | None
    """None where nothing ran on a GPU."""
    unit: int | None = None
    """Row of the range that it shows; None: everything."""

    @property
    def whole(self) -> tuple[int, int]:
        """From the first to the last of both."""
        gpu = self.gpu or self.host
        return min(self.host[0], gpu[0]), max(self.host[1], gpu[1])

    @property
    def apart(self) -> bool:
        """Whether the GPU is so far behind the host that one axis cannot show both."""
        start, end = self.whole
        longest = max(one[1] - one[0] for one in (self.host, self.gpu or self.host))
        return end - start > _TOGETHER * max(longest, 1)

    @property
    def parts(self) -> tuple[tuple[str, int, int], ...]:
        """What to look at, with a word for it, the most telling first."""
        if self.apart and self.gpu is not None:
            return ("One on the GPU", *self.gpu), ("One on the host", *self.host)
        return (("One", *self.whole),)


def unit_window(found: Phased, until_ns: float = np.inf) -> Window | None:
    """Times of the unit in the middle; of all where nothing repeats; None where there is nothing.

    `until_ns`: of a picture that is cut; units behind that are not in it.
    """
    timeline, middle = found.timeline, found.middle(until_ns)
    operations = timeline.operations
    if middle is None:
        return _whole_window(until_ns, timeline.ranges, timeline.api, operations)
    row = timeline.ranges.iloc[middle]
    host = int(row["start_ns"]), int(row["end_ns"])
    number = int(np.searchsorted(found.units.rows, middle))
    own = operations[found.operation_unit == number]
    if own.empty:
        return Window(host, None, middle)
    return Window(host, (int(own["start_ns"].min()), int(own["end_ns"].max())), middle)


def _whole_window(until_ns: float, *frames: pd.DataFrame) -> Window | None:
    filled = [frame for frame in frames if len(frame)]
    if not filled:
        return None
    start = min(int(frame["start_ns"].min()) for frame in filled)
    end = int(min(max(int(frame["end_ns"].max()) for frame in filled), until_ns))
    return Window((start, end), (start, end) if len(frames[-1]) else None)


def bars_within(frame: pd.DataFrame, window: tuple[int, int]) -> pd.DataFrame:
    """Bars that lie at least partly in a window, cut to it."""
    start, end = window
    inside = frame[(frame["start_ns"] < end) & (frame["end_ns"] > start)]
    cut = {
        "start_ns": inside["start_ns"].clip(lower=start),
        "end_ns": inside["end_ns"].clip(upper=end),
    }
    return inside.assign(**cut)


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
    same = np.ones(len(frame) - 1, bool)
    for name in ("row", "phase"):
        values = frame[name].to_numpy()
        same &= values[1:] == values[:-1]
    joined = same & short[1:] & short[:-1] & (start[1:] - end[:-1] < least_ns)
    group = np.concatenate([[0], np.cumsum(~joined)])
    grouped = frame.groupby(group, sort=True)
    result = grouped.first()
    result["end_ns"] = grouped["end_ns"].max()
    alone = grouped.size() == 1
    result = result.assign(**{name: result[name].where(alone, "") for name in ("name", "short")})
    return result.reset_index(drop=True)


def bar_paths(ranges: pd.DataFrame) -> list[str]:
    """Names of each range's bar with those around it, outermost first."""
    found: list[str] = []
    for name, inside in zip(ranges["name"].tolist(), ranges["inside"].tolist(), strict=True):
        # A range lies in one that began before it, so in a bar further up.
        around = found[inside] if 0 <= inside < len(found) else ""
        found.append(f"{around} / {name}" if around else str(name))
    return found


def busy_bins(
    operations: pd.DataFrame, window: tuple[int, int], count: int
) -> npt.NDArray[np.float64]:
    """Share of each of `count` equal stretches of a window in which an operation ran."""
    start, end = window
    edges = np.linspace(start, end, count + 1)
    begins, ends = operations["start_ns"].to_numpy(), operations["end_ns"].to_numpy()
    if not len(begins) or end <= start:
        return np.zeros(count)
    latest = np.concatenate([[begins[0]], np.maximum.accumulate(ends)[:-1]])
    begins, ends = np.maximum(begins, latest), np.maximum(ends, latest)  # nothing counts twice
    lengths = np.concatenate([[0], np.cumsum(ends - begins)])
    place = np.searchsorted(ends, edges, side="left")
    inner = np.append(begins, np.inf)[place]
    until = lengths[place] + np.where(edges > inner, edges - inner, 0.0)
    return np.diff(until) / np.diff(edges)
