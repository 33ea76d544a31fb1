"""Counters of the kernels of a launch, by CUPTI's range profiler in this process.

The library (`range_profiler.cpp`) is built by the orchestrator. libcupti is the one that torch has
loaded, so that both use the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from profiler.runner.device import Device, DeviceMissingError
from profiler.runner.garbage import no_garbage_collection

MOST_KERNELS = 1024
"""Kernels of one launch that fit into what is kept for the values of a visit."""
_FACTS = 10
"""Integers that `cupti_launch_facts` gives of a launch."""
_WARP = 32
PASSES = "profiler__replayer_passes"
"""In how many passes a kernel was counted, as ncu calls it: after the first, caches are warm."""


class CountersError(Exception):
    """Counters of a launch could not be read; the message says why."""


class RangeProfiler:
    """Counts raw metrics, named as ncu names them, of each kernel that a launch launches."""

    def __init__(
        self, library: Any, metrics: Sequence[str], device: Device, gpu: Any, *, flush: bool
    ) -> None:
        """Ask CUPTI for the metrics.

        `library`: of `load_library`; `gpu`: torch's properties of the device; `flush`: whether
        caches are emptied before each launch. Raises DeviceMissingError where CUPTI or the driver
        refuses, with CUPTI's words.
        """
        self._counted = tuple(name for name in metrics if name not in _OF_LAUNCHES)
        self._asked = tuple(metrics)
        self._device = device
        self._flush = flush
        self._library = library
        self._gpu = gpu
        names = ",".join(self._counted).encode()
        self._passes: int = self._library.cupti_configure(names, MOST_KERNELS)
        if self._passes < 0:
            raise DeviceMissingError(f"CUPTI: {self._error()}")

    def kernels_of(self, launch: Callable[[], Any]) -> list[dict[str, Any]]:
        """One mapping for each kernel: `kernel` (its name), PASSES, and the metrics by raw name.

        Raises CountersError where the launch replays a CUDA graph, and where CUPTI fails.
        """
        counted = self._launched(launch)
        ranges = self._checked(self._library.cupti_decode())
        if ranges != counted:
            self._library.cupti_forget()
            raise CountersError(f"CUPTI counted {ranges} kernels where {counted} were launched")
        kernels = [self._kernel(number) for number in range(counted)]
        self._checked(self._library.cupti_forget())
        return kernels

    def close(self) -> None:
        """Give the counters back; raises nothing."""
        self._library.cupti_close()

    def _launched(self, launch: Callable[[], Any]) -> int:
        """Launch once; the number of kernels."""
        if self._flush:
            self._device.empty_caches()
        self._checked(self._library.cupti_begin())
        try:
            with no_garbage_collection():
                launch()
            self._device.wait()
        finally:
            ended = self._library.cupti_end()
        self._checked(ended)
        return int(self._library.cupti_launch_count())

    def _kernel(self, number: int) -> dict[str, Any]:
        values = (ctypes.c_double * len(self._counted))()
        self._checked(self._library.cupti_values(number, values))
        facts = (ctypes.c_int * _FACTS)()
        self._library.cupti_launch_facts(number, facts)
        of_launch = launch_facts([*facts], self._gpu)
        measured = dict(zip(self._counted, values, strict=True))
        name = self._library.cupti_launch_kernel(number).decode(errors="replace")
        metrics = {name: measured.get(name, of_launch.get(name)) for name in self._asked}
        return {"kernel": name, PASSES: self._passes, **metrics}

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
