"""Which visits of a plan a run would not make again, found out without building or importing.

By the rule by which a run decides (`missing_visits`). Where only a build could tell
whether the machine code is the same, it counts as another.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from profiler.collect import Need
from profiler.collect.ncu import find_ncu
from profiler.collect.registry import is_needed
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.machine.environment import Gpu, cpu_model, package_version, visible_gpus
from profiler.machine.installs import ncu_version
from profiler.machine.requirements import Machine, runs_on_cpu
from profiler.model import BuildResult, Environment, SearchPlan, SessionKind, SessionPlan, Visit
from profiler.notices import first_names
from profiler.outside_text import safe
from profiler.planning.plan import foreseen_plan, judged_plan
from profiler.planning.spec import CommandWorkload, Experiment, load_spec
from profiler.run_folder.folder import (
    BUILD_FILE,
    SEARCH_JOURNAL_FILE,
    Attempt,
    RunFolder,
    RunRecord,
)
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.loaded import Loaded
from profiler.run_folder.load.throttling import throttled_again
from profiler.run_folder.redact import private_names, public_environment
from profiler.run_folder.runs import newest_run
from profiler.search.journal import SearchRecord, read_search
from profiler.sessions.attempt import journal_visits
from profiler.sessions.builds.libraries import stamped_variants
from profiler.sessions.builds.plan_builds import as_built
from profiler.sessions.cell_keys import keys_of, measuring_machine, settings_in_keys
from profiler.sessions.execution import Execution
from profiler.sessions.forecasts.forecast import EarlierSearch, EarlierVisits, SessionVisits
from profiler.sessions.measuring.attempt_book import measured_visits, missing_visits
from profiler.sessions.search.search import terms_of
from profiler.sessions.sources import edited_files, opened_now
from profiler.sessions.templates import timeline_settings


def likely_machine(experiment: Experiment, run: RunFolder, first_gpu: Gpu | None) -> Machine:
    """The local machine; the machine of an earlier run where the local one has no GPU to use.

    `first_gpu`: the one here that CUDA uses first, if any. Where there is no ncu, it is the one of
    the run.
    """
    earlier = _with_uuid(run.record().environment, run)
    collect = experiment.collect
    gpu = first_gpu if collect.gpu_index is None else _numbered_gpu(collect.gpu_index)
    on_cpu = runs_on_cpu(experiment, gpu)
    if gpu is None and not on_cpu:
        return Machine(earlier, "cuda", None)
    described_gpu = Gpu() if gpu is None or on_cpu else gpu
    environment = replace(
        earlier,
        gpu=described_gpu.name,
        gpu_uuid=described_gpu.uuid,
        driver=described_gpu.driver,
        compute_capability=described_gpu.compute_capability,
        ncu=(_ncu_here() or earlier.ncu) if is_needed(collect.collectors, Need.NCU) else None,
        torch=package_version("torch"),
        python=platform.python_version(),
        cpu=cpu_model(),
    )
    return Machine(environment, "cpu" if on_cpu else "cuda", None)


def _numbered_gpu(index: int) -> Gpu | None:
    gpus = visible_gpus()
    return gpus[index] if index < len(gpus) else None


def _ncu_here() -> str | None:
    """Version of the ncu that a run would use; None without ncu."""
    try:
        return ncu_version(find_ncu())
    except EnvironmentUnusable:
        return None


def _with_uuid(environment: Environment, run: RunFolder) -> Environment:
    """Environment of a run with its GPU's real UUID, where the run folder has it."""
    uuids = {public: uuid for uuid, public in private_names(run.path)}
    uuid = environment.gpu_uuid
    return environment if uuid is None else replace(environment, gpu_uuid=uuids.get(uuid, uuid))


_MOST_NAMED = 3
_MACHINE_WORDS = {
    "gpu": "GPU",
    "gpu_uuid": "GPU",
    "python": "version of Python",
    "cpu": "processor",
}
"""Words for fields of the environment that are none themselves."""


def earlier_visits(execution: Execution) -> EarlierVisits:
    """Visits of a plan, and state of its search, in the newest run; the machine is a likely one.

    Nothing of a run that cannot be read, which is said.
    """
    experiment, plan = execution.loaded.experiment, execution.plan
    foreseen = EarlierVisits(foreseen_plan(experiment, plan))
    newest = newest_run(execution.out, experiment.name)
    if newest is None:
        return foreseen
    run, record = newest
    try:
        builds = _builds(execution, run)
        search = _search(execution, run, builds)
        if search is not None and search.restarts:
            return replace(foreseen, search=search)
        if search is not None and search.finalists is not None:
            plan = judged_plan(experiment, plan, search.finalists)
        else:
            plan = foreseen.plan
        reading = _read(replace(execution, plan=plan), run, record, builds)
        sessions = {session.name: reading.of_session(session) for session in plan.sessions}
        return EarlierVisits(plan, sessions, search)
    except (OSError, ProfilerError):
        unreadable_visits = SessionVisits(why_again="the newest run cannot be read")
        return replace(
            foreseen, sessions={s.name: unreadable_visits for s in foreseen.plan.sessions}
        )


def _builds(execution: Execution, run: RunFolder) -> tuple[BuildResult, ...]:
    """Builds of a run that a build today would repeat."""
    builds = run.builds()
    if not builds:
        return ()
    return as_built(execution, builds, (run.path / BUILD_FILE).stat().st_mtime)


def _search(
    execution: Execution, run: RunFolder, builds: Sequence[BuildResult]
) -> EarlierSearch | None:
    """The search of a run, as another execution would resume it; None without a search."""
    plan = execution.plan.search
    if plan is None:
        return None
    record = read_search(run.path / SEARCH_JOURNAL_FILE)
    if record is None or record.terms != terms_of(execution, plan, keys_of(execution, builds)):
        return EarlierSearch(restarts=True)
    finished = record.finished if _is_spent(record, plan) else None
    return EarlierSearch(len(record.evaluations), None if finished is None else finished.finalists)


def _is_spent(record: SearchRecord, plan: SearchPlan) -> bool:
    """Whether a search has used up today's budget, or proposed all."""
    proposals = len(record.proposed)
    return proposals >= len(plan.variants) or plan.is_spent(proposals, record.elapsed_s)


@dataclass(frozen=True)
class _Reading:
    """A run, read with today's cell keys."""

    execution: Execution
    run: RunFolder
    record: RunRecord
    builds: Sequence[BuildResult]
    """Builds whose sources and compilers are unchanged."""
    opened: Mapping[str, str]
    """Digest today of each file that sessions opened."""
    attempts: Sequence[Loaded]

    def of_session(self, session: SessionPlan) -> SessionVisits:
        """Visits of a session that are measured, and visits that a run would leave out."""
        plan, visits = self.execution.plan, frozenset(session.visits)
        missing = missing_visits(
            plan,
            session,
            self.attempts,
            builds=self.builds,
            stamped=stamped_variants(self.builds),
            time_limit_s=self.execution.loaded.experiment.collect.time_limit_s,
            throttled=throttled_again(plan, session.name, self.attempts),
        )
        measured = (visits & measured_visits(session, self.attempts)).difference(missing)
        return SessionVisits(
            measured, visits.difference(missing, measured), self._why_again(session, missing)
        )

    def _why_again(self, session: SessionPlan, missing: Collection[Visit]) -> str:
        """Changes that make a run repeat visits, in words; empty where no visit is repeated."""
        outdated = [
            loaded.attempt
            for loaded in self.attempts
            if loaded.attempt.record.session == session.name
            and not _outdated_visits(loaded).isdisjoint(missing)
        ]
        if not outdated:
            return ""
        return "; ".join(self._changes(outdated)) or self._other_change

    def _changes(self, outdated: Iterable[Attempt]) -> Iterator[str]:
        """Named changes since the outdated attempts."""
        edited = sorted(map(safe, edited_files(outdated, self.opened)))
        if edited:
            yield f"{first_names(edited, _MOST_NAMED)} edited since"
        planned = {variant.id for variant in self.execution.plan.variants}
        changed_builds = {build.variant for build in self.run.builds()}
        changed_builds -= {build.variant for build in self.builds}
        if not planned.isdisjoint(changed_builds):
            yield "kernels may have changed, only a build can tell"
        machine = self.execution.machine.environment
        experiment = self.execution.loaded.experiment
        today = measuring_machine(public_environment(machine, self.record.seed), experiment)
        changed_parts = _other_parts(today, measuring_machine(self.record.environment, experiment))
        if changed_parts:
            yield f"measured with another {first_names(changed_parts, _MOST_NAMED)}"
        if self._settings_changed():
            yield "settings changed since"

    def _settings_changed(self) -> bool:
        """Whether the experiment had other settings that keys of cells depend on."""
        try:
            earlier = load_spec(self.run.spec_file, overrides=self.record.overrides).experiment
        except ProfilerError:  # of another version
            return True
        return settings_in_keys(earlier) != settings_in_keys(self.execution.loaded.experiment)

    @property
    def _other_change(self) -> str:
        """Words for a change that none of the named ones explains."""
        if isinstance(self.execution.loaded.experiment.workload, CommandWorkload):
            return "the program or a file that it depends on was edited since"
        return "the workload, the profiler or settings of timelines changed since"


def _read(
    execution: Execution, run: RunFolder, record: RunRecord, builds: Sequence[BuildResult]
) -> _Reading:
    """Read the attempts of a run, except those of explain sessions, which no plan has."""
    loaded, machine = execution.loaded, execution.machine
    attempts = [a for a in run.attempts() if a.record.kind != SessionKind.EXPLAIN]
    opened = opened_now(loaded, attempts)
    keys = keys_of(execution, builds)
    settings = timeline_settings(execution)
    reader, capability = AttemptReader(), machine.environment.compute_capability
    loaded_attempts = [
        reader.load(attempt, keys, capability, settings, opened) for attempt in attempts
    ]
    return _Reading(execution, run, record, builds, opened, loaded_attempts)


def _outdated_visits(loaded: Loaded) -> frozenset[Visit]:
    """Visits of an attempt whose results count no more."""
    attempt = loaded.attempt
    if attempt.record.visit is None:
        visits = journal_visits(attempt.folder)
    elif attempt.result is not None and not attempt.result.failed:
        visits = frozenset({Visit(**attempt.record.visit)})
    else:
        visits = frozenset()
    return frozenset(visit for visit in visits if visit.cell not in loaded.current_cells)


def _other_parts(today: Mapping[str, str | None], earlier: Mapping[str, str | None]) -> list[str]:
    """Changed parts of a machine, in words."""
    fields = (field for field, value in today.items() if value != earlier[field])
    return list(dict.fromkeys(_MACHINE_WORDS.get(field, field) for field in fields))
