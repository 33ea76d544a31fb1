"""Giving work to workers and taking what comes back: each GPU has one piece of it at a time."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from distributed import Client, Future, Queue

from profiler.cluster import measure
from profiler.cluster.on_worker import device_among, require_device, resources_of
from profiler.cluster.parcels import (
    Parcel,
    TaskOrder,
    content_hash,
    path_from_here,
    unpacked,
)
from profiler.errors import EnvironmentUnusable, ProfilerError, UsageError
from profiler.machine.signals import raise_if_signalled
from profiler.model import BuildResult, Environment, Plan, Span
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.workers import arrival_folder, worker_environments
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.sources import source_hashes, variables_now

_LOOK_EVERY_S = 1.0
"""How often the scheduler is asked which workers there are, and what came."""
_PAUSE_S = 0.02
"""Between two looks at what has ended."""
_NONE: Mapping[str, str] = MappingProxyType({})
Libraries = dict[str, tuple[str, Future[bytes]]]
"""Path of a library → hash of its content, and its way to workers."""


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
    kept: Libraries = field(default_factory=dict)
    """Libraries that stay at workers between tasks."""
    failures: dict[str, ProfilerError] = field(default_factory=dict)
    """Problem → why no worker could measure it."""
    run: RunFolder = field(init=False)
    """Known when it is found or begun."""

    @cached_property
    def queue(self) -> Queue:
        """Queue of what tasks sent before they ended; its name is of this execution alone."""
        return Queue(client=self.client)

    def addresses(self) -> dict[str, str]:
        """Address by name of the workers that are there: a UUID where it is a GPU.

        Raises EnvironmentUnusable where the scheduler is lost: Dask forgets it at once.
        """
        scheduler = self.client.scheduler_info(n_workers=-1)
        if "workers" not in scheduler:
            raise scheduler_lost("it is not known any more")
        return {
            str(facts["name"]): address
            for address, facts in scheduler["workers"].items()
            if device_among(facts["resources"]) == self.device
        }

    def libraries(
        self, builds: Sequence[BuildResult], stamped: Mapping[str, str] = _NONE
    ) -> Libraries:
        """Libraries of builds, with stamps and without; each worker gets one when it needs it.

        As the result of a task and not as scattered data: where the only worker that has one dies,
        the scheduler still knows how to make it again. It is there as long as somebody has it.
        """
        paths = filter(None, (*(build.library for build in builds), *stamped.values()))
        return {path: self.kept.get(path) or self._library(path) for path in paths}

    def _library(self, path: str) -> tuple[str, Future[bytes]]:
        content = Path(path).read_bytes()
        digest = content_hash(content)
        return digest, self.client.submit(bytes, content, key=f"library-{digest}", pure=True)

    def submit(  # noqa: PLR0913 - what a task is made of
        self,
        address: str,
        plan: Plan,
        builds: Sequence[BuildResult],
        stamped: Mapping[str, str] = _NONE,
        *,
        earlier: Parcel | None = None,
        overrides: tuple[str, ...] = (),
        **fields: Any,
    ) -> Future[None]:
        """Give a plan to the worker at an address, with the libraries of its builds."""
        loaded, libraries = self.request.loaded, self.libraries(builds, stamped)
        hashes = {path: digest for path, (digest, _) in libraries.items()}
        order = TaskOrder(
            run=self.queue.name,
            spec_text=loaded.text,
            spec_path=path_from_here(loaded.path),
            overrides=(*loaded.flags, *overrides),
            plan=plan,
            builds=tuple(replace(b, library=b.library and hashes[b.library]) for b in builds),
            stamped={variant: hashes[path] for variant, path in stamped.items()},
            sources=source_hashes(loaded.experiment, loaded.base, plan.cells),
            variables=variables_now(loaded.experiment, loaded.base),
            device=self.device,
            quiet=self.local,
            **fields,
        )
        return self.client.submit(
            measure,
            json.dumps(asdict(order)),
            dict(libraries.values()),
            earlier,
            workers=[address],
            resources=resources_of(self.device),
            pure=False,
        )


@dataclass(eq=False)
class Piece:
    """Problems to measure, cells of them to explain, or a batch of a search: for one worker."""

    ids: list[str]
    """Ids of problems, or of the variants of a batch that have no result."""
    home: str | None = None
    """Name of the worker that has begun it: no other one may take it. None: any may."""
    failed_on: dict[str, ProfilerError] = field(default_factory=dict)
    """Why it failed, by the name of the worker on which it did."""
    # Of the worker that has it:
    worker: str = ""
    """Its name: that of its GPU."""
    address: str = ""
    since: float = field(default_factory=time.monotonic)
    future: Future[None] | None = None
    """None: its worker is gone, and waited for."""
    waits_until: float | None = None
    """How long it is waited for, by the monotonic clock. None: it is not known to be gone."""
    refusal: ProfilerError | None = None
    """Why something that it sent was refused."""
    names: dict[str, str] = field(default_factory=dict)
    """Name of an attempt at the worker → its name in the run folder."""
    taken: set[str] = field(default_factory=set)
    """Hashes of attempts that came: a worker that was started again sends what lies there again."""
    spans: tuple[Span, ...] = ()
    """Seconds of the worker."""

    def __str__(self) -> str:
        more = f" and {len(self.ids) - 1} more" if len(self.ids) > 1 else ""
        return f"{self.ids[0]}{more}"


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
class Share(ABC):
    """The work of one device, given to its workers in pieces: problems, or batches of a search."""

    team: Team
    workers: dict[str, str] = field(default_factory=dict)
    """Address by name of the workers that are there."""
    given: list[Piece] = field(default_factory=list)
    _looked: float = -math.inf

    @abstractmethod
    def prepare(self) -> bool:
        """Find out what may be given now; returns whether anything is left to give."""

    @abstractmethod
    def take_next(self, worker: str) -> Piece | None:
        """The next piece for a worker that has none; None where there is none for it now."""

    @abstractmethod
    def submit(self, piece: Piece) -> Future[None]:
        """Give a piece to its worker, which is there."""

    @abstractmethod
    def take(self, piece: Piece, arrived: RunFolder, environment: Environment) -> None:
        """Take the run folder of a piece, measured in an environment.

        Raises ProfilerError where it is of something else.
        """

    @abstractmethod
    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Take the end of a piece, which may have failed with an error."""

    @abstractmethod
    def put_back(self, piece: Piece) -> None:
        """Have others do a piece that was lost with its worker."""

    def wait_s(self, piece: Piece) -> float:
        """How long to wait for the GPU of a piece whose worker is gone, in seconds."""
        del piece
        return 0.0

    def measure(self) -> None:
        """Have all work done."""
        while self.go_on():
            time.sleep(_PAUSE_S)
            raise_if_signalled()

    def go_on(self) -> bool:
        """Take what has come, and give work to workers that have none; whether any is left."""
        if time.monotonic() - self._looked > _LOOK_EVERY_S:
            self._look()
        for piece in tuple(self.given):
            self._go_on_with(piece)
        is_left = self.prepare()
        for worker in self.workers.keys() - {piece.worker for piece in self.given}:
            if next_piece := self.take_next(worker):
                self.give(next_piece, worker)
        return is_left or bool(self.given)

    def give(self, piece: Piece, worker: str) -> None:
        """Give a piece to a worker, or wait for one that is gone."""
        piece.worker, piece.since = worker, time.monotonic()
        self.given.append(piece)
        self._submit_or_wait(piece)

    def _submit_or_wait(self, piece: Piece) -> None:
        """Give a piece to its worker that is there; else wait for its GPU, but not for ever."""
        if piece.worker in self.workers:
            piece.address = self.workers[piece.worker]
            piece.future = self.submit(piece)
            return
        now = time.monotonic()
        if piece.waits_until is None:
            wait_s = self.wait_s(piece)
            piece.waits_until = now + wait_s
            gone = f"{piece}: its worker is gone. Waiting for that GPU for {wait_s:.0f} s."
            if wait_s:
                self.team.reporter.warn(gone)
        if now >= piece.waits_until:
            self.given.remove(piece)
            self.put_back(piece)

    def _look(self) -> None:
        """See which workers there are, and what came."""
        workers, is_first = self.team.addresses(), self._looked < 0
        if not workers and (self.workers or is_first):
            self.team.reporter.warn("No worker is left; waiting for one.")
        self.workers.clear()
        self.workers.update(workers)
        self._looked = time.monotonic()
        self._take_what_came()

    def _take_what_came(self) -> None:
        given_by_key = {piece.future.key: piece for piece in self.given if piece.future}
        for key, warnings, parcel in self.team.queue.get(batch=True):
            if key not in given_by_key:  # it was given up
                continue
            piece = given_by_key[key]
            for warning in warnings:
                self.team.reporter.warn(f"{piece}: {warning}")
            try:
                self._take_parcel(piece, parcel)
            except ProfilerError as refusal:
                piece.refusal = refusal

    def _take_parcel(self, piece: Piece, parcel: Parcel) -> None:
        """Take what a worker sent of a piece; raises ProfilerError where that is refused."""
        with arrival_folder(self.team.run) as folder:
            arrived = unpacked(parcel, folder)
            environments = worker_environments(arrived)
            if not environments:
                raise UsageError("it does not say in what environment it was measured")
            require_device(environments[-1], self.team.device)
            self.take(piece, arrived, environments[-1])
            for spans in arrived.seconds():
                piece.spans = spans

    def _go_on_with(self, piece: Piece) -> None:
        """Take a piece that has ended, and see whether its worker is there.

        Raises EnvironmentUnusable where the scheduler is lost.
        """
        future = piece.future
        if future is None:
            self._submit_or_wait(piece)
        elif future.status in ("cancelled", "lost"):
            raise scheduler_lost("it does not know this run any more")
        elif future.status in ("finished", "error"):
            self._take_what_came()  # before it ended
            self.given.remove(piece)
            self.finish(piece, _error_of(piece, future))
        elif self.workers.get(piece.worker) != piece.address:
            future.cancel()
            piece.future, piece.waits_until = None, None
            self._submit_or_wait(piece)


def _error_of(piece: Piece, future: Future[None]) -> ProfilerError | None:
    """Why a piece that has ended failed; None where it did not."""
    if piece.refusal is not None:
        return EnvironmentUnusable(f"What came back was refused: {piece.refusal.message}")
    cause = future.exception()
    return None if cause is None else as_profiler_error(cause)
