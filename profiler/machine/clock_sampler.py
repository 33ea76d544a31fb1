"""Samples of the clocks of the GPU while a session runs, and other processes on that GPU.

NVML is read in the orchestrator, never in the measured process: the kernel, its launches and its
CUDA context share nothing with the reader but the driver. Processes are the second witness beside
the lock: NVML knows programs that take no lock of ours.
"""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import psutil  # type: ignore[import-untyped]

from profiler.machine.environment import ask_nvml, open_gpu
from profiler.parse.clock_file import CLOCK_COLUMNS, CLOCKS_FILE, PERIOD_S

_SILENT_POLLS = 50
"""Consecutive polls without an answer after which the GPU is taken for lost: about a second."""

_PATIENCE_S = 5.0
"""Longest wait for the last poll: NVML can hang with a GPU that is lost."""

_LOOK_S = 1.0
"""Seconds between two queries of the processes on the GPU."""
_MILLIWATTS_PER_WATT = 1000.0


class ClockSampler:
    """Writes the clocks of one GPU to `<folder>/clocks.csv` for as long as the context lasts.

    `gpu` is a UUID or an index, None (a run on the CPU) samples nothing. Each row is handed to the
    system as it is read, so that a kill loses none. No trouble with NVML or the disk ever reaches
    the session: it ends the sampling. Where nothing could be read there is no file. `processes`
    looks at the GPU once a second, and before the first sample. For one use; `nvml` is pynvml.
    """

    def __init__(
        self,
        folder: Path,
        gpu: str | None,
        *,
        nvml: ModuleType | None = None,
        period_s: float = PERIOD_S,
        processes: GpuProcesses | None = None,
    ) -> None:
        self._path = folder / CLOCKS_FILE
        self._gpu = gpu
        self._nvml = nvml
        self._period_s = period_s
        self._processes = processes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run_thread, name="clock-sampler", daemon=True)

    def __enter__(self) -> Self:
        if self._gpu is not None:
            with suppress(RuntimeError):  # the system has no thread left to give
                self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_S)

    def _run_thread(self) -> None:
        # NVML is opened in this thread, because starting it can take longer than starting a session
        # may. The session goes on without clocks after any error.
        with suppress(Exception), open_gpu(self._gpu, self._nvml) as opened:
            if opened is not None:
                self._sample_clocks(*opened)

    def _sample_clocks(self, nvml: Any, handle: Any) -> None:
        unanswered_polls = 0
        look_at = time.monotonic()
        with ExitStack() as open_files:
            table = None
            for _ in self._ticks():
                if self._processes is not None and time.monotonic() >= look_at:
                    self._processes.look(nvml, handle)
                    look_at = time.monotonic() + _LOOK_S
                row = _poll(nvml, handle)
                if self._stop.is_set():  # the file may be packed away while NVML still answers
                    return
                if row is None:
                    unanswered_polls += 1
                    if unanswered_polls == _SILENT_POLLS:
                        return
                    continue
                unanswered_polls = 0
                table = table or self._opened_table(open_files)
                table.writerow(row)

    def _opened_table(self, opened: ExitStack) -> Any:
        """Writer of the CSV file, which begins with its first row; missing is empty."""
        stream = self._path.open("a", buffering=1, encoding="utf-8", newline="")
        opened.enter_context(stream)
        table = csv.writer(stream, lineterminator="\n")
        if stream.tell() == 0:
            table.writerow(CLOCK_COLUMNS)
        return table

    def _ticks(self) -> Iterator[None]:
        """One tick every period, however long polls take; a missed tick is not made up for."""
        due = time.monotonic()
        while True:
            yield
            due = max(due + self._period_s, time.monotonic())
            if self._stop.wait(due - time.monotonic()):
                return


def _poll(nvml: Any, handle: Any) -> tuple[Any, ...] | None:
    """One row in the order of CLOCK_COLUMNS; None where NVML answers nothing at all."""
    now = time.time()
    milliwatts = ask_nvml(nvml, nvml.nvmlDeviceGetPowerUsage, handle)
    answers = (
        ask_nvml(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        ask_nvml(nvml, nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_MEM),
        ask_nvml(nvml, nvml.nvmlDeviceGetCurrentClocksEventReasons, handle),
        ask_nvml(nvml, nvml.nvmlDeviceGetTemperature, handle, nvml.NVML_TEMPERATURE_GPU),
        None if milliwatts is None else milliwatts / _MILLIWATTS_PER_WATT,
    )
    return None if all(answer is None for answer in answers) else (f"{now:.6f}", *answers)


_MPS_SERVER = "nvidia-cuda-mps"
"""Name of a server for processes of all users, which computes nothing itself."""


def is_own_process(pid: int) -> bool:
    """Whether a process is this process or a descendant of it."""
    try:
        process = psutil.Process(pid)
        return psutil.Process() in (process, *process.parents())
    except psutil.Error:
        return False


@dataclass
class GpuProcesses:
    """Collects the other processes that compute on a GPU, from one `look` after another.

    The first look must come before a process of the session opens the GPU. In a container NVML may
    number processes differently, so that own processes would count as others: processes that come
    later count only where NVML has also named an own process.
    """

    is_own: Callable[[int], bool] = is_own_process
    _before_session: set[int] = field(default_factory=set)
    _bytes: dict[int, int | None] = field(default_factory=dict)
    _own_pids: set[int] = field(default_factory=set)
    _look_count: int = 0

    def look(self, nvml: Any, handle: Any) -> None:
        """Add the processes that NVML names now; without an answer, none."""
        for process in ask_nvml(nvml, nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ():
            self._add_process(int(process.pid), process.usedGpuMemory)
        self._look_count += 1

    def _add_process(self, pid: int, memory: int | None) -> None:
        if pid in self._own_pids:
            return
        if pid not in self._bytes:
            if self.is_own(pid):
                self._own_pids.add(pid)
                return
            if _is_server(pid):
                return
            if self._look_count == 0:
                self._before_session.add(pid)
        self._bytes[pid] = max(filter(None, (memory, self._bytes.get(pid))), default=None)

    def for_next_session(self) -> GpuProcesses:
        """Collector for a session that may have opened the GPU before its first look."""
        return GpuProcesses(
            self.is_own,
            _before_session=set(self._before_session),
            _look_count=max(1, self._look_count),
        )

    def other_processes(self) -> dict[str, int | None]:
        """Most device memory in bytes by process id, of processes of other programs."""
        certain_pids = self._bytes if self._own_pids else self._before_session & self._bytes.keys()
        return {str(pid): self._bytes[pid] for pid in sorted(certain_pids)}


def _is_server(pid: int) -> bool:
    try:
        return str(psutil.Process(pid).name()).startswith(_MPS_SERVER)
    except psutil.Error:
        return False
