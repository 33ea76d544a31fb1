"""Giving work to workers and taking what comes back: each GPU has one piece of it at a time."""

from __future__ import annotations

import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from distributed import Client, Future, Queue

from profiler.cluster.arrivals import Arrived
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


@dataclass(frozen=True)
class Team:
    """The workers with one device, and how a coordinator reaches them."""

    client: Client
    device: Device
    reporter: ProgressReporter
    local: bool
    """Whether workers have the terminal of the coordinator."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Id of this execution: a worker keeps what is of one execution only."""

    @cached_property
    def queue(self) -> Queue:
        """Attempts whose tasks have not ended yet."""
        return Queue(self.id, client=self.client)

    @cached_property
    def libraries(self) -> Libraries:
        """Libraries that were sent to them."""
        return Libraries(self.client)

    def addresses(self) -> dict[str, str]:
        """Address by name of the workers that are there: a UUID where it is a GPU."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {
            str(facts["name"]): address
            for address, facts in workers.items()
            if device_among(facts["resources"]) == str(self.device)
        }


@dataclass(eq=False)
class Given(Generic[Work]):
    """Work that one worker alone may do; Dask keeps it where that dies, until it is there again."""

    work: Work
    worker: str
    """Its name: that of its GPU."""
    address: str
    future: Future[list[Parcel]]
    waits_s: tuple[float, float] = (0.0, LONGEST_WAIT_S)
    """How long it is waited for at least and at most."""
    since: float = field(default_factory=time.monotonic)
    lost: float | None = None
    """When the worker was missed first."""
    taken: set[str] = field(default_factory=set)
    """Digests of the attempts that were taken before it ended."""

    def is_given_up(self, now: float) -> bool:
        """Whether its worker has been away longer than it is waited for."""
        return self.lost is not None and now - self.lost > self.patience_s

    @property
    def patience_s(self) -> float:
        """How long the worker is waited for: as long as it had measured."""
        measured_s = 0.0 if self.lost is None else self.lost - self.since
        shortest_s, longest_s = self.waits_s
        return min(max(measured_s, shortest_s), longest_s)


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

    team: Team
    run: RunFolder
    request: MeasureRequest
    workers: dict[str, str] = field(default_factory=dict)
    """Address by name of the workers that are there."""
    given: list[Given[Work]] = field(default_factory=list)
    seen: dict[str, float] = field(default_factory=dict)
    """When each was there last."""
    _looked: float = -math.inf

    @abstractmethod
    def prepare(self) -> bool:
        """Find out what may be given now; returns whether anything is left to give."""

    @abstractmethod
    def take_next(self, worker: str) -> Work | None:
        """The next work for a worker that has none; None where there is none for it now."""

    @abstractmethod
    def submit(self, work: Work, worker: str) -> None:
        """Give work to a worker."""

    @abstractmethod
    def take(self, given: Given[Work], facts: dict[str, Any], attempts: Sequence[Arrived]) -> None:
        """Take what came of work; raises UsageError where it is not what was asked for.

        Facts have `seconds` when the work has ended; attempts may come before.
        """

    @abstractmethod
    def open_again(self, given: Given[Work], error: ProfilerError | None) -> None:
        """Have another worker do work that failed with an error, or whose worker stays away."""

    def measure(self) -> Iterator[None]:
        """Have all work done; gives nothing whenever it can but wait."""
        while self.go_on():
            yield

    def go_on(self) -> bool:
        """Take what has come, and give work to workers that have none; whether any is left."""
        now = time.monotonic()
        if now - self._looked > _LOOK_EVERY_S:
            self._look(now)
        for given in tuple(self.given):
            self._take_if_ended(given, now)
        is_left = self.prepare()
        for worker in self.workers.keys() - {given.worker for given in self.given}:
            work = self.take_next(worker)
            if work is not None:
                self.submit(work, worker)
        return is_left or bool(self.given)

    def _look(self, now: float) -> None:
        workers = self.team.addresses()
        if not workers and (self.workers or self._looked < 0):
            self.team.reporter.warn("No worker is left; waiting for one.")
        self.workers, self._looked = workers, now
        self.seen |= dict.fromkeys(workers, now)
        given_by_key = {given.future.key: given for given in self.given}
        for key, parcels in self.team.queue.get(batch=True):
            if key in given_by_key:  # else it was given up
                with suppress(UsageError):  # as what comes in the end will be refused
                    self._take(given_by_key[key], parcels)
        for given in self.given:
            if given.worker in workers:
                given.lost = None
            elif given.lost is None:
                given.lost = now
                if given.patience_s:
                    self.team.reporter.warn(
                        f"{given.work}: its worker is gone. Waiting for that GPU for "
                        f"{given.patience_s:.0f} s."
                    )

    def _take_if_ended(self, given: Given[Work], now: float) -> None:
        """Take the result of work that has ended; raises EnvironmentUnusable without scheduler."""
        future = given.future
        if future.status in ("cancelled", "lost"):
            raise scheduler_lost("it does not know this run any more")
        error: ProfilerError | None = None
        try:
            if future.status == "error":  # Dask's, or one that nobody foresaw
                cause = future.exception()
                error = EnvironmentUnusable(f"{type(cause).__name__}: {cause}")
            elif future.status == "finished":
                facts = self._take(given, future.result(timeout=_FETCH_S))
                if facts["failed"] is None:
                    self.given.remove(given)
                    return
                error = failure_from(facts["failed"])
            elif given.is_given_up(now):
                future.cancel()
            else:
                return
        except TimeoutError:  # its worker has died since, and Dask has it done once more
            return
        except UsageError as refusal:
            error = EnvironmentUnusable(f"What came back was refused: {refusal.message}")
        self.given.remove(given)
        self.open_again(given, error)

    def _take(self, given: Given[Work], parcels: Sequence[Parcel]) -> dict[str, Any]:
        """Take what was not taken yet, and return the facts; raises UsageError as `take`."""
        first, *rest = parcels
        facts, _ = unpacked(first)
        rest = [parcel for parcel in rest if parcel["digest"] not in given.taken]
        self.take(given, facts, list(map(unpacked, rest)))
        given.taken.update(parcel["digest"] for parcel in rest)
        return facts

    def give(  # noqa: PLR0913 - what a task is made of
        self,
        work: Work,
        worker: str,
        task: Task,
        order: Callable[..., Order],
        *data: Any,
        plan: Plan,
        builds: Sequence[BuildResult],
        stamped: Mapping[str, str] | None = None,
        overrides: tuple[str, ...] = (),
        waits_s: tuple[float, float] = (0.0, LONGEST_WAIT_S),
        **fields: Any,
    ) -> None:
        """Submit a task with its order and the libraries that it needs, for a worker alone."""
        loaded, libraries = self.request.loaded, self.team.libraries
        paths = [*(build.library for build in builds), *(stamped or {}).values()]
        text = order(
            run=self.team.id,
            spec_text=loaded.text,
            spec_path=path_from_here(loaded.path),
            overrides=(*loaded.flags, *overrides),
            plan=plan,
            builds=tuple(
                replace(build, library=build.library and libraries.digest(build.library))
                for build in builds
            ),
            stamped={id_: libraries.digest(path) for id_, path in (stamped or {}).items()},
            sources=source_hashes(loaded.experiment, loaded.base, plan.cells),
            device=str(self.team.device),
            quiet=self.team.local,
            **fields,
        ).text()
        future = self.team.client.submit(
            task,
            text,
            libraries.futures(paths),
            *data,
            resources=self.team.device.resources_of(worker),
            pure=False,
        )
        self.given.append(Given(work, worker, self.workers[worker], future, waits_s))
