"""Checks of all requirements of a run, as data: status, detail and remedy of each.

Each check is a function of the machine; none of them changes anything, and one has a kernel
counted, which nothing else proves.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from profiler.collect import ncu, nsys
from profiler.collect.ncu import WITHOUT_NCU, find_ncu
from profiler.errors import EnvironmentUnusable
from profiler.machine.compilers import find_nvcc
from profiler.machine.environment import (
    Gpu,
    architecture_of,
    find_gpu,
    nvcc_version_number,
    package_version,
)
from profiler.machine.installs import (
    ask_torch,
    duration_by_cupti,
    importer_fault,
    ncu_version,
    nsys_version,
)
from profiler.machine.locks import FOLDER_VARIABLE, is_free, own_cache_folder

_ENOUGH_DISK_BYTES = 2 * 1024**3
"""A report of ncu 2025.3.1 had 6 MB and 17 kB more for each launch with one-pass metrics; a large
run has some ten thousand launches, and cached builds beside them."""

_CAP_SYS_ADMIN = 21  # linux/capability.h
_CAP_PERFMON = 38
_CAP_PERFMON_SINCE_DRIVER = 565  # developer.nvidia.com/ERR_NVGPUCTRPERM


class Status(StrEnum):
    """Result of one check."""

    OK = "ok"
    WARNING = "warning"
    MISSING = "missing"


@dataclass(frozen=True)
class Check:
    """One row of the doctor's table."""

    name: str
    status: Status
    detail: str
    remedy: str = ""
    essential: bool = False
    """Whether a run on a GPU is impossible without it."""

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Name, status, detail and remedy, as the table shows them."""
        return self.name, str(self.status), self.detail, self.remedy


@dataclass(frozen=True)
class InspectedMachine:
    """Places where the checks look, which tests replace."""

    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")
    """Folder that holds /proc and install folders."""
    python: str = sys.executable
    out: Path = field(default_factory=Path.cwd)
    """Folder that runs are written to."""
    lock_folder: Path | None = None
    cache: Path | None = None
    """File in which the answer of torch is kept; None: one in the user's cache folder."""

    def which(self, name: str) -> Path | None:
        """Program on PATH."""
        path = shutil.which(name, path=self.environ.get("PATH", os.defpath))
        return Path(path) if path else None


def run_checks(
    machine: InspectedMachine | None = None, gpu: Gpu | None = None
) -> tuple[Check, ...]:
    """Results of all checks, in the order in which a run needs them. `gpu` None: look for one."""
    machine = machine or InspectedMachine()
    gpu = gpu or find_gpu(machine.environ)
    # These checks start programs: side by side they take as long as the slowest.
    with ThreadPoolExecutor() as pool:
        torch_future, ncu_future, nvcc_future, nsys_future = (
            pool.submit(check_torch, machine, gpu),
            *(pool.submit(check, machine) for check in (check_ncu, check_nvcc, check_nsys)),
        )
    return (
        check_gpu(gpu),
        ncu_future.result(),
        check_counters(machine, gpu),
        check_clocks(gpu),
        check_lock(machine, gpu),
        check_processes(gpu),
        nvcc_future.result(),
        check_host_compiler(machine),
        check_ninja(machine),
        torch_future.result(),
        check_bytecode(),
        check_nvtx(),
        check_disk(machine),
        nsys_future.result(),
        check_timelines(nsys_check=nsys_future.result(), torch_check=torch_future.result()),
        check_cupti(
            machine,
            gpu,
            is_ready=all(c.result().status is Status.OK for c in (torch_future, nvcc_future)),
        ),
    )


def check_cupti(machine: InspectedMachine, gpu: Gpu | None, *, is_ready: bool) -> Check:
    """Whether CUPTI counts a kernel, as `--fast` needs. `is_ready`: torch and nvcc work."""
    name = "CUPTI"
    if gpu is None or not is_ready:
        return Check(name, Status.WARNING, "not tried: it takes a GPU, torch and nvcc")
    if not is_free(gpu.uuid, machine.lock_folder):
        return Check(name, Status.WARNING, "not tried: the GPU is being measured on")
    try:
        duration_ns = duration_by_cupti(machine.python)
    except EnvironmentUnusable as error:
        return Check(name, Status.WARNING, " ".join(error.message.split()), error.remedy or "")
    return Check(name, Status.OK, f"counts kernels in the runner (one of {duration_ns:.0f} ns)")


def missing_essentials(checks: Sequence[Check]) -> tuple[Check, ...]:
    """Failed checks without which no run on a GPU is possible."""
    return tuple(check for check in checks if check.essential and check.status is Status.MISSING)


def check_gpu(gpu: Gpu | None) -> Check:
    """Look for a GPU and its driver."""
    if gpu is None:
        return Check(
            "GPU",
            Status.MISSING,
            "NVML finds no NVIDIA GPU",
            "Check nvidia-smi and CUDA_VISIBLE_DEVICES; in a container pass the GPU through "
            "(--gpus all). Without a GPU, runs replay their recording.",
            essential=True,
        )
    architecture = architecture_of(gpu)
    suffix = f", {architecture}" if architecture else ""
    detail = f"{gpu.name}{suffix}, driver {gpu.driver} (CUDA {gpu.cuda_driver})"
    return Check("GPU", Status.OK, detail, essential=True)


def check_ncu(machine: InspectedMachine) -> Check:
    """Look for Nsight Compute of a version that has all options."""
    try:
        path = find_ncu(machine.environ, machine.root)
        version = ncu_version(path)
        ncu.INSTALLED.require_version(version)
    except EnvironmentUnusable as error:
        remedy = f"{error.remedy or ''} {WITHOUT_NCU}".strip()
        return Check("ncu", Status.MISSING, error.message, remedy, essential=True)
    return Check("ncu", Status.OK, f"{version} ({path})", essential=True)


def check_counters(machine: InspectedMachine, gpu: Gpu | None) -> Check:
    """Whether this user may read performance counters, by the driver's parameters."""
    name = "counter permission"
    params = machine.root / "proc/driver/nvidia/params"
    try:
        text = params.read_text(encoding="utf-8")
    except OSError:
        return Check(name, Status.WARNING, f"unknown: {params} cannot be read", essential=True)
    if re.search(r"^RmProfilingAdminOnly:\s*1", text, re.MULTILINE) is None:
        return Check(name, Status.OK, "open to all users", essential=True)
    if _may_profile(machine, gpu):
        return Check(name, Status.OK, "for administrators, which this is", essential=True)
    return Check(
        name,
        Status.MISSING,
        "for administrators only (RmProfilingAdminOnly: 1): ncu will say ERR_NVGPUCTRPERM",
        "Run as root or with CAP_SYS_ADMIN (containers: --cap-add=SYS_ADMIN), or put `options "
        "nvidia NVreg_RestrictProfilingToAdminUsers=0` into /etc/modprobe.d/ and reboot. "
        f"{WITHOUT_NCU}",
        essential=True,
    )


def _may_profile(machine: InspectedMachine, gpu: Gpu | None) -> bool:
    """Whether this process has a capability that the driver accepts (root alone is not enough)."""
    try:
        status = (machine.root / "proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return False
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    effective = int(match[1], 16) if match else 0
    driver = re.match(r"\d+", gpu.driver) if gpu is not None and gpu.driver else None
    accepts_perfmon = driver is not None and int(driver[0]) >= _CAP_PERFMON_SINCE_DRIVER
    has_perfmon = bool(effective >> _CAP_PERFMON & 1)
    return bool(effective >> _CAP_SYS_ADMIN & 1) or (accepts_perfmon and has_perfmon)


def check_clocks(gpu: Gpu | None) -> Check:
    """Whether a setting holds the clocks; NVML does not show those of nvidia-smi -lgc."""
    if gpu is None or gpu.max_sm_clock_mhz is None:
        return Check("clocks", Status.WARNING, "unknown")
    now = "unknown" if gpu.sm_clock_mhz is None else f"{gpu.sm_clock_mhz} MHz"
    detail = f"SM now {now}, at most {gpu.max_sm_clock_mhz} MHz"
    if gpu.application_clocks:
        return Check("clocks", Status.OK, f"{detail}; held by an application clock setting")
    return Check(
        "clocks",
        Status.WARNING,
        f"{detail}; not held by an application clock setting",
        "Blocks are interleaved, so that runs stay comparable; for steadier numbers lock them: "
        "nvidia-smi -lgc <MHz>, or collect.clock_control: base.",
    )


def check_lock(machine: InspectedMachine, gpu: Gpu | None) -> Check:
    """Check whether another run is using the GPU."""
    try:
        free = is_free(gpu.uuid if gpu is not None else None, machine.lock_folder)
    except OSError as error:
        return Check(
            "lock",
            Status.MISSING,
            f"cannot be taken: {error}",
            f"Take it away, or name another folder in {FOLDER_VARIABLE}.",
        )
    if free:
        return Check("lock", Status.OK, "free")
    return Check("lock", Status.WARNING, "another run is profiling", "A new run waits for it.")


def check_processes(gpu: Gpu | None) -> Check:
    """Check whether other programs compute on the GPU."""
    if gpu is None or gpu.compute_processes is None:
        return Check("other processes", Status.WARNING, "unknown")
    if not gpu.compute_processes:
        return Check("other processes", Status.OK, "none on the GPU")
    pids = ", ".join(str(pid) for pid in gpu.compute_processes)
    return Check(
        "other processes",
        Status.WARNING,
        f"{len(gpu.compute_processes)} on the GPU (process {pids})",
        "Their work changes the numbers: end them or choose another GPU: --device cuda:1.",
    )


def check_nvcc(machine: InspectedMachine) -> Check:
    """Look for the CUDA compiler; workloads without CUDA sources run without it."""
    try:
        path = find_nvcc(machine.environ)
    except EnvironmentUnusable as error:
        return Check("nvcc", Status.MISSING, error.message, error.remedy or "")
    version = nvcc_version_number(path)
    if version is None:
        remedy = "Install the CUDA toolkit again, or put the bin folder of another one on PATH."
        return Check("nvcc", Status.MISSING, f"{path} cannot be run", remedy)
    return Check("nvcc", Status.OK, f"{version} ({path})")


def check_host_compiler(machine: InspectedMachine) -> Check:
    """Look for the C++ compiler that nvcc uses."""
    name = machine.environ.get("NVCC_CCBIN") or "g++"
    path = machine.which(name)
    if path is None:
        return Check(
            "host compiler", Status.MISSING, f"{name} not found", "Install g++ (build-essential)."
        )
    return Check("host compiler", Status.OK, str(path))


def check_ninja(machine: InspectedMachine) -> Check:
    """Look for ninja, which comes with its Python package."""
    version = package_version("ninja")
    beside_python = Path(machine.python).with_name("ninja")
    if version is None and machine.which("ninja") is None and not beside_python.exists():
        return Check("ninja", Status.MISSING, "not installed", "pip install ninja")
    return Check("ninja", Status.OK, version or "on PATH")


def check_torch(machine: InspectedMachine, gpu: Gpu | None = None) -> Check:
    """Whether torch works on the GPU, by an import in a child process or a cached answer."""
    remedy = "pip install torch, a CUDA build."
    gpu_key = () if gpu is None else (gpu.uuid, gpu.driver)
    cache_file = machine.cache or own_cache_folder(machine.environ) / "torch.json"
    torch = ask_torch(machine.python, machine.environ, gpu_key, cache_file)
    if torch.error:
        return Check("torch", Status.MISSING, torch.error, remedy, essential=True)
    if torch.cuda is None or not torch.sees_gpu:
        fault = "has no CUDA support" if torch.cuda is None else "sees no GPU"
        return Check("torch", Status.MISSING, f"{torch.version} {fault}", remedy, essential=True)
    return Check("torch", Status.OK, f"{torch.version}, CUDA {torch.cuda}", essential=True)


def check_bytecode(package: str = "torch") -> Check:
    """Whether Python's bytecode of a package is cached: without it torch starts 2 s later.

    Images of containers are often made without.
    """
    spec = find_spec(package)
    if spec is None or spec.cached is None:
        return Check("bytecode", Status.WARNING, f"{package} is not installed")
    if Path(spec.cached).exists():
        return Check("bytecode", Status.OK, f"{package} is compiled")
    folder = Path(spec.cached).parents[1]
    return Check(
        "bytecode",
        Status.WARNING,
        f"Python compiles {package} at each start, which takes seconds",
        f"Unset PYTHONDONTWRITEBYTECODE, or once: python -m compileall -q {folder}",
    )


def check_nvtx() -> Check:
    """Look for the package that marks ranges."""
    version = package_version("nvtx")
    if version is None:
        return Check("nvtx", Status.MISSING, "not installed", "pip install nvtx", essential=True)
    return Check("nvtx", Status.OK, version, essential=True)


def check_disk(machine: InspectedMachine) -> Check:
    """Look at the space where runs are written."""
    folder = next(path for path in (machine.out, *machine.out.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:.1f} GiB free for {machine.out}"
    if free < _ENOUGH_DISK_BYTES:
        return Check("disk", Status.WARNING, detail, "Make room: reports of ncu are large.")
    return Check("disk", Status.OK, detail)


def check_nsys(machine: InspectedMachine) -> Check:
    """Look for an Nsight Systems that can record and make a report; only timelines need one."""
    try:
        path = nsys.find_nsys(machine.environ, machine.root)
        version = nsys_version(path)
        nsys.INSTALLED.require_version(version)
    except EnvironmentUnusable as error:
        return Check("nsys", Status.WARNING, error.message, error.remedy or "")
    detail = f"{version} ({path})"
    tool = nsys.Nsys(path)
    broken = _no_importer() if tool.importer_command() is None else importer_fault(tool)
    if broken is not None:
        detail = f"{detail} cannot make reports: {broken.message}"
        return Check("nsys", Status.WARNING, detail, broken.remedy or "")
    return Check("nsys", Status.OK, detail)


def _no_importer() -> EnvironmentUnusable:
    return EnvironmentUnusable(
        "its importer (QdstrmImporter) is not beside it.",
        remedy="Install the full Nsight Systems from developer.nvidia.com/nsight-systems, or "
        "set PROFILER_NSYS to one that has its importer.",
    )


def check_timelines(*, nsys_check: Check, torch_check: Check) -> Check:
    """Check which collectors of timelines can be used."""
    checks = {"nsys": nsys_check, "torch": torch_check}
    usable = [name for name, check in checks.items() if check.status is Status.OK]
    if not usable:
        return Check(
            "timelines",
            Status.WARNING,
            "no collector can record a GPU",
            "Install Nsight Systems for the collector nsys, or a CUDA build of torch for torch. "
            "With collect.device: cpu, torch records its operators under any build.",
        )
    return Check("timelines", Status.OK, f"collectors: {', '.join(usable)}")
