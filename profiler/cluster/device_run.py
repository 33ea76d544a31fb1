"""One run that workers measure: all problems on GPUs of one model with one driver."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from profiler.cluster.giving import Arrived, Given, Share
from profiler.cluster.order import WITHOUT_EXPLANATIONS, builds_of, part_of
from profiler.cluster.parcels import Parcel, files_of, packed
from profiler.errors import ProfilerError, UsageError
from profiler.model import BuildResult, Environment, Params, Span
from profiler.run_folder.folder import JOURNAL_FILE, RunFolder
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.seconds import Seconds
from profiler.run_folder.workers import add_attempt, worker_environments, worker_of
from profiler.runner import protocol
from profiler.sessions.measure import MeasureRequest, keys_of
from profiler.sessions.missing import cells_to_explain, is_measured
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.sources import digests_now, watched_folders

SHORTEST_WAIT_S = 20.0
"""How long cells that nobody else can explain wait for their GPU at least: a worker that dies while
it explains is started again within seconds, at another address."""


@dataclass(eq=False)
class Problem:
    """A problem to measure, or cells of it to explain."""

    id: str
    home: Environment | None = None
    """That of the GPU whose attempts at it count; None: nobody has measured it."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Cell id → key there."""
    explain: str | None = None
    """Ids of cells, with commas."""
    failed_on: set[str] = field(default_factory=set)
    """Names of workers."""
    error: ProfilerError | None = None
    """Why the last of them failed."""
    since: float = field(default_factory=time.monotonic)
    """When that GPU was there last, of what waits for it to be explained."""
    names: dict[str, str] = field(default_factory=dict)
    """Name of an attempt at the worker → its name in the run folder."""

    def __str__(self) -> str:
        return self.id

    @property
    def gpu(self) -> str | None:
        """UUID of the GPU that measured it so far; None: none did, or a processor."""
        return None if self.home is None else self.home.gpu_uuid


def problems_of(
    request: MeasureRequest, builds: Sequence[BuildResult], run: RunFolder | None
) -> list[Problem]:
    """Problems of a plan, the longest first; with the GPU of those that a run has as of today."""
    plan = request.plan
    cells = Counter(cell.problem.id for cell in plan.cells)
    ordered = sorted(plan.problems, key=lambda p: (-cells[p.id], -_size(p.params)))
    problems = [Problem(problem.id) for problem in ordered]
    if run is None:
        return problems
    recorded = run.record().keys
    for environment in dict.fromkeys((request.machine.environment, *worker_environments(run))):
        for problem in problems:
            keys = _keys_of(problem, environment, request, builds)
            if all(recorded.get(cell) == key for cell, key in keys.items()):
                problem.home, problem.keys = environment, keys
    return problems


def _size(params: Params) -> float:
    """Product of the numbers of a problem: about how its work grows."""
    numbers = (v for v in params.values() if isinstance(v, int | float) and v > 0)
    return math.prod(map(float, numbers))


def keys_by_cell(problems: Sequence[Problem]) -> dict[str, str]:
    """Keys of the cells of all problems that were measured somewhere."""
    return {cell: key for problem in problems for cell, key in problem.keys.items()}


def _keys_of(
    problem: Problem,
    environment: Environment,
    request: MeasureRequest,
    builds: Sequence[BuildResult],
) -> dict[str, str]:
    """Keys of the cells of a problem that is measured in an environment."""
    machine = replace(request.machine, environment=environment)
    plan = part_of(request.plan, [problem.id])
    return keys_of(replace(request, plan=plan, machine=machine), builds)


@dataclass(kw_only=True)
class DeviceRun(Share[Problem]):
    """Gives problems to workers, and takes what they send into one run folder."""

    problems: Sequence[Problem]
    """The longest first: what is last should be short."""
    builds: Sequence[BuildResult]
    stamped: Mapping[str, str]
    """Variant id → path of its library with stamps."""
    _open: list[Problem] = field(default_factory=list)
    """What no worker has."""
    _took: Seconds = field(default_factory=Seconds)
    _done: int = 0

    def measure(self) -> Iterator[None]:
        """Have each problem measured of which something is missing, then cells explained."""
        self._took = self.team.run.seconds()
        reader = AttemptReader()
        for problem in self.problems:
            if problem.home is not None and self._is_measured(problem, problem.home, reader):
                self._done += 1
                self.team.reporter.say(f"{problem}: nothing is missing.")
            else:
                self._open.append(problem)
        self.team.keep(self.builds, self.stamped)
        yield from super().measure()
        self._open = list(self._to_explain())
        yield from super().measure()

    def _is_measured(self, problem: Problem, home: Environment, reader: AttemptReader) -> bool:
        """Whether nothing but explanations is missing of a problem that a GPU has measured."""
        plan = part_of(self.team.request.plan, [problem.id])
        machine = replace(self.team.request.machine, environment=home)
        return is_measured(
            self.team.run,
            replace(self.team.request, plan=plan, machine=machine),
            builds=builds_of(plan, self.builds),
            keys=problem.keys,
            stamped=self.stamped,
            reader=reader,
        )

    def _to_explain(self) -> Iterator[Problem]:
        """The problems with cells that the answer is about."""
        wanted = cells_to_explain(
            self.team.run,
            self.team.request,
            builds=self.builds,
            keys=keys_by_cell(self.problems),
            reporter=self.team.reporter,
        )
        problem_of = self.team.request.plan.problem_of
        for problem in self.problems:
            cells = [cell for cell in wanted if problem_of[cell] == problem.id]
            if cells and problem.home is None:
                self._not_explained(problem, "no worker could measure it")
            elif cells:
                yield Problem(problem.id, problem.home, problem.keys, ",".join(cells))

    # ---- giving ----

    def prepare(self) -> bool:
        """Give up what none of the workers can do that are there; whether anything is left."""
        for problem in tuple(self._open):
            if problem.explain is not None:
                if problem.gpu in {None, *self.workers}:
                    problem.since = time.monotonic()
                elif time.monotonic() - problem.since > SHORTEST_WAIT_S:
                    self._open.remove(problem)
                    self._not_explained(problem, "its GPU is not here any more")
            elif problem.error is not None and self.workers.keys() <= problem.failed_on:
                self._open.remove(problem)
                self.team.failures[problem.id] = problem.error
        return bool(self._open)

    def take_next(self, worker: str) -> Problem | None:
        """The longest problem that a worker may take.

        A problem goes on where it was begun if that GPU is there, and is explained nowhere else.
        """
        for problem in self._open:
            there = self.workers.keys() - problem.failed_on
            stays = problem.explain is not None or problem.gpu in there
            if worker in there and (problem.gpu in {None, worker} or not stays):
                self._open.remove(problem)
                return problem
        return None

    def submit(self, work: Problem, worker: str) -> None:
        """Give a problem to a worker, with the attempts at it that count."""
        explains = work.explain is not None
        self.give(
            work,
            worker,
            plan=part_of(self.team.request.plan, [work.id]),
            builds=self.builds,
            stamped=self.stamped,
            earlier=self._earlier(work),
            overrides=() if explains else (WITHOUT_EXPLANATIONS,),
            timeline=self.team.request.timeline and not explains,
            explain=work.explain,
        )

    def _earlier(self, problem: Problem) -> list[Parcel]:
        """Attempts at a problem whose keys are those of today."""
        return [
            packed({"attempt": attempt.folder.name}, files_of(attempt.folder))
            for attempt in self.team.run.attempts()
            if attempt.record.keys.items() & problem.keys.items()
        ]

    # ---- taking ----

    def take(self, given: Given[Problem], came: Arrived) -> None:
        """Write an attempt into the run folder, and the keys of its cells before.

        Raises UsageError where it measured other kernels or sources, or read another content of a
        file that both have.
        """
        problem = given.work
        keys = _keys_of(problem, came.environment, self.team.request, self.builds)
        if keys != came.facts["keys"]:
            raise UsageError("it measured other kernels, sources or settings than those here")
        opened = self._opened(came.files)
        worker = worker_of(
            self.team.run, came.environment, self.team.request.plan.seed, came.facts["texts"]
        )
        record = self.team.run.record()
        self.team.run.write_record(
            replace(record, keys={**record.keys, **keys}, opened={**record.opened, **opened})
        )
        problem.names[came.facts["attempt"]] = add_attempt(self.team.run, came.files, worker).name
        problem.home, problem.keys = came.environment, keys

    def _opened(self, files: Mapping[str, bytes]) -> dict[str, str]:
        """Files that a session opened; raises UsageError where one is another file here."""
        lines = files.get(JOURNAL_FILE, b"").splitlines()
        opened = protocol.opened_files(filter(None, map(protocol.record_of, lines)))
        loaded = self.team.request.loaded
        here = digests_now(opened, watched_folders(loaded.experiment, loaded.base))
        others = [name for name, digest in opened.items() if here.get(name, digest) != digest]
        if others:
            names = ", ".join(sorted(name.partition(":")[2] for name in others))
            raise UsageError(f"it read {names}, which has another content here or is not here")
        return opened

    def finish(self, given: Given[Problem], error: ProfilerError | None) -> None:
        """Take down the end of a problem; where it failed, another worker gets it."""
        problem, end = given.work, given.end
        if end:
            self._take_seconds(problem.names, end)
            for warning in end["warnings"]:
                self.team.reporter.warn(f"{problem}: {warning}")
        if error is not None:
            self.open_again(given, error)
        elif problem.explain is None:
            self._done += 1
            self.team.reporter.say(
                f"{problem}: measured in {end['seconds']:.1f} s "
                f"({self._done} of {len(self.problems)} problems)"
            )

    def _take_seconds(self, names: Mapping[str, str], end: Mapping[str, Any]) -> None:
        """Take down the spans of a task, as if it ended now: clocks of hosts differ."""
        recorder = self.team.request.seconds
        offset = SecondsRecorder().began - recorder.began - end["seconds"]
        for values in end["spans"]:
            span = Span(**values)
            if span.row in names:
                moved = (round(time + offset, 3) for time in (span.begin_s, span.end_s))
                recorder.spans.append(Span(names[span.row], span.step, *moved))
        self.team.run.write_seconds(self._took, recorder.spans)

    def open_again(self, given: Given[Problem], error: ProfilerError | None) -> None:
        """Have another worker measure a problem, anew: samples of two GPUs are not mixed.

        No other one can explain cells: these wait for their GPU.
        """
        problem, say = given.work, self.team.reporter.warn
        if error is not None and problem.explain is not None:
            self._not_explained(problem, f"{given.address}: {error.message}")
            return
        self._open.append(problem)
        if error is not None:
            problem.failed_on.add(given.worker)
            problem.error, problem.names = error, {}
            others = self.workers.keys() - problem.failed_on
            ending = "another worker gets it" if others else "no other worker can take it"
            say(f"{problem} failed on {given.address} ({ending}): {error.message}")
        elif problem.explain is not None:
            problem.since = given.lost or problem.since
        else:
            self._open.insert(0, self._open.pop())
            problem.home, problem.keys = None, {}
            say(f"{problem} begins anew: its GPU did not come back.")

    def _not_explained(self, problem: Problem, why: str) -> None:
        self.team.reporter.warn(f"Not explained: {problem}: {why}")
