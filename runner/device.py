"""The device that a session runs on, and its operations between phases."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

_CYCLES_PER_S = 2e9
"""About the clock of a GPU."""
_L2_SIZES = 3
"""How many times the size of the L2 cache is read; on an H100 twice was enough."""
_PERSISTING = 8
"""Major compute capability from which on L2 has persisting lines."""
_PAGE_BYTES = 2 << 20
"""Of device memory, as CUDA gives it."""
_MOST_PAGES = 32
_sum = torch.sum  # torch's own, before a workload can replace it


class DeviceMissingError(Exception):
    """The device that the job asks for is not on this machine."""


class Device(ABC):
    """Where tensors live and launches run."""

    torch_device: torch.device
    name: str

    @abstractmethod
    def wait(self) -> None:
        """Wait until all work is done; raise the error of any of it."""

    def settle(self) -> None:
        """Wait, and clear errors that a later phase would be blamed for."""
        self.wait()

    def release(self) -> None:
        """Free memory that nothing refers to any more."""
        gc.collect()

    def begin_problem(self) -> None:
        """Let go of what launches of the problem before have left."""
        gc.collect()

    def free_share(self) -> float:
        """Share of the device's memory that is free."""
        return 1.0

    @abstractmethod
    def cache_flush(self) -> Callable[[], None]:
        """Function that empties the caches that launches have to themselves; it need not wait."""

    def empty_caches(self) -> None:
        """Flush the caches, and wait: a launch may use another stream, which would not wait."""
        self.cache_flush()()
        self.wait()

    @abstractmethod
    def delay(self, seconds: float) -> None:
        """Keep the stream of the launches busy for so long, where there is one."""

    @abstractmethod
    def move_memory(self, key: str) -> None:
        """Make the next allocations lie elsewhere in memory, depending on `key`.

        Where an array lies decides which slices of L2 and which channels of DRAM serve it.
        """

    def attributes(self) -> dict[str, int]:
        """Attributes of the GPU by ncu's names; empty for a CPU."""
        return {}

    def pending_error(self) -> Exception | None:
        """The error that the device still has to report; None without one."""
        try:
            self.settle()
        except Exception as error:
            return error
        return None


class CpuDevice(Device):
    """The processor: every launch is done when it returns."""

    def __init__(self) -> None:
        self.torch_device = torch.device("cpu")
        self.name = platform.processor() or platform.machine()

    def wait(self) -> None:
        """Return at once: nothing is ever pending."""

    def cache_flush(self) -> Callable[[], None]:
        """Function that empties nothing: the caches belong to all that runs on the processor."""
        return lambda: None

    def delay(self, seconds: float) -> None:
        """Do nothing: no launch runs beside the host."""

    def move_memory(self, key: str) -> None:
        """Do nothing: all of the host's memory is alike."""


def l2_flush() -> Callable[[], None]:
    """Function that empties the L2 cache by reading an array larger than it, on the current stream.

    It returns before the cache is empty, and raises RuntimeError where the driver refuses. Before
    that it resets persisting lines to normal (kernels of inductor load with `evict_last`):
    else they outlive the reading of any array. It does not write an array: that would stay in L2,
    and the kernel behind it has to write it back first. On an H100 a kernel behind it took 0.975 to
    0.997 times as long as behind ncu's own flush, which empties the caches of instructions, too,
    and read and wrote as many bytes; behind a `memset` up to 1.15 times as long, and about 9 MB of
    persisting lines were left (`benchmarks/speed/flushes.py`).
    """
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    elements = _L2_SIZES * gpu.L2_cache_size // torch.float32.itemsize
    array = torch.zeros(elements, dtype=torch.float32, device="cuda")
    result = torch.zeros((), dtype=torch.float32, device="cuda")
    driver = ctypes.CDLL("libcuda.so.1") if gpu.major >= _PERSISTING else None

    def flush() -> None:
        if driver is not None:
            error = driver.cuCtxResetPersistingL2Cache()
            if error:
                raise RuntimeError(f"cuCtxResetPersistingL2Cache gave the error {error}")
        _sum(array, dim=0, out=result)

    return flush


class CudaDevice(Device):
    """The current CUDA device and its current stream."""

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise DeviceMissingError(f"torch {torch.__version__} sees no CUDA device")
        self.torch_device = torch.device("cuda")
        self.name = torch.cuda.get_device_name()
        self._canary = torch.zeros(1, device=self.torch_device)
        self._runtime = _loaded_runtime()
        self._flush: Callable[[], None] | None = None
        self._held_memory: torch.Tensor | None = None
        """Memory that later allocations lie behind."""

    def wait(self) -> None:
        """Wait for all streams of the device."""
        torch.cuda.synchronize()

    def settle(self) -> None:
        """Launch something harmless where an error is pending, then wait.

        A refused launch (a block too large, say) stays pending in the CUDA runtime until the next
        launch is checked, and would be blamed on that one. Without an error nothing is launched: a
        launch more takes a millisecond where a visit is counted.
        """
        if self._runtime is None or self._runtime.cudaPeekAtLastError():
            self._canary.zero_()
        self.wait()

    def cache_flush(self) -> Callable[[], None]:
        """Function that empties L2, one for all callers: its array takes memory."""
        if self._flush is None:
            self._flush = l2_flush()
        return self._flush

    def move_memory(self, key: str) -> None:
        """Hold up to 64 MB until the next move: later allocations lie behind them."""
        pages = 1 + zlib.crc32(key.encode()) % _MOST_PAGES
        size = pages * _PAGE_BYTES
        self._held_memory = torch.empty(size, dtype=torch.uint8, device=self.torch_device)

    def attributes(self) -> dict[str, int]:
        """Number of multiprocessors, and bytes of the L2 cache."""
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        return {
            "device__attribute_multiprocessor_count": gpu.multi_processor_count,
            "device__attribute_l2_cache_size": gpu.L2_cache_size,
        }

    def delay(self, seconds: float) -> None:
        """Keep the current stream busy; launches are queued behind it."""
        torch.cuda._sleep(int(seconds * _CYCLES_PER_S))  # type: ignore[no-untyped-call]  # torch's own

    def begin_problem(self) -> None:
        """Let go of launches, and of cuBLAS's workspaces: one may lie in a graph's memory.

        Graphs that are captured later would use it, and it is gone once torch.compile, whose graphs
        clear the workspaces too, has captured one.
        """
        super().begin_problem()
        torch._C._cuda_clearCublasWorkspaces()

    def free_share(self) -> float:
        """Free memory, with the allocator's free blocks, as a share of all memory."""
        free, total = torch.cuda.mem_get_info()
        return (free + torch.cuda.memory_reserved() - torch.cuda.memory_allocated()) / total

    def release(self) -> None:
        """Collect garbage, then return the allocator's free blocks to the device."""
        super().release()
        torch.cuda.empty_cache()


def _loaded_runtime() -> ctypes.CDLL | None:
    """The CUDA runtime that torch has loaded; None where torch has no own one."""
    major = (torch.version.cuda or "").partition(".")[0]
    try:
        return ctypes.CDLL(f"libcudart.so.{major}", mode=os.RTLD_NOLOAD)
    except OSError:
        return None


def open_device(name: str) -> Device:
    """The device of a job (`cuda` or `cpu`); DeviceMissingError where it is not there."""
    if name == "cuda":
        return CudaDevice()
    if name == "cpu":
        return CpuDevice()
    raise DeviceMissingError(f"no such kind of device: {name!r}; known are cuda and cpu")


def has_context(name: str) -> bool:
    """Whether this process has a context on the kind of device of a job; creates none.

    A context is seen that torch or the runtime made (the primary one of a GPU), or that is current
    on this thread.
    """
    initialized = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]  # torch's own
    return name == "cuda" and (initialized or _driver_has_context())


def _driver_has_context() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    gpus = ctypes.c_int()
    if driver.cuDeviceGetCount(ctypes.byref(gpus)) != 0:  # the driver is not initialised
        return False
    current = ctypes.c_void_p()
    if driver.cuCtxGetCurrent(ctypes.byref(current)) == 0 and current.value:
        return True
    return any(_has_primary_context(driver, gpu) for gpu in range(gpus.value))


def _has_primary_context(driver: ctypes.CDLL, gpu: int) -> bool:
    flags, active = ctypes.c_uint(), ctypes.c_int()
    code = driver.cuDevicePrimaryCtxGetState(gpu, ctypes.byref(flags), ctypes.byref(active))
    return code == 0 and bool(active.value)
