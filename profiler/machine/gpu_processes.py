"""Which other processes have the GPU open while a session runs, by NVML.

The second witness beside the lock: it knows programs that take no lock of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import psutil  # type: ignore[import-untyped]

from profiler.machine.environment import ask_nvml

_MPS_SERVER = "nvidia-cuda-mps"
"""Serves the processes of others, ours too, and computes nothing itself."""


def is_below_us(pid: int) -> bool:
    """Whether a process is this one or one that it has started, at whatever depth."""
    try:
        process = psutil.Process(pid)
        return psutil.Process() in (process, *process.parents())
    except psutil.Error:
        return False


@dataclass
class GpuProcesses:
    """Collects the other processes that compute on a GPU, from one `look` after another.

    The first look must come before anything of ours opens the GPU. In a container NVML may number
    processes otherwise than we do, and ours would pass for others: so those that come later count
    only where NVML has named one of ours as well.
    """

    is_ours: Callable[[int], bool] = is_below_us
    _first: set[int] = field(default_factory=set)
    _bytes: dict[int, int | None] = field(default_factory=dict)
    _ours: set[int] = field(default_factory=set)
    _looks: int = 0

    def look(self, nvml: Any, handle: Any) -> None:
        """Ask NVML for the processes of now; one that it does not know adds nothing."""
        processes = ask_nvml(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        for process in processes or ():
            self._note(int(process.pid), process.usedGpuMemory)
        self._looks += 1

    def _note(self, pid: int, memory: int | None) -> None:
        if pid in self._ours:
            return
        if pid not in self._bytes:
            if self.is_ours(pid):
                self._ours.add(pid)
                return
            if _is_server(pid):
                return
            if self._looks == 0:
                self._first.add(pid)
        self._bytes[pid] = max(filter(None, (memory, self._bytes.get(pid))), default=None)

    def of_next_session(self) -> GpuProcesses:
        """Collector for a session that may have opened the GPU before its first look."""
        return GpuProcesses(self.is_ours, _first=set(self._first), _looks=max(1, self._looks))

    def others(self) -> dict[str, int | None]:
        """Process id → most device memory in bytes, of processes that are not ours."""
        sure = self._bytes if self._ours else self._first & self._bytes.keys()
        return {str(pid): self._bytes[pid] for pid in sorted(sure)}


def _is_server(pid: int) -> bool:
    try:
        return str(psutil.Process(pid).name()).startswith(_MPS_SERVER)
    except psutil.Error:
        return False
