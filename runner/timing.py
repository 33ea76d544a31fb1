"""What one visit launches and how it is timed: one class per collector and device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from runner.device import Device

Launch = Callable[[], Any]

NS_PER_MS = 1e6


class Stopwatch(Protocol):
    """Makes the launches of one visit."""

    def measure(self, launch: Launch) -> list[float] | None:
        """Launch, wait, and return one duration in ns per launch; None where a tool measures."""


class SingleLaunch:
    """One launch a visit, measured from outside by the tool that the process runs under."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def measure(self, launch: Launch) -> None:
        """Launch once and wait, so that all of it falls inside the range of the visit."""
        launch()
        self._device.wait()


class ProcessClock:
    """Wall time of `repeats` launches on the CPU."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats

    def measure(self, launch: Launch) -> list[float]:
        """Durations in ns, one per launch, in the order of the launches."""
        with _no_garbage_collection():
            return [self._once(launch) for _ in range(self._repeats)]

    @staticmethod
    def _once(launch: Launch) -> float:
        begin = time.perf_counter_ns()
        launch()
        return float(time.perf_counter_ns() - begin)


class CudaEvents:
    """Time between two CUDA events around each of `repeats` launches, each with a cold L2 cache.

    The flush writes a buffer of twice the size of the L2 cache. While the device writes, the host
    has time to queue the launch behind it, so that the events do not see the host's latency.
    """

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._flush = torch.empty(2 * l2_bytes, dtype=torch.uint8, device="cuda")

    def measure(self, launch: Launch) -> list[float]:
        """Durations in ns, one per launch, in the order of the launches."""
        pairs = [(_timing_event(), _timing_event()) for _ in range(self._repeats)]
        with _no_garbage_collection():
            for begin, end in pairs:
                self._flush.zero_()
                begin.record()
                launch()
                end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * NS_PER_MS for begin, end in pairs]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Keep the collector's pauses, milliseconds with torch loaded, out of what is timed."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _timing_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own


def make_stopwatch(collector: str, device: Device, repeats: int) -> Stopwatch:
    """The stopwatch of a collector (`ncu` or `timer`) on a device; ValueError for any other."""
    if collector == "ncu":
        return SingleLaunch(device)
    if collector != "timer":
        raise ValueError(f"no such collector: {collector!r}; known are ncu and timer")
    on_cuda = device.torch_device.type == "cuda"
    return CudaEvents(repeats) if on_cuda else ProcessClock(repeats)
