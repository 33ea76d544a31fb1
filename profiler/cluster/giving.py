"""Pieces of work for workers, and their results: each GPU has one piece at a time."""

from __future__ import annotations

import json
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from distributed import Client, Future, Queue

from profiler.cluster import measure
from profiler.cluster.on_worker import device_among, require_device, resources_of
from profiler.cluster.parcels import (
    Parcel,
    SentSpec,
    TaskOrder,
    parcel_of,
    unpacked_run,
)
from profiler.errors import EnvironmentUnusable, ProfilerError, UsageError
from profiler.machine.signals import raise_if_signalled
from profiler.model import BuildResult, Environment, Plan, Span
from profiler.notices import first_names
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.workers import arrival_folder, worker_environments
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.sources import source_hashes, variables_now

_LOOK_EVERY_S = 1.0
"""Seconds between two queries of the scheduler for its workers and for parcels."""
_PAUSE_S = 0.02
"""Seconds between two looks at ended tasks."""
Libraries = dict[str, tuple[str, Future[bytes]]]
"""Path of a library → hash of its content, and the future by which workers get it."""
Homes = dict[str, tuple[Environment, Mapping[str, str]]]
"""Problem id → environment of the GPU whose attempts count, and the keys of its cells there; of
measured problems."""


@dataclass(eq=False)
class Team:
    """The workers of one device, and the run that they measure."""

    client: Client
    device: str
    reporter: ProgressReporter
    request: MeasureRequest
    """Request with the machine of a worker; after a search its plan has the finalists."""
    builds: Sequence[BuildResult] = ()
    stamped: Mapping[str, str] = field(default_factory=dict)
    """Variant id → path of its library with stamps."""
    kept_libraries: Libraries = field(default_factory=dict)
    """Libraries that stay at workers between tasks."""
    homes: Homes = field(default_factory=dict)
    failures: dict[str, ProfilerError] = field(default_factory=dict)
    """Problem → why no worker could measure it."""
    run: RunFolder = field(init=False)
    """Set when the run is found or begun."""

    @cached_property
    def queue(self) -> Queue:
        """Queue of the parcels of running tasks; its name is unique to this execution."""
        return Queue(client=self.client)

    def addresses(self) -> dict[str, str]:
        """Address of each connected worker by its name: the UUID of its GPU, if it has one.

        Raises EnvironmentUnusable where the scheduler is lost: Dask forgets it at once.
        """
        scheduler = self.client.scheduler_info(n_workers=-1)
        if "workers" not in scheduler:
            raise scheduler_loss_error("it is not known any more")
        return {
            str(facts["name"]): address
            for address, facts in scheduler["workers"].items()
            if device_among(facts["resources"]) == self.device
        }

    def libraries(self, builds: Sequence[BuildResult]) -> Libraries:
        """Libraries of builds, with stamps and without; a worker gets a library when it needs it.

        As the result of a task and not as scattered data: where the only worker with a library
        dies, the scheduler can make it again. It lasts as long as its future is referenced.
        """
        paths = filter(None, (*(build.library for build in builds), *self.stamped.values()))
        return {path: self.kept_libraries.get(path) or self._library(path) for path in paths}

    def _library(self, path: str) -> tuple[str, Future[bytes]]:
        digest, content = parcel_of(Path(path).read_bytes())
        return digest, self.client.submit(bytes, content, key=f"library-{digest}", pure=True)

    def submit(
        self,
        address: str,
        plan: Plan,
        builds: Sequence[BuildResult],
        *,
        earlier: Parcel | None = None,
        **fields: Any,
    ) -> Future[None]:
        """Future of a plan that is given to a worker, with the libraries of its builds."""
        loaded = self.request.loaded
        order = TaskOrder(
            run=self.queue.name,
            spec=SentSpec.of(loaded),
            plan=plan,
            builds=tuple(builds),
            stamped=self.stamped,
            sources=source_hashes(loaded.experiment, loaded.base, plan.cells),
            variables=variables_now(loaded.experiment, loaded.base),
            device=self.device,
            **fields,
        )
        return self.client.submit(
            measure,
            json.dumps(asdict(order)),
            self.libraries(builds),
            earlier,
            workers=[address],
            resources=resources_of(self.device),
            pure=False,
        )


@dataclass(eq=False)
class Piece:
    """Work that a worker has: problems to measure, cells to explain, or a batch of a search."""

    ids: list[str]
    """Ids of problems, or of the variants of a batch that have no result."""
    worker: str
    """Name of the worker and its GPU."""
    address: str = ""
    given_at_s: float = field(default_factory=time.monotonic)
    future: Future[None] | None = None
    """None while the piece waits for a worker that is gone."""
    waits_until: float | None = None
    """End of the wait for the worker, by the monotonic clock. None: the worker is connected."""
    refusal: ProfilerError | None = None
    """Why a parcel of the piece was refused."""
    names: dict[str, str] = field(default_factory=dict)
    """Name of an attempt at the worker → its name in the run folder."""
    spans: tuple[Span, ...] = ()
    """Spans of the worker's sessions."""

    def __str__(self) -> str:
        return first_names(self.ids, 1)


def as_profiler_error(cause: BaseException) -> ProfilerError:
    """A worker's error as a ProfilerError."""
    if isinstance(cause, ProfilerError):
        return cause
    if isinstance(cause, OSError) and cause.filename:  # a full disk
        return EnvironmentUnusable(f"{cause.filename}: {cause.strerror}")
    return EnvironmentUnusable(f"{type(cause).__name__}: {cause}")


def scheduler_loss_error(sign: str) -> EnvironmentUnusable:
    """Error of a run whose scheduler ended or was restarted; `sign`: how that was seen.

    A scheduler that ends cancels its tasks before it closes its connections: either may come first.
    """
    return EnvironmentUnusable(
        f"The connection to the scheduler was lost ({sign}).",
        remedy="When it is there again, run the same command: it goes on with what is missing.",
    )


@dataclass(kw_only=True)
class Share(ABC):
    """The work of one device, given to its workers in pieces: problems, or batches of a search."""

    team: Team
    open: list[str] = field(default_factory=list)
    """Ids of what no worker has, in the order in which it is given."""
    workers: dict[str, str] = field(default_factory=dict)
    """Address of each connected worker by its name."""
    given_pieces: list[Piece] = field(default_factory=list)
    _looked_at: float = -math.inf

    @abstractmethod
    def prepare(self) -> bool:
        """Update what is open; whether anything is left to give."""

    @abstractmethod
    def take_next(self, worker: str) -> list[str]:
        """Open ids for an idle worker, which are open no more; empty where it gets nothing now."""

    @abstractmethod
    def submit(self, piece: Piece) -> Future[None]:
        """Future of a piece that is given to its connected worker."""

    @abstractmethod
    def take(self, piece: Piece, arrived: RunFolder, environment: Environment) -> None:
        """Take the run folder of a piece, measured in an environment.

        Raises ProfilerError where it belongs to other work.
        """

    @abstractmethod
    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Handle the end of a piece, which may have failed with an error."""

    @abstractmethod
    def put_back(self, piece: Piece) -> None:
        """Give a piece that was lost with its worker to other workers."""

    def wait_s(self, piece: Piece) -> float:
        """Seconds to wait for the GPU of a piece whose worker is gone."""
        del piece
        return 0.0

    def measure(self) -> None:
        """Give pieces and take results until all work is done."""
        while self.advance():
            time.sleep(_PAUSE_S)
            raise_if_signalled()

    def advance(self) -> bool:
        """Take arrived results, and give pieces to idle workers; whether any work is left."""
        if time.monotonic() - self._looked_at > _LOOK_EVERY_S:
            self._look_at_workers()
        for piece in tuple(self.given_pieces):
            self._advance_piece(piece)
        is_left = self.prepare()
        for worker in self.workers.keys() - {piece.worker for piece in self.given_pieces}:
            if ids := self.take_next(worker):
                self.give(ids, worker)
        return is_left or bool(self.given_pieces)

    def give(self, ids: list[str], worker: str) -> None:
        """Give work to a worker, or wait for a worker that is gone."""
        piece = Piece(ids, worker)
        self.given_pieces.append(piece)
        self._submit_or_wait(piece)

    def _submit_or_wait(self, piece: Piece) -> None:
        """Give a piece to its connected worker, else wait for its GPU for a limited time."""
        if piece.worker in self.workers:
            piece.address = self.workers[piece.worker]
            piece.future = self.submit(piece)
            return
        now_s = time.monotonic()
        if piece.waits_until is None:
            wait_s = self.wait_s(piece)
            piece.waits_until = now_s + wait_s
            warning = f"{piece}: its worker is gone. Waiting for that GPU for {wait_s:.0f} s."
            if wait_s:
                self.team.reporter.warn(warning)
        if now_s >= piece.waits_until:
            self.given_pieces.remove(piece)
            self.put_back(piece)

    def _look_at_workers(self) -> None:
        """Update the connected workers, and take arrived parcels."""
        workers, is_first = self.team.addresses(), self._looked_at < 0
        if not workers and (self.workers or is_first):
            self.team.reporter.warn("No worker is left; waiting for one.")
        self.workers.clear()
        self.workers.update(workers)
        self._looked_at = time.monotonic()
        self._take_arrived_parcels()

    def _take_arrived_parcels(self) -> None:
        given_by_key = {piece.future.key: piece for piece in self.given_pieces if piece.future}
        for key, warnings, parcel in self.team.queue.get(batch=True):
            if key not in given_by_key:  # the piece was given up
                continue
            piece = given_by_key[key]
            for warning in warnings:
                self.team.reporter.warn(f"{piece}: {warning}")
            try:
                self._take_parcel(piece, parcel)
            except ProfilerError as refusal:
                piece.refusal = refusal

    def _take_parcel(self, piece: Piece, parcel: Parcel) -> None:
        """Take a parcel of a piece; raises ProfilerError where the parcel is refused."""
        with arrival_folder(self.team.run) as folder:
            arrived = unpacked_run(parcel, folder)
            environments = worker_environments(arrived)
            if not environments:
                raise UsageError("it does not say in what environment it was measured")
            require_device(environments[-1], self.team.device)
            self.take(piece, arrived, environments[-1])
            for spans in arrived.seconds():
                piece.spans = spans

    def _advance_piece(self, piece: Piece) -> None:
        """Finish a piece that has ended, or wait for its worker where that is gone.

        Raises EnvironmentUnusable where the scheduler is lost.
        """
        future = piece.future
        if future is None:
            self._submit_or_wait(piece)
        elif future.status in ("cancelled", "lost"):
            raise scheduler_loss_error("it does not know this run any more")
        elif future.status in ("finished", "error"):
            self._take_arrived_parcels()  # the parcels sent before the end
            self.given_pieces.remove(piece)
            self.finish(piece, _error_of(piece, future))
        elif self.workers.get(piece.worker) != piece.address:
            future.cancel()
            piece.future, piece.waits_until = None, None
            self._submit_or_wait(piece)


def _error_of(piece: Piece, future: Future[None]) -> ProfilerError | None:
    """Why an ended piece failed; None for a success."""
    if piece.refusal is not None:
        return EnvironmentUnusable(f"What came back was refused: {piece.refusal.message}")
    cause = future.exception()
    return None if cause is None else as_profiler_error(cause)
