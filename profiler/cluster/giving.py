"""Giving work to workers and taking what comes back: each GPU has one piece of it at a time."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from distributed import Client, Future

from profiler.cluster.device import Device, device_among
from profiler.cluster.job import Order, path_from_here
from profiler.cluster.libraries import Libraries
from profiler.cluster.on_worker import failure_from
from profiler.cluster.parcels import Parcel, unpacked
from profiler.errors import EnvironmentUnusable, ProfilerError, UsageError
from profiler.model import BuildResult, Plan
from profiler.run_folder.folder import RunFolder
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.sources import source_hashes

_LOOK_EVERY_S = 1.0
"""How often the scheduler is asked which workers there are."""
_FETCH_S = 60.0
"""How long the transfer of a result is waited for, before it is looked at again."""
LONGEST_WAIT_S = 120.0
"""How long work waits at most for the GPU that had begun it. Where it had measured less, no longer
than that: then it costs no more to begin on another GPU."""

Work = TypeVar("Work")
Task = Callable[..., list[Parcel]]
Arrived = tuple[dict[str, Any], dict[str, bytes]]
"""Document and files of a parcel."""


@dataclass(frozen=True)
class Link:
    """How a coordinator reaches its workers."""

    client: Client
    run: str
    """Id of this execution."""
    local: bool
    """Whether workers have the terminal of the coordinator."""

    def workers(self, device: Device) -> dict[str, str]:
        """Address by name of the workers with a device: a UUID where it is a GPU."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {
            str(facts["name"]): address
            for address, facts in workers.items()
            if device_among(facts["resources"]) == str(device)
        }


@dataclass(eq=False)
class Given(Generic[Work]):
    """Work that one worker alone may do; Dask keeps it where that dies, until it is there again."""

    work: Work
    worker: str
    """Its name: that of its GPU."""
    address: str
    future: Future[list[Parcel]]
    shortest_wait_s: float = 0.0
    longest_wait_s: float = LONGEST_WAIT_S
    since: float = field(default_factory=time.monotonic)
    lost: float | None = None
    """When the worker was missed first."""

    def is_given_up(self, now: float) -> bool:
        """Whether its worker has been away longer than it is waited for."""
        return self.lost is not None and now - self.lost > self.patience_s

    @property
    def patience_s(self) -> float:
        """How long the worker is waited for: as long as it had measured."""
        measured_s = 0.0 if self.lost is None else self.lost - self.since
        return min(max(measured_s, self.shortest_wait_s), self.longest_wait_s)


def scheduler_lost(sign: str) -> EnvironmentUnusable:
    """The error of a run whose scheduler ended or was started again, and by what that was seen.

    A scheduler that ends cancels its tasks before it closes its connections: either comes first.
    """
    return EnvironmentUnusable(
        f"The connection to the scheduler was lost ({sign}).",
        remedy="When it is there again, run the same command: it goes on with what is missing.",
    )


@dataclass(kw_only=True)
class Share(ABC, Generic[Work]):
    """The work of one device: problems, or batches of a search."""

    link: Link
    device: Device
    run: RunFolder
    request: MeasureRequest
    libraries: Libraries
    reporter: ProgressReporter
    workers: dict[str, str] = field(default_factory=dict)
    """Address by name of the workers that are there."""
    given: list[Given[Work]] = field(default_factory=list)
    _looked: float = -math.inf

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether nothing is left that is not given."""

    @abstractmethod
    def prepare(self) -> None:
        """Find out what may be given now."""

    @abstractmethod
    def take_next(self, worker: str) -> Work | None:
        """The next work for a worker that has none; None where there is none for it now."""

    @abstractmethod
    def submit(self, work: Work, worker: str) -> Given[Work]:
        """Give work to a worker."""

    @abstractmethod
    def take(self, given: Given[Work], facts: dict[str, Any], attempts: Sequence[Arrived]) -> None:
        """Take what came of work; raises UsageError where it is not what was asked for."""

    @abstractmethod
    def failed(self, given: Given[Work], error: ProfilerError) -> None:
        """Give the work of a worker that failed to another one."""

    @abstractmethod
    def give_up(self, given: Given[Work]) -> None:
        """Give the work of a worker that stays away to another one."""

    def measure(self) -> Iterator[None]:
        """Have all work done; gives nothing whenever it can but wait."""
        while True:
            self.go_on()
            if self.is_done and not self.given:
                return
            yield

    def go_on(self) -> None:
        """Take what has come, and give work to workers that have none."""
        now = time.monotonic()
        if now - self._looked > _LOOK_EVERY_S:
            self._look(now)
        for given in tuple(self.given):
            self._take_if_ended(given, now)
        self.prepare()
        for worker in self.workers.keys() - {given.worker for given in self.given}:
            work = self.take_next(worker)
            if work is not None:
                self.given.append(self.submit(work, worker))

    def _look(self, now: float) -> None:
        workers = self.link.workers(self.device)
        if not workers and (self.workers or self._looked < 0):
            self.reporter.warn("No worker is left; waiting for one.")
        self.workers, self._looked = workers, now
        for given in self.given:
            if given.worker in workers:
                given.lost = None
            elif given.lost is None:
                given.lost = now
                if given.patience_s:
                    self.reporter.warn(
                        f"{given.work}: its worker is gone. Waiting for that GPU for "
                        f"{given.patience_s:.0f} s."
                    )

    def _take_if_ended(self, given: Given[Work], now: float) -> None:
        """Take the result of work that has ended; raises EnvironmentUnusable without scheduler."""
        status = given.future.status
        if status in ("cancelled", "lost"):
            raise scheduler_lost("it does not know this run any more")
        if status == "pending":
            if given.is_given_up(now):
                given.future.cancel()
                self.given.remove(given)
                self.give_up(given)
            return
        if status == "error":  # Dask's, or one that nobody foresaw
            cause = given.future.exception()
            self.given.remove(given)
            self.failed(given, EnvironmentUnusable(f"{type(cause).__name__}: {cause}"))
            return
        try:
            parcels = given.future.result(timeout=_FETCH_S)
        except TimeoutError:  # its worker has died since, and Dask has it done once more
            return
        self.given.remove(given)
        try:
            (facts, _), *attempts = map(unpacked, parcels)
            self.take(given, facts, attempts)
        except UsageError as error:
            refused = EnvironmentUnusable(f"What came back was refused: {error.message}")
            self.failed(given, refused)
        else:
            if facts["failed"] is not None:
                self.failed(given, failure_from(facts["failed"]))

    def give(
        self, work: Work, worker: str, task: Task, order: Order, *data: Any, **waits: float
    ) -> Given[Work]:
        """Submit a task with its order, for a worker alone."""
        future = self.link.client.submit(
            task, order.text(), *data, resources=self.device.resources_of(worker), pure=False
        )
        return Given(work, worker, self.workers[worker], future, **waits)

    def order_fields(self, plan: Plan, builds: Sequence[BuildResult]) -> Mapping[str, Any]:
        """What all orders have, for the cells of a plan."""
        loaded = self.request.loaded
        return {
            "run": self.link.run,
            "spec_text": loaded.text,
            "spec_path": path_from_here(loaded.path),
            "overrides": loaded.flags,
            "plan": plan,
            "builds": self.libraries.named(builds),
            "sources": source_hashes(loaded.experiment, loaded.base, plan.cells),
            "device": str(self.device),
            "quiet": self.link.local,
        }
