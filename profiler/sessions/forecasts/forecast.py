"""Forecast of a plan: rough time, what is there already, first command."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from profiler.collect.kind import Tools
from profiler.collect.registry import COLLECTORS
from profiler.errors import UsageError
from profiler.metrics.passes import counter_visit_seconds
from profiler.metrics.queries import ncu_names
from profiler.model import Plan, SessionKind, SessionPlan, SessionStep, Visit
from profiler.planning.plan import command_values
from profiler.planning.spec import CommandWorkload, Experiment
from profiler.run_folder.folder import AttemptRecord, RunFolder, runs
from profiler.run_folder.seconds import PROFILER, session_seconds
from profiler.runner import protocol
from profiler.sessions.attempt import JOB, journal_visits
from profiler.sessions.forecasts.visit_costs import Rest, VisitCosts, duration_words, read_costs

START_S = 8.0
"""Seconds until the first visit of a session: ncu, Python, torch, a CUDA context (4.5 s on an H200)
and the inputs of the first problem."""

TIMING_S = 0.04
"""Seconds a visit, checks and inputs included, on an H200: 4128 timing visits of attention took
180 s."""

TIMELINE_S = 0.2
"""Seconds a visit of some ten launches, its share of export and cleaning included: a guess."""

PROGRAM_S = 3.0
"""Seconds a visit of an external command: ncu, a CUDA context, a few launches."""


@dataclass(frozen=True)
class Forecast:
    """Forecast of one session."""

    session: str
    visits: int
    measured: int
    """Visits that the newest run of this experiment holds, whatever was edited since."""
    seconds: float
    """For the rest, roughly: as an earlier run took on such a GPU, else on one like an H200."""
    by_earlier_run: bool = False
    """Whether it goes by what an earlier run took."""


def forecast(
    plan: Plan, experiment: Experiment, out: Path, gpu: str | None = None
) -> tuple[Forecast, ...]:
    """Forecast of each session of a plan on a GPU; reads runs under `out`, starts nothing."""
    earlier_runs = runs(out, plan.experiment)
    newest = earlier_runs[-1] if earlier_runs else None
    same_gpu = newest_run(out, plan.experiment, gpu)
    return tuple(_session(plan, session, experiment, newest, same_gpu) for session in plan.sessions)


def _session(
    plan: Plan,
    session: SessionPlan,
    experiment: Experiment,
    newest: RunFolder | None,
    same_gpu: RunFolder | None,
) -> Forecast:
    if isinstance(experiment.workload, CommandWorkload):
        made = _visits_of_programs(session, newest) if newest is not None else {}
        rest = len(session.visits) - len(made)
        visit_s = statistics.median(made.values()) if made else PROGRAM_S
        return Forecast(session.name, len(session.visits), len(made), rest * visit_s, bool(made))
    measured = _measured(session, newest) if newest is not None else set()
    missing = Counter(visit.cell for visit in session.visits if visit not in measured)
    rest = missing.total()
    seconds = START_S + rest * visit_seconds(session) if rest else 0.0
    problem_of = {cell.id: cell.problem.id for cell in plan.cells}
    costs = earlier_costs(same_gpu, of_session(session.name), problem_of)
    expected = Rest(problem_of, costs).seconds(missing, VisitCosts())
    if same_gpu is not None and rest and expected is not None:
        seconds = expected + around_visits(same_gpu)
    return Forecast(
        session.name,
        len(session.visits),
        len(session.visits) - rest,
        seconds,
        by_earlier_run=expected is not None,
    )


def around_visits(run: RunFolder) -> float:
    """Seconds per session of a run in which none measured: its starts overlap with others.

    START_S where the run does not say.
    """
    spans = [span for span in session_seconds(run.seconds()) if span.row != PROFILER]
    sessions = {span.row for span in spans}
    if not sessions:
        return START_S
    whole_s = max(span.end_s for span in spans) - min(span.begin_s for span in spans)
    measured_s = sum(
        span.end_s - span.begin_s for span in spans if span.step == SessionStep.MEASURES
    )
    return max(whole_s - measured_s, 0.0) / len(sessions)


def earlier_costs(
    run: RunFolder | None, counts: Callable[[AttemptRecord], bool], problem_of: Mapping[str, str]
) -> VisitCosts:
    """Costs of the attempts of a run that count, oldest first."""
    costs = VisitCosts()
    for attempt in run.attempts() if run is not None else ():
        if counts(attempt.record):
            costs.add(read_costs(protocol.read_journal(attempt.journal), problem_of))
    return costs


def of_session(name: str) -> Callable[[AttemptRecord], bool]:
    """Whether an attempt is one of a session."""
    return lambda record: record.session == name


def newest_run(
    out: Path, experiment: str, gpu: str | None, besides: Path | None = None
) -> RunFolder | None:
    """The newest run of an experiment on such a GPU, besides one; None where there is none."""
    for run in reversed(runs(out, experiment)):
        with suppress(UsageError):
            if run.path != besides and run.record().environment.gpu == gpu:
                return run
    return None


def _visits_of_programs(session: SessionPlan, run: RunFolder) -> dict[Visit, float]:
    """Seconds of each visit of an external command that a run holds."""
    made = {
        Visit(**attempt.record.visit): attempt.result.seconds
        for attempt in run.attempts()
        if attempt.record.session == session.name
        and attempt.record.visit is not None
        and attempt.result is not None
        and not attempt.result.failed
    }
    return {visit: made[visit] for visit in session.visits if visit in made}


def visit_seconds(session: SessionPlan) -> float:
    """Rough duration of one visit in seconds, on a GPU like an H200."""
    if session.kind is SessionKind.TIMELINE:
        return TIMELINE_S
    if session.kind is not SessionKind.COUNTERS:
        return TIMING_S
    return counter_visit_seconds(session.metrics)


def _measured(session: SessionPlan, run: RunFolder) -> set[Visit]:
    done = {
        visit
        for attempt in run.attempts()
        if attempt.record.session == session.name
        for visit in journal_visits(attempt.folder)
    }
    return done & set(session.visits)


_SHORT_REST_S = 30.0
"""A rest that takes no longer than this needs no forecast."""
_LONG_VISIT_S = 20.0
"""Visits from here on have a line on what to limit."""


@dataclass
class VisitForecast:
    """Prints, after the first visit of an external command, what the rest of the session takes."""

    workload: CommandWorkload
    say: Callable[[str], None]
    visits: int
    """Visits of the session that are to be made."""
    _said: bool = False

    def visited(self, seconds: float, launches: int) -> None:
        """Take the duration of a visit and the number of launches that ncu profiled in it."""
        if not self._said:
            self._said = True
            for line in visit_lines(self.workload, self.visits, seconds, launches):
                self.say(line)


def visit_lines(
    workload: CommandWorkload, visits: int, seconds: float, launches: int
) -> Iterator[str]:
    """Lines on what the rest of a session takes where one of its visits took so long."""
    rest = (visits - 1) * seconds
    if rest < _SHORT_REST_S:
        return
    profiled = f" for {launches} profiled launches" if launches else ""
    yield (
        f"The first visit took {duration_words(seconds)}{profiled}: "
        f"{visits - 1} more take about {duration_words(rest)}."
    )
    if seconds >= _LONG_VISIT_S:
        yield f"To shorten visits, limit {_limits(workload)}."


def _limits(workload: CommandWorkload) -> str:
    """What a spec can limit to make its visits shorter, each with its key."""
    if workload.parts is None:
        launches = "the launches (workload.launch_count, workload.kernel)"
    else:
        launches = "the launches of each part (workload.parts.take)"
    return f"{launches}, the metrics (collect.metrics), or the passes (collect.blocks)"


def first_command(plan: Plan, experiment: Experiment) -> str:
    """The command line of the first session, with RUN for the folder that is not there yet.

    Of an external command, what ncu starts for the first cell.
    """
    session = plan.sessions[0]
    if isinstance(experiment.workload, CommandWorkload):
        return shlex.join(experiment.workload.arguments(command_values(plan.cells[0])))
    folder = Path("RUN") / "raw" / f"{session.name}.001"
    collect = experiment.collect
    tools = Tools(
        ncu=Path("ncu"),
        nsys=Path("nsys"),
        cache_control=collect.cache_control,
        clock_control=collect.clock_control,
        replay_mode=collect.replay_mode,
        python="python",
    )
    collector = COLLECTORS[session.collector].create(tools)
    command = collector.session_command(folder / JOB, folder, ncu_names(session.metrics))
    return shlex.join(command.argv)
