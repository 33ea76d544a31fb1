"""Launches that follow each other without a gap: a CUDA graph of many, or plain launches."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import torch

from profiler.runner.device import Device
from profiler.runner.timing import NS_PER_MS, Launch, on_cuda, restore

BURST_S = 0.025
"""Seconds of a burst. Two are queued at any time, so the host may be away for as long."""
_GRAPH_S = 0.01
"""Seconds of a graph: between two graphs lie some microseconds."""
_MOST_IN_GRAPH = 4000
_HOST_KEEPS_UP = 0.5
"""Largest share of a launch's time on the device that the host may take, for plain launches."""
_FEWEST_TRIED, _MOST_TRIED = 5, 200
MS_PER_S = 1e3


class LaunchInTurn:
    """A launch on several sets of inputs, each call on the next set.

    `burst`: how the launch is made back to back; None until that is known.
    """

    def __init__(self, launches: Sequence[Launch]) -> None:
        self.launches = tuple(launches)
        self.burst: Burst | None = None
        self._next = cycle(self.launches)

    def __call__(self) -> Any:
        """Launch on the next set."""
        return next(self._next)()

    def restore(self) -> None:
        """Undo the changes of launches on every set."""
        for launch in self.launches:
            restore(launch)


class HostMark:
    """A point in time on a CPU, with the methods of a CUDA event."""

    def __init__(self) -> None:
        self.at_ns = 0

    def record(self) -> None:
        """Set the mark to the current time."""
        self.at_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Return at once: on a CPU a launch is over when it returns."""

    def elapsed_time(self, end: HostMark) -> float:
        """Milliseconds from this mark to a later one."""
        return (end.at_ns - self.at_ns) / NS_PER_MS


def new_mark(device: Device) -> Any:
    """A CUDA event or a `HostMark`, recorded behind the launches so far."""
    event: Any = torch.cuda.Event
    mark = event(enable_timing=True) if on_cuda(device) else HostMark()
    mark.record()
    return mark


@dataclass(frozen=True, kw_only=True)
class Burst:
    """Consecutive launches that take about BURST_S together."""

    make: Callable[[], Any]
    """Queues the launches."""
    launches: int
    in_graph: bool
    host_share: float
    """Part of the time of a launch that the host takes to make it: near 1 there are gaps."""


def burst_of(launch: LaunchInTurn, device: Device, burst_s: float = BURST_S) -> Burst:
    """Burst of a launch made back to back: in a graph where the host is too slow for it."""
    host_s, launch_s = _launch_seconds(launch, device)
    host_share = host_s / launch_s
    sets = len(launch.launches)
    if on_cuda(device) and host_share > _HOST_KEEPS_UP:
        in_graph = _rounded_up(min(_GRAPH_S / launch_s, _MOST_IN_GRAPH), sets)
        graph = captured_graph(launch.launches, in_graph)
        if graph is not None:
            replays = max(1, round(burst_s / _replay_seconds(graph, device)))

            def replay() -> None:
                for _ in range(replays):
                    graph.replay()

            return Burst(make=replay, launches=replays * in_graph, in_graph=True, host_share=0.0)
        device.pending_error()  # the error of the capture, which would be the next launch's
    launches = _rounded_up(burst_s / launch_s, 1)

    def make() -> None:
        for _ in range(launches):
            launch()

    return Burst(make=make, launches=launches, in_graph=False, host_share=host_share)


def _rounded_up(count: float, multiple: int) -> int:
    """The least positive multiple that is at least a count."""
    return multiple * max(1, -int(-count // multiple))


def _launch_seconds(launch: Launch, device: Device) -> tuple[float, float]:
    """Seconds of the host, and in all, per launch of a short sequence, after one more launch."""
    count = _FEWEST_TRIED
    launch()  # the first one may build or load kernels
    while True:
        device.wait()
        begin = new_mark(device)
        begun_s = time.perf_counter()
        for _ in range(count):
            launch()
        host_s = time.perf_counter() - begun_s
        end = new_mark(device)
        end.synchronize()
        all_s: float = max(begin.elapsed_time(end) / MS_PER_S, 1e-9)
        if count >= _MOST_TRIED or all_s > BURST_S:
            return host_s / count, all_s / count
        count = _MOST_TRIED


def _replay_seconds(graph: torch.cuda.CUDAGraph, device: Device) -> float:
    """Seconds of the second of two replays: the first replay loads the graph."""
    graph.replay()
    begin = new_mark(device)
    graph.replay()
    end = new_mark(device)
    end.synchronize()
    return max(float(begin.elapsed_time(end)) / MS_PER_S, 1e-6)


def captured_graph(launches: Sequence[Launch], count: int) -> torch.cuda.CUDAGraph | None:
    """Graph of so many launches, taken in turn; None where they cannot be captured.

    A launch that waits for the device cannot; one on the legacy default stream is not seen, and
    leaves a graph without a node for every launch.
    """
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    state, stream = generator.clone_state(), torch.cuda.current_stream()
    graph, pool = torch.cuda.CUDAGraph(keep_graph=True), torch.cuda.graph_pool_handle()
    try:
        with torch.cuda.graph(graph, pool=pool):
            for launch in islice(cycle(launches), count):
                launch()
        if _node_count(graph) < count:
            return None
        graph.instantiate()
    except Exception:  # of any kind, by a launch that is captured
        # torch does not undo the beginning of a capture that fails: launches would go on into its
        # stream and memory, and the next random numbers raise. Up to torch 2.11 its allocator also
        # took the capture for one that goes on: the end of any `MemPool` then ended the process.
        torch.cuda.set_stream(stream)
        generator.graphsafe_set_state(state)
        with suppress(RuntimeError):  # from torch 2.12 on, which has undone this
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), pool)
        return None
    return graph


def _node_count(graph: torch.cuda.CUDAGraph) -> int:
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_size_t()
    handle = ctypes.c_void_p(graph.raw_cuda_graph())
    if driver.cuGraphGetNodes(handle, None, ctypes.byref(count)) != 0:
        return 0
    return count.value
