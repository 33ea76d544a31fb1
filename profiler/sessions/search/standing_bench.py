"""The bench that an experiment is searched with: a standing runner, its job, its folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from profiler.collect.kind import Tools
from profiler.collect.registry import COLLECTORS
from profiler.machine.requirements import Machine
from profiler.model import Plan
from profiler.planning.spec import CommandWorkload, LoadedSpec
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.sessions.attempt import Session
from profiler.sessions.overlap.templates import runner_job
from profiler.sessions.search.bench import Bench, Subject
from profiler.sessions.search.standing_runner import StandingRunner
from profiler.sessions.watchdog import Limits

TIMER = "timer"
"""Collector that a search measures with: its results are known at once."""
STAGE = "search"


def subject_of(plan: Plan, problems: tuple[str, ...], variant: str, library: str | None) -> Subject:
    """A variant (id) of a plan at the problems of a search."""
    cells = [c for c in plan.cells if c.variant.id == variant and c.problem.id in problems]
    return Subject(variant, cells, library)


def standing_bench(  # noqa: PLR0913 - all by keyword
    *,
    loaded: LoadedSpec,
    machine: Machine,
    run: RunFolder,
    lock_file: Path,
    baseline: Subject,
    on_runner_end: Callable[[str], None],
) -> Bench:
    """Bench whose runners have their files in a run folder, while the lock on the GPU is held."""
    experiment = loaded.experiment
    if isinstance(experiment.workload, CommandWorkload):
        raise TypeError("an external command cannot be searched")
    collector = COLLECTORS[TIMER].create(Tools())
    job = runner_job(loaded, experiment.workload, machine, run, session=STAGE, collector=TIMER)
    folder = (run.path.resolve() / SEARCH_JOURNAL_FILE).parent
    session = Session(
        job=replace(job, repeats=experiment.collect.repeats),
        collector=collector,
        metrics=(),
        limits=Limits(step_s=experiment.collect.time_limit_s),
        lock_file=lock_file,
        compiled=folder / "compiled",
        variables=machine.variables,
    )
    return Bench(
        start=lambda: StandingRunner(session, _new_runner_folder(folder)),
        collector=collector,
        baseline=baseline,
        repeats=session.job.repeats,
        on_runner_end=on_runner_end,
    )


def _new_runner_folder(folder: Path) -> Path:
    number = 1 + len(list(folder.glob("runner.*")))
    return folder / f"runner.{number:03d}"
