"""One search that workers measure: batches with the incumbent, each on one GPU.

The coordinator proposes and builds. As many batches are out as there are workers, and what is out
is not proposed again.
"""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from profiler.cluster.batch_task import EVALUATED, JOINED, LOOKED, RUNNER_ENDED
from profiler.cluster.device import Device, device_of, environment_from
from profiler.cluster.giving import GivenTask, Link
from profiler.cluster.job import Batch, path_from_here, searched_part
from profiler.cluster.libraries import LibraryShelf
from profiler.cluster.on_worker import failure_from
from profiler.cluster.tasks import measure_batch
from profiler.errors import EnvironmentUnusable, ProfilerError, UsageError
from profiler.model import BuildResult
from profiler.run_folder.documents import checked_dataclass
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.workers import name_no_gpu_of_several, note_texts_of_worker, worker_of
from profiler.search.live.records import Evaluated, WorkerJoined
from profiler.search.live.state import LiveSearch
from profiler.sessions.search.background_builds import BackgroundBuilds, Built
from profiler.sessions.search.loop import LOOK_EVERY, Budget, Lookahead, failed_build
from profiler.sessions.search.search import Search
from profiler.sessions.sources import source_hashes

BATCH = LOOK_EVERY
"""Configurations of a batch: so the incumbent is measured as often as in a search on one GPU."""
MOST_TRIES = 3
"""Batches in a row that may end without a word."""
_BUILD_POLL_S = 0.1
_QUIET_S = 1.0
_WORKERS_EVERY_S = 1.0


@dataclass
class BatchTask(GivenTask):
    """A batch that was given to the scheduler."""

    incumbent: str | None = None
    open: dict[str, Built] = field(default_factory=dict)
    """Candidates without a result, by variant id."""
    worker: str = ""
    """Name of the GPU that measures it, when that is known."""


@dataclass
class DeviceSearch:
    """Gives batches to workers, and what they send to the search."""

    link: Link
    device: Device
    run: RunFolder
    search: Search
    live: LiveSearch
    builds: BackgroundBuilds
    shelf: LibraryShelf
    finalists: tuple[str, ...] = ()
    """Variant ids, the best first; known when it is done."""
    is_done: bool = False
    _building: set[str] = field(default_factory=set)
    """Variants that are being built: proposals, and the incumbent of an earlier execution."""
    _ready: dict[str, Built] = field(default_factory=dict)
    """Proposals that are built and in no batch, by variant id, the oldest first."""
    _batches: dict[str, BatchTask] = field(default_factory=dict)
    _measured: dict[str, BuildResult] = field(default_factory=dict)
    """Builds of those that were measured, one of which is the incumbent."""
    _excluded: set[str] = field(default_factory=set)
    """Addresses of workers on which a batch failed."""
    _workers: tuple[str, ...] = ()
    """Addresses of the workers with the device, and when they were asked for."""
    _asked: float = -math.inf
    _silent_ends: int = 0
    _is_begun: bool = False

    @cached_property
    def _budget(self) -> Budget:
        return Budget(self.live, self.search.plan)

    @cached_property
    def _lookahead(self) -> Lookahead:
        return Lookahead(self.search.jobs, needs_builds=self.search.needs_builds)

    @property
    def give_every_s(self) -> float:
        """How long nothing may come before more is given."""
        return _BUILD_POLL_S if self._building else _QUIET_S

    # ---- giving ----

    def give(self) -> None:
        """Propose, have that built, and give batches to workers that have none."""
        if self.is_done:
            return
        if not self._is_begun:
            self._is_begun = True
            self._begin()
        self._take_builds()
        workers = self._usable_workers()
        self._propose(max(1, len(workers)))
        self._give_batches(workers)
        if not (self._building or self._ready or self._batches):
            self.finalists = self.live.finish()
            self.is_done = True
            self.search.report_end(len(self.finalists))

    def _begin(self) -> None:
        """Go on with what an earlier execution left without a result."""
        best = self.live.best()
        again = [*self.live.pending, *([] if best is None else [best.variant])]
        if not self._budget.is_spent or self.live.pending:
            self._build(again)

    def _build(self, variants: list[str]) -> None:
        self._building.update(variants)
        if variants:
            self.builds.submit([self.search.variants[variant] for variant in variants])

    def _take_builds(self) -> None:
        pending = set(self.live.pending)
        for variant, built in self.builds.take_built().items():
            self._building.discard(variant)
            if not built.result.ok and variant in pending:
                self._take_result(failed_build(built.result), built)
            elif variant in pending:
                self._ready[variant] = built
            elif built.result.ok:
                self._measured[variant] = built.result

    def _propose(self, workers: int) -> None:
        """Propose a batch for each worker, and what is built while these are measured."""
        ahead = self._lookahead.depth if self.search.needs_builds else 0
        out = len(self.live.pending)
        proposed: list[str] = []
        while out + len(proposed) < workers * BATCH + ahead and not self._budget.is_spent:
            proposed.append(self.live.propose())
        self._build(proposed)

    def _usable_workers(self) -> tuple[str, ...]:
        # Results come more often than workers.
        if time.monotonic() - self._asked > _WORKERS_EVERY_S:
            self._workers = tuple(self.link.addresses(self.device))
            self._asked = time.monotonic()
        return tuple(address for address in self._workers if address not in self._excluded)

    def _give_batches(self, workers: tuple[str, ...]) -> None:
        """Give whole batches; what is left at the end is shared out among those that are free."""
        while (idle := len(workers) - len(self._batches)) > 0 and self._ready:
            if len(self._ready) < BATCH and self._building:
                return
            size = min(BATCH, math.ceil(len(self._ready) / idle))
            candidates = {variant: self._ready.pop(variant) for variant in [*self._ready][:size]}
            self._submit(candidates, workers)

    def _submit(self, candidates: dict[str, Built], workers: tuple[str, ...]) -> None:
        search, terms = self.search, self.search.terms
        request, loaded = search.request, search.request.loaded
        best = self.live.best()
        incumbent = None if best is None else self._measured.get(best.variant)
        beside = [build for build in search.builds if build.variant == terms.baseline]
        beside += [] if incumbent is None else [incumbent]
        self.shelf.keep_only(beside)
        builds = self.shelf.sent([*beside, *(built.result for built in candidates.values())])
        shown = None if incumbent is None else incumbent.variant
        variants = [terms.baseline, *candidates, *([] if shown is None else [shown])]
        plan = searched_part(request.plan, variants, terms.problems)
        order = Batch(
            # Dask estimates what a task takes by the beginning of its name.
            task=f"measure_batch-{uuid.uuid4().hex}",
            queue=self.link.queue,
            spec_text=loaded.text,
            spec_path=path_from_here(loaded.path),
            overrides=loaded.flags,
            plan=plan,
            builds=builds,
            sources=source_hashes(loaded.experiment, loaded.base, plan.cells),
            device=str(self.device),
            quiet=self.link.local,
            search=terms.key,
            problems=terms.problems,
            objective=terms.objective,
            noise=self.live.noise(),
            baseline=terms.baseline,
            incumbent=shown,
            candidates=tuple(candidates),
        )
        future = self.link.client.submit(
            measure_batch,
            order.text(),
            self.shelf.futures(builds),
            key=order.task,
            resources=self.device.resources,
            pure=False,
            workers=list(workers) if self._excluded else None,
        )
        self._batches[order.task] = BatchTask(future, incumbent=shown, open=dict(candidates))

    # ---- taking ----

    def has(self, task: str) -> bool:
        """Whether a batch is one of this search and not given up."""
        return task in self._batches

    def take(
        self, key: str, address: str, document: Mapping[str, Any], files: Mapping[str, bytes]
    ) -> None:
        """Take a parcel of a batch; raises UsageError where it is not of what was asked for."""
        del files  # results are in the document
        batch = self._batches[key]
        if not batch.is_of_newest(document["execution"]):
            return
        kind = document["kind"]
        if kind == JOINED:
            batch.worker = self._joined(document)
        elif kind == LOOKED:
            ratios = {problem: tuple(row) for problem, row in document["log_ratios"].items()}
            self.live.take_look(str(batch.incumbent), ratios, batch.worker)
        elif kind == EVALUATED:
            self._take_evaluated(batch, document)
        elif kind == RUNNER_ENDED:
            self.live.note_runner_end(str(document["cause"]))
        elif document["failed"] is not None:
            self._failed(key, address, failure_from(document["failed"]))
        else:
            self._silent_ends = 0
            self._ready = {**self._batches.pop(key).open, **self._ready}

    def _joined(self, document: Mapping[str, Any]) -> str:
        environment = environment_from(document["environment"])
        if device_of(environment) != self.device:
            raise UsageError(f"it measured on {device_of(environment)}")
        note_texts_of_worker(self.run, document["texts"])
        worker = worker_of(self.run, environment, self.search.request.plan.seed)
        name_no_gpu_of_several(self.run)
        self.live.note_worker(WorkerJoined(worker.name, worker.gpu, worker.gpu_uuid))
        return worker.name

    def _take_evaluated(self, batch: BatchTask, document: Mapping[str, Any]) -> None:
        """Take the result of a candidate; the first one counts where a batch was begun twice."""
        text = json.dumps(document["result"]).encode()
        evaluated = checked_dataclass("a result of the search", text, Evaluated)
        built = batch.open.pop(evaluated.variant, None)
        if built is not None:
            self._measured[evaluated.variant] = built.result
            self._take_result(replace(evaluated, worker=batch.worker), built)

    def _take_result(self, evaluated: Evaluated, built: Built) -> None:
        elapsed_s = self._budget.elapsed_s
        self.live.take(replace(evaluated, build_s=built.seconds, elapsed_s=elapsed_s))
        self._lookahead.note(self.live.record.evaluations[-1])
        self.search.report(self.live, self.live.record.evaluations[-1])

    # ---- what goes wrong ----

    def refuse(self, key: str, address: str, error: UsageError) -> None:
        """Give a batch up whose parcel is not what was asked for; another worker gets it."""
        self._batches[key].future.cancel()
        refused = EnvironmentUnusable(f"What came back was refused: {error.message}")
        self._failed(key, address, refused)

    def _failed(self, key: str, address: str, error: ProfilerError) -> None:
        """Give what is open of a batch to other workers; raises its error where there is none."""
        self._ready = {**self._batches.pop(key).open, **self._ready}
        self._excluded.add(address)
        if not self._usable_workers():
            raise error
        self.search.reporter.warn(
            f"A batch failed on {address} (other workers get it): {error.message}"
        )

    def check_tasks(self) -> None:
        """Look for batches that ended without a word."""
        for key, batch in list(self._batches.items()):
            error = batch.silent_failure()
            if error is not None:
                self._silent_ends += 1
                if self._silent_ends >= MOST_TRIES:
                    raise error
                self.search.reporter.warn(f"A batch failed and is given again: {error.message}")
                self._ready = {**self._batches.pop(key).open, **self._ready}
