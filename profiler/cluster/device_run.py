"""One run that workers measure: all problems on GPUs of one model with one driver."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from distributed import Client, Future

from profiler.cluster.arrivals import Arrivals
from profiler.cluster.device import Device, device_among
from profiler.cluster.job import (
    WITHOUT_EXPLANATIONS,
    Job,
    builds_of,
    part_of,
    path_from_here,
    spec_of_text,
)
from profiler.cluster.libraries import Libraries
from profiler.cluster.parcels import Parcel, files_of, packed
from profiler.cluster.problem_task import ATTEMPT, measure_problem
from profiler.errors import EnvironmentUnusable, ExitCode, ProfilerError, UsageError
from profiler.model import Environment, Span
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.attempts import Loaded
from profiler.run_folder.seconds import Seconds
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.missing import cells_to_explain, is_measured
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.sources import source_hashes

MOST_TRIES = 3
"""Times that a problem is begun whose task ends in a way that names no worker."""


@dataclass(frozen=True)
class Link:
    """How a coordinator reaches its workers."""

    client: Client
    queue: str
    """Name of the queue that results come through."""
    local: bool
    """Whether workers have the terminal of the coordinator."""

    def addresses(self, device: Device) -> dict[str, str]:
        """Name by address of the workers with a device: a UUID where it is a GPU."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return {
            address: str(facts["name"])
            for address, facts in workers.items()
            if device_among(facts["resources"]) == str(device)
        }


@dataclass
class Task:
    """A problem that was given to the scheduler."""

    problem: str
    explain: str | None
    future: Future[None]
    workers: tuple[str, ...] = ()
    """Addresses of those that alone may take it; empty: any may."""
    failed_on: tuple[str, ...] = ()
    """Addresses of workers on which it failed."""
    tries: int = 1
    executions: list[str] = field(default_factory=list)
    """Those that sent something, oldest first: Dask begins a task again that a dead worker had."""
    names: dict[str, str] = field(default_factory=dict)
    """Name of an attempt at the worker of the newest execution → its name in the run folder."""

    def is_of_newest(self, execution: str) -> bool:
        """Whether a parcel counts: not of a worker that was taken for dead and was not."""
        if execution not in self.executions:
            self.executions.append(execution)
            self.names = {}
        return execution == self.executions[-1]


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
    _explaining: bool = False

    @cached_property
    def _arrivals(self) -> Arrivals:
        return Arrivals(self.run, self.request, self.libraries.builds)

    @property
    def is_done(self) -> bool:
        """Whether nothing is under way any more."""
        return not self._tasks

    def start(self) -> None:
        """Give every problem of which something is missing to the scheduler."""
        self._took = self.run.seconds()
        read: dict[Path, Loaded] = {}
        for problem in self._problems:
            if self._is_measured(problem, read):
                self._done += 1
                self.reporter.say(f"{problem}: nothing is missing.")
            else:
                self._submit(problem)
        self._explain_where_all_is_measured()

    @property
    def _problems(self) -> list[str]:
        return [problem.id for problem in self.request.plan.problems]

    def _is_measured(self, problem: str, read: dict[Path, Loaded]) -> bool:
        """Whether nothing but explanations is missing of a problem, on whichever GPU it was."""
        owner = self.owners.get(problem)
        if owner is None:
            return False
        plan = part_of(self.request.plan, problem)
        machine = replace(self.request.machine, environment=owner)
        request = replace(
            self.request, plan=plan, machine=machine, loaded=self._without_explanations
        )
        return is_measured(
            self.run,
            request,
            builds=builds_of(plan, self.libraries.builds),
            keys=self.keys,
            stamped=self.libraries.stamped,
            read=read,
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
        preferred, workers = self._placement(problem, explain, failed_on)
        future = self.link.client.submit(
            measure_problem,
            job.text(),
            self.libraries.futures(job),
            self._earlier(problem),
            key=job.task,
            resources=self.device.resources,
            pure=False,
            workers=list(workers or preferred) or None,
            allow_other_workers=bool(preferred) and not workers,
        )
        self._tasks[job.task] = Task(
            problem, explain, future, workers=workers, failed_on=failed_on, tries=tries
        )

    def _placement(
        self, problem: str, explain: str | None, failed_on: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Addresses of workers that should take a task, and of those that alone may (empty: any).

        A problem goes on where it was begun, and is explained nowhere else. Dask tries a task again
        that a dead worker had; of one that failed, by a full disk for example, it knows nothing, so
        the others are named here.
        """
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
        """Take a parcel of one of its tasks, from the worker at an address."""
        task = self._tasks[key]
        if not task.is_of_newest(document["execution"]):
            return
        if document["kind"] == ATTEMPT:
            try:
                self._take_attempt(task, document, files)
            except UsageError as error:
                self.refuse(key, address, error)
        elif document["failed"] is not None:
            failed = document["failed"]
            failure = ProfilerError(failed["message"], remedy=failed["remedy"])
            failure.exit_code = ExitCode(failed["exit_code"])
            self._failed(key, failure, address)
        else:
            self._finished(key, task, document)

    def refuse(self, key: str, address: str, error: UsageError) -> None:
        """Give a task up whose parcel is not what was sent or asked for; another worker gets it."""
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

    def check_tasks(self) -> None:
        """Look for tasks that ended without a word, or whose workers are all gone."""
        addresses = self.link.addresses(self.device)
        for key, task in list(self._tasks.items()):
            status = task.future.status
            if task.workers and not addresses.keys() & set(task.workers):
                task.future.cancel()
                self._failed(key, EnvironmentUnusable("the workers that could take it are gone"))
                continue
            if status == "error":
                cause = task.future.exception()
                error = EnvironmentUnusable(f"{type(cause).__name__}: {cause}")
                self._failed(key, error)
            elif status in ("cancelled", "lost"):
                raise EnvironmentUnusable(
                    "The scheduler does not know this run any more.",
                    remedy="Run the same command again: it goes on with what is missing.",
                )

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
        problem_of = {cell.id: cell.problem.id for cell in self.request.plan.cells}
        by_problem: dict[str, list[str]] = {}
        for cell in wanted:
            by_problem.setdefault(problem_of[cell], []).append(cell)
        for problem, cells in by_problem.items():
            self._explain(problem, cells)

    def _explain(self, problem: str, cells: Sequence[str]) -> None:
        owner, names = self.owners.get(problem), self.link.addresses(self.device).values()
        if owner is None or (owner.gpu_uuid is not None and owner.gpu_uuid not in names):
            self.reporter.warn(f"Not explained: {problem}, whose GPU is not here any more.")
            return
        self._submit(problem, explain=",".join(cells))
