"""What a worker measures on, and the resources of Dask by which it is found."""

from __future__ import annotations

from profiler.errors import EnvironmentUnusable
from profiler.machine.environment import find_gpu, probe_environment
from profiler.model import Environment

GPU_RESOURCE = "GPU"
"""Each worker has one, and each task takes one: so a GPU measures one thing at a time."""


def device_of(environment: Environment) -> str:
    """Model and driver: what workers of one run have in common; without a GPU, the processor."""
    if environment.gpu is None:
        return environment.cpu or "an unnamed processor"
    driver = "" if environment.driver is None else f", driver {environment.driver}"
    return f"{environment.gpu}{driver}"


def resources_of(device: str) -> dict[str, float]:
    """Resources of a worker, and of a task: so Dask gives none to another model or driver."""
    return {GPU_RESOURCE: 1, device: 1}


def device_among(resources: object) -> str | None:
    """Device in the resources of a worker; None where it is none of this program's."""
    if not isinstance(resources, dict) or GPU_RESOURCE not in resources:
        return None
    names = [name for name in resources if name != GPU_RESOURCE]
    return names[0] if len(names) == 1 else None


def environment_here(*, cpu: bool) -> Environment:
    """Environment of a worker here: of the first GPU that is visible, or of the processor.

    Raises EnvironmentUnusable where no GPU is visible.
    """
    gpu = None if cpu else find_gpu()
    if gpu is None and not cpu:
        raise EnvironmentUnusable(
            "No NVIDIA GPU is visible on this machine.",
            remedy="`profiler doctor` shows what is missing; --device cpu measures on the CPU.",
        )
    return probe_environment(gpu=gpu)


def require_device(environment: Environment, device: str) -> None:
    """Raise EnvironmentUnusable where a worker measures on another device than was asked for."""
    if device_of(environment) != device:
        raise EnvironmentUnusable(
            f"The worker measures on {device_of(environment)} now, and not on {device}.",
            remedy="Start it again: it says what it has when it starts (--device cpu: the CPU).",
        )
