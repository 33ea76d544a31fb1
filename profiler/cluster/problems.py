"""Problems that the workers with one device measure, and cells of them that they explain."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distributed import Future

from profiler.cluster.giving import Piece, Share
from profiler.cluster.parcels import WITHOUT_EXPLANATIONS, Parcel, packed, part_of
from profiler.errors import ProfilerError, UsageError
from profiler.model import BuildResult, Environment, Params, Plan, SessionStep, Span
from profiler.parse import runner_journal
from profiler.run_folder.folder import RUN_FILE, Attempt, RunFolder
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.seconds import Executions
from profiler.run_folder.workers import add_attempt, worker_environments, worker_of
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.execution import SecondsRecorder
from profiler.sessions.measure import MeasureRequest
from profiler.sessions.missing import cells_to_explain, is_measured
from profiler.sessions.sources import digests_now, hash_files, watched_folders

LONGEST_WAIT_S = 120.0
"""How long work waits at most for the GPU that had begun it. Where it had measured less, no longer
than that: then it costs no more to begin on another GPU."""
SHORTEST_WAIT_S = 20.0
"""How long cells that nobody else can explain wait for their GPU at least: a worker that dies while
it explains is started again within seconds, at another address."""
TASK_S = 120.0
"""How long a task with several problems should take at most: it comes back at its end."""
_GROWTH = 4
"""Times as many problems as the newest a task has at most: a single one tells little."""

Homes = dict[str, tuple[Environment, Mapping[str, str]]]
"""Problem id → environment of the GPU whose attempts at it count, and the keys of its cells there;
of those that somebody has measured."""


def homes_of(request: MeasureRequest, builds: Sequence[BuildResult], run: RunFolder) -> Homes:
    """Problems that a run has as they would be measured today."""
    recorded = run.record().keys
    homes: Homes = {}
    for environment in dict.fromkeys((request.machine.environment, *worker_environments(run))):
        for problem, keys in _keys_by_problem(request, builds, environment, request.plan).items():
            if all(recorded.get(cell) == key for cell, key in keys.items()):
                homes[problem] = environment, keys
    return homes


def keys_by_cell(homes: Homes) -> dict[str, str]:
    """Keys of the cells of all problems that were measured somewhere."""
    return {cell: key for _, keys in homes.values() for cell, key in keys.items()}


def _keys_by_problem(
    request: MeasureRequest, builds: Sequence[BuildResult], environment: Environment, plan: Plan
) -> dict[str, dict[str, str]]:
    """Keys of the cells of a plan that is measured in an environment, by problem id."""
    machine = replace(request.machine, environment=environment)
    keys = keys_of(replace(request, plan=plan, machine=machine), builds)
    by_problem: dict[str, dict[str, str]] = {}
    for cell, key in keys.items():
        by_problem.setdefault(plan.problem_of[cell], {})[cell] = key
    return by_problem


def longest_first(plan: Plan) -> list[str]:
    """Ids of the problems of a plan: what is last should be short."""
    cells = Counter(cell.problem.id for cell in plan.cells)
    ordered = sorted(plan.problems, key=lambda p: (-cells[p.id], -_size(p.params)))
    return [problem.id for problem in ordered]


def _size(params: Params) -> float:
    """Product of the numbers of a problem: about how its work grows."""
    numbers = (v for v in params.values() if isinstance(v, int | float) and v > 0)
    return math.prod(map(float, numbers))


@dataclass(frozen=True)
class Pace:
    """The newest task that ended: problems of about that size come next."""

    problems: int = 1
    seconds: float = 0.0
    measured_s: float = 0.0
    """Seconds in which its sessions measured. 0: none has ended."""

    def problems_of_task(self, left: int, out: int, workers: int) -> int:
        """How many of the problems that are left the next task should have; `out` are at workers.

        As many as fill TASK_S, and fewer in the end, so that all workers end together; but not so
        few that its start takes longer than its problems.
        """
        if not self.measured_s:
            return 1
        each_s = self.measured_s / self.problems
        worth_a_start = (self.seconds - self.measured_s) / each_s
        share = min((left + out) / workers, max(left / workers / 2, worth_a_start))
        return max(1, min(math.ceil(share), int(TASK_S / each_s), _GROWTH * self.problems))


@dataclass(kw_only=True)
class RunShare(Share):
    """Problems of a run, with the run folder that takes what workers send of them."""

    builds: Sequence[BuildResult]
    stamped: Mapping[str, str]
    """Variant id → path of its library with stamps."""
    homes: Homes
    """Of all shares of the run together."""
    open: list[Piece] = field(default_factory=list)
    """What no worker has, in the order in which it is given."""
    cells: dict[str, list[str]] = field(default_factory=dict)
    """Problem id → ids of its cells to explain; empty where problems are measured."""
    _took: Executions = field(init=False)
    """Seconds of earlier executions."""

    def __post_init__(self) -> None:
        self._took = self.team.run.seconds()

    def _gpu(self, problem: str) -> str | None:
        """UUID of the GPU that measured a problem so far; None: none did, or a processor."""
        return self.homes[problem][0].gpu_uuid if problem in self.homes else None

    def submit(self, piece: Piece) -> Future[None]:
        """Give problems to their worker, or cells of them to explain, with attempts that count."""
        cells = [cell for problem in piece.ids for cell in self.cells.get(problem, ())]
        return self.team.submit(
            piece.address,
            part_of(self.team.request.plan, piece.ids),
            self.builds,
            self.stamped,
            earlier=self._earlier(piece),
            overrides=() if cells else (WITHOUT_EXPLANATIONS,),
            timeline=self.team.request.timeline and not cells,
            explain=tuple(cells) or None,
        )

    def _earlier(self, piece: Piece) -> Parcel | None:
        """The run, with the attempts at problems whose keys are those of today."""
        homes = {problem: self.homes[problem] for problem in piece.ids if problem in self.homes}
        if not homes:
            return None
        keys = keys_by_cell(homes).items()
        attempts = [a.folder for a in self.team.run.attempts() if a.record.keys.items() & keys]
        return packed(self.team.run, attempts, (RUN_FILE,)) if attempts else None

    def take(self, piece: Piece, arrived: RunFolder, environment: Environment) -> None:
        """Move attempts into the run folder, after the keys of their cells.

        Raises UsageError where they measured other kernels or sources, or read another content of a
        file that both have.
        """
        request, run = self.team.request, self.team.run
        plan = part_of(request.plan, piece.ids)
        by_problem = _keys_by_problem(request, self.builds, environment, plan)
        keys = {cell: key for keys in by_problem.values() for cell, key in keys.items()}
        attempts = arrived.attempts()
        if not attempts:
            return
        if not keys.items() <= arrived.record().keys.items():
            raise UsageError("it measured other kernels, sources or settings than those here")
        opened = self._opened(attempts)
        worker = worker_of(run, arrived, environment, request.plan.seed)
        record = run.record()
        run.write_record(
            replace(record, keys={**record.keys, **keys}, opened={**record.opened, **opened})
        )
        for attempt in attempts:
            digest = hash_files(attempt.folder.iterdir())
            if digest not in piece.taken:
                piece.taken.add(digest)
                piece.names[attempt.folder.name] = add_attempt(run, attempt, worker).name
        self.homes |= {problem: (environment, keys) for problem, keys in by_problem.items()}

    def _opened(self, attempts: Sequence[Attempt]) -> dict[str, str]:
        """Files that sessions opened; raises UsageError where one is another file here."""
        opened: dict[str, str] = {}
        for attempt in attempts:
            opened |= runner_journal.opened_files(runner_journal.read_journal(attempt.journal))
        loaded = self.team.request.loaded
        current = digests_now(opened, watched_folders(loaded.experiment, loaded.base))
        others = [name for name, digest in opened.items() if current.get(name, digest) != digest]
        if others:
            names = ", ".join(sorted(name.partition(":")[2] for name in others))
            raise UsageError(f"it read {names}, which has another content here or is not here")
        return opened

    def _take_seconds(self, piece: Piece) -> float:
        """Take down the spans of a task, as if it ended now: clocks of hosts differ.

        Returns how long it took.
        """
        recorder = self.team.request.seconds
        ended_s = max((span.end_s for span in piece.spans), default=0.0)
        offset = SecondsRecorder().began - recorder.began - ended_s
        for span in piece.spans:
            if span.row in piece.names:
                begin_s, end_s = (round(at + offset, 3) for at in (span.begin_s, span.end_s))
                recorder.spans.append(Span(piece.names[span.row], span.step, begin_s, end_s))
        self.team.run.write_seconds(self._took, recorder.spans)
        return ended_s


@dataclass(kw_only=True)
class ProblemShare(RunShare):
    """Has each problem measured of which something is missing."""

    pace: Pace = field(default_factory=Pace)
    _reader: AttemptReader = field(default_factory=AttemptReader)
    _done: int = 0

    def measure(self) -> None:
        """Have problems measured, the longest first."""
        for problem in longest_first(self.team.request.plan):
            if self._is_measured(problem):
                self._done += 1
                self.team.reporter.say(f"{problem}: nothing is missing.")
            else:
                self.open.append(Piece([problem], self._gpu(problem)))
        self.team.kept = self.team.libraries(self.builds, self.stamped)
        super().measure()

    def _is_measured(self, problem: str) -> bool:
        """Whether nothing but explanations is missing of a problem."""
        if problem not in self.homes:
            return False
        environment, keys = self.homes[problem]
        request = self.team.request
        plan = part_of(request.plan, [problem])
        machine = replace(request.machine, environment=environment)
        return is_measured(
            self.team.run,
            replace(request, plan=plan, machine=machine),
            builds=self.builds,
            keys=keys,
            stamped=self.stamped,
            reader=self._reader,
        )

    def prepare(self) -> bool:
        """Give up what none of the workers can do that are there; whether anything is left."""
        for piece in tuple(self.open):
            if piece.home not in {None, *self.workers}:
                self.open.remove(piece)
                self._begin_anew(piece)
            elif piece.failed_on and self.workers.keys() <= piece.failed_on.keys():
                self.open.remove(piece)
                *_, self.team.failures[piece.ids[0]] = piece.failed_on.values()
        return bool(self.open)

    def _begin_anew(self, piece: Piece) -> None:
        self.team.reporter.warn(f"{piece} begins anew: its GPU did not come back.")
        self.open[:0] = self._missing_of(piece, {})

    def _missing_of(self, piece: Piece, failed_on: dict[str, ProfilerError]) -> list[Piece]:
        """Work for each problem that is not measured, from its beginning.

        Samples of two GPUs are not mixed.
        """
        missing = [problem for problem in piece.ids if not self._is_measured(problem)]
        self._done += len(piece.ids) - len(missing)
        for problem in missing:
            self.homes.pop(problem, None)
        return [Piece([problem], None, failed_on) for problem in missing]

    def take_next(self, worker: str) -> Piece | None:
        """The longest problems that a worker may take, as many as a task should have.

        Problems go on where they were begun. Those that failed are given one by one.
        """
        possible = [p for p in self.open if worker not in p.failed_on and p.home in {None, worker}]
        if not possible:
            return None
        first = possible[0]
        if first.failed_on:
            self.open.remove(first)
            return first
        together = [p for p in possible if not p.failed_on and p.home == first.home]
        out = sum(len(piece.ids) for piece in self.given)
        together = together[: self.pace.problems_of_task(len(together), out, len(self.workers))]
        self.open = [piece for piece in self.open if piece not in together]
        return Piece([problem for piece in together for problem in piece.ids], first.home)

    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Take down the end of a task; where it failed, its problems are given one by one."""
        reporter = self.team.reporter
        seconds = self._take_seconds(piece)
        if error is not None:
            failed_on = {**piece.failed_on, piece.worker: error}
            ending = "another worker gets it"
            if self.workers.keys() <= failed_on.keys():
                ending = "no other worker can take it"
            reporter.warn(f"{piece} failed on {piece.address} ({ending}): {error.message}")
            self.open += self._missing_of(piece, failed_on)
            return
        self._done += len(piece.ids)
        total = len(self.team.request.plan.problems)
        self.pace = Pace(len(piece.ids), seconds, _measured_s(piece.spans))
        reporter.say(f"{piece}: measured in {seconds:.1f} s ({self._done} of {total} problems)")

    def wait_s(self, piece: Piece) -> float:
        """How long to wait for a GPU that is gone: as long as it has measured, within limits."""
        return min(time.monotonic() - piece.since, LONGEST_WAIT_S)

    def put_back(self, piece: Piece) -> None:
        """Have other GPUs begin anew what the worker had that is gone."""
        self._begin_anew(piece)


def _measured_s(spans: Sequence[Span]) -> float:
    """Seconds in which sessions measured."""
    return sum(span.end_s - span.begin_s for span in spans if span.step == SessionStep.MEASURES)


@dataclass(kw_only=True)
class ExplainShare(RunShare):
    """Has the cells explained that the answer is about, by the GPUs that measured them."""

    _looked: float = 0.0
    """Who measured has looked: its workers are known."""

    def measure(self) -> None:
        """Have cells explained: of all problems that a GPU measured at once."""
        wanted = cells_to_explain(
            self.team.run,
            self.team.request,
            builds=self.builds,
            keys=keys_by_cell(self.homes),
            reporter=self.team.reporter,
        )
        for cell in wanted:
            self.cells.setdefault(self.team.request.plan.problem_of[cell], []).append(cell)
        by_gpu: dict[str | None, list[str]] = {}
        for problem in self.cells:
            if problem in self.homes:
                by_gpu.setdefault(self._gpu(problem), []).append(problem)
            else:
                self._not_explained(problem, "no worker could measure it")
        for gpu, problems in by_gpu.items():
            if gpu is None:
                self.open.append(Piece(problems))
            else:
                self.give(Piece(problems, gpu), gpu)
        super().measure()

    def prepare(self) -> bool:
        """Whether anything is left to give."""
        return bool(self.open)

    def take_next(self, worker: str) -> Piece | None:
        """Cells of a processor, which any worker may explain."""
        del worker
        return self.open.pop(0) if self.open else None

    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Take down the end of a task; what failed together the same GPU explains one by one."""
        self._take_seconds(piece)
        if error is None:
            return
        if len(piece.ids) == 1:
            self._not_explained(piece, f"{piece.address}: {error.message}")
            return
        for problem in piece.ids:
            self.give(Piece([problem], piece.home), piece.worker)

    def wait_s(self, piece: Piece) -> float:
        """How long to wait for a GPU that is gone: a while in any case, as no other can do it."""
        return min(max(time.monotonic() - piece.since, SHORTEST_WAIT_S), LONGEST_WAIT_S)

    def put_back(self, piece: Piece) -> None:
        """Have another processor explain cells; nobody, where a GPU is gone."""
        if piece.home is None:
            self.open.insert(0, Piece(piece.ids))
        else:
            self._not_explained(piece, "its GPU is not here any more")

    def _not_explained(self, what: object, why: str) -> None:
        self.team.reporter.warn(f"Not explained: {what}: {why}")
