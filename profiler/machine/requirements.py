"""What a live run needs of this machine, checked before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from profiler.collect.ncu import find_ncu, ncu_version, require_version
from profiler.collect.nsys import Nsys, find_nsys
from profiler.collect.nsys import require_version as require_nsys_version
from profiler.errors import EnvironmentUnusable
from profiler.machine.environment import Gpu, architecture_of, find_gpu, probe_environment
from profiler.model import Environment
from profiler.planning.spec import Experiment, ModuleWorkload
from profiler.sessions.build import find_nvcc
from profiler.sessions.timeline_files import importer_fault, nsys_version


@dataclass(frozen=True)
class Machine:
    """A machine that can do the experiment."""

    environment: Environment
    device: str
    """`cuda` or `cpu`."""
    ncu: Path | None
    nsys: Path | None = None

    def require_nsys(self) -> Path:
        """Path of nsys; only asked for where a session of this run needs it."""
        if self.nsys is None:
            raise EnvironmentUnusable(
                "This run was prepared without nsys.", remedy="Start it anew."
            )
        return self.nsys

    def require_ncu(self) -> Path:
        """Path of ncu; only asked for where the experiment has it as a collector."""
        if self.ncu is None:
            raise EnvironmentUnusable("This run was prepared without ncu.", remedy="Start it anew.")
        return self.ncu

    def architecture(self, wanted: str) -> str:
        """Architecture to compile for: the one asked for, or that of the GPU here."""
        if wanted != "auto":
            return wanted
        # Without a GPU nothing that is built can run, but what needs no build is measured.
        return architecture_of(self.environment) or "sm_80"


def find_machine(experiment: Experiment, base: Path, *, timeline: bool = False) -> Machine:
    """Check that this machine can do the experiment; raises EnvironmentUnusable with the remedy.

    `base` is the folder of the spec, whose git commit is recorded. `timeline`: nsys is needed,
    whatever the experiment's collectors.
    """
    collect = experiment.collect
    gpu = find_gpu()
    device = _device(experiment, gpu)
    _require_torch(experiment)
    ncu, version = None, None
    if "ncu" in collect.collectors:
        ncu = find_ncu()
        version = ncu_version(ncu)
        require_version(version)
    nsys, recorder = None, None
    if timeline or "nsys" in collect.collectors:
        nsys = find_nsys()
        recorder = _usable_nsys(nsys)
    environment = probe_environment(
        gpu=gpu if device == "cuda" else None,
        ncu_version=version,
        nsys_version=recorder,
        nvcc=_compiler(),
        source=base,
        cache_control=collect.cache_control if ncu else None,
        clock_control=collect.clock_control if ncu else None,
    )
    return Machine(environment, device, ncu, nsys)


def _usable_nsys(path: Path) -> str:
    """Version of an nsys that can also make a report of what it records."""
    version = nsys_version(path)
    require_nsys_version(version)
    fault = importer_fault(Nsys(path))
    if fault is not None:
        raise fault
    return version


def _compiler() -> Path | None:
    """The nvcc that a build would use; None where there is none, which only a build minds."""
    try:
        return find_nvcc()
    except EnvironmentUnusable:
        return None


def _require_torch(experiment: Experiment) -> None:
    """The runner runs under this very interpreter; an external command needs no torch."""
    if isinstance(experiment.workload, ModuleWorkload) and find_spec("torch") is None:
        raise EnvironmentUnusable(
            "torch is not installed in this Python, and the workload needs it.",
            remedy="pip install 'kernel-profiler[torch]'; in a checkout, pip install -e .[torch]",
        )


def _device(experiment: Experiment, gpu: Gpu | None) -> str:
    collect = experiment.collect
    if collect.device == "cpu":
        return "cpu"
    if gpu is not None:
        return "cuda"
    if collect.device == "auto" and "ncu" not in collect.collectors:
        return "cpu"
    raise EnvironmentUnusable(
        "No NVIDIA GPU is visible on this machine.",
        remedy="Run it where nvidia-smi lists a GPU (`python -m profiler doctor` shows what is "
        "missing), or leave out --live and --timeline to replay a recording.",
    )
