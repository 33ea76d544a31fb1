"""One search that workers measure: batches with the incumbent, each on one GPU.

The coordinator proposes and builds. As many batches are out as there are workers, and what is out
is not proposed again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

from distributed import Future

from profiler.cluster.giving import Given, Share, WorkItem
from profiler.cluster.parcels import Batch, part_of
from profiler.errors import ProfilerError
from profiler.model import Environment
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.workers import worker_of
from profiler.search.journal import (
    Evaluated,
    LookedAgain,
    RunnerEnded,
    WorkerJoined,
    read_records,
)
from profiler.search.live_search import LiveSearch
from profiler.sessions.search.loop import (
    LOOK_EVERY,
    MOST_AHEAD,
    BackgroundBuilds,
    Built,
    SearchBudget,
    failed_build,
)
from profiler.sessions.search.search import ExperimentSearch

BATCH = LOOK_EVERY
"""Configurations of a batch: so the incumbent is measured as often as in a search on one GPU."""


@dataclass(kw_only=True)
class BatchShare(Share):
    """Gives batches to workers, and what they send to the search."""

    search: ExperimentSearch
    live: LiveSearch
    builds: BackgroundBuilds
    finalists: tuple[str, ...] = ()
    """Variant ids, the best first; known when it is done."""
    _building: set[str] = field(default_factory=set)
    """Variants that are being built: proposals, and the incumbent of an earlier execution."""
    _built: dict[str, Built] = field(default_factory=dict)
    """Whatever this execution built, by variant id."""
    _ready: list[str] = field(default_factory=list)
    """Proposals that are built and in no batch, the oldest first."""
    _excluded: set[str] = field(default_factory=set)
    """Names of workers on which a batch failed."""

    @cached_property
    def _budget(self) -> SearchBudget:
        return SearchBudget(self.live, self.search.plan)

    def measure(self) -> None:
        """Search until the budget is spent."""
        self.begin()
        super().measure()
        self.end()

    def begin(self) -> None:
        """Have built what an earlier execution left."""
        best = self.live.best()
        if not self._budget.is_spent or self.live.pending:
            self._build([*self.live.pending, *([] if best is None else [best.variant])])
        self.team.kept = self.team.libraries(self.search.builds)

    def end(self) -> None:
        """Find the finalists."""
        self.finalists = self.live.finish()
        self.search.report_end(len(self.finalists))

    # ---- giving ----

    @property
    def _usable(self) -> list[str]:
        return [worker for worker in self.workers if worker not in self._excluded]

    def prepare(self) -> bool:
        """Take what is built, propose a batch for each worker, and have that built."""
        pending = set(self.live.pending)
        for variant, built in self.builds.take_built().items():
            self._building.discard(variant)
            self._built[variant] = built
            if variant in pending and built.result.ok:
                self._ready.append(variant)
            elif variant in pending:
                self._take_result(failed_build(built.result))
        # A batch for each worker, and what is built while these are measured.
        ahead = min(self.search.jobs, MOST_AHEAD) if self.search.needs_builds else 0
        most = max(1, len(self._usable)) * BATCH + ahead
        self._build(self._budget.propose(most - len(self.live.pending)))
        return bool(self._building or self._ready) or not self._budget.is_spent

    def _build(self, variants: list[str]) -> None:
        self._building.update(variants)
        if variants:
            self.builds.submit([self.search.variants[variant] for variant in variants])

    def take_next(self, worker: str) -> WorkItem | None:
        """A whole batch; what is left at the end is shared out among those that are free."""
        if worker in self._excluded or not self._ready:
            return None
        if len(self._ready) < BATCH and self._building:
            return None
        idle = max(1, len(self._usable) - len(self.given))
        size = min(BATCH, math.ceil(len(self._ready) / idle))
        batch, self._ready = self._ready[:size], self._ready[size:]
        return WorkItem(batch)

    def submit(self, work: WorkItem, address: str) -> Future[None]:
        """Give a batch to the worker at an address, beside the baseline and the best so far."""
        search, terms, best = self.search, self.search.terms, self.live.best()
        incumbent = best.variant if best is not None and best.variant in self._built else None
        searched = [*([incumbent] if incumbent else []), *work.ids]
        return self.team.submit(
            address,
            part_of(search.request.plan, terms.problems, [terms.baseline, *searched]),
            [*search.builds, *(self._built[variant].result for variant in searched)],
            batch=Batch(
                terms=terms,
                noise=self.live.noise(),
                incumbent=incumbent,
                candidates=tuple(work.ids),
            ),
        )

    # ---- taking ----

    def take(self, given: Given, arrived: RunFolder, environment: Environment) -> None:
        """Take the journal of a batch; what it has no result of is measured by another worker."""
        journal = arrived.path / SEARCH_JOURNAL_FILE
        records = read_records(journal) if journal.exists() else ()
        seed = self.team.request.plan.seed
        worker = worker_of(self.team.run, arrived, environment, seed)
        self.live.note_worker(WorkerJoined(worker.name, worker.gpu, worker.gpu_uuid))
        for record in records:
            match record:
                case RunnerEnded(cause):
                    self.live.note_runner_end(cause)
                case LookedAgain(variant, log_ratios):
                    self.live.take_look(variant, log_ratios, worker.name)
                case Evaluated(variant) if variant in given.work.ids:
                    given.work.ids.remove(variant)
                    self._take_result(replace(record, worker=worker.name))

    def _take_result(self, evaluated: Evaluated) -> None:
        build_s, elapsed_s = self._built[evaluated.variant].seconds, self._budget.elapsed_s
        self.live.take(replace(evaluated, build_s=build_s, elapsed_s=elapsed_s))
        self.search.report(self.live, self.live.record.evaluations[-1])

    def put_back(self, given: Given) -> None:
        """Have other workers measure what is open of a batch, before all else."""
        self._ready = [*given.work.ids, *self._ready]

    def finish(self, given: Given, error: ProfilerError | None) -> None:
        """Have others do what a worker has no result of; it gets no further batch if it failed.

        Raises the error where there is no other one.
        """
        self.put_back(given)
        if error is None:
            return
        self._excluded.add(given.worker)
        if not self._usable:
            raise error
        self.team.reporter.warn(
            f"A batch failed on {given.address} (other workers get it): {error.message}"
        )
