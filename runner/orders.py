"""Orders to a process of the runner, as they come: the next step, or the next job.

JSON lines in a file that the orchestrator appends to, and holds locked (flock) as long as more may
come. So whatever ends the orchestrator ends a process that waits for an order. A process that was
started for one job alone has no such file: nothing keeps it, and nothing follows. Standard library
only, as `protocol.py`: both sides import it.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from profiler.runner import protocol
from profiler.runner.protocol import Job, JobCell, JobVisit, cell_of

ORDERS_FILE = "orders.jsonl"
"""Name of the file beside the job of the process."""
PREPARE = "prepare"
"""With the path of a job: to a process that was started before its job was known."""
IMPORT = "import"
"""The workload may be imported: another session of the run showed that it creates no context."""
MODULES = "modules"
"""With the names of modules to import now: the imports of the first launches of another session of
the run (IMPORTED)."""
DEVICE = "device"
"""A context may be created: the last launch of the session before is done."""
VISIT = "visit"
"""With the path of a job, which now has its cells and visits. The first order of a process is for
the job that it was started with, each later one for another session."""
SEARCH = "search"
"""With a SearchOrder, to the session of a search."""
LEAVE = "leave"
STEPS = (IMPORT, MODULES, DEVICE, VISIT)
"""Orders by which a session comes to its first visit."""

_POLL_S = 0.004
"""Seconds between two looks: far less than an order takes, and no load beside a launch."""


@dataclass(frozen=True)
class SearchOrder:
    """Work for the session of a search, one problem after the other."""

    cells: tuple[JobCell, ...] = ()
    """Cells that are visited here for the first time."""
    visits: tuple[JobVisit, ...] = ()
    repeats: Mapping[str, int] = field(default_factory=dict)
    """Timed launches of a visit by problem; the default is the job's number."""
    forget: tuple[str, ...] = ()
    """Cells that no later order visits; they are forgotten first."""


def line_of(order: str, argument: Any = None) -> bytes:
    """An order as it is appended."""
    content = asdict(argument) if isinstance(argument, SearchOrder) else argument
    return json.dumps([order, content], separators=(",", ":")).encode() + b"\n"


def search_order(data: Mapping[str, Any]) -> SearchOrder:
    """A SearchOrder from its JSON; raises KeyError or TypeError for any other JSON."""
    return SearchOrder(
        **{
            **data,
            "cells": tuple(map(cell_of, data["cells"])),
            "visits": tuple(JobVisit(**visit) for visit in data["visits"]),
            "forget": tuple(data["forget"]),
        }
    )


def follow_orders(path: Path) -> Iterator[tuple[str, Any]]:
    """Orders of a file with their arguments, as they come; ends where no more can come.

    Raises OSError where the file cannot be read or locked.
    """
    partial_line = b""
    with path.open("rb") as stream:
        while True:
            may_grow = _is_locked(stream)
            *lines, partial_line = (partial_line + stream.read()).split(b"\n")
            yield from map(json.loads, lines)
            if not lines and not may_grow:
                return
            if not lines:
                time.sleep(_POLL_S)


def _is_locked(stream: IO[bytes]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(stream, fcntl.LOCK_UN)
    return False


class LeavingError(BaseException):
    """The process is to leave; no workload's `except Exception` shall swallow it."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


_NOT_WANTED = 0
"""Exit code where the orchestrator is gone, or needs this session no more."""


@dataclass(frozen=True)
class Turn:
    """The steps of a session up to its first visit, each when it is ordered."""

    orders: Path | None
    """None: the session takes each step at once."""
    stamps: dict[str, float] = field(default_factory=dict)
    """When each of `STAMPS` was reached, in seconds of the system's monotonic clock."""

    def stamp(self, name: str) -> None:
        """Note the time at which a step was reached, at its first call."""
        self.stamps.setdefault(name, time.monotonic())

    def before_import(self) -> None:
        """Wait until the workload may be imported."""
        self._wait_for(IMPORT)
        self.stamp(protocol.MAY_IMPORT)

    def modules(self) -> Sequence[str]:
        """Names of the modules that launches import, after a wait until they are known."""
        self.stamp(protocol.LOADED)
        return self._wait_for(MODULES) or ()

    def before_device(self, *, has_context: bool) -> None:
        """Wait until a context may be created.

        Raises LeavingError where there is one before its time, beside that of the session that
        measures.
        """
        if has_context and self.orders is not None and not _has_order(self.orders, DEVICE):
            cause = "importing the workload created a CUDA context"
            raise LeavingError(protocol.EXIT_CONTEXT_AT_IMPORT, cause)
        self._wait_for(DEVICE)
        self.stamp(protocol.ITS_TURN)

    def job_with_visits(self, job: Job) -> Job:
        """The job as it stands when the visits are known."""
        self.stamp(protocol.DEVICE_OPEN)
        path = self._wait_for(VISIT)
        self.stamp(protocol.VISITS_KNOWN)
        return job if path is None else protocol.read_job(Path(path))

    def following_jobs(self) -> Iterator[Path]:
        """Paths of the jobs that come after the first one, until the process is to leave."""
        for order, argument in self._following_orders:
            if order == LEAVE:
                return
            if order == VISIT:
                yield Path(argument)

    @cached_property
    def _following_orders(self) -> Iterator[tuple[str, Any]]:
        return iter(()) if self.orders is None else follow_orders(self.orders)

    def _wait_for(self, step: str) -> Any:
        """Argument of an order, after a wait for it.

        Raises LeavingError where the order does not come.
        """
        if self.orders is None:
            return None
        try:
            for order, argument in self._following_orders:
                if order == step:
                    return argument
        except OSError as error:
            raise LeavingError(_NOT_WANTED) from error
        raise LeavingError(_NOT_WANTED)


def _has_order(orders: Path, order: str) -> bool:
    """Whether a file of orders has an order; raises LeavingError where the file is gone."""
    try:
        lines = orders.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise LeavingError(_NOT_WANTED) from error
    return any(json.loads(line)[0] == order for line in lines if line.endswith(b"\n"))
