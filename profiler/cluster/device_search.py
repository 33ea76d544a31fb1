"""One search that workers measure: batches with the incumbent, each on one GPU.

The coordinator proposes and builds. As many batches are out as there are workers, and what is out
is not proposed again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from profiler.cluster.arrivals import Arrived
from profiler.cluster.device import device_of, environment_from
from profiler.cluster.giving import Given, Share
from profiler.cluster.job import Batch, searched_part
from profiler.cluster.tasks import measure_batch
from profiler.errors import ProfilerError, UsageError
from profiler.model import BuildResult
from profiler.run_folder.documents import checked_dataclass
from profiler.run_folder.workers import name_no_gpu_of_several, note_texts_of_worker, worker_of
from profiler.search.live.records import Evaluated, WorkerJoined
from profiler.search.live.state import LiveSearch
from profiler.sessions.search.background_builds import BackgroundBuilds, Built
from profiler.sessions.search.loop import LOOK_EVERY, Budget, Lookahead, failed_build
from profiler.sessions.search.search import Search

BATCH = LOOK_EVERY
"""Configurations of a batch: so the incumbent is measured as often as in a search on one GPU."""


@dataclass(eq=False)
class Candidates:
    """Configurations of a batch."""

    open: dict[str, Built]
    """Those without a result, by variant id."""
    incumbent: str | None = None


@dataclass(kw_only=True)
class DeviceSearch(Share[Candidates]):
    """Gives batches to workers, and what they send to the search."""

    search: Search
    live: LiveSearch
    builds: BackgroundBuilds
    finalists: tuple[str, ...] = ()
    """Variant ids, the best first; known when it is done."""
    _building: set[str] = field(default_factory=set)
    """Variants that are being built: proposals, and the incumbent of an earlier execution."""
    _ready: dict[str, Built] = field(default_factory=dict)
    """Proposals that are built and in no batch, by variant id, the oldest first."""
    _measured: dict[str, BuildResult] = field(default_factory=dict)
    """Builds of those that were measured, one of which is the incumbent."""
    _excluded: set[str] = field(default_factory=set)
    """Names of workers on which a batch failed."""
    _kept: dict[str, Any] = field(default_factory=dict)
    """Libraries that the next batch has as well; others are let go of with their batch."""

    @cached_property
    def _budget(self) -> Budget:
        return Budget(self.live, self.search.plan)

    @cached_property
    def _lookahead(self) -> Lookahead:
        return Lookahead(self.search.jobs, needs_builds=self.search.needs_builds)

    def measure(self) -> Iterator[None]:
        """Search until the budget is spent, from what an earlier execution left on."""
        best = self.live.best()
        if not self._budget.is_spent or self.live.pending:
            self._build([*self.live.pending, *([] if best is None else [best.variant])])
        yield from super().measure()
        self.finalists = self.live.finish()
        self.search.report_end(len(self.finalists))

    # ---- giving ----

    @property
    def _usable(self) -> list[str]:
        return [worker for worker in self.workers if worker not in self._excluded]

    def prepare(self) -> bool:
        """Take what is built, propose, and have that built."""
        self._take_builds()
        self._propose(max(1, len(self._usable)))
        return bool(self._building or self._ready) or not self._budget.is_spent

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

    def take_next(self, worker: str) -> Candidates | None:
        """A whole batch; what is left at the end is shared out among those that are free."""
        if worker in self._excluded or not self._ready:
            return None
        if len(self._ready) < BATCH and self._building:
            return None
        idle = max(1, len(self._usable) - len(self.given))
        size = min(BATCH, math.ceil(len(self._ready) / idle))
        return Candidates({id_: self._ready.pop(id_) for id_ in [*self._ready][:size]})

    def submit(self, work: Candidates, worker: str) -> None:
        """Give a batch to a worker, beside the baseline and the best so far."""
        search, terms = self.search, self.search.terms
        best = self.live.best()
        incumbent = None if best is None else self._measured.get(best.variant)
        work.incumbent = None if incumbent is None else incumbent.variant
        beside = [build for build in search.builds if build.variant == terms.baseline]
        beside += [] if incumbent is None else [incumbent]
        shown = [terms.baseline, *work.open, *([work.incumbent] if work.incumbent else [])]
        self.give(
            work,
            worker,
            measure_batch,
            Batch,
            plan=searched_part(search.request.plan, shown, terms.problems),
            builds=[*beside, *(built.result for built in work.open.values())],
            waits_s=(0.0, 0.0),
            search=terms.key,
            problems=terms.problems,
            objective=terms.objective,
            noise=self.live.noise(),
            baseline=terms.baseline,
            incumbent=work.incumbent,
            candidates=tuple(work.open),
        )
        self._kept = self.team.libraries.futures(build.library for build in beside)

    # ---- taking ----

    def take(
        self, given: Given[Candidates], facts: dict[str, Any], attempts: Sequence[Arrived]
    ) -> None:
        """Take the results of a batch; what it has none of is measured by another one."""
        del attempts  # a search has none
        work = given.work
        if "environment" in facts:
            worker = self._joined(facts)
            for cause in facts["ends"]:
                self.live.note_runner_end(str(cause))
            for ratios in facts["looks"]:
                looked = {problem: tuple(row) for problem, row in ratios.items()}
                self.live.take_look(str(work.incumbent), looked, worker)
            for result in facts["evaluated"]:
                text = json.dumps(result).encode()
                evaluated = checked_dataclass("a result of the search", text, Evaluated)
                built = work.open.pop(evaluated.variant)
                self._measured[evaluated.variant] = built.result
                self._take_result(replace(evaluated, worker=worker), built)
        if facts["failed"] is None:
            self.open_again(given, None)

    def _joined(self, facts: dict[str, Any]) -> str:
        """Name of the GPU that measured a batch."""
        environment = environment_from(facts["environment"])
        if device_of(environment) != self.team.device:
            raise UsageError(f"it measured on {device_of(environment)}")
        note_texts_of_worker(self.run, facts["texts"])
        worker = worker_of(self.run, environment, self.search.request.plan.seed)
        name_no_gpu_of_several(self.run)
        self.live.note_worker(WorkerJoined(worker.name, worker.gpu, worker.gpu_uuid))
        return worker.name

    def _take_result(self, evaluated: Evaluated, built: Built) -> None:
        elapsed_s = self._budget.elapsed_s
        self.live.take(replace(evaluated, build_s=built.seconds, elapsed_s=elapsed_s))
        self._lookahead.note(self.live.record.evaluations[-1])
        self.search.report(self.live, self.live.record.evaluations[-1])

    def open_again(self, given: Given[Candidates], error: ProfilerError | None) -> None:
        """Have other workers measure what is open of a batch, before all else.

        Raises the error where there is none.
        """
        self._ready = {**given.work.open, **self._ready}
        if error is None:
            return
        self._excluded.add(given.worker)
        if not self._usable:
            raise error
        self.team.reporter.warn(
            f"A batch failed on {given.address} (other workers get it): {error.message}"
        )
