"""Fingerprint of the machine: everything that could change a number, and nothing that names anyone.

NVML answers for the GPU, so that the orchestrator needs neither torch nor a CUDA context. What NVML
does not know (multiprocessors, L2 size) comes with the measurements: ncu's rows carry
`device__attribute_*`. What cannot be found out is None.

A run asks all at once (`inquire`), before it imports what reads and plans an experiment: that takes
as long as the answers.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import itertools
import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import profiler
from profiler.collect import Command
from profiler.collect.ncu import find_ncu
from profiler.errors import EnvironmentUnusable
from profiler.machine.compilers import find_nvcc
from profiler.machine.installs import ncu_version
from profiler.machine.tool_output import ran
from profiler.model import Environment

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
"""Environment variable that says which GPUs a CUDA program sees, by index or UUID."""
_COMMIT_VARIABLE = "PROFILER_GIT_COMMIT"
_TOOL_TIMEOUT_S = 30.0
_BITS_PER_BYTE = 8
_TRANSFERS_PER_CLOCK = 2
"""NVML gives the clock of HBM and GDDR memory at half of its data rate: 3201 MHz and 6016 bits on
an H200 make the 4.8 TB/s of its data sheet."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, as NVML describes it."""

    name: str | None = None
    uuid: str | None = None
    compute_capability: str | None = None
    """`9.0`."""
    memory_bytes: int | None = None
    driver: str | None = None
    cuda_driver: str | None = None
    """Newest CUDA version that the driver knows, `13.0`."""
    max_sm_clock_mhz: int | None = None
    sm_clock_mhz: int | None = None
    """Now."""
    max_memory_clock_mhz: int | None = None
    memory_bus_bits: int | None = None
    application_clocks: bool | None = None
    """Whether the clocks are held by a setting of the administrator's."""
    compute_processes: tuple[int, ...] | None = None
    """Process ids that have a CUDA context on it."""

    @property
    def peak_dram_bytes_per_s(self) -> float | None:
        """Highest possible traffic to device memory."""
        if self.max_memory_clock_mhz is None or self.memory_bus_bits is None:
            return None
        hertz = self.max_memory_clock_mhz * 1e6
        return _TRANSFERS_PER_CLOCK * hertz * self.memory_bus_bits / _BITS_PER_BYTE


HostFacts = Mapping[str, Any]
"""What could change a number beside the GPU and the tools: fields of `Environment`."""


def find_gpu(
    environ: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> Gpu | None:
    """GPU that a CUDA program would use first, or None.

    Respects CUDA_VISIBLE_DEVICES. Numbers are taken in the order of the PCI bus; where GPUs differ,
    CUDA may count them by speed, unless CUDA_DEVICE_ORDER=PCI_BUS_ID is set. `nvml` is pynvml.
    """
    environ = os.environ if environ is None else environ
    with open_gpu(environ.get(VISIBLE_VARIABLE), nvml) as opened:
        return None if opened is None else _describe(*opened)


def visible_gpus(
    environ: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> tuple[Gpu, ...]:
    """Every GPU that CUDA_VISIBLE_DEVICES leaves, in its order or that of the PCI bus."""
    environ = os.environ if environ is None else environ
    nvml = _nvml() if nvml is None else nvml
    if nvml is None:
        return ()
    with _session(nvml) as works:
        names = _visible_names(nvml, environ.get(VISIBLE_VARIABLE)) if works else ()
        handles = (_first_visible(nvml, name) for name in names)
        # Like CUDA, which ignores what stands behind the first name that is none.
        existing = itertools.takewhile(lambda handle: handle is not None, handles)
        return tuple(_describe(nvml, handle) for handle in existing)


def _visible_names(nvml: Any, visible: str | None) -> Sequence[str]:
    if visible is not None:
        return visible.split(",")
    try:
        return [str(index) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return ()


@contextlib.contextmanager
def open_gpu(
    visible: str | None, nvml: ModuleType | None = None
) -> Iterator[tuple[ModuleType, Any] | None]:
    """NVML, and its handle of a GPU for as long as the context lasts; None where there is none.

    `visible` is an index or a UUID, as in CUDA_VISIBLE_DEVICES, and the first of a list; None is
    the first GPU. `nvml` is pynvml.
    """
    nvml = _nvml() if nvml is None else nvml
    if nvml is None:
        yield None
        return
    with _session(nvml) as works:
        handle = _first_visible(nvml, visible) if works else None
        yield None if handle is None else (nvml, handle)


def ask_nvml(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    """Answer of NVML, or None where this GPU or driver does not know."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def architecture_of(described: Gpu | Environment) -> str | None:
    """Architecture (`sm_90`) to compile for, None where no GPU is described."""
    capability = described.compute_capability
    return None if capability is None else f"sm_{capability.replace('.', '')}"


def resolved_architecture(wanted: str) -> str | None:
    """Architecture to compile for, `auto` for that of the GPU here; None where there is none."""
    if wanted != "auto":
        return wanted
    gpu = find_gpu()
    return None if gpu is None else architecture_of(gpu)


def capability_of(architecture: str) -> str | None:
    """Compute capability (`9.0`) of an architecture, `auto` for that of the GPU here, if any."""
    if architecture == "auto":
        gpu = find_gpu()
        return None if gpu is None else gpu.compute_capability
    digits = architecture.removeprefix("sm_").rstrip("af")
    return f"{digits[:-1]}.{digits[-1]}"


def probe_environment(  # noqa: PLR0913 - facts about a run, all by keyword
    *,
    gpu: Gpu | None,
    host: HostFacts | None = None,
    ncu_version: str | None = None,
    nsys_version: str | None = None,
    clock_control: str | None = None,
    cache_control: str | None = None,
) -> Environment:
    """Fingerprint of this machine, with the settings that a run was made with.

    `gpu` None leaves the GPU out: for a run on the CPU it changes nothing. `host`: facts that were
    asked for already.
    """
    described = gpu if gpu is not None else Gpu()
    return Environment(
        gpu=described.name,
        gpu_uuid=described.uuid,
        compute_capability=described.compute_capability,
        memory_bytes=described.memory_bytes,
        driver=described.driver,
        cuda_driver=described.cuda_driver,
        ncu=ncu_version,
        nsys=nsys_version,
        max_sm_clock_mhz=described.max_sm_clock_mhz,
        max_memory_clock_mhz=described.max_memory_clock_mhz,
        peak_dram_bytes_per_s=described.peak_dram_bytes_per_s,
        clock_control=clock_control,
        cache_control=cache_control,
        profiler_version=profiler.__version__,
        **(host if host is not None else host_facts()),
    )


def host_facts(source: Path | None = None) -> HostFacts:
    """Facts of this host, with the nvcc that a build would use.

    `source` is a folder of the repository whose commit is recorded, the one that the experiment
    lies in.
    """
    commit, dirty = _commit(source)
    try:
        nvcc = nvcc_version(find_nvcc())
    except EnvironmentUnusable:  # which only a build minds
        nvcc = None
    return {
        "nvcc": nvcc,
        "torch": package_version("torch"),
        "python": platform.python_version(),
        "cpu": cpu_model(),
        "git_commit": commit,
        "git_dirty": dirty,
    }


def package_version(name: str) -> str | None:
    """Version of an installed package, found without importing it."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def nvcc_version(nvcc: Path) -> str | None:
    """Version of an nvcc (`13.0.88`), or None where it cannot be run."""
    match = re.search(r"\bV(\d+(?:\.\d+)+)", _output(str(nvcc), "--version") or "")
    return match[1] if match else None


def _nvml() -> ModuleType | None:
    try:
        return importlib.import_module("pynvml")
    except ImportError:  # a machine without it can still replay
        return None


@contextlib.contextmanager
def _session(nvml: Any) -> Iterator[bool]:
    """NVML between its start and its end; False where there is no driver."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield False
        return
    try:
        yield True
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _first_visible(nvml: Any, visible: str | None) -> Any:
    """Handle of the first device that CUDA_VISIBLE_DEVICES names, or None."""
    try:
        if visible is None:
            return nvml.nvmlDeviceGetHandleByIndex(0) if nvml.nvmlDeviceGetCount() else None
        first = visible.split(",")[0].strip()
        if first.isdecimal():
            return nvml.nvmlDeviceGetHandleByIndex(int(first))
        return _by_uuid(nvml, first)
    except nvml.NVMLError:
        return None


def _by_uuid(nvml: Any, uuid: str) -> Any:
    """Handle of a device by its UUID, which CUDA lets one shorten as long as it is unique."""
    if uuid.startswith("MIG-"):
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    if not uuid.startswith("GPU-"):
        return None  # empty, or -1: no device at all
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if _text(nvml.nvmlDeviceGetUUID(handle)).startswith(uuid):
            return handle
    return None


def _describe(nvml: Any, handle: Any) -> Gpu:
    ask = partial(ask_nvml, nvml)
    capability = ask(nvml.nvmlDeviceGetCudaComputeCapability, handle)
    memory = ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    cuda = ask(nvml.nvmlSystemGetCudaDriverVersion_v2)
    reasons = ask(nvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
    return Gpu(
        name=_text(ask(nvml.nvmlDeviceGetName, handle)),
        uuid=_text(ask(nvml.nvmlDeviceGetUUID, handle)),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_bytes=int(memory.total) if memory else None,
        driver=_text(ask(nvml.nvmlSystemGetDriverVersion)),
        # 13000 stands for 13.0, 12080 for 12.8.
        cuda_driver=f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        max_sm_clock_mhz=ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_SM),
        sm_clock_mhz=ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        max_memory_clock_mhz=ask(nvml.nvmlDeviceGetMaxClockInfo, handle, nvml.NVML_CLOCK_MEM),
        memory_bus_bits=ask(nvml.nvmlDeviceGetMemoryBusWidth, handle),
        application_clocks=(
            None
            if reasons is None
            else bool(reasons & nvml.nvmlClocksEventReasonApplicationsClocksSetting)
        ),
        compute_processes=(
            None if processes is None else tuple(int(process.pid) for process in processes)
        ),
    )


def _text(answer: Any) -> Any:
    """NVML's strings are bytes in old versions of its Python package."""
    return answer.decode() if isinstance(answer, bytes) else answer


def cpu_model() -> str | None:
    """Model of the processor, as Linux names it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine() or None


def _commit(source: Path | None) -> tuple[str | None, bool | None]:
    """Commit of a folder, or the one that `PROFILER_GIT_COMMIT` names where git knows none.

    In a container the sources are often there without their history.
    """
    commit, changed = (None, None) if source is None else _git(source)
    if commit is not None:
        return commit, changed
    return os.environ.get(_COMMIT_VARIABLE) or None, None


def _git(folder: Path) -> tuple[str | None, bool | None]:
    """Commit that a folder is checked out at, and whether its files differ; None outside git."""
    commit = _output("git", "-C", str(folder), "rev-parse", "HEAD")
    changes = _output("git", "-C", str(folder), "status", "--porcelain")
    if commit is None:
        return None, None
    return commit.strip(), None if changes is None else bool(changes.strip())


def _output(*argv: str) -> str | None:
    """What a short command prints, or None where it fails."""
    with contextlib.suppress(EnvironmentUnusable):
        end = ran(Command(argv), _TOOL_TIMEOUT_S)
        return end.stdout if end.returncode == 0 else None
    return None


@dataclass(frozen=True)
class Inquiry:
    """Answers to come; each raises what stood in its way when it is taken."""

    gpu: Future[Gpu | None]
    """The GPU that a CUDA program would use first."""
    ncu: Future[tuple[Path, str]]
    """Path and version of ncu."""
    host: Future[HostFacts]


def inquire(source: Path) -> Inquiry:
    """Ask everything; `source` is the folder of the experiment, whose git commit is recorded."""
    with_threads = ThreadPoolExecutor(3, "inquiry")
    try:
        return Inquiry(
            gpu=with_threads.submit(find_gpu),
            ncu=with_threads.submit(_ncu),
            host=with_threads.submit(host_facts, source),
        )
    finally:
        with_threads.shutdown(wait=False)


def _ncu() -> tuple[Path, str]:
    path = find_ncu()
    return path, ncu_version(path)
