"""What a live run needs of this machine, checked before anything is started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from profiler.collect.ncu import find_ncu, ncu_version, require_version
from profiler.environment import gpu_available, probe_environment
from profiler.errors import EnvironmentUnusable
from profiler.model import Environment
from profiler.spec import Experiment


@dataclass(frozen=True)
class Machine:
    """A machine that can do the experiment."""

    environment: Environment
    device: str
    """`cuda` or `cpu`."""
    ncu: Path | None

    def require_ncu(self) -> Path:
        """Path of ncu; only asked for where the experiment has it as a collector."""
        if self.ncu is None:
            raise EnvironmentUnusable("This run was prepared without ncu.", remedy="Start it anew.")
        return self.ncu

    def architecture(self, wanted: str) -> str:
        """Architecture to compile for: the one asked for, or that of the GPU here."""
        if wanted != "auto":
            return wanted
        capability = self.environment.compute_capability
        if capability is None:
            return "sm_80"  # No GPU: nothing built runs, but what needs no build is measured.
        return f"sm_{capability.replace('.', '')}"


def find_machine(experiment: Experiment) -> Machine:
    """Check that this machine can do the experiment; raises EnvironmentUnusable with the remedy."""
    collect = experiment.collect
    ncu, version = None, None
    device = _device(experiment)
    if "ncu" in collect.collectors:
        ncu = find_ncu()
        version = ncu_version(ncu)
        require_version(version)
    environment = probe_environment(
        ncu=version,
        cache_control=collect.cache_control if ncu else None,
        clock_control=collect.clock_control if ncu else None,
        gpu=device == "cuda",
    )
    return Machine(environment, device, ncu)


def _device(experiment: Experiment) -> str:
    collect = experiment.collect
    if collect.device == "cpu":
        return "cpu"
    if gpu_available():
        return "cuda"
    if collect.device == "auto" and collect.collectors == ("timer",):
        return "cpu"
    raise EnvironmentUnusable(
        "No NVIDIA GPU is visible on this machine.",
        remedy="Run it where nvidia-smi lists a GPU (`python -m profiler doctor` shows what is "
        "missing), or leave out --live to replay a recording.",
    )
