"""Problems that the workers of one device measure, and cells that they explain."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from distributed import Future
from rich.console import Console

from profiler.cluster.giving import Homes, Piece, Share, Team
from profiler.cluster.parcels import Parcel, packed_run, plan_part
from profiler.errors import ProfilerError, UsageError
from profiler.model import BuildResult, Environment, Params, Plan, Span
from profiler.run_folder.folder import RUN_FILE, RunFolder
from profiler.run_folder.seconds import Executions, measured_seconds
from profiler.run_folder.workers import add_attempt, worker_environments, worker_of
from profiler.sessions.cell_keys import keys_of
from profiler.sessions.execution import SecondsRecorder
from profiler.sessions.explaining import Explaining
from profiler.sessions.measure import MeasureRequest, decide_steps
from profiler.sessions.measuring.attempt_book import AttemptBook
from profiler.sessions.measuring.attempt_writer import AttemptWriter
from profiler.sessions.measuring.measurement import Measurement
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.sources import edited_files, opened_now
from profiler.sessions.templates import Templates

LONGEST_WAIT_S = 120.0
"""Most seconds that a piece waits for the GPU that had begun it; no longer than the GPU had
measured: then it costs no more to begin on another GPU."""
SHORTEST_WAIT_S = 20.0
"""Least seconds that cells wait for the only GPU that can explain them: a worker that dies while it
explains is restarted within seconds, at another address."""
TASK_S = 120.0
"""Most seconds that a task with several problems should take: its results come at its end."""
_GROWTH = 4
"""Most times as many problems as the newest task had: a single problem tells little."""


def homes_of(request: MeasureRequest, builds: Sequence[BuildResult], run: RunFolder) -> Homes:
    """Homes of the problems of a run whose keys are still the same."""
    recorded = run.record().keys.items()
    environments = dict.fromkeys((request.machine.environment, *worker_environments(run)))
    return {
        problem: home
        for environment in environments
        for problem, home in homes_in(environment, request, builds).items()
        if home[1].items() <= recorded
    }


def keys_by_cell(homes: Homes) -> dict[str, str]:
    """Keys by id of the cells of all measured problems."""
    return {cell: key for _, keys in homes.values() for cell, key in keys.items()}


def homes_in(
    environment: Environment, request: MeasureRequest, builds: Sequence[BuildResult]
) -> Homes:
    """Homes of the problems of a request that are all measured in one environment."""
    machine = replace(request.machine, environment=environment)
    homes: dict[str, tuple[Environment, dict[str, str]]] = {}
    for cell, key in keys_of(replace(request, machine=machine), builds).items():
        homes.setdefault(request.plan.problem_of[cell], (environment, {}))[1][cell] = key
    return {**homes}


def longest_first(plan: Plan) -> list[str]:
    """Ids of the problems of a plan, the longest first, so that the last ones are short."""
    cells = Counter(cell.problem.id for cell in plan.cells)
    ordered = sorted(plan.problems, key=lambda p: (-cells[p.id], -_size(p.params)))
    return [problem.id for problem in ordered]


def _size(params: Params) -> float:
    """Product of the numbers of a problem, by which its work about grows."""
    numbers = (v for v in params.values() if isinstance(v, int | float) and v > 0)
    return math.prod(map(float, numbers))


@dataclass(frozen=True)
class Pace:
    """Pace of the newest ended task: problems of about its size come next."""

    problems: int = 1
    seconds: float = 0.0
    measured_s: float = 0.0
    """Seconds in which the task's sessions measured. 0: no task has ended."""

    def problems_of_task(self, open_count: int, given_count: int, workers: int) -> int:
        """Number of problems of the next task; `given_count` problems are at workers.

        As many as fill TASK_S, and fewer in the end, so that all workers end together; but not so
        few that its start takes longer than its problems.
        """
        if not self.measured_s:
            return 1
        each_s = self.measured_s / self.problems
        worth_a_start = (self.seconds - self.measured_s) / each_s
        share = min(
            (open_count + given_count) / workers, max(open_count / workers / 2, worth_a_start)
        )
        return max(1, min(math.ceil(share), int(TASK_S / each_s), _GROWTH * self.problems))


@dataclass(kw_only=True)
class ProblemShare(Share):
    """Gives workers the problems with missing measurements; the run folder takes their attempts."""

    pace: Pace = field(default_factory=Pace)
    failed_on: dict[str, dict[str, ProfilerError]] = field(default_factory=dict)
    """Problem id → why it failed, by name of the worker."""
    cells: dict[str, list[str]] = field(default_factory=dict)
    """Problem id → ids of its cells to explain; empty where problems are measured."""
    _earlier_seconds: Executions = field(init=False)
    """Seconds of earlier executions."""

    def __post_init__(self) -> None:
        self._earlier_seconds = self.team.run.seconds()

    def measure(self) -> None:
        """Give problems to workers until all are measured, the longest first."""
        for problem in longest_first(self.team.request.plan):
            if self._is_measured(problem):
                self.team.reporter.say(f"{problem}: nothing is missing.")
            else:
                self.open.append(problem)
        super().measure()

    def _gpu(self, problem: str) -> str | None:
        """UUID of the GPU that measured a problem so far; None: no GPU, or a processor."""
        homes = self.team.homes
        return homes[problem][0].gpu_uuid if problem in homes else None

    def _is_measured(self, problem: str) -> bool:
        """Whether every visit of a problem is measured except those of explain sessions.

        By the code that decides when a problem is measured, and without a GPU.
        """
        team = self.team
        if problem not in team.homes:
            return False
        environment, keys = team.homes[problem]
        request = replace(
            team.request,
            plan=plan_part(team.request.plan, [problem]),
            machine=replace(team.request.machine, environment=environment),
        )
        with _dry_measurement(team, request, keys) as measurement:
            decide_steps(request, measurement)
        return measurement.is_complete

    # ---- giving ----

    def prepare(self) -> bool:
        """Give up problems that no connected worker can measure; whether any are left."""
        for problem in tuple(self.open):
            errors, gpu = self.failed_on.get(problem, {}), self._gpu(problem)
            if gpu is not None and gpu not in self.workers:
                self.open.remove(problem)
                self.put_back(Piece([problem], gpu))
            elif errors and self.workers.keys() <= errors.keys():
                self.open.remove(problem)
                *_, self.team.failures[problem] = errors.values()
        return bool(self.open)

    def take_next(self, worker: str) -> list[str]:
        """The longest problems that a worker may take, as many as a task should have.

        Problems go on where they were begun. Failed problems are given one by one.
        """
        possible = [
            problem
            for problem in self.open
            if worker not in self.failed_on.get(problem, {})
            and self._gpu(problem) in {None, worker}
        ]
        unfailed = [problem for problem in possible if problem not in self.failed_on]
        alike = [problem for problem in unfailed if self._gpu(problem) == self._gpu(unfailed[0])]
        given_count = sum(len(piece.ids) for piece in self.given_pieces)
        size = self.pace.problems_of_task(len(alike), given_count, len(self.workers))
        together = alike[:size] or possible[:1]
        self.open = [problem for problem in self.open if problem not in together]
        return together

    def submit(self, piece: Piece) -> Future[None]:
        """Future of problems or cells to explain, given to their worker with valid attempts."""
        team = self.team
        cells = [cell for problem in piece.ids for cell in self.cells.get(problem, ())]
        return team.submit(
            piece.address,
            plan_part(team.request.plan, piece.ids),
            team.builds,
            earlier=self._earlier_parcel(piece),
            timeline=team.request.timeline and not cells,
            explain=tuple(cells) or None,
        )

    def _earlier_parcel(self, piece: Piece) -> Parcel | None:
        """Parcel of the run, with attempts at problems with current keys; None without any."""
        team = self.team
        homes = {problem: team.homes[problem] for problem in piece.ids if problem in team.homes}
        if not homes:
            return None
        keys = keys_by_cell(homes).items()
        attempts = [a.folder for a in team.run.attempts() if a.record.keys.items() & keys]
        return packed_run(team.run, attempts, (RUN_FILE,)) if attempts else None

    def wait_s(self, piece: Piece) -> float:
        """Seconds to wait for a GPU that is gone: as long as it has measured, within limits."""
        return min(time.monotonic() - piece.given_at_s, LONGEST_WAIT_S)

    def put_back(self, piece: Piece) -> None:
        """Restart the problems of a worker that is gone on other GPUs."""
        self.team.reporter.warn(f"{piece} begins anew: its GPU did not come back.")
        missing = self._missing(piece)
        for problem in missing:
            self.failed_on.pop(problem, None)
        self.open[:0] = missing

    def _missing(self, piece: Piece) -> list[str]:
        """Problems that are not measured; each goes on from its begin.

        Samples of two GPUs are not mixed.
        """
        missing = [problem for problem in piece.ids if not self._is_measured(problem)]
        for problem in missing:
            self.team.homes.pop(problem, None)
        return missing

    # ---- taking ----

    def take(self, piece: Piece, arrived: RunFolder, environment: Environment) -> None:
        """Move attempts into the run folder, after the keys of their cells.

        Raises UsageError where the attempts measured other kernels or sources, or read a file with
        another content.
        """
        attempts = arrived.attempts()
        if not attempts:
            return
        team, run, request = self.team, self.team.run, self.team.request
        plan = plan_part(request.plan, piece.ids)
        homes = homes_in(environment, replace(request, plan=plan), team.builds)
        keys = keys_by_cell(homes)
        if not keys.items() <= arrived.record().keys.items():
            raise UsageError("it measured other kernels, sources or settings than those here")
        opened = opened_now(request.loaded, attempts)
        if edited := edited_files(attempts, opened):
            names = ", ".join(sorted(edited))
            raise UsageError(f"it read {names}, which has another content here or is not here")
        worker = worker_of(run, arrived, environment, request.plan.seed)
        record = run.record()
        run.write_record(
            replace(record, keys={**record.keys, **keys}, opened={**record.opened, **opened})
        )
        for attempt in attempts:
            name = attempt.folder.name
            if name not in piece.names:  # a restarted worker sends its attempts again
                piece.names[name] = add_attempt(run, attempt, worker).name
        team.homes |= homes

    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Handle the end of a task; the problems of a failed task are given one by one."""
        reporter = self.team.reporter
        seconds = self.take_seconds(piece)
        if error is not None:
            for problem in piece.ids:
                self.failed_on.setdefault(problem, {})[piece.worker] = error
            ending = "another worker gets it"
            if self.workers.keys() <= self.failed_on[piece.ids[0]].keys():
                ending = "no other worker can take it"
            reporter.warn(f"{piece} failed on {piece.address} ({ending}): {error.message}")
            self.open += self._missing(piece)
            return
        self.pace = Pace(len(piece.ids), seconds, measured_seconds(piece.spans))
        total = len(self.team.request.plan.problems)
        given_count = sum(len(other.ids) for other in self.given_pieces)
        done = total - len(self.open) - given_count - len(self.team.failures)
        reporter.say(f"{piece}: measured in {seconds:.1f} s ({done} of {total} problems)")

    def take_seconds(self, piece: Piece) -> float:
        """Seconds of a task; its spans are recorded as if it ended now: clocks of hosts differ."""
        recorder = self.team.request.seconds
        ended_s = max((span.end_s for span in piece.spans), default=0.0)
        offset = SecondsRecorder().began - recorder.began - ended_s
        for span in piece.spans:
            if span.row in piece.names:
                begin_s, end_s = (round(at + offset, 3) for at in (span.begin_s, span.end_s))
                recorder.spans.append(Span(piece.names[span.row], span.step, begin_s, end_s))
        self.team.run.write_seconds(self._earlier_seconds, recorder.spans)
        return ended_s


@dataclass(kw_only=True)
class ExplainShare(ProblemShare):
    """Gives the cells of the answer to the GPUs that measured them, to explain."""

    def measure(self) -> None:
        """Give cells to explain, for each GPU all of its problems at once."""
        team = self.team
        for cell in cells_to_explain(team):
            self.cells.setdefault(team.request.plan.problem_of[cell], []).append(cell)
        by_gpu: dict[str | None, list[str]] = {}
        for problem in self.cells:
            if problem in team.homes:
                by_gpu.setdefault(self._gpu(problem), []).append(problem)
            else:
                self._warn_unexplained(problem, "no worker could measure it")
        for gpu, problems in by_gpu.items():
            if gpu is None:
                self.open += problems
            else:
                self.give(problems, gpu)
        Share.measure(self)

    def finish(self, piece: Piece, error: ProfilerError | None) -> None:
        """Handle the end of a task; the same GPU explains the cells of a failed task one by one."""
        self.take_seconds(piece)
        if error is None:
            return
        if len(piece.ids) == 1:
            self._warn_unexplained(piece, f"{piece.address}: {error.message}")
            return
        for problem in piece.ids:
            self.give([problem], piece.worker)

    def wait_s(self, piece: Piece) -> float:
        """Seconds to wait for a GPU that is gone: at least a while, as only it can explain."""
        return max(super().wait_s(piece), SHORTEST_WAIT_S)

    def put_back(self, piece: Piece) -> None:
        """Give cells of a processor to another; cells of a GPU that is gone stay unexplained."""
        if self._gpu(piece.ids[0]) is None:
            self.open[:0] = piece.ids
        else:
            self._warn_unexplained(piece, "its GPU is not here any more")

    def _warn_unexplained(self, subject: object, reason: str) -> None:
        self.team.reporter.warn(f"Not explained: {subject}: {reason}")


# ---- what is missing, found without measuring ----------------------------------------------------


@dataclass
class _DryMeasurement(Measurement):
    """A measurement that makes no visit, and notes whether one is missing."""

    is_complete: bool = True

    def _make(self, *_: object) -> None:
        self.is_complete = False


def cells_to_explain(team: Team) -> tuple[str, ...]:
    """Ids of the cells that the measured samples point to and that are not explained yet."""
    request = team.request
    with _dry_measurement(team, request, keys_by_cell(team.homes)) as measurement:
        explaining = Explaining(request, request.explain, measurement)
        explaining.report_unexplained(team.reporter)
        if not explaining.is_wanted:
            return ()
        book = measurement.book
        missing = book.missing_visits(explaining.session(book.samples()), book.attempts())
        return tuple(dict.fromkeys(visit.cell for visit in missing))


def _dry_measurement(
    team: Team, request: MeasureRequest, keys: Mapping[str, str]
) -> _DryMeasurement:
    """Measurement of a request in the team's run; `keys`: of the cells, by id."""
    execution = replace(request, seconds=SecondsRecorder())
    book = AttemptBook(
        execution,
        run=team.run,
        builds=team.builds,
        keys=keys,
        reader=request.reader,
        opened=team.run.record().opened,
        stamped=team.stamped,
    )
    writer = AttemptWriter(book, Templates(execution, team.run.path))
    silent_console = Console(quiet=True)
    return _DryMeasurement(writer, ProgressReporter(silent_console, silent_console, quiet=True))
