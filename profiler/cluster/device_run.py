"""One run that workers measure: all problems on GPUs of one model with one driver."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from profiler.cluster.arrivals import Arrived, take_attempts
from profiler.cluster.device import environment_from
from profiler.cluster.giving import LONGEST_WAIT_S, Given, Share
from profiler.cluster.job import WITHOUT_EXPLANATIONS, Job, builds_of, part_of, spec_of_text
from profiler.cluster.parcels import Parcel, files_of, packed
from profiler.cluster.tasks import measure_problem
from profiler.errors import ProfilerError
from profiler.model import BuildResult, Environment, Params, Span
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.seconds import Seconds
from profiler.sessions.missing import cells_to_explain, is_measured
from profiler.sessions.overlap.recorder import SecondsRecorder

SHORTEST_WAIT_S = 20.0
"""How long cells that nobody else can explain wait for their GPU: a worker that dies while it
explains is started again within seconds, at another address."""


@dataclass(frozen=True)
class Problem:
    """A problem to measure, or cells of it to explain."""

    id: str
    explain: str | None = None
    """Ids of cells, with commas."""
    failed_on: frozenset[str] = frozenset()
    """Names of workers."""
    error: ProfilerError | None = None
    """Why the last of them failed."""
    since: float = field(default_factory=time.monotonic)
    names: dict[str, str] = field(default_factory=dict)
    """Name of an attempt at the worker → its name in the run folder."""

    def __str__(self) -> str:
        return self.id


@dataclass(kw_only=True)
class DeviceRun(Share[Problem]):
    """Gives problems to workers, and takes what they send into one run folder."""

    builds: Sequence[BuildResult]
    stamped: dict[str, str]
    """Variant id → path of its library with stamps."""
    owners: dict[str, Environment]
    """Problem → environment of the GPU whose attempts at it count."""
    keys: dict[str, str]
    """Cell id → key, of the problems with an owner."""
    failures: dict[str, ProfilerError] = field(default_factory=dict)
    """Problem → why no worker could measure it."""
    _open: list[Problem] = field(default_factory=list)
    """What no worker has, the longest first: what is last should be short."""
    _took: Seconds = field(default_factory=Seconds)
    _done: int = 0
    _sent: dict[str, Any] = field(default_factory=dict)
    """All libraries, which are at the workers until the run ends."""

    def measure(self) -> Iterator[None]:
        """Have each problem measured of which something is missing, then cells explained."""
        self._took = self.run.seconds()
        reader = AttemptReader()
        for problem in self._longest_first():
            if self._is_measured(problem, reader):
                self._done += 1
                self.team.reporter.say(f"{problem}: nothing is missing.")
            else:
                self._open.append(Problem(problem))
        paths = (*(build.library for build in self.builds), *self.stamped.values())
        self._sent = self.team.libraries.futures(paths)
        yield from super().measure()
        self._open = self._to_explain()
        yield from super().measure()

    def _longest_first(self) -> list[str]:
        plan = self.request.plan
        cells = Counter(cell.problem.id for cell in plan.cells)
        ordered = sorted(plan.problems, key=lambda p: (-cells[p.id], -_size(p.params)))
        return [problem.id for problem in ordered]

    def _is_measured(self, problem: str, reader: AttemptReader) -> bool:
        """Whether nothing but explanations is missing of a problem, on whichever GPU it was."""
        owner = self.owners.get(problem)
        if owner is None:
            return False
        plan = part_of(self.request.plan, problem)
        request = replace(
            self.request,
            plan=plan,
            machine=replace(self.request.machine, environment=owner),
            loaded=self._without_explanations,
            explain=None,  # what it names may be of other problems
        )
        return is_measured(
            self.run,
            request,
            builds=builds_of(plan, self.builds),
            keys=self.keys,
            stamped=self.stamped,
            reader=reader,
        )

    @cached_property
    def _without_explanations(self) -> LoadedSpec:
        loaded = self.request.loaded
        return spec_of_text(loaded.path, loaded.text, (*loaded.flags, WITHOUT_EXPLANATIONS))

    def _to_explain(self) -> list[Problem]:
        """The cells that the answer is about, by their problems."""
        wanted = cells_to_explain(
            self.run, self.request, builds=self.builds, keys=self.keys, reporter=self.team.reporter
        )
        cells: dict[str, list[str]] = {}
        for cell in wanted:
            cells.setdefault(self.request.plan.problem_of[cell], []).append(cell)
        for problem in cells.keys() - self.owners.keys():
            self._not_explained(problem, "no worker could measure it")
        return [Problem(id_, ",".join(of)) for id_, of in cells.items() if id_ in self.owners]

    # ---- giving ----

    def prepare(self) -> bool:
        """Give up what none of the workers can do that are there; whether anything is left."""
        for problem in tuple(self._open):
            if problem.explain is not None:
                home = self._home(problem)
                since = max(problem.since, self.seen.get(str(home), 0.0))
                if home is not None and time.monotonic() - since > SHORTEST_WAIT_S:
                    self._open.remove(problem)
                    self._not_explained(problem, "its GPU is not here any more")
            elif problem.error is not None and self.workers.keys() <= problem.failed_on:
                self._open.remove(problem)
                self.failures[problem.id] = problem.error
        return bool(self._open)

    def take_next(self, worker: str) -> Problem | None:
        """The longest problem that a worker may take.

        A problem goes on where it was begun if that GPU is there, and is explained nowhere else.
        """
        for problem in self._open:
            home = self._home(problem)
            stays = problem.explain is not None or home in self.workers.keys() - problem.failed_on
            if worker not in problem.failed_on and (home in {None, worker} or not stays):
                self._open.remove(problem)
                return problem
        return None

    def _home(self, problem: Problem) -> str | None:
        """UUID of the GPU that measured a problem so far; None: none, or a processor."""
        owner = self.owners.get(problem.id)
        return None if owner is None else owner.gpu_uuid

    def submit(self, work: Problem, worker: str) -> None:
        """Give a problem to a worker."""
        plan = part_of(self.request.plan, work.id)
        variants = {variant.id for variant in plan.variants}
        explains = work.explain is not None
        self.give(
            work,
            worker,
            measure_problem,
            Job,
            self._earlier(work.id),
            plan=plan,
            builds=builds_of(plan, self.builds),
            stamped={id_: path for id_, path in self.stamped.items() if id_ in variants},
            overrides=() if explains else (WITHOUT_EXPLANATIONS,),
            waits_s=(SHORTEST_WAIT_S if explains else 0.0, LONGEST_WAIT_S),
            problem=work.id,
            timeline=self.request.timeline and not explains,
            explain=work.explain,
        )

    def _earlier(self, problem: str) -> list[Parcel]:
        """Attempts at a problem whose keys are those of today."""
        cells = {cell.id for cell in self.request.plan.cells if cell.problem.id == problem}
        today = {cell: key for cell, key in self.keys.items() if cell in cells}.items()
        return [
            packed({"attempt": attempt.folder.name}, files_of(attempt.folder))
            for attempt in self.run.attempts()
            if attempt.record.keys.items() & today
        ]

    # ---- taking ----

    def take(
        self, given: Given[Problem], facts: dict[str, Any], attempts: Sequence[Arrived]
    ) -> None:
        """Put attempts into the run folder; raises UsageError as `take_attempts`."""
        problem = given.work
        if attempts:
            names = take_attempts(
                self.run,
                request=self.request,
                builds=self.builds,
                problem=problem.id,
                facts=facts,
                attempts=attempts,
            )
            problem.names.update(names)
            self.owners[problem.id] = environment_from(facts["environment"])
            self.keys |= facts["keys"]
        if "seconds" not in facts:
            return
        self._take_seconds(problem.names, facts)
        for warning in facts["warnings"]:
            self.team.reporter.warn(f"{problem}: {warning}")
        if problem.explain is None and facts["failed"] is None:
            self._done += 1
            self.team.reporter.say(
                f"{problem}: measured in {facts['seconds']:.1f} s "
                f"({self._done} of {len(self.request.plan.problems)} problems)"
            )

    def _take_seconds(self, names: dict[str, str], facts: dict[str, Any]) -> None:
        """Take down the spans of a task, as if it ended now: clocks of hosts differ."""
        recorder = self.request.seconds
        offset = SecondsRecorder().began - recorder.began - facts["seconds"]
        for values in facts.get("spans", ()):
            span = Span(**values)
            if span.row in names:
                moved = (round(time + offset, 3) for time in (span.begin_s, span.end_s))
                recorder.spans.append(Span(names[span.row], span.step, *moved))
        self.run.write_seconds(self._took, recorder.spans)

    def open_again(self, given: Given[Problem], error: ProfilerError | None) -> None:
        """Have another worker measure a problem, anew: samples of two GPUs are not mixed.

        No other one can explain cells.
        """
        problem = given.work
        if problem.explain is not None:
            gone = "its GPU is not here any more"
            why = gone if error is None else f"{given.address}: {error.message}"
            self._not_explained(problem, why)
        elif error is None:
            self.team.reporter.warn(f"{problem} begins anew: its GPU did not come back.")
            self.owners.pop(problem.id, None)
            for cell in part_of(self.request.plan, problem.id).cells:
                self.keys.pop(cell.id, None)
            self._open.insert(0, problem)
        else:
            failed_on = problem.failed_on | {given.worker}
            others = self.workers.keys() - failed_on
            ending = "another worker gets it" if others else "no other worker can take it"
            self.team.reporter.warn(
                f"{problem} failed on {given.address} ({ending}): {error.message}"
            )
            self._open.append(replace(problem, failed_on=failed_on, error=error, names={}))

    def _not_explained(self, problem: Problem | str, why: str) -> None:
        self.team.reporter.warn(f"Not explained: {problem}: {why}")


def _size(params: Params) -> float:
    """Product of the numbers of a problem: about how its work grows."""
    numbers = (v for v in params.values() if isinstance(v, int | float) and v > 0)
    return math.prod(map(float, numbers))
