"""Giving tasks to the scheduler and taking what comes back, until nothing is under way."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from distributed import Client, Future, Queue

from profiler.cluster.device import Device, device_among
from profiler.cluster.parcels import unpacked
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.machine.signals import raise_if_signalled
from profiler.sessions.progress import ProgressReporter

_LOOK_EVERY_S = 1.0
"""How often the tasks themselves are looked at."""


@dataclass(frozen=True)
class Link:
    """How a coordinator reaches its workers."""

    client: Client
    queue: str
    """Name of the queue that results come through."""
    local: bool
    """Whether workers have the terminal of the coordinator."""

    def addresses(self, device: Device) -> dict[str, str]:
        """Name by address of the workers with a device: a UUID where it is a GPU."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: str(facts["name"])
            for address, facts in workers.items()
            if device_among(facts["resources"]) == str(device)
        }


@dataclass
class GivenTask:
    """A task that was given to the scheduler."""

    future: Future[None]
    executions: list[str] = field(default_factory=list)
    """Those that sent something, oldest first: Dask begins a task again that a dead worker had."""

    def is_of_newest(self, execution: str) -> bool:
        """Whether a parcel counts: not of a worker that was taken for dead and was not."""
        if execution not in self.executions:
            self.executions.append(execution)
        return execution == self.executions[-1]

    def silent_failure(self) -> EnvironmentUnusable | None:
        """Error that ended the task without a word to the coordinator; None where none did.

        Raises EnvironmentUnusable where the scheduler does not know the task any more.
        """
        status = self.future.status
        if status in ("cancelled", "lost"):
            raise scheduler_lost("it does not know this run any more")
        if status != "error":
            return None
        cause = self.future.exception()
        return EnvironmentUnusable(f"{type(cause).__name__}: {cause}")


def scheduler_lost(sign: str) -> EnvironmentUnusable:
    """The error of a run whose scheduler ended or was started again, and by what that was seen.

    A scheduler that ends cancels its tasks before it closes its connections: either comes first.
    """
    return EnvironmentUnusable(
        f"The connection to the scheduler was lost ({sign}).",
        remedy="When it is there again, run the same command: it goes on with what is missing.",
    )


class UnderWay(Protocol):
    """Work under way for one device: problems, or batches of a search."""

    link: Link
    device: Device

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way any more."""

    @property
    def give_every_s(self) -> float:
        """How long nothing may come before more is given."""

    def give(self) -> None:
        """Give the scheduler what may be given now."""

    def check_tasks(self) -> None:
        """Look for tasks that ended without a word."""

    def has(self, task: str) -> bool:
        """Whether a task is one of its own and not given up."""

    def take(
        self, key: str, address: str, document: Mapping[str, Any], files: Mapping[str, bytes]
    ) -> None:
        """Take a parcel of one of its tasks, from the worker at an address."""

    def refuse(self, key: str, address: str, error: UsageError) -> None:
        """Give a task up whose parcel is not what was sent or asked for."""


def give_and_take(queue: Queue, under_way: Sequence[UnderWay], reporter: ProgressReporter) -> None:
    """Have everything measured that is missing, and take what comes until nothing is under way."""
    warned, looked = False, time.monotonic()
    while True:
        raise_if_signalled()
        for part in under_way:
            part.give()
        if all(part.is_done for part in under_way):
            return
        try:
            parcel = queue.get(timeout=min(part.give_every_s for part in under_way))
        except TimeoutError:
            pass
        else:
            _take(parcel, under_way, reporter)
        if time.monotonic() - looked < _LOOK_EVERY_S:
            continue
        looked = time.monotonic()
        for part in under_way:
            part.check_tasks()
        idle = not any(part.link.addresses(part.device) for part in under_way)
        if idle and not warned:
            reporter.warn("No worker is left; waiting for one.")
        warned = idle


def _take(
    parcel: Mapping[str, Any], under_way: Sequence[UnderWay], reporter: ProgressReporter
) -> None:
    """Hand a parcel to whom its task belongs; one of a task given up is dropped."""
    task, address = str(parcel["task"]), str(parcel["address"])
    for part in under_way:
        if not part.has(task):
            continue
        try:
            document, files = unpacked(parcel)
            part.take(task, address, document, files)
        except UsageError as error:
            part.refuse(task, address, error)
        return
    reporter.detail("A result of a task that was given up was dropped.")
