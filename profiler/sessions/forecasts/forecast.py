"""Forecast of a plan: rough time, visits measured already, first command."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from profiler.collect import Tools
from profiler.collect.registry import COLLECTORS, may_overlap, shares_process
from profiler.errors import UsageError
from profiler.metrics.passes import ncu_launch_seconds
from profiler.metrics.queries import ncu_names
from profiler.model import Cell, Plan, SessionKind, SessionPlan, Visit
from profiler.planning.page_kinds import Question
from profiler.planning.plan import command_values
from profiler.planning.session_plans import ncu_cache_control
from profiler.planning.spec import Collect, CommandWorkload, Experiment, LoadedSpec
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.runs import runs
from profiler.run_folder.seconds import PROFILER, seconds_around_visits, session_seconds
from profiler.sessions.attempt import JOB
from profiler.sessions.forecasts.launch_counts import (
    MOST_EXPLAINED,
    ExpectedLaunches,
    after_first_look,
    first_launch_seconds,
)
from profiler.sessions.forecasts.rest import RestForecast
from profiler.sessions.forecasts.session_costs import (
    PastSession,
    SessionCosts,
    costs_of_run,
    past_of_run,
    typical_visit,
)
from profiler.sessions.waiting import places

START_S = 6.0
"""Seconds until the first visit of a session: ncu, Python, torch and a CUDA context. 4.9 to 5.8 in
ten recordings of H200 hosts without builds, from the beginning of the run."""

NEXT_S = 1.0
"""Seconds until the first visit of a session whose process waits while the one before measures: its
context, and what ncu takes once; 0.3 to 0.5 s and 0.7 s on that host."""

SHARED_S = 0.2
"""Seconds until the first visit of a session that follows another in its process."""

LAUNCHED_S = 0.02
"""Seconds a visit on an H200 beside what ncu takes of a kernel that takes no time itself: the
kernel, checks and inputs. 5,936 timing visits of attention took 230 s, 16 ms of each ncu's."""

CALLED_S = 5e-3
"""Seconds a visit without a tool around the runner, beside what its collector takes: 4 to 6 ms in
eight recordings of libraries on an H200."""
SET_UP_S = 0.4
"""Seconds a problem there: its inputs, its reference, and checks that compile nothing."""

TIMELINE_S = 0.2
"""Seconds a visit of some ten launches, its share of export and cleaning included: a guess."""

EXPLAINED_S, PAGES_S = 4.0, 4.0
"""Seconds a cell that is explained, and until the pages of its report are printed: 1.5 to 6 and 1.3
to 5 in recordings of H200s and H100s (more where a launch has many kernels, or takes 10 ms)."""

PROGRAM_S = 3.0
"""Seconds a visit of an external command: ncu, a CUDA context, a few launches."""


@dataclass(frozen=True)
class Forecast:
    """Forecast of one session."""

    session: str
    visits: int
    measured: int
    """Number of visits in the newest run that count today."""
    seconds: float
    """Rough seconds of the missing visits, by an earlier run on such a GPU, else for an H200."""
    by_earlier_run: bool = False
    """Whether the forecast is by durations of an earlier run."""
    visits_s: float = 0.0
    """Seconds of the visits alone, without those before the first visit."""
    left_out: int = 0
    """Visits that are not made: their cells failed, or are the same program as others."""
    why_again: str = ""
    """Words for what was changed since visits that are to be made again."""

    @property
    def remaining(self) -> int:
        """Visits that are to be made."""
        return self.visits - self.measured - self.left_out


@dataclass(frozen=True)
class SessionVisits:
    """Visits of a session that a run holds or leaves out."""

    measured: frozenset[Visit] = frozenset()
    left_out: frozenset[Visit] = frozenset()
    """Visits that are not made: their cells failed, or are the same program as others."""
    why_again: str = ""
    """Words for what was changed since visits that are to be made again; empty where none are."""


NO_VISITS = SessionVisits()


@dataclass(frozen=True)
class RunForecast:
    """Forecast of a run from its beginning to its page."""

    sessions: tuple[Forecast, ...]
    further_s: float = 0.0
    """Of later looks and the confirmation, by the launches that are expected."""
    explained: int = 0
    """Cells that are explained, about."""
    explain_s: float = 0.0
    on_cpu: bool = False
    """Whether the experiment asks for the CPU."""

    @property
    def is_known(self) -> bool:
        """Whether the seconds tell something: on a CPU not the typical ones, which are a GPU's."""
        return not self.on_cpu or all(session.by_earlier_run for session in self.sessions)

    @property
    def seconds(self) -> float:
        """Seconds of the planned sessions, of later looks and of explaining."""
        return sum(session.seconds for session in self.sessions) + self.further_s + self.explain_s


@dataclass(frozen=True)
class EarlierSearch:
    """State of a run's search, as another execution would resume it."""

    evaluations: int = 0
    finalists: tuple[str, ...] | None = None
    """Ids of the search's finalists; None where it has not ended."""
    restarts: bool = False
    """Whether an input of the search was changed since."""


@dataclass(frozen=True)
class EarlierVisits:
    """Visits of a plan in the newest run."""

    plan: Plan
    """Plan with sessions; after a finished search, with sessions of its finalists."""
    sessions: Mapping[str, SessionVisits] = field(default_factory=dict)
    """By name of the session."""
    search: EarlierSearch | None = None
    """None where none is asked, or none has begun."""


def forecast(
    plan: Plan,
    experiment: Experiment,
    out: Path,
    gpu: str | None = None,
    held: Mapping[str, SessionVisits] = MappingProxyType({}),
) -> tuple[Forecast, ...]:
    """Forecast of each session of a plan on a GPU; reads runs under `out`, starts nothing.

    `held`: what the newest run has of each session, by name.
    """
    if isinstance(experiment.workload, CommandWorkload):
        earlier_runs = runs(out, plan.experiment)
        newest = earlier_runs[-1] if earlier_runs else None
        return tuple(
            _program_forecast(session, held.get(session.name, NO_VISITS), newest)
            for session in plan.sessions
        )
    earlier = newest_run_on_gpu(out, plan.experiment, gpu)
    return tuple(_sessions(plan, experiment.collect, held, earlier))


def run_forecast(
    loaded: LoadedSpec, held: EarlierVisits, out: Path, gpu: str | None = None
) -> RunForecast:
    """Forecast of a whole run on a GPU; sessions as in `forecast`."""
    plan, experiment = held.plan, loaded.experiment
    sessions = list(forecast(plan, experiment, out, gpu, held.sessions))
    first = next((place for place, session in enumerate(sessions) if session.remaining), None)
    if first is None:
        return RunForecast(tuple(sessions))
    if not sessions[first].by_earlier_run:
        first_s = first_launch_seconds(experiment, loaded.base, plan.cells)
        sessions[first] = replace(sessions[first], seconds=sessions[first].seconds + first_s)
    until_visits_s = SHARED_S if shares_process(plan.sessions[0]) else NEXT_S
    further_s = further_seconds(after_first_look(plan), sessions[0], until_visits_s)
    explained, explain_s = explain_seconds(plan, experiment, out, gpu)
    on_cpu = experiment.collect.device == "cpu"
    return RunForecast(tuple(sessions), further_s, explained, explain_s, on_cpu)


def explain_seconds(
    plan: Plan, experiment: Experiment, out: Path, gpu: str | None = None
) -> tuple[int, float]:
    """Rough number of cells to explain in a new run, and seconds for them."""
    collect = experiment.collect
    if not (collect.explain and collect.reads_counters):
        return 0, 0.0
    problems = Counter(cell.problem.id for cell in plan.cells)
    if Question.STEPS in plan.questions:
        cells = max(problems.values(), default=0)
    else:
        has_reference = bool({*plan.references} - {plan.baseline})
        cells = min(MOST_EXPLAINED, sum(sorted(problems.values())[-2:]), (2 + has_reference) * 2)
    same_gpu = newest_run_on_gpu(out, plan.experiment, gpu)
    earlier = () if same_gpu is None else costs_of_run(same_gpu, plan.problem_of)
    explain_costs = [costs for record, costs in earlier if record.kind == SessionKind.EXPLAIN]
    explained = {cell for costs in explain_costs for cell in (*costs.visits, *costs.first_visits)}
    if not explained:
        return cells, NEXT_S + PAGES_S + cells * EXPLAINED_S
    return len(explained), NEXT_S + PAGES_S + sum(costs.seconds for costs in explain_costs)


def further_seconds(
    parts: Sequence[ExpectedLaunches], first_look: Forecast, until_visits_s: float = NEXT_S
) -> float:
    """Seconds of later looks and the confirmation, by launches as long as in the first look.

    0 where the first look has nothing left to go by.
    """
    if not first_look.remaining:
        return 0.0
    visit_s = first_look.visits_s / first_look.remaining
    return sum(until_visits_s + part.expected * visit_s for part in parts if part.expected)


def _sessions(
    plan: Plan, collect: Collect, held: Mapping[str, SessionVisits], same_gpu: RunFolder | None
) -> Iterator[Forecast]:
    """Forecasts of sessions in order: a cell that one session checks is not checked again."""
    problem_of, env_of = plan.problem_of, plan.env_of
    costs = costs_of_run(same_gpu, problem_of) if same_gpu is not None else []
    around_s = START_S if same_gpu is None else around_visits(same_gpu)
    checked: set[str] = set()
    for before, session in zip((None, *plan.sessions), plan.sessions, strict=False):
        held_visits = held.get(session.name, NO_VISITS)
        settled_visits = held_visits.measured | held_visits.left_out
        missing_visits = [visit for visit in session.visits if visit not in settled_visits]
        missing = Counter(visit.cell for visit in missing_visits)
        checked |= {visit.cell for visit in held_visits.measured}
        past_sessions, _ = past_of_run(costs, session, collect)
        rest_forecast = rest_of(session, plan.cells, collect, past_sessions, checked)
        before_s = visits_s = 0.0
        if missing and rest_forecast.has_earlier:
            before_s = around_s * _processes(session, missing_visits, env_of)
            before_s += sum(
                cost.roofs_s for record, cost in costs if record.session == session.name
            )
            visits_s = rest_forecast.seconds(missing, SessionCosts())
        elif missing:
            before_s = _until_visits(session, before) * _processes(session, missing_visits, env_of)
            visits_s = missing.total() * visit_seconds(session, collect)
            if COLLECTORS[session.collector].in_journal:
                before_s += SET_UP_S * len({problem_of[cell] for cell in missing})
        yield Forecast(
            session.name,
            len(session.visits),
            len(held_visits.measured),
            before_s + visits_s,
            by_earlier_run=rest_forecast.has_earlier,
            visits_s=visits_s,
            left_out=len(held_visits.left_out),
            why_again=held_visits.why_again,
        )
        checked |= missing.keys()


def _processes(
    session: SessionPlan, visits: Iterable[Visit], env_of: Mapping[str, Mapping[str, str]]
) -> int:
    """Number of processes that some visits take, by the plan."""
    by_block = session.recompiles
    return len(
        {(by_block and visit.block, tuple(env_of.get(visit.cell, {}).items())) for visit in visits}
    )


def _until_visits(session: SessionPlan, before: SessionPlan | None) -> float:
    """Seconds before a session's first visit without an earlier run; `before`: session before."""
    if before is None or before.collector != session.collector:
        return START_S
    if shares_process(session):
        return SHARED_S
    return NEXT_S if may_overlap(session) and places() > 0 else START_S


def _program_forecast(
    session: SessionPlan, held: SessionVisits, newest: RunFolder | None
) -> Forecast:
    """Forecast of an external command's session by a run's visits, outdated ones too."""
    seconds_by_visit = _visits_of_programs(session, newest) if newest is not None else {}
    remaining_visits = len(session.visits) - len(held.measured) - len(held.left_out)
    visit_s = statistics.median(seconds_by_visit.values()) if seconds_by_visit else PROGRAM_S
    return Forecast(
        session.name,
        len(session.visits),
        len(held.measured),
        remaining_visits * visit_s,
        by_earlier_run=bool(seconds_by_visit),
        visits_s=remaining_visits * visit_s,
        left_out=len(held.left_out),
        why_again=held.why_again,
    )


def rest_of(
    session: SessionPlan,
    cells: Iterable[Cell],
    collect: Collect,
    past_sessions: Sequence[PastSession],
    checked: Set[str],
) -> RestForecast:
    """Forecast of the rest of a session; `checked`: cells that its run has checked."""
    return RestForecast(
        cells,
        visit=typical_visit(session.collector, session.kind, session.metrics, collect),
        past_sessions=past_sessions,
        checked=checked,
        warmups=collect.warmups,
        rechecks=collect.recheck,
    )


def around_visits(run: RunFolder) -> float:
    """Seconds per session of a run in which no session measured: starts overlap with sessions.

    START_S where the run does not say.
    """
    spans = session_seconds(run.seconds())
    around_s = seconds_around_visits(spans)
    if around_s is None:
        return START_S
    return around_s / len({span.row for span in spans if span.row != PROFILER})


def newest_run_on_gpu(
    out: Path, experiment: str, gpu: str | None, besides: Path | None = None
) -> RunFolder | None:
    """The newest run of an experiment on a GPU model, except `besides`; None without a run."""
    for run in reversed(runs(out, experiment)):
        with suppress(UsageError):
            if run.path != besides and run.record().environment.gpu == gpu:
                return run
    return None


def _visits_of_programs(session: SessionPlan, run: RunFolder) -> dict[Visit, float]:
    """Seconds by visit of an external command, for the visits that a run holds."""
    seconds_by_visit = {
        Visit(**attempt.record.visit): attempt.result.seconds
        for attempt in run.attempts()
        if attempt.record.session == session.name
        and attempt.record.visit is not None
        and attempt.result is not None
        and not attempt.result.failed
    }
    return {visit: seconds_by_visit[visit] for visit in session.visits if visit in seconds_by_visit}


def visit_seconds(session: SessionPlan, collect: Collect) -> float:
    """Rough duration of one visit in seconds, on a GPU like an H200."""
    if session.kind is SessionKind.TIMELINE:
        return TIMELINE_S
    if not COLLECTORS[session.collector].in_journal:
        return LAUNCHED_S + ncu_launch_seconds(session.metrics)
    visit = typical_visit(session.collector, session.kind, session.metrics, collect)
    return CALLED_S + visit.overhead_s


def first_command(plan: Plan, experiment: Experiment) -> str:
    """Command line of the first session, with RUN for the run folder that does not exist yet.

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
        cache_control=ncu_cache_control(experiment, session, plan.capability),
        clock_control=collect.clock_control,
        replay_mode=collect.replay_mode,
        child_processes=collect.child_processes,
        python="python",
    )
    collector = COLLECTORS[session.collector].create(tools)
    command = collector.session_command(folder / JOB, folder, ncu_names(session.metrics))
    return shlex.join(command.argv)
