"""Which session comes first, and in which run: a guess before anything is built.

It decides only whether a process is started early. Where it is wrong that process ends unused, and
the session is started when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profiler.errors import ProfilerError
from profiler.machine.requirements import Machine
from profiler.model import Plan, SessionPlan
from profiler.planning.space import Space
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.folder import (
    RUN_FILE,
    SUMMARY_JSON_FILE,
    RunFolder,
    RunRecord,
    newest_run,
    runs,
)
from profiler.runner import protocol
from profiler.sessions.cell_keys import cell_keys
from profiler.sessions.overlap.recorder import SecondsRecorder
from profiler.sessions.sources import digests_now, watched_folders

_SOURCES = ("*.cu", "*.cuh", "*.h", "*.hpp", "*.inl")
"""Files beside a CUDA source that it may include."""


@dataclass(frozen=True)
class Execution:
    """What an execution is about to measure."""

    loaded: LoadedSpec
    plan: Plan
    space: Space
    machine: Machine
    out: Path
    fresh: bool
    """Whether a new run begins whatever there is."""
    created: str
    """Local time, ISO 8601 with offset."""
    seconds: SecondsRecorder = field(default_factory=SecondsRecorder)
    """Where its seconds go."""

    @property
    def build_root(self) -> Path:
        """Folder of the libraries of all experiments."""
        return self.out / ".build"


@dataclass(frozen=True)
class LikelyStart:
    """The session that probably comes first."""

    session: SessionPlan
    run: RunFolder | None
    """The run that goes on; None where a new one begins."""


def likely_start(execution: Execution) -> LikelyStart | None:
    """The first session of a new run, or of the newest one where that probably goes on.

    None where nothing seems to be missing, or nothing can be told.
    """
    first = execution.plan.sessions[0]
    name = execution.loaded.experiment.name
    if execution.fresh or not runs(execution.out, name):
        return LikelyStart(first, None)
    newest = newest_run(execution.out, name)
    if newest is None:
        return LikelyStart(first, None)
    run, record = newest
    try:
        same = _cells_as_before(execution, run, record)
        edited = same < len(execution.plan.cells) or _edited(execution, run, record)
        session = first if edited else _unfinished(execution, run, record)
    except (OSError, ProfilerError):  # said where the builds come to it
        return None
    if not same:
        return LikelyStart(first, None)
    return None if session is None else LikelyStart(session, run)


def _cells_as_before(execution: Execution, run: RunFolder, record: RunRecord) -> int:
    """Number of cells with the key that they had, if all libraries are built as they were."""
    keys = cell_keys(
        execution.plan.cells,
        experiment=execution.loaded.experiment,
        builds={build.variant: build for build in run.builds()},
        environment=execution.machine.environment,
        base=execution.loaded.base,
    )
    return sum(record.keys.get(cell) == key for cell, key in keys.items())


def _edited(execution: Execution, run: RunFolder, record: RunRecord) -> bool:
    """Whether a file that sessions opened has changed, or a CUDA source was written since."""
    folders = watched_folders(execution.loaded.experiment, execution.loaded.base)
    if digests_now(record.opened, folders) != record.opened:
        return True
    written = (run.path / RUN_FILE).stat().st_mtime
    return any(file.stat().st_mtime > written for file in _cuda_sources(execution))


def _cuda_sources(execution: Execution) -> Iterator[Path]:
    """Sources of the libraries, and what lies beside them."""
    recipes = (execution.space.recipe(variant.params) for variant in execution.plan.variants)
    files = {file for recipe in recipes if recipe for file in (*recipe.sources, *recipe.included)}
    yield from files
    for folder in {file.parent for file in files}:
        for pattern in _SOURCES:
            yield from folder.glob(pattern)


def _unfinished(execution: Execution, run: RunFolder, record: RunRecord) -> SessionPlan | None:
    """The first session of which visits are missing; None where the run was written up."""
    loaded = execution.loaded
    as_before = run.spec_file.read_text("utf-8") == loaded.text and record.overrides == loaded.flags
    attempts = run.attempts()
    if as_before and _is_written_up(run, [attempt.journal for attempt in attempts]):
        return None
    measured: set[tuple[str, str, int, int]] = set()
    failed: set[str] = set()
    for attempt in attempts:
        records = list(protocol.read_journal(attempt.journal))
        session = attempt.record.session
        measured |= {(session, *visit) for visit in protocol.finished_visits(records)}
        failed |= {str(r.get("cell")) for r in records if r["event"] == protocol.FAILED}
    return next(
        (
            session
            for session in execution.plan.sessions
            if any(
                (session.name, visit.cell, visit.block, visit.arm) not in measured
                for visit in session.visits
                if visit.cell not in failed
            )
        ),
        None,
    )


def _is_written_up(run: RunFolder, journals: Sequence[Path]) -> bool:
    """Whether results were written after everything that was measured."""
    summary = run.path / SUMMARY_JSON_FILE
    if not summary.exists():
        return False
    written = summary.stat().st_mtime
    return all(journal.stat().st_mtime <= written for journal in journals if journal.exists())
