"""What a worker measures on, and the resources of Dask by which it is found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from profiler.errors import EnvironmentUnusable
from profiler.machine.environment import find_gpu, probe_environment
from profiler.model import Environment
from profiler.run_folder.documents import checked_dataclass

GPU_RESOURCE = "GPU"
"""Each worker has one, and each task takes one: so a GPU measures one thing at a time."""
_NAMED = "worker "
"""Beginning of the resource that one worker alone has, behind which its name comes."""


@dataclass(frozen=True)
class Device:
    """Model and driver: what workers of one run have in common."""

    model: str
    driver: str | None = None

    @property
    def resources(self) -> dict[str, float]:
        """Resources that a task for such a device asks for.

        So Dask gives no problem to a worker with another model or driver, whenever it comes.
        """
        return {GPU_RESOURCE: 1, str(self): 1}

    def resources_of(self, worker: str) -> dict[str, float]:
        """Resources of a worker by its name, or of a task that only this one may take.

        The name is that of its GPU, and so the same when it is started again.
        """
        return {**self.resources, f"{_NAMED}{worker}": 1}

    @classmethod
    def named(cls, name: str) -> Device:
        """The device whose name this is."""
        model, comma, driver = name.rpartition(", driver ")
        return cls(model, driver) if comma else cls(name)

    def __str__(self) -> str:
        return self.model if self.driver is None else f"{self.model}, driver {self.driver}"


def device_of(environment: Environment) -> Device:
    """Device of a run in an environment; without a GPU, the processor."""
    if environment.gpu is None:
        return Device(environment.cpu or "an unnamed processor")
    return Device(environment.gpu, environment.driver)


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


def environment_from(document: Mapping[str, Any]) -> Environment:
    """Environment that a worker sent; raises UsageError where it is none of this version."""
    return checked_dataclass("its environment", json.dumps(document).encode(), Environment)


def device_among(resources: object) -> str | None:
    """Name of the device in the resources of a worker; None where it is none of this program's."""
    if not isinstance(resources, dict) or GPU_RESOURCE not in resources:
        return None
    names = [n for n in resources if n != GPU_RESOURCE and not n.startswith(_NAMED)]
    return names[0] if len(names) == 1 else None
