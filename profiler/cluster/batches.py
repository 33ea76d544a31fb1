"""A search on workers: batches with the incumbent, each on one GPU.

The coordinator proposes and builds. As many batches are out as there are workers, and their
proposals are not made again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from distributed import Future

from profiler.cluster.giving import Piece, Share
from profiler.cluster.parcels import Batch, plan_part
from profiler.errors import ProfilerError
from profiler.model import Environment
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.workers import worker_of
from profiler.search.journal import (
    Evaluated,
    RepeatedLook,
    RunnerEnded,
    WorkerJoined,
    read_records,
)
from profiler.sessions.search.proposals import LOOK_EVERY, MOST_AHEAD, Proposals, failed_build

BATCH = LOOK_EVERY
"""Configurations of a batch; the incumbent is measured as often as in a search on one GPU."""


@dataclass(kw_only=True)
class BatchShare(Share):
    """Gives batches to workers, and their results to the search."""

    proposals: Proposals
    finalists: tuple[str, ...] = ()
    """Variant ids, the best first; known when the search ends."""
    _excluded: set[str] = field(default_factory=set)
    """Names of workers on which a batch failed."""

    def measure(self) -> None:
        """Search until the budget is spent."""
        self.begin()
        super().measure()
        self.finalists = self.proposals.finish()

    def begin(self) -> None:
        """Submit the pending proposals and the best of an earlier execution to build."""
        live, best = self.proposals.live, self.proposals.live.best()
        if not self.proposals.is_spent or live.pending:
            self.proposals.build([*live.pending, *([] if best is None else [best.variant])])

    # ---- giving ----

    @property
    def _usable_workers(self) -> list[str]:
        return [worker for worker in self.workers if worker not in self._excluded]

    def prepare(self) -> bool:
        """Take finished builds, propose a batch for each worker, and submit it to build."""
        proposals, experiment = self.proposals, self.proposals.experiment
        pending = set(proposals.live.pending)  # the other build is the incumbent
        for variant, build in proposals.take_built().items():
            if variant in pending and build.ok:
                self.open.append(variant)
            elif variant in pending:
                proposals.take(failed_build(build))
        # A batch for each worker, and the builds meanwhile.
        ahead_count = min(experiment.jobs, MOST_AHEAD) if experiment.needs_builds else 0
        most = max(1, len(self._usable_workers)) * BATCH + ahead_count
        proposals.propose(most - len(proposals.live.pending))
        return bool(proposals.is_building or self.open) or not proposals.is_spent

    def take_next(self, worker: str) -> list[str]:
        """A whole batch; at the end the remaining proposals are divided among idle workers."""
        is_early = len(self.open) < BATCH and self.proposals.is_building
        if worker in self._excluded or is_early:
            return []
        idle = max(1, len(self._usable_workers) - len(self.given_pieces))
        size = min(BATCH, math.ceil(len(self.open) / idle))
        batch, self.open = self.open[:size], self.open[size:]
        return batch

    def submit(self, piece: Piece) -> Future[None]:
        """Give a batch to its worker, beside the baseline and the best so far."""
        experiment, built = self.proposals.experiment, self.proposals.built
        terms, best = experiment.terms, self.proposals.live.best()
        incumbent = best.variant if best is not None and best.variant in built else None
        searched = [*([incumbent] if incumbent else []), *piece.ids]
        return self.team.submit(
            piece.address,
            plan_part(experiment.request.plan, terms.problems, [terms.baseline, *searched]),
            [*self.team.builds, *(built[variant] for variant in searched)],
            batch=Batch(
                terms=terms,
                noise=self.proposals.live.noise,
                incumbent=incumbent,
                candidates=tuple(piece.ids),
            ),
        )

    # ---- taking ----

    def take(self, piece: Piece, arrived: RunFolder, environment: Environment) -> None:
        """Take the journal of a batch; proposals without a result go to another worker."""
        journal = arrived.path / SEARCH_JOURNAL_FILE
        records = read_records(journal) if journal.exists() else ()
        live, seed = self.proposals.live, self.team.request.plan.seed
        worker = worker_of(self.team.run, arrived, environment, seed)
        live.note_worker(WorkerJoined(worker.name, worker.gpu, worker.gpu_uuid))
        for record in records:
            match record:
                case RunnerEnded(cause):
                    live.note_runner_end(cause)
                case RepeatedLook(variant, log_ratios):
                    live.take_look(variant, log_ratios, worker.name)
                case Evaluated(variant) if variant in piece.ids:
                    piece.ids.remove(variant)
                    self.proposals.take(replace(record, worker=worker.name))

    def put_back(self, piece: Piece) -> None:
        """Give the open proposals of a batch to other workers, before other batches."""
        self.open[:0] = piece.ids

    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Put back proposals without a result; a worker that failed gets no further batch.

        Raises the error where there is no other worker.
        """
        self.put_back(piece)
        if error is None:
            return
        self._excluded.add(piece.worker)
        if not self._usable_workers:
            raise error
        self.team.reporter.warn(
            f"A batch failed on {piece.address} (other workers get it): {error.message}"
        )
