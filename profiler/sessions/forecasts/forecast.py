"""Forecast of a plan: rough time, visits measured already, first command."""

from __future__ import annotations

import shlex
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from profiler.collect import Tools
from profiler.collect.registry import COLLECTORS
from profiler.metrics.queries import ncu_names
from profiler.model import Plan, SessionPlan, Visit
from profiler.parse import runner_journal
from profiler.planning.page_kinds import Question
from profiler.planning.plan import command_values
from profiler.planning.session_plans import ncu_cache_control
from profiler.planning.spec import CommandWorkload, Experiment, LoadedSpec
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.runs import newest_run
from profiler.run_folder.seconds import (
    PROFILER,
    measured_seconds,
    seconds_in_sessions,
    session_seconds,
)
from profiler.sessions.attempt import JOB
from profiler.sessions.forecasts.launch_counts import (
    MOST_EXPLAINED,
    ExpectedLaunches,
    after_first_look,
)
from profiler.sessions.forecasts.session_costs import read_costs, typical_visit

START_S = 6.0
"""Seconds until the first visit of a session: ncu, Python, torch and a CUDA context. 4.9 to 5.8 in
ten recordings of H200 hosts without builds, from the beginning of the run."""

NEXT_S = 1.0
"""Seconds until the first visit of a session that follows another under the same tool, whose
process waits: its context, and what ncu takes once; 0.3 to 0.5 s and 0.7 s on that host."""

SET_UP_S = 1.0
"""Seconds of a problem there: its inputs, its reference, checks, and what first launches load."""

EXPLAINED_S, PAGES_S = 4.0, 4.0
"""Seconds of a cell that is explained, and until the pages of its report are printed: 1.5 to 6 and
1.3 to 5 in recordings of H200s and H100s (more where a launch has many kernels, or takes 10 ms)."""

PROGRAM_S = 3.0
"""Seconds of a visit of an external command: ncu, a CUDA context, a few launches."""


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
class Forecast:
    """Forecast of one session."""

    session: str
    visits: int
    held: SessionVisits
    """Visits that the newest run holds or leaves out."""
    seconds: float
    """Rough seconds of the missing visits, by an earlier run on such a GPU, else for an H200."""
    by_earlier_run: bool = False
    """Whether the forecast is by durations of an earlier run."""
    visits_s: float = 0.0
    """Seconds of the visits alone, without those before the first visit."""

    @property
    def remaining(self) -> int:
        """Visits that are to be made."""
        return self.visits - len(self.held.measured) - len(self.held.left_out)


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
    newest = newest_run(out, plan.experiment, fits=lambda record: record.environment.gpu == gpu)
    forecasts = []
    for before, session in zip((None, *plan.sessions), plan.sessions, strict=False):
        held_visits = held.get(session.name, NO_VISITS)
        settled = held_visits.measured | held_visits.left_out
        missing = [visit for visit in session.visits if visit not in settled]
        earlier = newest and _earlier_seconds(plan, experiment, session, missing, newest[0])
        start_s, visits_s = earlier or _typical_seconds(plan, experiment, session, before, missing)
        forecasts.append(
            Forecast(
                session.name,
                len(session.visits),
                held_visits,
                start_s + visits_s,
                by_earlier_run=bool(earlier),
                visits_s=visits_s,
            )
        )
    return tuple(forecasts)


def run_forecast(
    loaded: LoadedSpec, held: EarlierVisits, out: Path, gpu: str | None = None
) -> RunForecast:
    """Forecast of a whole run on a GPU; sessions as in `forecast`."""
    plan, collect = held.plan, loaded.experiment.collect
    sessions = forecast(plan, loaded.experiment, out, gpu, held.sessions)
    if not any(session.remaining for session in sessions):
        return RunForecast(sessions)
    further_s = further_seconds(after_first_look(plan), sessions[0])
    explained = cells_to_explain(plan) if collect.explain and collect.reads_counters else 0
    explain_s = NEXT_S + PAGES_S + explained * EXPLAINED_S if explained else 0.0
    return RunForecast(sessions, further_s, explained, explain_s, collect.device == "cpu")


def further_seconds(parts: Sequence[ExpectedLaunches], first_look: Forecast) -> float:
    """Seconds of later looks and the confirmation, by launches as long as in the first look.

    0 where the first look has nothing left to go by.
    """
    if not first_look.remaining:
        return 0.0
    visit_s = first_look.visits_s / first_look.remaining
    return sum(NEXT_S + part.expected * visit_s for part in parts if part.expected)


def cells_to_explain(plan: Plan) -> int:
    """Rough number of cells that a new run explains."""
    counts = sorted(Counter(cell.problem.id for cell in plan.cells).values())
    if Question.STEPS in plan.questions:
        return max(counts, default=0)
    return min(MOST_EXPLAINED, sum(counts[-2:]))


def _typical_seconds(
    plan: Plan,
    experiment: Experiment,
    session: SessionPlan,
    before: SessionPlan | None,
    missing: Sequence[Visit],
) -> tuple[float, float]:
    """Typical seconds of a session until its first visits, and of the missing visits.

    `before`: session before it in the plan.
    """
    if isinstance(experiment.workload, CommandWorkload):
        return 0.0, len(missing) * PROGRAM_S
    follows = before is not None and before.collector == session.collector
    start_s = NEXT_S if follows and not session.starts_anew else START_S
    problems = {plan.problem_of[visit.cell] for visit in missing}
    visit_s = typical_visit(session, experiment.collect).overhead_s
    return (
        start_s * _processes(plan, session, missing) + SET_UP_S * len(problems),
        visit_s * len(missing),
    )


def _earlier_seconds(
    plan: Plan,
    experiment: Experiment,
    session: SessionPlan,
    missing: Sequence[Visit],
    run: RunFolder,
) -> tuple[float, float] | None:
    """The same by a run's attempts of the session; None where it has none."""
    attempts = [a for a in run.attempts() if a.record.session == session.name]
    if isinstance(experiment.workload, CommandWorkload):
        results = [attempt.result for attempt in attempts if attempt.result is not None]
        program_s = [result.seconds for result in results if not result.failed]
        return (0.0, len(missing) * statistics.median(program_s)) if program_s else None
    journals = (runner_journal.read_journal(attempt.journal) for attempt in attempts)
    costs = read_costs(chain.from_iterable(journals), plan.problem_of)
    if not costs.visit_s:
        return None
    visits = Counter(visit.cell for visit in missing)
    visits_s = costs.visits_s(visits, typical_visit(session, experiment.collect))
    start_s = start_seconds(run) * _processes(plan, session, missing)
    if missing:
        start_s += costs.outside_problems_s
    return start_s, visits_s + costs.set_ups_s(visits)


def _processes(plan: Plan, session: SessionPlan, visits: Iterable[Visit]) -> int:
    """Number of processes that some visits take, by the plan."""
    block_of = {visit: visit.block if session.recompiles else 0 for visit in visits}
    return len(
        {(block, *plan.env_of.get(visit.cell, {}).items()) for visit, block in block_of.items()}
    )


def start_seconds(run: RunFolder) -> float:
    """Seconds per session of a run in which sessions start or end and none measures.

    START_S where the run does not say.
    """
    spans = session_seconds(run.seconds())
    sessions = {span.row for span in spans if span.row != PROFILER}
    if not sessions:
        return START_S
    return max(seconds_in_sessions(spans) - measured_seconds(spans), 0.0) / len(sessions)


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
