"""Launches of one visit and their times: one function per collector and device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from profiler.runner.device import Device
from profiler.runner.import_path import no_garbage_collection

Launch = Callable[[], Any]

NS_PER_MS = 1e6
NS_PER_US = 1e3


def restore(launch: Launch) -> None:
    """Undo the changes of a launch that has `restore`; never inside a measured span."""
    undo = getattr(launch, "restore", None)
    if undo is not None:
        undo()


BUSY_S, _MOST_BUSY_S = 0.001, 0.1
"""Seconds for which a stream is busy before a launch that is watched: at first, and at most."""


class WatchedLaunch:
    """A launch after `keep_busy`: late if it returns when its stream is no longer busy.

    On a CPU no launch is late, and none whose stream is to be busy for no time.
    """

    def __init__(self, launch: Launch, device: Device, busy_s: float = BUSY_S) -> None:
        self.busy_s = busy_s if on_cuda(device) else 0.0
        """Seconds for which the stream is busy."""
        self.host_s = 0.0
        """Seconds until the launch returned."""
        self.is_late = False
        self._launch = launch
        self._device = device
        self._events = (_timing_event(), _timing_event()) if self.busy_s else None

    def keep_busy(self) -> None:
        """Keep the stream busy by a kernel, last before the launch: what empties caches waits."""
        if self.busy_s:
            self._device.delay(self.busy_s)

    def __call__(self) -> Any:
        """Launch once."""
        if self._events is None:
            return self._launch()
        begin, end = self._events
        begin.record()
        begun_s = time.perf_counter()
        result = self._launch()
        self.host_s = time.perf_counter() - begun_s
        self.is_late = begin.query()  # type: ignore[no-untyped-call]  # torch's own
        end.record()
        return result

    def restore(self) -> None:
        """Undo the changes of the launch."""
        restore(self._launch)

    def event_ns(self) -> float:
        """Time in ns between the events around the launch, once it has ended; NaN without them."""
        if self._events is None:
            return math.nan
        begin, end = self._events
        end.synchronize()
        return float(begin.elapsed_time(end)) * NS_PER_MS


def waiting_ns(
    device: Device, launch: Launch, make: Callable[[WatchedLaunch], Any], first: WatchedLaunch
) -> float:
    """Time in ns between events around a launch that waits for the device; 0 for one that does not.

    `first` was launched. Where it was late, `make` launches again behind a longer time, which only
    a launch that waits, and not one whose host is slow, takes longer for.
    """
    if not first.is_late:
        return 0.0
    second = WatchedLaunch(launch, device, BUSY_S + min(2 * first.host_s, _MOST_BUSY_S))
    make(second)
    least_s = first.host_s + (second.busy_s - first.busy_s) / 2
    if not second.is_late or second.host_s < least_s:
        return 0.0
    return min(first.event_ns(), second.event_ns())


Stopwatch = Callable[[Launch], list[float] | None]
"""Makes the launches of a visit and waits; one duration in ns each, None where a tool measures."""


def single_launch(device: Device, launch: Launch) -> None:
    """Launch once and wait, so that all of it falls inside the range of the visit.

    The tool that the process runs under measures it from outside.
    """
    launch()
    device.wait()


def host_clock(repeats: int, launch: Launch) -> list[float]:
    """Wall time in ns of each of `repeats` launches on the CPU, in their order."""
    with no_garbage_collection():
        return [_wall_time(launch) for _ in range(repeats)]


def _wall_time(launch: Launch, wait: Callable[[], None] = lambda: None) -> float:
    """Wall time in ns of a launch; `wait` comes before it, and again inside."""
    restore(launch)
    wait()
    begin = time.perf_counter_ns()
    launch()
    wait()
    return float(time.perf_counter_ns() - begin)


def cuda_events(flush: Callable[[], None], repeats: int, launch: Launch) -> list[float]:
    """Time in ns between two CUDA events around each of `repeats` launches, in their order.

    Each has a cold L2 cache: while the device empties it (`flush`), the host has time to queue the
    launch behind that, so that the events do not see the host's latency.
    """
    pairs = [(_timing_event(), _timing_event()) for _ in range(repeats)]
    with no_garbage_collection():
        for begin, end in pairs:
            restore(launch)
            flush()
            begin.record()
            launch()
            end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) * NS_PER_MS for begin, end in pairs]


WARMUPS, TRIALS = 1, 3


def wall_clock(device: Device, launch: Launch) -> list[float]:
    """Wall time in ns as a quick benchmark takes it: mean of three launches after one warm-up.

    The wall clock sees the host's way to the device and back, and each launch finds the caches as
    the one before it left them. It is here to be compared with other timers, not to be trusted.
    """
    for _ in range(WARMUPS):
        restore(launch)
        launch()
    return [sum(_wall_time(launch, device.wait) for _ in range(TRIALS)) / TRIALS]


_MEASURED = "profiler: measured launch"


def profiled_operators(launch: Launch) -> list[float]:
    """Time in ns that the operators of one launch on the CPU took themselves, by torch.profiler.

    Nothing where no operator was seen. A launch before it, in the same profile, wakes the threads
    that fell asleep while it began.
    """
    restore(launch)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        launch()
        restore(launch)
        with record_function(_MEASURED):
            launch()
    measured = next(event for event in profiler.events() if event.name == _MEASURED)
    spans = [event.cpu_time_total for event in measured.cpu_children]
    return [sum(spans) * NS_PER_US] if spans else []


_NOT_KERNELS = ("Memcpy", "Memset")


def profiled_kernels(device: Device, launch: Launch) -> list[float]:
    """Time in ns of the kernels of one launch by torch.profiler, with a cold L2 cache, as of ncu.

    Gaps are left out, and so are copies and fills, as they are by ncu; nothing where no kernel was
    seen. The flush is over before the profile begins, so that every kernel in it is one of the
    launch.
    """
    restore(launch)
    device.empty_caches()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        launch()
        device.wait()
    spans = [
        event.time_range.elapsed_us()
        for event in profiler.events()
        if event.device_type.name == "CUDA" and not event.name.startswith(_NOT_KERNELS)
    ]
    return [sum(spans) * NS_PER_US] if spans else []


def _timing_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own


def _event_timer(device: Device, repeats: int) -> Stopwatch:
    if on_cuda(device):
        return partial(cuda_events, device.cache_flush(), repeats)
    return partial(host_clock, repeats)


def _profiler(device: Device, _repeats: int) -> Stopwatch:
    if on_cuda(device):
        profiled_kernels(device, device.cache_flush())  # the first profile of a process loads CUPTI
        return partial(profiled_kernels, device)
    profiled_operators(lambda: torch.zeros(1))  # the first profile of a process loads kineto
    return profiled_operators


def on_cuda(device: Device) -> bool:
    """Whether launches on that device run beside the host."""
    return device.torch_device.type == "cuda"


_STOPWATCHES: Mapping[str, Callable[[Device, int], Stopwatch]] = {
    "ncu": lambda device, _: partial(single_launch, device),
    "timer": _event_timer,
    "torch_kernels": _profiler,
    "wall_clock": lambda device, _: partial(wall_clock, device),
}


WITHOUT_STOPWATCH = ("cupti", "sustained", "nsys", "torch", "in_kernel")
"""Collectors that time no launch by itself: `profiler.runner.visits` makes their visits."""


def make_stopwatch(collector: str, device: Device, repeats: int) -> Stopwatch:
    """The stopwatch of a collector on a device; ValueError for an unknown collector."""
    if collector not in _STOPWATCHES:
        collectors = ", ".join((*_STOPWATCHES, *WITHOUT_STOPWATCH))
        raise ValueError(f"no such collector: {collector!r}; known are {collectors}")
    return _STOPWATCHES[collector](device, repeats)
