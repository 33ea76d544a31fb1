"""What one visit launches and how it is timed: one class per collector and device."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from profiler.runner.device import Device
from profiler.runner.import_path import no_garbage_collection

Launch = Callable[[], Any]

NS_PER_MS = 1e6
NS_PER_US = 1e3


def restore(launch: Launch) -> None:
    """Undo what a launch changes, where it carries `restore`; never inside what is measured."""
    undo = getattr(launch, "restore", None)
    if undo is not None:
        undo()


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
        with no_garbage_collection():
            return [self._once(launch) for _ in range(self._repeats)]

    @staticmethod
    def _once(launch: Launch) -> float:
        restore(launch)
        begin = time.perf_counter_ns()
        launch()
        return float(time.perf_counter_ns() - begin)


class CudaEvents:
    """Time between two CUDA events around each of `repeats` launches, each with a cold L2 cache.

    While the device empties it, the host has time to queue the launch behind that, so that the
    events do not see the host's latency.
    """

    def __init__(self, device: Device, repeats: int) -> None:
        self._repeats = repeats
        self._flush = device.cache_flush()

    def measure(self, launch: Launch) -> list[float]:
        """Durations in ns, one per launch, in the order of the launches."""
        pairs = [(_timing_event(), _timing_event()) for _ in range(self._repeats)]
        with no_garbage_collection():
            for begin, end in pairs:
                restore(launch)
                self._flush()
                begin.record()
                launch()
                end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) * NS_PER_MS for begin, end in pairs]


class WallClock:
    """What a quick benchmark does: warm up once, then the mean of three launches, each waited for.

    The wall clock sees the host's way to the device and back, and each launch finds the caches as
    the one before it left them. It is here to be compared with others, not to be believed.
    """

    WARMUPS = 1
    TRIALS = 3

    def __init__(self, device: Device) -> None:
        self._device = device

    def measure(self, launch: Launch) -> list[float]:
        """Mean duration in ns, as the only value."""
        for _ in range(self.WARMUPS):
            restore(launch)
            launch()
        trials = [self._once(launch) for _ in range(self.TRIALS)]
        return [sum(trials) / len(trials)]

    def _once(self, launch: Launch) -> float:
        restore(launch)
        self._device.wait()
        begin = time.perf_counter_ns()
        launch()
        self._device.wait()
        return float(time.perf_counter_ns() - begin)


class ProfiledOperators:
    """Time that the operators of one launch on the CPU took themselves, by torch.profiler.

    A launch before it, in the same profile, wakes the threads that fell asleep while it began.
    """

    _MEASURED = "profiler: measured launch"

    def __init__(self) -> None:
        self.measure(lambda: torch.zeros(1))  # the first profile of a process loads kineto

    def measure(self, launch: Launch) -> list[float]:
        """Duration in ns of one launch; nothing where no operator was seen."""
        restore(launch)
        with profile(activities=[ProfilerActivity.CPU]) as seen:
            launch()
            restore(launch)
            with record_function(self._MEASURED):
                launch()
        measured = next(event for event in seen.events() if event.name == self._MEASURED)
        spans = [event.cpu_time_total for event in measured.cpu_children]
        return [sum(spans) * NS_PER_US] if spans else []


class ProfiledKernels:
    """Time of the kernels of one launch by torch.profiler, with a cold L2 cache, as ncu has it.

    The flush is over before the profile begins, so that every kernel in it is one of the launch.
    Copies and fills are left out, as they are by ncu.
    """

    _NOT_KERNELS = ("Memcpy", "Memset")

    def __init__(self, device: Device) -> None:
        self._device = device
        self.measure(device.cache_flush())  # the first profile of a process loads CUPTI

    def measure(self, launch: Launch) -> list[float]:
        """Duration in ns of one launch, gaps left out; nothing where no kernel was seen."""
        restore(launch)
        self._device.empty_caches()
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            launch()
            self._device.wait()
        spans = [
            event.time_range.elapsed_us()
            for event in seen.events()
            if event.device_type.name == "CUDA" and not event.name.startswith(self._NOT_KERNELS)
        ]
        return [sum(spans) * NS_PER_US] if spans else []


def _timing_event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own


def _event_timer(device: Device, repeats: int) -> Stopwatch:
    return CudaEvents(device, repeats) if on_cuda(device) else ProcessClock(repeats)


def _profiler(device: Device, _repeats: int) -> Stopwatch:
    return ProfiledKernels(device) if on_cuda(device) else ProfiledOperators()


def on_cuda(device: Device) -> bool:
    """Whether launches on that device run beside the host."""
    return device.torch_device.type == "cuda"


_STOPWATCHES: Mapping[str, Callable[[Device, int], Stopwatch]] = {
    "ncu": lambda device, _: SingleLaunch(device),
    "timer": _event_timer,
    "torch_kernels": _profiler,
    "wall_clock": lambda device, _: WallClock(device),
}


WITHOUT_STOPWATCH = ("cupti", "sustained", "nsys", "torch", "in_kernel")
"""Collectors that time no launch by itself: `profiler.runner.visits` makes their visits."""


def make_stopwatch(collector: str, device: Device, repeats: int) -> Stopwatch:
    """The stopwatch of a collector on a device; ValueError for one that is not known."""
    if collector not in _STOPWATCHES:
        collectors = ", ".join((*_STOPWATCHES, *WITHOUT_STOPWATCH))
        raise ValueError(f"no such collector: {collector!r}; known are {collectors}")
    return _STOPWATCHES[collector](device, repeats)
