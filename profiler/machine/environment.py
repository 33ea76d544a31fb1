"""Fingerprint of the machine: all facts that could change a number, and no private ones.

NVML answers for the GPU, so that the orchestrator needs neither torch nor a CUDA context. What NVML
does not know (multiprocessors, L2 size) comes with the measurements: ncu's rows carry
`device__attribute_*`. Unknown facts are None.

A run asks for all facts at once (`inquire`), before it imports the code that plans an experiment:
the imports take as long as the answers.
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
from profiler.machine.tool_output import run_command
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
    """SM clock at the time of the query."""
    max_memory_clock_mhz: int | None = None
    memory_bus_bits: int | None = None
    application_clocks: bool | None = None
    """Whether a setting of the administrator holds the clocks."""
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
"""Facts of the host that could change a number: fields of `Environment`."""


def find_gpu(
    environ: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> Gpu | None:
    """GPU that a CUDA program would use first, or None.

    Respects CUDA_VISIBLE_DEVICES. Numbers are taken in the order of the PCI bus; where GPUs differ,
    CUDA may count them by speed, unless CUDA_DEVICE_ORDER=PCI_BUS_ID is set. `nvml` is pynvml.
    """
    environ = os.environ if environ is None else environ
    with open_gpu(environ.get(VISIBLE_VARIABLE), nvml) as nvml_and_handle:
        return None if nvml_and_handle is None else _describe(*nvml_and_handle)


def visible_gpus(
    environ: Mapping[str, str] | None = None, nvml: ModuleType | None = None
) -> tuple[Gpu, ...]:
    """Every GPU that CUDA_VISIBLE_DEVICES leaves, in its order or that of the PCI bus."""
    environ = os.environ if environ is None else environ
    nvml = _nvml() if nvml is None else nvml
    if nvml is None:
        return ()
    with _nvml_session(nvml) as has_driver:
        names = _visible_names(nvml, environ.get(VISIBLE_VARIABLE)) if has_driver else ()
        handles = (_first_visible(nvml, name) for name in names)
        # Like CUDA, which ignores all names after the first invalid one.
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
    """NVML and its handle of a GPU for as long as the context lasts; None without a GPU.

    `visible` is an index or a UUID, as in CUDA_VISIBLE_DEVICES, and the first of a list; None is
    the first GPU. `nvml` is pynvml.
    """
    nvml = _nvml() if nvml is None else nvml
    if nvml is None:
        yield None
        return
    with _nvml_session(nvml) as has_driver:
        handle = _first_visible(nvml, visible) if has_driver else None
        yield None if handle is None else (nvml, handle)


def ask_nvml(nvml: Any, question: Callable[..., Any], *arguments: Any) -> Any:
    """Answer of NVML to a question; None where this GPU or driver has none."""
    try:
        return question(*arguments)
    except nvml.NVMLError:
        return None


def architecture_of(gpu_or_environment: Gpu | Environment) -> str | None:
    """Architecture (`sm_90`) of a GPU; None without one."""
    capability = gpu_or_environment.compute_capability
    return None if capability is None else f"sm_{capability.replace('.', '')}"


def resolved_architecture(requested: str) -> str | None:
    """Architecture to compile for; `auto` stands for that of the GPU here, None without one."""
    if requested != "auto":
        return requested
    gpu = find_gpu()
    return None if gpu is None else architecture_of(gpu)


def capability_of(architecture: str) -> str | None:
    """Compute capability (`9.0`) of an architecture; `auto` stands for the GPU here, if any."""
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
    gpu_facts = gpu if gpu is not None else Gpu()
    return Environment(
        gpu=gpu_facts.name,
        gpu_uuid=gpu_facts.uuid,
        compute_capability=gpu_facts.compute_capability,
        memory_bytes=gpu_facts.memory_bytes,
        driver=gpu_facts.driver,
        cuda_driver=gpu_facts.cuda_driver,
        ncu=ncu_version,
        nsys=nsys_version,
        max_sm_clock_mhz=gpu_facts.max_sm_clock_mhz,
        max_memory_clock_mhz=gpu_facts.max_memory_clock_mhz,
        peak_dram_bytes_per_s=gpu_facts.peak_dram_bytes_per_s,
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
    commit, dirty = _recorded_commit(source)
    try:
        nvcc = nvcc_version_number(find_nvcc())
    except EnvironmentUnusable:  # only a build needs nvcc
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


def nvcc_version_number(nvcc: Path) -> str | None:
    """Version number of an nvcc (`13.0.88`), or None where it cannot be run."""
    match = re.search(r"\bV(\d+(?:\.\d+)+)", _command_output(str(nvcc), "--version") or "")
    return match[1] if match else None


def _nvml() -> ModuleType | None:
    try:
        return importlib.import_module("pynvml")
    except ImportError:  # a machine without it can still replay
        return None


@contextlib.contextmanager
def _nvml_session(nvml: Any) -> Iterator[bool]:
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
        return _device_by_uuid(nvml, first)
    except nvml.NVMLError:
        return None


def _device_by_uuid(nvml: Any, uuid: str) -> Any:
    """Handle of a device by its UUID, or the beginning of it, as CUDA accepts."""
    if uuid.startswith("MIG-"):
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    if not uuid.startswith("GPU-"):
        return None  # empty, or -1: no device at all
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if _decoded(nvml.nvmlDeviceGetUUID(handle)).startswith(uuid):
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
        name=_decoded(ask(nvml.nvmlDeviceGetName, handle)),
        uuid=_decoded(ask(nvml.nvmlDeviceGetUUID, handle)),
        compute_capability=f"{capability[0]}.{capability[1]}" if capability else None,
        memory_bytes=int(memory.total) if memory else None,
        driver=_decoded(ask(nvml.nvmlSystemGetDriverVersion)),
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


def _decoded(answer: Any) -> Any:
    """An answer as a text: NVML's strings are bytes in old versions of its Python package."""
    return answer.decode() if isinstance(answer, bytes) else answer


def cpu_model() -> str | None:
    """Model of the processor, as Linux names it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine() or None


def _recorded_commit(source: Path | None) -> tuple[str | None, bool | None]:
    """Commit of a folder, or of `PROFILER_GIT_COMMIT` where git knows none; changed files or not.

    In a container the sources are often there without their history.
    """
    commit, changed = (None, None) if source is None else _git_state(source)
    if commit is not None:
        return commit, changed
    return os.environ.get(_COMMIT_VARIABLE) or None, None


_NO_REPORTS = (":/", ":(exclude,top,glob)**/reports/**")
"""Files of a repository, without the runs that are written into it."""


def _git_state(folder: Path) -> tuple[str | None, bool | None]:
    """Commit of a folder in git, and whether its files differ from it; None outside git."""
    commit = _command_output("git", "-C", str(folder), "rev-parse", "HEAD")
    changes = _command_output("git", "-C", str(folder), "status", "--porcelain", "--", *_NO_REPORTS)
    if commit is None:
        return None, None
    return commit.strip(), None if changes is None else bool(changes.strip())


def _command_output(*argv: str) -> str | None:
    """Stdout of a short command, or None where it fails."""
    with contextlib.suppress(EnvironmentUnusable):
        completed = run_command(Command(argv), _TOOL_TIMEOUT_S)
        return completed.stdout if completed.returncode == 0 else None
    return None


@dataclass(frozen=True)
class Inquiry:
    """Futures of the facts of a machine; each raises its error when its result is read."""

    gpu: Future[Gpu | None]
    """The GPU that a CUDA program would use first."""
    ncu: Future[tuple[Path, str]]
    """Path and version of ncu."""
    host: Future[HostFacts]


def inquire(source: Path) -> Inquiry:
    """Futures of all facts; `source` is the folder of the experiment, whose commit is recorded."""
    pool = ThreadPoolExecutor(3, "inquiry")
    try:
        return Inquiry(
            gpu=pool.submit(find_gpu),
            ncu=pool.submit(_ncu_path_and_version),
            host=pool.submit(host_facts, source),
        )
    finally:
        pool.shutdown(wait=False)


def _ncu_path_and_version() -> tuple[Path, str]:
    path = find_ncu()
    return path, ncu_version(path)
