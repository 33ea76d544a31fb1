"""What a command asks of the workers, and the task that workers are given.

Imports nothing that takes long: a command needs Dask only where it reaches them, and the scheduler
imports the module of a task to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from profiler.machine.requirements import Machine
    from profiler.model import Plan
    from profiler.planning.space import Space
    from profiler.sessions.measure import MeasureRequest

CPU = "cpu"
LOCAL = "local:"
"""Beginning of `--workers local:N`: N GPUs of this host."""
TlsFiles = tuple[Path | None, Path | None, Path | None]
"""Files in PEM: of the authority, the certificate and its key; all three or none."""


@dataclass(frozen=True)
class ClusterRequest:
    """An experiment that workers are to measure."""

    workers: str
    """Address of a scheduler of Dask, or `local:N`."""
    template: MeasureRequest
    """What is measured, but for the machine and its plan."""
    planned: Callable[[Machine], tuple[Plan, Space]]
    """Plan for the machine of a worker."""
    mixed: bool = False
    """Whether GPUs of another model or driver measure as well, each kind a run of its own."""
    tls: TlsFiles = (None, None, None)
    dashboard: bool = True
    """Whether what is started here has Dask's HTTP server."""

    @property
    def is_local(self) -> bool:
        """Whether the workers are of this host, with the terminal of the coordinator."""
        return self.workers.startswith(LOCAL)


def measure(order: str, libraries: Mapping[str, bytes], earlier: tuple[str, bytes] | None) -> None:
    """`on_worker.measure`, on a worker."""
    from profiler.cluster import on_worker  # noqa: PLC0415 - not at the scheduler

    on_worker.measure(order, libraries, earlier)
