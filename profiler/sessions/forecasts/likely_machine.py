"""The machine that a run would measure on: NVML and ncu are asked, the rest is read."""

from __future__ import annotations

import platform
from dataclasses import replace

from profiler.collect.kind import Need
from profiler.collect.ncu import find_ncu, ncu_version
from profiler.collect.registry import needed
from profiler.errors import EnvironmentUnusable
from profiler.machine.environment import Gpu, cpu_model, package_version, visible_gpus
from profiler.machine.requirements import Machine
from profiler.model import Environment
from profiler.planning.spec import CudaWorkload, Experiment
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.redact import private_names


def likely_machine(experiment: Experiment, run: RunFolder, first_gpu: Gpu | None) -> Machine:
    """The machine here; that of an earlier run where this one has no GPU to measure on.

    `first_gpu`: the one here that CUDA uses first, if any. Where there is no ncu, it is the one of
    the run.
    """
    earlier = _with_uuid(run.record().environment, run)
    collect = experiment.collect
    gpu = first_gpu if collect.gpu_index is None else _numbered_gpu(collect.gpu_index)
    on_cpu = collect.device == "cpu" or (
        collect.device == "auto"
        and gpu is None
        and not isinstance(experiment.workload, CudaWorkload)
        and not needed(collect.collectors, Need.GPU)
    )
    if gpu is None and not on_cpu:
        return Machine(earlier, "cuda", None)
    described = Gpu() if gpu is None or on_cpu else gpu
    by_ncu = needed(collect.collectors, Need.NCU)
    environment = replace(
        earlier,
        gpu=described.name,
        gpu_uuid=described.uuid,
        driver=described.driver,
        compute_capability=described.compute_capability,
        ncu=(_ncu_here() or earlier.ncu) if by_ncu else None,
        torch=package_version("torch"),
        python=platform.python_version(),
        cpu=cpu_model(),
    )
    return Machine(environment, "cpu" if on_cpu else "cuda", None)


def _numbered_gpu(index: int) -> Gpu | None:
    gpus = visible_gpus()
    return gpus[index] if index < len(gpus) else None


def _ncu_here() -> str | None:
    """Version of the ncu that a run would use; None where there is none."""
    try:
        return ncu_version(find_ncu())
    except EnvironmentUnusable:
        return None


def _with_uuid(environment: Environment, run: RunFolder) -> Environment:
    """The environment of a run with the UUID of its GPU itself, where the run folder has it."""
    uuids = {public: uuid for uuid, public in private_names(run.path)}
    uuid = environment.gpu_uuid
    return environment if uuid is None else replace(environment, gpu_uuid=uuids.get(uuid, uuid))
