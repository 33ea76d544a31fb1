"""Requirements of a live run on this machine, checked before any process is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from profiler.collect import Need, ncu, nsys
from profiler.collect.ncu import WITHOUT_NCU
from profiler.collect.nsys import Nsys, find_nsys
from profiler.collect.registry import COLLECTORS, is_needed
from profiler.collect.timer import IN_KERNEL
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.machine.environment import (
    VISIBLE_VARIABLE,
    Gpu,
    Inquiry,
    architecture_of,
    inquire,
    probe_environment,
    visible_gpus,
)
from profiler.machine.installs import importer_fault, nsys_version
from profiler.model import Environment
from profiler.planning.spec import CommandWorkload, CudaWorkload, Experiment

ARCHITECTURE_WITHOUT_GPU = "sm_80"
"""Architecture to compile for without a GPU."""
_ON_CPU = "What can run on the CPU is timed there with --timer (collect.collectors=timer)."


@dataclass(frozen=True)
class Machine:
    """A machine that can do the experiment."""

    environment: Environment
    device: str
    """`cuda` or `cpu`."""
    ncu: Path | None
    nsys: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every session: the visible GPU, where one was requested."""

    def architecture(self, requested: str) -> str:
        """Architecture to compile for: the requested one, or that of the GPU here."""
        # Without a GPU no library that is built can run, but cells without a build are measured.
        return self.resolved_architecture(requested) or ARCHITECTURE_WITHOUT_GPU

    def resolved_architecture(self, requested: str) -> str | None:
        """The requested architecture, or that of the GPU here; None without a GPU."""
        return requested if requested != "auto" else architecture_of(self.environment)


def find_machine(
    experiment: Experiment, base: Path, *, timeline: bool = False, inquiry: Inquiry | None = None
) -> Machine:
    """The machine, if it can do the experiment; raises EnvironmentUnusable with the remedy.

    `base` is the folder of the spec, whose git commit is recorded. `timeline`: nsys is needed,
    whatever the experiment's collectors. `inquiry`: futures of facts that were started before.
    """
    collect = experiment.collect
    answers = inquire(base) if inquiry is None else inquiry
    gpu = _requested_gpu(answers, collect.gpu_index)
    device = _device(experiment, gpu)
    _require_torch(experiment)
    needs_ncu = is_needed(collect.collectors, Need.NCU)
    ncu, version = (
        _usable_ncu(experiment, answers) if needs_ncu else _ncu_to_explain(experiment, answers)
    )
    nsys, nsys_text = None, None
    if timeline or is_needed(collect.collectors, Need.NSYS):
        nsys = find_nsys()
        nsys_text = _usable_nsys(nsys)
    environment = probe_environment(
        gpu=gpu if device == "cuda" else None,
        host=answers.host.result(),
        ncu_version=version,
        nsys_version=nsys_text,
        cache_control=experiment.cache_control if collect.reads_counters else None,
        clock_control=collect.clock_control if needs_ncu else None,
    )
    variables = {VISIBLE_VARIABLE: gpu.uuid} if gpu and gpu.uuid and ":" in collect.device else {}
    return Machine(environment, device, ncu, nsys, variables)


def _requested_gpu(answers: Inquiry, index: int | None) -> Gpu | None:
    """GPU of this number, the first for None; raises UsageError where there are only others."""
    first = answers.gpu.result()
    if index is None:
        return first
    gpus = visible_gpus()
    if gpus and index >= len(gpus):
        gpu_list = ", ".join(f"cuda:{place} ({gpu.name})" for place, gpu in enumerate(gpus))
        raise UsageError(
            f"collect.device: there is no cuda:{index} on this machine.",
            remedy=f"There is {gpu_list}.",
        )
    return gpus[index] if gpus else None


def _usable_ncu(experiment: Experiment, answers: Inquiry) -> tuple[Path, str]:
    """Path and version of an ncu that has all options; raises an error that names the timer."""
    try:
        path, version = answers.ncu.result()
        ncu.INSTALLED.require_version(version)
    except EnvironmentUnusable as error:
        # No timer measures a program.
        if not isinstance(experiment.workload, CommandWorkload):
            on_cpu = f"{_ON_CPU} ncu counts what runs on a GPU. {error.remedy}"
            elsewhere = f"{error.remedy} {WITHOUT_NCU}"
            error.remedy = on_cpu if experiment.collect.device == "cpu" else elsewhere
        raise
    return path, version


def _ncu_to_explain(
    experiment: Experiment, answers: Inquiry
) -> tuple[Path, str] | tuple[None, None]:
    """Path and version of an ncu that explains cells of another collector; None without one."""
    if not (experiment.collect.explain and experiment.collect.reads_counters):
        return None, None
    try:
        return _usable_ncu(experiment, answers)
    except EnvironmentUnusable:
        return None, None


def _usable_nsys(path: Path) -> str:
    """Version of an nsys that can also convert its recordings to reports."""
    version = nsys_version(path)
    nsys.INSTALLED.require_version(version)
    fault = importer_fault(Nsys(path))
    if fault is not None:
        raise fault
    return version


def _require_torch(experiment: Experiment) -> None:
    """Raise where the workload needs torch, and this interpreter (the runner's, too) lacks it."""
    if not isinstance(experiment.workload, CommandWorkload) and find_spec("torch") is None:
        raise EnvironmentUnusable(
            "torch is not installed in this Python, and the workload needs it.",
            remedy="pip install torch; in a checkout, pip install -e '.[torch]'",
        )


def _require_collectors_of_a_cpu(collectors: Sequence[str]) -> None:
    """Raise UsageError for a collector that only a GPU has; a missing ncu is another error.

    An in-kernel session has a stand-in on the CPU.
    """
    for name in collectors:
        needs = COLLECTORS[name].needs
        if name != IN_KERNEL.name and Need.GPU in needs and Need.NCU not in needs:
            flag = "--fast, or " if name == "cupti" else ""
            raise UsageError(
                f"collect.device: {name} measures on a GPU, not on the CPU.",
                remedy=f"Leave out {flag}{name} of collect.collectors. {_ON_CPU}",
            )


def runs_on_cpu(experiment: Experiment, gpu: Gpu | None) -> bool:
    """Whether an experiment runs on the CPU of a machine with this GPU."""
    collect = experiment.collect
    return collect.device == "cpu" or (
        collect.device == "auto"
        and gpu is None
        and not isinstance(experiment.workload, CudaWorkload)
        and not is_needed(collect.collectors, Need.GPU)
    )


def _device(experiment: Experiment, gpu: Gpu | None) -> str:
    collect = experiment.collect
    if collect.device == "cpu":
        _require_collectors_of_a_cpu(collect.collectors)
    if runs_on_cpu(experiment, gpu):
        return "cpu"
    if gpu is not None:
        return "cuda"
    remedy = (
        "Run it where nvidia-smi lists a GPU (`python -m profiler doctor` shows what is missing)."
    )
    if collect.device == "auto" and not isinstance(
        experiment.workload, CommandWorkload | CudaWorkload
    ):
        remedy += f" {_ON_CPU}"
    raise EnvironmentUnusable("No NVIDIA GPU is visible on this machine.", remedy=remedy)
