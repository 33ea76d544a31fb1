"""Sampling the clocks of the GPU while a session runs, and which other processes have it open.

NVML is read in the orchestrator, never in the measured process: the kernel, its launches and its
CUDA context share nothing with the reader but the driver. Processes are the second witness beside
the lock: NVML knows programs that take no lock of ours.
"""

from __future__ import annotations

import csv
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import psutil  # type: ignore[import-untyped]

from profiler.machine.environment import ask_nvml, open_gpu
from profiler.parse.clock_file import CLOCK_COLUMNS, CLOCKS_FILE, PERIOD_S

_SILENT_POLLS = 50
"""Polls in a row without any answer after which the GPU is taken for gone: about a second."""

_PATIENCE_S = 5.0
"""How long to wait for the last poll: NVML can hang with a GPU that is lost."""

_LOOK_S = 1.0
"""Between two looks at the processes on the GPU."""
_MILLIWATTS_PER_WATT = 1000.0


class ClockSampler:
    """Writes the clocks of one GPU to `<folder>/clocks.csv` for as long as the context lasts.

    `gpu` is a UUID or an index, None (a run on the CPU) samples nothing. Each row is handed to the
    system as it is read, so that a kill loses none. No trouble with NVML or the disk ever reaches
    the session: it ends the sampling, and `trouble` tells what it was. Where nothing could be read
    there is no file. `processes` looks at the GPU once a second, and before the first sample. For
    one use; `nvml` is pynvml.
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
        self.trouble: str | None = None
        """Why there are no samples, or none after some time; None where all went well."""
        self.rows = 0
        """Samples written so far."""
        self._path = folder / CLOCKS_FILE
        self._gpu = gpu
        self._nvml = nvml
        self._period_s = period_s
        self._processes = processes
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clock-sampler", daemon=True)

    def __enter__(self) -> Self:
        if self._gpu is None:
            self.trouble = "no GPU is measured"
            return self
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no thread left to give
            self.trouble = str(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread.ident is None:
            return
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            self.trouble = "NVML did not answer any more"

    def _run(self) -> None:
        try:
            # In this thread, because starting NVML can take longer than starting a session may.
            with open_gpu(self._gpu, self._nvml) as opened:
                if opened is None:
                    self.trouble = "NVML does not know the GPU, or is not installed"
                else:
                    self._sample(*opened)
        except OSError as error:  # by its words alone: the message would name the folder
            self.trouble = f"{CLOCKS_FILE} cannot be written: {error.strerror}"
        except Exception as error:
            # Whatever it is, the session goes on without clocks.
            self.trouble = f"{type(error).__name__}: {error}"

    def _sample(self, nvml: Any, handle: Any) -> None:
        silent = 0
        look_at = time.monotonic()
        with ExitStack() as opened:
            table = None
            for _ in self._ticks():
                if self._processes is not None and time.monotonic() >= look_at:
                    self._processes.look(nvml, handle)
                    look_at = time.monotonic() + _LOOK_S
                row = _poll(nvml, handle)
                if self._stop.is_set():  # the file may be packed away while NVML still answers
                    return
                if row is None:
                    silent += 1
                    if silent == _SILENT_POLLS:
                        self.trouble = "NVML gave no answer about the GPU"
                        return
                    continue
                silent = 0
                table = table or self._opened_table(opened)
                table.writerow(row)
                self.rows += 1

    def _opened_table(self, opened: ExitStack) -> Any:
        """Writer of the CSV file, which begins with its first row; missing is empty."""
        stream = self._path.open("a", buffering=1, encoding="utf-8", newline="")
        opened.enter_context(stream)
        table = csv.writer(stream, lineterminator="\n")
        if stream.tell() == 0:
            table.writerow(CLOCK_COLUMNS)
        return table

    def _ticks(self) -> Iterator[None]:
        """Come back every period, whatever the polls take; a missed tick is not made up for."""
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
