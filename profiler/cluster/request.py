"""What a command asks of the workers; needs no Dask, which is loaded where they are reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.errors import UsageError
from profiler.machine.requirements import Machine
from profiler.model import Plan
from profiler.planning.space import Space

if TYPE_CHECKING:
    from distributed import Security

    from profiler.sessions.measure import MeasureRequest

CPU = "cpu"


@dataclass(frozen=True)
class Certificates:
    """Files of TLS, in PEM; all three or none."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def security(self) -> Security | None:
        """Security of a connection; None without TLS. Raises UsageError where a file is missing."""
        files = (self.ca, self.cert, self.key)
        if not any(files):
            return None
        if not all(files):
            raise UsageError("--tls-ca, --tls-cert and --tls-key: all three or none.")
        for file in filter(None, files):
            if not file.is_file():
                raise UsageError(f"{file}: there is no such file")
        from distributed import Security  # noqa: PLC0415 - commands have requests without Dask

        roles = ("client", "worker", "scheduler")
        return Security(
            require_encryption=True,
            tls_ca_file=str(self.ca),
            **{f"tls_{role}_cert": str(self.cert) for role in roles},
            **{f"tls_{role}_key": str(self.key) for role in roles},
        )


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
    certificates: Certificates = field(default_factory=Certificates)
    dashboard: bool = True
    """Whether what is started here has Dask's HTTP server."""
