"""Counters of the kernels of a launch, by CUPTI's range profiler in this process.

The library (`range_profiler.cpp`) is built by the orchestrator. libcupti is the one that torch has
loaded, so that both use the same.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from profiler.runner import protocol
from profiler.runner.device import Device, DeviceMissingError
from profiler.runner.import_path import no_garbage_collection
from profiler.runner.timing import WatchedLaunch, restore

_FACTS = 10
"""Integers that `cupti_launch_facts` gives of a launch."""
_WARP = 32


class CountersError(Exception):
    """Counters of a launch could not be read; the message says why."""


class RangeProfiler:
    """Counts raw metrics, named as ncu names them, of each kernel that visits launch.

    `begin`, launches, and `end` are one pass; once `end` says that no pass is left, `kernels` has
    the counters, and the next `begin` starts over.
    """

    most_kernels: int
    """Most kernels between a begin and an end."""

    def __init__(  # noqa: PLR0913 - the last two by keyword
        self,
        library: Any,
        metrics: Sequence[str],
        device: Device,
        gpu: Any,
        *,
        flush: bool,
        most_kernels: int,
    ) -> None:
        """Ask CUPTI for the metrics.

        `library`: of `load_library`; `gpu`: torch's properties of the device; `flush`: whether
        caches are emptied before each launch; `most_kernels`: between a begin and an end. Raises
        DeviceMissingError where CUPTI or the driver refuses, with CUPTI's words.
        """
        self._counted_metrics = tuple(name for name in metrics if name not in _LAUNCH_METRICS)
        self._metrics = tuple(metrics)
        self._device = device
        self._flush = flush
        self._library = library
        self._gpu = gpu
        try:
            self.make_room(most_kernels)
        except CountersError as error:
            raise DeviceMissingError(str(error)) from error

    def make_room(self, most_kernels: int) -> None:
        """Make room for the values of so many kernels; earlier values are dropped.

        Raises CountersError where CUPTI refuses.
        """
        names = ",".join(self._counted_metrics).encode()
        self._require_success(self._library.cupti_configure(names, most_kernels))
        self.most_kernels = most_kernels

    def forecast(self, launch: WatchedLaunch) -> tuple[int, dict[str, float]]:
        """Kernels of a visit, by launching once without counting, and VISIT_FACTS of it.

        Kernels that empty caches or restore inputs, before and after, count too. Raises
        CountersError where the launch replays a CUDA graph.
        """
        self._library.cupti_listen()
        try:
            self.launch_watched(launch)
            restore(launch)  # as it is after a visit
        finally:
            kernels = self._library.cupti_heard()
        if kernels > 0 and launch.busy_s:
            kernels -= 1  # by which the stream was busy
        copied_bytes = ctypes.c_double()
        copies = self._library.cupti_copies(ctypes.byref(copied_bytes))
        facts = (copies, copied_bytes.value, self._library.cupti_concurrent_kernels())
        return self._require_success(kernels), dict(zip(protocol.VISIT_FACTS, facts, strict=True))

    def begin(self) -> None:
        """Begin a pass: count kernels from now on; raises CountersError where CUPTI refuses."""
        self._require_success(self._library.cupti_begin())

    def launch_watched(self, launch: WatchedLaunch) -> None:
        """Make a launch that is watched, as `launch` makes one."""
        self.launch(0, launch, launch.keep_busy)

    def launch(
        self, visit: int, launch: Callable[[], Any], before: Callable[[], None] = lambda: None
    ) -> None:
        """Launch once and wait; the kernels belong to the visit of this number (0 or more).

        `before`: called last before the launch.
        """
        restore(launch)
        if self._flush:
            self._device.empty_caches()
        before()
        self._library.cupti_visit(visit)
        try:
            with no_garbage_collection():
                launch()
            self._device.wait()
        finally:
            self._library.cupti_visit(-1)

    def end(self) -> bool:
        """Whether the pass that ends was the last. Raises CountersError where CUPTI refuses."""
        return bool(self._require_success(self._library.cupti_end()))

    @property
    def launched_kernels(self) -> int:
        """Number of kernels since `begin`, with kernels outside of visits."""
        return int(self._library.cupti_launch_count())

    def kernels(self, visits: Iterable[int]) -> dict[int, list[dict[str, Any]]]:
        """Kernels by number of the visit: `kernel` (its name), and the metrics by raw name.

        Raises CountersError where launches differ from pass to pass, or replay a CUDA graph, and
        where CUPTI fails.
        """
        counted = self._require_success(self._library.cupti_decode())
        kernels: dict[int, list[dict[str, Any]]] = {visit: [] for visit in visits}
        for number in range(counted):
            visit = self._library.cupti_launch_visit(number)
            if visit in kernels:
                kernels[visit].append(self._kernel(number))
        self._require_success(self._library.cupti_forget())
        return kernels

    def kernels_of(self, launch: Callable[[], Any], times: int) -> list[dict[str, Any]]:
        """Kernels of so many launches in order, as in `kernels`, each with its number as `launch`.

        For use between passes. Raises CountersError as `kernels`.
        """
        try:
            while True:
                self.begin()
                for number in range(times):
                    self.launch(number, launch)
                if self.end():
                    break
            counted = self.kernels(range(times))
        except CountersError:
            self.reset()
            raise
        return [
            {**kernel, "launch": number}
            for number, launch_kernels in counted.items()
            for kernel in launch_kernels
        ]

    def reset(self) -> None:
        """Drop all counted values, in any pass; raises CountersError where CUPTI refuses."""
        self._require_success(self._library.cupti_reset())

    def close(self) -> None:
        """Release the counters; raises nothing."""
        self._library.cupti_close()

    def _kernel(self, number: int) -> dict[str, Any]:
        values = (ctypes.c_double * len(self._counted_metrics))()
        self._require_success(self._library.cupti_values(number, values))
        facts = (ctypes.c_int * _FACTS)()
        self._library.cupti_launch_facts(number, facts)
        of_launch = launch_facts([*facts], self._gpu)
        counted = zip(self._counted_metrics, values, strict=True)
        measured = {metric: value for metric, value in counted if math.isfinite(value)}
        kernel = self._library.cupti_launch_kernel(number).decode(errors="replace")
        metrics = {name: measured.get(name, of_launch.get(name)) for name in self._metrics}
        return {"kernel": kernel, **metrics}

    def _require_success(self, result: int) -> int:
        if result < 0:
            raise CountersError(f"CUPTI: {self._error()}")
        return result

    def _error(self) -> str:
        return str(self._library.cupti_error().decode(errors="replace"))


def launch_facts(facts: Sequence[int], gpu: Any) -> Mapping[str, float]:
    """Values of ncu's `launch__*` metrics of a launch, from the driver's facts of it.

    `facts`: grid, block, dynamic shared bytes, registers, static shared bytes, blocks that fit
    on a multiprocessor. `gpu`: torch's properties of the device.
    """
    grid, block = facts[0] * facts[1] * facts[2], facts[3] * facts[4] * facts[5]
    dynamic, registers, static, resident = facts[6:]
    warps = -(-block // _WARP)
    most_warps = gpu.max_threads_per_multi_processor // _WARP
    return {
        "launch__registers_per_thread": registers,
        "launch__shared_mem_per_block_static": static,
        "launch__shared_mem_per_block_dynamic": dynamic,
        "launch__block_size": block,
        "launch__grid_size": grid,
        "launch__waves_per_multiprocessor": grid / (gpu.multi_processor_count * max(resident, 1)),
        "sm__maximum_warps_per_active_cycle_pct": 100.0 * min(resident * warps / most_warps, 1.0),
    }


_LAUNCH_METRICS = frozenset(
    {
        "launch__registers_per_thread",
        "launch__shared_mem_per_block_static",
        "launch__shared_mem_per_block_dynamic",
        "launch__block_size",
        "launch__grid_size",
        "launch__waves_per_multiprocessor",
        "sm__maximum_warps_per_active_cycle_pct",
    }
)
"""Metrics that no counter gives: the keys of `launch_facts`."""


def load_library(library: Path) -> ctypes.CDLL:
    """The built library, loaded after the driver and CUPTI, whose functions it calls.

    Raises DeviceMissingError where one of these cannot be loaded.
    """
    major = (torch.version.cuda or "").partition(".")[0]
    try:
        for name in ("libcuda.so.1", f"libcupti.so.{major}"):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        loaded = ctypes.CDLL(str(library))
    except OSError as error:
        raise DeviceMissingError(f"CUPTI cannot be loaded: {error}") from error
    loaded.cupti_error.restype = ctypes.c_char_p
    loaded.cupti_launch_kernel.restype = ctypes.c_char_p
    loaded.cupti_configure.argtypes = (ctypes.c_char_p, ctypes.c_int)
    return loaded
