"""What the attempts of a session have in common, made of spec, plan and machine.

Also before anything is built: a process that waits needs no libraries.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler.collect import Collector, cupti
from profiler.collect.ncu import Ncu
from profiler.collect.registry import COLLECTORS
from profiler.machine.requirements import Machine
from profiler.metrics.explain import explain_sections
from profiler.metrics.queries import ncu_names
from profiler.model import Cell, Plan, SessionKind, SessionPlan
from profiler.planning.session_plans import NCU, flushed_by_runner, ncu_cache_control
from profiler.planning.spec import CudaWorkload, LoadedSpec, ModuleWorkload
from profiler.run_folder.folder import COMPILED_FOLDER, RunFolder
from profiler.runner import protocol
from profiler.sessions.attempt import Session
from profiler.sessions.sources import watched_folders
from profiler.sessions.timeline_tools import TimelineTools
from profiler.sessions.watchdog import Limits

PLACES = 4
"""Places of the inputs of a problem, each for a quarter of its blocks: so they see what an address
does."""


@dataclass(frozen=True)
class Templates:
    """Makes jobs and tools of the sessions of a run."""

    loaded: LoadedSpec
    plan: Plan
    machine: Machine
    folder: Path
    """The run folder."""
    libraries: Mapping[str, str | None] = field(default_factory=dict)
    """Built library by variant id."""
    range_profiler: str = ""
    """Built library of `runner/cupti/range_profiler.cpp`; empty where no session needs it."""
    stamped: Mapping[str, str] = field(default_factory=dict)
    """Libraries with stamps inside their kernels, by variant id: what in-kernel sessions launch."""

    def session(
        self, session: SessionPlan, job: protocol.Job, lock_file: Path | None = None
    ) -> Session:
        """Session with this job, from which each of its attempts is made."""
        return Session(
            job=job,
            collector=self.collector(session),
            metrics=self.metrics(session),
            limits=self.limits(),
            lock_file=lock_file,
            compiled=self.folder.resolve() / COMPILED_FOLDER,
            variables=self.machine.variables,
        )

    def job(
        self,
        session: SessionPlan,
        workload: ModuleWorkload | CudaWorkload,
        checked: Set[str] = frozenset(),
    ) -> protocol.Job:
        """Job with all cells; those that this run has `checked` are not compared once more."""
        collect, timelines = self.loaded.experiment.collect, self.timelines
        recorded, kind = session.kind is SessionKind.TIMELINE, COLLECTORS[session.collector]
        stamped = self.stamped if session.kind is SessionKind.IN_KERNEL else {}
        libraries = {**self.libraries, **stamped}
        job = runner_job(
            self.loaded,
            workload,
            self.machine,
            RunFolder(self.folder),
            session=session.name,
            collector=session.collector,
        )
        return replace(
            job,
            cells=tuple(
                job_cell(cell, libraries, check=cell.id not in checked, recheck=collect.recheck)
                for cell in self.plan.cells
            ),
            repeats=collect.repeats if "repeats" in kind.settings else 1,
            places=PLACES if session.kind is SessionKind.TIMING else 1,
            launches=timelines.launches if recorded else 1,
            capture=timelines.capture,
            counters=self.metrics(session) if session.collector == cupti.KIND.name else (),
            counters_library=self.range_profiler,
            flush=flushed_by_runner(self.loaded.experiment, session, self._capability),
        )

    def collector(self, session: SessionPlan) -> Collector:
        """The tool of a session."""
        if session.kind is SessionKind.EXPLAIN:
            return self.ncu().explaining(explain_sections(self._capability))
        caches = ncu_cache_control(self.loaded.experiment, session, self._capability)
        tools = replace(self.timelines.tools, cache_control=caches)
        return COLLECTORS[session.collector].create(tools)

    @property
    def _capability(self) -> str | None:
        return self.machine.environment.compute_capability

    def tool(self, collector: str) -> Collector:
        """The tool of a collector."""
        return COLLECTORS[collector].create(self.timelines.tools)

    def ncu(self) -> Ncu:
        """The tool of explain sessions."""
        tool = self.tool(NCU)
        if not isinstance(tool, Ncu):
            raise TypeError(f"{NCU} explains nothing")
        return tool

    def limits(self) -> Limits:
        """Time limits of a session."""
        return Limits(step_s=self.loaded.experiment.collect.time_limit_s)

    def metrics(self, session: SessionPlan) -> tuple[str, ...]:
        """Names by which the tool is asked for the metrics of a session."""
        return ncu_names(session.metrics, self._capability)

    @property
    def timelines(self) -> TimelineTools:
        """Settings and tools of timelines."""
        return TimelineTools(self.loaded.experiment, self.machine)


def runner_job(  # noqa: PLR0913 - what a job is made of, its names by keyword
    loaded: LoadedSpec,
    workload: ModuleWorkload | CudaWorkload,
    machine: Machine,
    run: RunFolder,
    *,
    session: str,
    collector: str,
) -> protocol.Job:
    """Job of a session without its cells and visits."""
    experiment = loaded.experiment
    collect = experiment.collect
    results = run.path.resolve().parent
    return protocol.Job(
        session=session,
        workload=workload.target(loaded.base),
        description=workload.document(loaded.base),
        collector=collector,
        device=machine.device,
        seed=collect.seed,
        journal="",
        cells=(),
        visits=(),
        tolerances={
            dtype: protocol.Tolerance(bound.absolute, bound.relative)
            for dtype, bound in experiment.tolerance.items()
        },
        warmups=collect.warmups,
        watched={
            label: str(folder) for label, folder in watched_folders(experiment, loaded.base).items()
        },
        # Where runs of this experiment and built libraries are written.
        unwatched=(str(results), str(results.parent / ".build")),
    )


def job_cell(
    cell: Cell, libraries: Mapping[str, str | None], *, check: bool, recheck: bool
) -> protocol.JobCell:
    """A cell as the runner needs it; `libraries` by variant id."""
    return protocol.JobCell(
        id=cell.id,
        variant=cell.variant.name,
        variant_params=cell.variant.params,
        problem=cell.problem.id,
        problem_params=cell.problem.params,
        library=libraries.get(cell.variant.id),
        check=check,
        recheck=recheck and not cell.variant.trust,
        tolerances={
            dtype: protocol.Tolerance(*bounds) for dtype, bounds in cell.variant.tolerance.items()
        },
    )
