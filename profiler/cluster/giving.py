"""Giving work to workers and taking what comes back: each GPU has one piece of it at a time."""

from __future__ import annotations

import json
import math
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from distributed import Client, Future, Queue

from profiler.cluster.device import device_among, environment_from, resources_of
from profiler.cluster.order import Order, builds_of, path_from_here
from profiler.cluster.parcels import Parcel, content_hash, unpacked
from profiler.cluster.tasks import measure
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.model import BuildResult, Environment, Plan
from profiler.run_folder.folder import RunFolder
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.sources import source_hashes
from profiler.sessions.stopwatch import Stopwatch

_LOOK_EVERY_S = 1.0
"""How often the scheduler is asked which workers there are, and what came."""
LONGEST_WAIT_S = 120.0
"""How long work waits at most for the GPU that had begun it. Where it had measured less, no longer
than that: then it costs no more to begin on another GPU."""

NONE: Mapping[str, str] = MappingProxyType({})

Work = TypeVar("Work")


@dataclass(eq=False)
class Team:
    """The workers with one device, and the run that they measure."""

    client: Client
    device: str
    reporter: ProgressReporter
    local: bool
    """Whether workers have the terminal of the coordinator."""
    request: MeasureRequest
    """Its machine is one of the workers; its plan of the finalists, where these were searched."""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """Id of this execution: a worker keeps what is of one execution only."""
    kept: dict[str, tuple[str, Future[bytes]]] = field(default_factory=dict)
    """Libraries that stay at workers, by path: hash of the content, and its way to them."""
    watch: Stopwatch = field(default_factory=Stopwatch)
    failures: dict[str, ProfilerError] = field(default_factory=dict)
    """Problem → why no worker could measure it."""
    run: RunFolder = field(init=False)
    """Known when it is found or begun."""

    @cached_property
    def queue(self) -> Queue:
        """Queue of what tasks sent before they ended."""
        return Queue(self.id, client=self.client)

    def addresses(self) -> dict[str, str]:
        """Address by name of the workers that are there: a UUID where it is a GPU."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {
            str(facts["name"]): address
            for address, facts in workers.items()
            if device_among(facts["resources"]) == self.device
        }

    def library(self, path: str) -> tuple[str, Future[bytes]]:
        """Hash of a library's content, and its way to workers: each gets it when it needs it first.

        As the result of a task and not as scattered data: where the only worker that has one dies,
        the scheduler still knows how to make it again. It is there as long as somebody has it.
        """
        if path in self.kept:
            return self.kept[path]
        content = Path(path).read_bytes()
        digest = content_hash(content)
        return digest, self.client.submit(bytes, content, key=f"library-{digest}", pure=True)

    def keep(self, builds: Sequence[BuildResult], stamped: Mapping[str, str] = NONE) -> None:
        """Have libraries stay at workers in place of those that did so far."""
        paths = (*(build.library for build in builds), *stamped.values())
        self.kept = {path: self.library(path) for path in paths if path is not None}


@dataclass(frozen=True)
class Arrived:
    """Files that came of work: an attempt, or the journal of a batch."""

    environment: Environment
    """That they were measured in."""
    facts: Mapping[str, Any]
    """What the worker says of them."""
    files: Mapping[str, bytes]


@dataclass(eq=False)
class Given(Generic[Work]):
    """Work that one worker alone may do; Dask keeps it where that dies, until it is there again."""

    work: Work
    worker: str
    """Its name: that of its GPU."""
    address: str
    future: Future[None]
    longest_wait_s: float = LONGEST_WAIT_S
    since: float = field(default_factory=time.monotonic)
    lost: float | None = None
    """When the worker was missed first."""
    taken: set[str] = field(default_factory=set)
    """Hashes of what was taken: a worker that was started again sends what lies there again."""
    refusal: ProfilerError | None = None
    """Why something that it sent was refused."""
    end: Mapping[str, Any] = field(default_factory=dict)
    """What it sent at its end."""

    def is_given_up(self, now: float) -> bool:
        """Whether its worker has been away longer than it is waited for."""
        return self.lost is not None and now - self.lost > self.patience_s

    @property
    def patience_s(self) -> float:
        """How long the worker is waited for: as long as it had measured."""
        return 0.0 if self.lost is None else min(self.lost - self.since, self.longest_wait_s)

    def error(self) -> ProfilerError | None:
        """Why work that has ended failed; None where it did not."""
        if self.refusal is not None:
            return EnvironmentUnusable(f"What came back was refused: {self.refusal.message}")
        cause = self.future.exception()
        return None if cause is None else as_profiler_error(cause)


def as_profiler_error(cause: BaseException) -> ProfilerError:
    """The error of a worker: its own, or one of this program for whatever else went wrong there."""
    if isinstance(cause, ProfilerError):
        return cause
    if isinstance(cause, OSError) and cause.filename:  # a full disk
        return EnvironmentUnusable(f"{cause.filename}: {cause.strerror}")
    return EnvironmentUnusable(f"{type(cause).__name__}: {cause}")


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
    workers: dict[str, str] = field(default_factory=dict)
    """Address by name of the workers that are there."""
    given: list[Given[Work]] = field(default_factory=list)
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
    def take(self, given: Given[Work], came: Arrived) -> None:
        """Take files that came of work; raises ProfilerError where they are of something else."""

    @abstractmethod
    def open_again(self, given: Given[Work], error: ProfilerError | None) -> None:
        """Have another worker do what is left of work that ended, or whose worker stays away."""

    def finish(self, given: Given[Work], error: ProfilerError | None) -> None:
        """Take the end of work, which may have failed with an error."""
        self.open_again(given, error)

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
        workers, warn = self.team.addresses(), self.team.reporter.warn
        if not workers and (self.workers or self._looked < 0):
            warn("No worker is left; waiting for one.")
        self.workers, self._looked = workers, now
        self._take_what_came()
        for given in self.given:
            if given.worker in workers:
                given.lost = None
            elif given.lost is None:
                given.lost = now
                if wait_s := given.patience_s:
                    gone = f"{given.work}: its worker is gone."
                    warn(f"{gone} Waiting for that GPU for {wait_s:.0f} s.")

    def _take_what_came(self) -> None:
        given_by_key = {given.future.key: given for given in self.given}
        for key, parcel in self.team.queue.get(batch=True):
            if key not in given_by_key:  # it was given up
                continue
            given = given_by_key[key]
            try:
                facts, files = unpacked(parcel)
                digest = content_hash(b"".join(files.values()))
                if not files:
                    given.end = facts
                elif digest not in given.taken:
                    environment = environment_from(facts, self.team.device)
                    self.take(given, Arrived(environment, facts, files))
                    given.taken.add(digest)
            except ProfilerError as refusal:
                given.refusal = refusal

    def _take_if_ended(self, given: Given[Work], now: float) -> None:
        """Take the end of work; raises EnvironmentUnusable where the scheduler is lost."""
        status = given.future.status
        if status in ("cancelled", "lost"):
            raise scheduler_lost("it does not know this run any more")
        if status in ("finished", "error"):
            self._take_what_came()  # before it ended
            self.given.remove(given)
            self.finish(given, given.error())
        elif given.is_given_up(now):
            given.future.cancel()
            self.given.remove(given)
            self.open_again(given, None)

    def give(  # noqa: PLR0913 - what a task is made of
        self,
        work: Work,
        worker: str,
        *,
        plan: Plan,
        builds: Sequence[BuildResult],
        longest_wait_s: float = LONGEST_WAIT_S,
        earlier: Sequence[Parcel] = (),
        stamped: Mapping[str, str] = NONE,
        overrides: tuple[str, ...] = (),
        **fields: Any,
    ) -> None:
        """Submit an order for a worker alone, with the libraries of the variants of its plan."""
        loaded, team = self.team.request.loaded, self.team
        variants = {variant.id for variant in plan.variants}
        builds = builds_of(plan, builds)
        stamped = {id_: path for id_, path in stamped.items() if id_ in variants}
        needed = filter(None, (*(build.library for build in builds), *stamped.values()))
        libraries = {path: team.library(path) for path in needed}
        order = Order(
            run=team.id,
            spec_text=loaded.text,
            spec_path=path_from_here(loaded.path),
            overrides=(*loaded.flags, *overrides),
            plan=plan,
            builds=tuple(
                replace(build, library=build.library and libraries[build.library][0])
                for build in builds
            ),
            stamped={id_: libraries[path][0] for id_, path in stamped.items()},
            sources=source_hashes(loaded.experiment, loaded.base, plan.cells),
            device=team.device,
            quiet=team.local,
            **fields,
        )
        future = team.client.submit(
            measure,
            json.dumps(asdict(order)),
            dict(libraries.values()),
            earlier,
            resources=resources_of(team.device, worker),
            pure=False,
        )
        self.given.append(Given(work, worker, self.workers[worker], future, longest_wait_s))
