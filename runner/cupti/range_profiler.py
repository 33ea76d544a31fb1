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
from profiler.runner.timing import restore

_FACTS = 10
"""Integers that `cupti_launch_facts` gives of a launch."""
_WARP = 32


class CountersError(Exception):
    """Counters of a launch could not be read; the message says why."""


class RangeProfiler:
    """Counts raw metrics, named as ncu names them, of each kernel that visits launch.

    `begin`, launches, and `end` are one pass; once `end` says that no pass is left, `kernels` has
    what was counted, and the next `begin` starts anew.
    """

    most_kernels: int
    """Kernels that there is room for between a begin and an end."""

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
        self._counted = tuple(name for name in metrics if name not in _OF_LAUNCHES)
        self._asked = tuple(metrics)
        self._device = device
        self._flush = flush
        self._library = library
        self._gpu = gpu
        try:
            self.make_room(most_kernels)
        except CountersError as error:
            raise DeviceMissingError(str(error)) from error

    def make_room(self, most_kernels: int) -> None:
        """Keep values of so many kernels; what was counted before is dropped.

        Raises CountersError where CUPTI refuses.
        """
        names = ",".join(self._counted).encode()
        self._checked(self._library.cupti_configure(names, most_kernels))
        self.most_kernels = most_kernels

    def foreseen(self, launch: Callable[[], Any]) -> tuple[int, dict[str, float]]:
        """Kernels of a visit, by launching once without counting, and VISIT_FACTS of it.

        What empties caches and what restores inputs, before and after, is counted too. Raises
        CountersError where the launch replays a CUDA graph.
        """
        self._library.cupti_listen()
        try:
            self.launch(0, launch)
            restore(launch)  # as it is after a visit
        finally:
            kernels = self._library.cupti_heard()
        copied_bytes = ctypes.c_double()
        copies = self._library.cupti_copies(ctypes.byref(copied_bytes))
        facts = (copies, copied_bytes.value, self._library.cupti_streams())
        return self._checked(kernels), dict(zip(protocol.VISIT_FACTS, facts, strict=True))

    def begin(self) -> None:
        """Count what is launched from now on; raises CountersError where CUPTI refuses."""
        self._checked(self._library.cupti_begin())

    def launch(self, visit: int, launch: Callable[[], Any]) -> None:
        """Launch once and wait; the kernels are those of the visit of this number (0 or more)."""
        restore(launch)
        if self._flush:
            self._device.empty_caches()
        self._library.cupti_visit(visit)
        try:
            with no_garbage_collection():
                launch()
            self._device.wait()
        finally:
            self._library.cupti_visit(-1)

    def end(self) -> bool:
        """End a pass; whether it was the last. Raises CountersError where CUPTI refuses."""
        return bool(self._checked(self._library.cupti_end()))

    @property
    def launched(self) -> int:
        """Kernels since `begin`, those outside of visits included."""
        return int(self._library.cupti_launch_count())

    def kernels(self, visits: Iterable[int]) -> dict[int, list[dict[str, Any]]]:
        """Kernels by number of the visit: `kernel` (its name), and the metrics by raw name.

        Raises CountersError where launches differ from pass to pass, or replay a CUDA graph, and
        where CUPTI fails.
        """
        counted = self._checked(self._library.cupti_decode())
        kernels: dict[int, list[dict[str, Any]]] = {visit: [] for visit in visits}
        for number in range(counted):
            visit = self._library.cupti_launch_visit(number)
            if visit in kernels:
                kernels[visit].append(self._kernel(number))
        self._checked(self._library.cupti_forget())
        return kernels

    def kernels_of(self, launch: Callable[[], Any], times: int) -> list[dict[str, Any]]:
        """Kernels of so many launches in their order, as `kernels` has them, each with `launch`.

        Nothing else is being counted. Raises CountersError as `kernels`.
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
            {**kernel, "launch": number} for number, of_one in counted.items() for kernel in of_one
        ]

    def reset(self) -> None:
        """Drop what was counted, in whichever pass; raises CountersError where CUPTI refuses."""
        self._checked(self._library.cupti_reset())

    def close(self) -> None:
        """Give the counters back; raises nothing."""
        self._library.cupti_close()

    def _kernel(self, number: int) -> dict[str, Any]:
        values = (ctypes.c_double * len(self._counted))()
        self._checked(self._library.cupti_values(number, values))
        facts = (ctypes.c_int * _FACTS)()
        self._library.cupti_launch_facts(number, facts)
        of_launch = launch_facts([*facts], self._gpu)
        counted = zip(self._counted, values, strict=True)
        measured = {metric: value for metric, value in counted if math.isfinite(value)}
        kernel = self._library.cupti_launch_kernel(number).decode(errors="replace")
        metrics = {name: measured.get(name, of_launch.get(name)) for name in self._asked}
        return {"kernel": kernel, **metrics}

    def _checked(self, result: int) -> int:
        if result < 0:
            raise CountersError(f"CUPTI: {self._error()}")
        return result

    def _error(self) -> str:
        return str(self._library.cupti_error().decode(errors="replace"))


def launch_facts(facts: Sequence[int], gpu: Any) -> Mapping[str, float]:
    """What ncu calls `launch__*` of one launch, from the driver's facts of it.

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


_OF_LAUNCHES = frozenset(
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
"""Metrics that no counter gives: those of `launch_facts`."""


def load_library(library: Path) -> ctypes.CDLL:
    """The built library; the driver and CUPTI, whose functions it calls, are loaded before.

    Raises DeviceMissingError where one of them cannot be loaded.
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
