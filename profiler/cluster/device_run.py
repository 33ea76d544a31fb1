"""One run that workers measure: all problems on GPUs of one model with one driver."""

from __future__ import annotations

import math
import time
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from profiler.cluster.arrivals import Arrivals
from profiler.cluster.device import Device
from profiler.cluster.giving import GivenTask, Link
from profiler.cluster.job import (
    WITHOUT_EXPLANATIONS,
    Job,
    builds_of,
    part_of,
    path_from_here,
    spec_of_text,
)
from profiler.cluster.libraries import Libraries
from profiler.cluster.on_worker import failure_from
from profiler.cluster.parcels import Parcel, files_of, packed
from profiler.cluster.problem_task import ATTEMPT, BEGUN, GIVEN_BACK
from profiler.cluster.tasks import measure_problem
from profiler.errors import EnvironmentUnusable, ProfilerError, UsageError
from profiler.model import Environment, Params, Span
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.seconds import Seconds
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.missing import cells_to_explain, is_measured
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.sources import source_hashes

MOST_TRIES = 3
"""Times that a problem is begun whose task ends in a way that names no worker."""
_QUIET_S = 1.0
SHORTEST_WAIT_S = 20.0
"""How long cells that nobody else can explain wait for their GPU: a worker that dies while it
explains is started again within seconds, at another address."""
LONGEST_WAIT_S = 120.0
"""How long a problem waits at most for the GPU that had begun it. Where it had measured less, no
longer than that: then it costs no more to begin on another GPU."""


@dataclass
class Begun:
    """A worker that has begun a problem, for whose return it waits where it dies."""

    worker: str
    """Its name: that of its GPU."""
    since: float
    lost: float | None = None
    """When it was missed first."""

    def is_given_up(self, now: float) -> bool:
        """Whether it has been away longer than it is waited for."""
        return self.lost is not None and now - self.lost > self.patience_s

    @property
    def patience_s(self) -> float:
        """How long it is waited for: as long as it had measured."""
        measured_s = 0.0 if self.lost is None else self.lost - self.since
        return min(measured_s, LONGEST_WAIT_S)


@dataclass
class Task(GivenTask):
    """A problem that was given to the scheduler."""

    problem: str = field(kw_only=True)
    explain: str | None = None
    workers: tuple[str, ...] = ()
    """Addresses of those that alone may take it; empty: any may."""
    failed_on: tuple[str, ...] = ()
    """Addresses of workers on which it failed."""
    tries: int = 1
    begun: Begun | None = None
    """Who has begun the problem, where somebody has."""
    waits: bool = False
    """Whether only the worker that has begun it may take it."""
    names: dict[str, str] = field(default_factory=dict)
    """Name of an attempt at the worker of the newest execution → its name in the run folder."""

    def is_of_newest(self, execution: str) -> bool:
        """Whether a parcel counts; attempts of another execution may have the same names."""
        if execution not in self.executions:
            self.names = {}
        return super().is_of_newest(execution)


@dataclass
class DeviceRun:
    """Gives problems to workers, and takes what they send into one run folder."""

    link: Link
    device: Device
    run: RunFolder
    request: MeasureRequest
    """Request for all problems; its machine is one of the workers."""
    libraries: Libraries
    owners: dict[str, Environment]
    """Problem → environment of the GPU whose attempts at it count."""
    keys: dict[str, str]
    """Cell id → key, of the problems with an owner."""
    reporter: ProgressReporter
    seconds: SecondsRecorder
    failures: dict[str, ProfilerError] = field(default_factory=dict)
    """Problem → why no worker could measure it."""
    _tasks: dict[str, Task] = field(default_factory=dict)
    _took: Seconds = field(default_factory=Seconds)
    _done: int = 0
    _is_given: bool = False
    _explaining: bool = False

    @cached_property
    def _arrivals(self) -> Arrivals:
        return Arrivals(self.run, self.request, self.libraries.builds)

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way any more."""
        return self._is_given and not self._tasks

    @property
    def give_every_s(self) -> float:
        """How long nothing may come before more is given: here all is given at once."""
        return _QUIET_S

    def give(self) -> None:
        """Give every problem of which something is missing to the scheduler, the first time."""
        if self._is_given:
            return
        self._is_given = True
        self._took = self.run.seconds()
        reader = AttemptReader()
        for problem in self._problems:
            if self._is_measured(problem, reader):
                self._done += 1
                self.reporter.say(f"{problem}: nothing is missing.")
            else:
                self._submit(problem)
        self._explain_where_all_is_measured()

    @property
    def _problems(self) -> list[str]:
        return [problem.id for problem in self.request.plan.problems]

    def _is_measured(self, problem: str, reader: AttemptReader) -> bool:
        """Whether nothing but explanations is missing of a problem, on whichever GPU it was."""
        owner = self.owners.get(problem)
        if owner is None:
            return False
        plan = part_of(self.request.plan, problem)
        machine = replace(self.request.machine, environment=owner)
        request = replace(
            self.request,
            plan=plan,
            machine=machine,
            loaded=self._without_explanations,
            explain=None,  # what it names may be of other problems
        )
        return is_measured(
            self.run,
            request,
            builds=builds_of(plan, self.libraries.builds),
            keys=self.keys,
            stamped=self.libraries.stamped,
            reader=reader,
        )

    @cached_property
    def _without_explanations(self) -> LoadedSpec:
        loaded = self.request.loaded
        return spec_of_text(loaded.path, loaded.text, (*loaded.flags, WITHOUT_EXPLANATIONS))

    # ---- giving ----

    def _submit(
        self,
        problem: str,
        *,
        explain: str | None = None,
        failed_on: tuple[str, ...] = (),
        tries: int = 1,
        begun: Begun | None = None,
    ) -> None:
        plan, loaded = part_of(self.request.plan, problem), self.request.loaded
        builds = self.libraries.sent_builds(builds_of(plan, self.libraries.builds))
        job = Job(
            # Dask estimates what a task takes by the beginning of its name.
            task=f"measure_problem-{uuid.uuid4().hex}",
            queue=self.link.queue,
            problem=problem,
            spec_text=loaded.text,
            spec_path=path_from_here(loaded.path),
            overrides=loaded.flags if explain else (*loaded.flags, WITHOUT_EXPLANATIONS),
            plan=plan,
            builds=builds,
            stamped=self.libraries.sent_stamped(plan),
            sources=source_hashes(loaded.experiment, loaded.base, plan.cells),
            device=str(self.device),
            timeline=self.request.timeline and explain is None,
            explain=explain,
            quiet=self.link.local,
        )
        preferred, workers = self._placement(problem, explain, failed_on, begun)
        future = self.link.client.submit(
            measure_problem,
            job.text(),
            self.libraries.futures(job),
            self._earlier(problem),
            key=job.task,
            resources=self.device.resources_of(begun.worker) if begun else self.device.resources,
            priority=self._priorities[problem],
            pure=False,
            workers=list(workers or preferred) or None,
            allow_other_workers=bool(preferred) and not workers,
        )
        self._tasks[job.task] = Task(
            future,
            problem=problem,
            explain=explain,
            workers=workers,
            failed_on=failed_on,
            tries=tries,
            begun=begun,
            waits=begun is not None,
        )

    @cached_property
    def _priorities(self) -> dict[str, int]:
        """Rank by problem, the one that takes longest highest: what is last should be short."""
        cells = Counter(cell.problem.id for cell in self.request.plan.cells)
        ordered = sorted(
            self.request.plan.problems,
            key=lambda problem: (cells[problem.id], _size(problem.params)),
        )
        return {problem.id: rank for rank, problem in enumerate(ordered)}

    def _placement(
        self,
        problem: str,
        explain: str | None,
        failed_on: tuple[str, ...],
        begun: Begun | None,
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Addresses of workers that should take a task, and of those that alone may (empty: any).

        A problem goes on where it was begun, and is explained nowhere else. Dask tries a task again
        that a dead worker had; of one that failed, by a full disk for example, it knows nothing, so
        the others are named here.
        """
        if begun is not None:  # its resources name the worker, also where that has no address yet
            return (), ()
        owner, names = self.owners.get(problem), self.link.addresses(self.device)
        left = {address: name for address, name in names.items() if address not in failed_on}
        begun_by = tuple(
            address
            for address, name in left.items()
            if owner is not None and name == owner.gpu_uuid
        )
        if explain is not None:
            return (), begun_by
        return begun_by, tuple(left) if failed_on else ()

    def _earlier(self, problem: str) -> list[Parcel]:
        """Attempts at a problem whose keys are those of today."""
        cells = {cell.id for cell in self.request.plan.cells if cell.problem.id == problem}
        return [
            packed({"attempt": attempt.folder.name}, files_of(attempt.folder))
            for attempt in self.run.attempts()
            if any(
                self.keys.get(cell) == key
                for cell, key in attempt.record.keys.items()
                if cell in cells
            )
        ]

    # ---- taking ----

    def has(self, task: str) -> bool:
        """Whether a task is one of this run and not given up."""
        return task in self._tasks

    def take(
        self, key: str, address: str, document: Mapping[str, Any], files: Mapping[str, bytes]
    ) -> None:
        """Take a parcel of one of its tasks, from the worker at an address.

        Raises UsageError as `Arrivals.take`.
        """
        task = self._tasks[key]
        if not task.is_of_newest(document["execution"]):
            return
        kind = document["kind"]
        if kind == BEGUN:
            if task.begun is None:
                task.begun = Begun(document["worker"], time.monotonic())
            task.begun.lost = None
        elif kind == GIVEN_BACK:
            self._wait_for_return(key)
        elif kind == ATTEMPT:
            self._take_attempt(task, document, files)
        elif document["failed"] is not None:
            self._failed(key, failure_from(document["failed"]), address)
        else:
            self._finished(key, task, document)

    def refuse(self, key: str, address: str, error: UsageError) -> None:
        """Give a task up whose parcel is not what was sent or asked for; another worker gets it.

        Raises the error where the task is done already: then it is of what followed.
        """
        if key not in self._tasks:
            raise error
        self._tasks[key].future.cancel()
        refused = EnvironmentUnusable(f"What came back was refused: {error.message}")
        self._failed(key, refused, address)

    def _take_attempt(
        self, task: Task, document: Mapping[str, Any], files: Mapping[str, bytes]
    ) -> None:
        """Put an attempt into the run folder; raises UsageError as `Arrivals.take`."""
        arrival = self._arrivals.take(task.problem, document, files)
        task.names[document["attempt"]] = arrival.folder.name
        self.owners[task.problem] = arrival.environment
        self.keys |= document["keys"]
        self.reporter.detail(f"{arrival.worker.name}: {arrival.folder.name} of {task.problem}")

    def _finished(self, key: str, task: Task, document: Mapping[str, Any]) -> None:
        del self._tasks[key]
        self._take_seconds(task, document)
        for warning in document["warnings"]:
            self.reporter.warn(f"{task.problem}: {warning}")
        if task.explain is None:
            self._done += 1
            self.reporter.say(
                f"{task.problem}: measured in {document['seconds']:.1f} s "
                f"({self._done} of {len(self._problems)} problems)"
            )
        self._explain_where_all_is_measured()

    def _take_seconds(self, task: Task, document: Mapping[str, Any]) -> None:
        """Take down the spans of a task, as if it ended now: clocks of hosts differ."""
        now = SecondsRecorder().began - self.seconds.began
        offset = now - document["seconds"]
        for values in document["spans"]:
            span = Span(**values)
            row = task.names.get(span.row)
            if row is not None:
                moved = (round(time + offset, 3) for time in (span.begin_s, span.end_s))
                self.seconds.spans.append(Span(row, span.step, *moved))
        self.run.write_seconds(self._took, self.seconds.spans)

    def _failed(self, key: str, error: ProfilerError, address: str | None = None) -> None:
        """Give the problem of a failed task to another worker; say so where there is none."""
        task = self._tasks.pop(key)
        failed_on = task.failed_on if address is None else (*task.failed_on, address)
        others = [a for a in self.link.addresses(self.device) if a not in failed_on]
        again = bool(others) if address is not None else task.tries < MOST_TRIES
        where = "" if address is None else f" on {address}"
        if task.explain is not None:
            self.reporter.warn(f"Not explained: {task.problem}{where}: {error.message}")
            return
        ending = "another worker gets it" if again else "no other worker can take it"
        self.reporter.warn(f"{task.problem} failed{where} ({ending}): {error.message}")
        if again:
            self._submit(task.problem, failed_on=failed_on, tries=task.tries + 1)
        else:
            self.failures[task.problem] = error
            self._explain_where_all_is_measured()

    def _wait_for_return(self, key: str) -> None:
        """Keep the problem of a dead worker for its GPU, unless that is away for too long.

        What it had measured lies at the worker up to the last block, and here up to the last
        attempt. On another GPU all of it would be measured once more.
        """
        task = self._tasks.pop(key)
        if task.begun is None:
            self._submit(task.problem, explain=task.explain)
            return
        if task.begun.lost is None:
            task.begun.lost = time.monotonic()
        if task.begun.worker not in self.link.addresses(self.device).values():
            self.reporter.warn(
                f"{task.problem}: its worker is gone. Waiting for that GPU for "
                f"{task.begun.patience_s:.0f} s; then another one begins anew."
            )
        self._submit(task.problem, explain=task.explain, tries=task.tries, begun=task.begun)

    def _give_up_waiting(self, key: str) -> None:
        """Begin a problem on another GPU, whose samples are not mixed with those that are here."""
        task = self._tasks.pop(key)
        task.future.cancel()
        if task.explain is not None:
            self.reporter.warn(f"Not explained: {task.problem}, whose GPU is not here any more.")
            self._explain_where_all_is_measured()
            return
        self.reporter.warn(f"{task.problem} begins anew: its GPU did not come back.")
        self.owners.pop(task.problem, None)
        for cell in self.request.plan.cells:
            if cell.problem.id == task.problem:
                self.keys.pop(cell.id, None)
        self._submit(task.problem, failed_on=task.failed_on, tries=task.tries)

    def check_tasks(self) -> None:
        """Look for tasks that ended without a word, or whose workers are all gone."""
        addresses = self.link.addresses(self.device)
        now = time.monotonic()
        for key, task in list(self._tasks.items()):
            if task.begun is not None and task.begun.worker not in addresses.values():
                task.begun.lost = task.begun.lost or now
                if task.waits and task.begun.is_given_up(now):
                    self._give_up_waiting(key)
                    continue
            if task.workers and not addresses.keys() & set(task.workers):
                task.future.cancel()
                self._failed(key, EnvironmentUnusable("the workers that could take it are gone"))
                continue
            error = task.silent_failure()
            if error is not None:
                self._failed(key, error)

    # ---- explaining ----

    def _explain_where_all_is_measured(self) -> None:
        """Once every problem is measured, have the cells explained that the answer is about."""
        if self._tasks or self._explaining:
            return
        self._explaining = True
        wanted = cells_to_explain(
            self.run,
            self.request,
            builds=self.libraries.builds,
            keys=self.keys,
            reporter=self.reporter,
        )
        problem_of = self.request.plan.problem_of
        by_problem: dict[str, list[str]] = {}
        for cell in wanted:
            by_problem.setdefault(problem_of[cell], []).append(cell)
        for problem, cells in by_problem.items():
            self._explain(problem, cells)

    def _explain(self, problem: str, cells: Sequence[str]) -> None:
        """Have cells explained by the GPU that measured them, which may be about to come back."""
        owner = self.owners.get(problem)
        if owner is None:
            self.reporter.warn(f"Not explained: {problem}, which no worker could measure.")
            return
        now = time.monotonic()
        begun = None if owner.gpu_uuid is None else Begun(owner.gpu_uuid, now - SHORTEST_WAIT_S)
        self._submit(problem, explain=",".join(cells), begun=begun)


def _size(params: Params) -> float:
    """Product of the numbers of a problem: about how its work grows."""
    numbers = (v for v in params.values() if isinstance(v, int | float) and v > 0)
    return math.prod(map(float, numbers))
