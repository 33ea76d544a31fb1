"""Settings shared by the attempts of a session, made of spec, plan and machine; their tools.

Also before anything is built: a process that waits needs no libraries.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from profiler.collect import Collector, Tools, cupti, nsys
from profiler.collect.ncu import Ncu
from profiler.collect.registry import COLLECTORS, timeline_collectors
from profiler.metrics.explain import explain_sections
from profiler.metrics.queries import ncu_names
from profiler.model import ON_ZEROS, Cell, SessionKind, SessionPlan
from profiler.planning.session_plans import NCU, flushed_by_runner, ncu_cache_control
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import COMPILED_FOLDER
from profiler.runner import protocol
from profiler.sessions.attempt import SessionTemplate
from profiler.sessions.execution import Execution, build_root
from profiler.sessions.sources import watched_folders
from profiler.sessions.watchdog import Limits

PLACES = 4
"""Addresses of a problem's inputs, each for a quarter of its blocks, so that blocks show the
effect of an address."""


NSYS = nsys.KIND.name
"""The collector of `--timeline`."""


def tools_of(execution: Execution) -> Tools:
    """Tools for the collectors of a run."""
    collect, machine = execution.loaded.experiment.collect, execution.machine
    return Tools(
        ncu=machine.ncu,
        nsys=machine.nsys,
        cache_control=ncu_cache_control(execution.loaded.experiment),
        clock_control=collect.clock_control,
        replay_mode=collect.replay_mode,
        child_processes=collect.child_processes,
        nsys_capture=nsys_capture(execution),
    )


def nsys_capture(execution: Execution) -> str:
    """Capture setting of nsys: as in the spec, `program` where there are no visits.

    An external command has no visits; and without CUDA nothing can tell nsys when to begin.
    """
    experiment = execution.loaded.experiment
    requested_capture = experiment.collect.timeline.capture
    blind = isinstance(experiment.workload, CommandWorkload) or execution.machine.device == "cpu"
    if requested_capture == protocol.CAPTURE_VISITS and blind:
        return protocol.CAPTURE_PROGRAM
    return requested_capture


def timeline_settings(execution: Execution) -> dict[str, Mapping[str, Any]]:
    """Settings of each collector of timelines that could change one and are in no cell's key."""
    launches = {"launches": execution.loaded.experiment.collect.timeline.launches}
    capture, version = nsys_capture(execution), execution.machine.environment.nsys
    of_nsys = {**launches, "capture": capture, "nsys": version}
    return {
        collector: launches if COLLECTORS[collector].report_file is None else of_nsys
        for collector in timeline_collectors()
    }


@dataclass(frozen=True)
class Templates:
    """Makes jobs and tools of the sessions of a run."""

    execution: Execution
    folder: Path
    """The run folder."""
    libraries: Mapping[str, str | None] = field(default_factory=dict)
    """Built library by variant id."""
    range_profiler: str = ""
    """Built library of `runner/cupti/range_profiler.cpp`; empty where no session needs it."""
    stamped: Mapping[str, str] = field(default_factory=dict)
    """Libraries with in-kernel stamps for in-kernel sessions, by variant id."""
    lock_file: Path | None = None
    """Lock file that is held while anything of a session lives (`gpu_lock`)."""

    def session(self, session: SessionPlan, checked: Set[str] = frozenset()) -> SessionTemplate:
        """Template of a session's attempts; `checked` cells are not compared once more."""
        return SessionTemplate(
            job=self._job(session, checked),
            collector=self.collector(session),
            metrics=self.metrics(session),
            limits=self.limits(),
            lock_file=self.lock_file,
            compiler_caches=self.folder.resolve() / COMPILED_FOLDER,
            variables=self.execution.machine.variables,
        )

    def _job(self, session: SessionPlan, checked: Set[str]) -> protocol.Job:
        """Job with all cells."""
        experiment = self.execution.loaded.experiment
        recorded, kind = session.kind is SessionKind.TIMELINE, COLLECTORS[session.collector]
        lasts = "sustained_s" in kind.settings
        stamped = self.stamped if session.kind is SessionKind.IN_KERNEL else {}
        libraries = {**self.libraries, **stamped}
        recheck = experiment.collect.recheck
        job = runner_job(
            self.execution, self.folder, session=session.name, collector=session.collector
        )
        return replace(
            job,
            cells=tuple(
                job_cell(cell, libraries, check=cell.id not in checked, recheck=recheck)
                for cell in self.execution.plan.cells
            ),
            settings=protocol.MeasureSettings(
                warmups=experiment.collect.warmups,
                repeats=experiment.collect.repeats if "repeats" in kind.settings else 1,
                flush=flushed_by_runner(experiment, session, self._capability),
                places=PLACES if session.kind is SessionKind.TIMING and not lasts else 1,
                counters=self.metrics(session) if session.collector == cupti.KIND.name else (),
                counters_library=self.range_profiler,
                launches=experiment.collect.timeline.launches if recorded else 1,
                longest_s=experiment.collect.sustained_s if lasts else 0.0,
                capture=nsys_capture(self.execution),
            ),
        )

    def collector(self, session: SessionPlan) -> Collector:
        """The tool of a session."""
        if session.kind is SessionKind.EXPLAIN:
            return self.ncu().explaining(explain_sections(self._capability))
        caches = ncu_cache_control(self.execution.loaded.experiment, session, self._capability)
        tools = replace(tools_of(self.execution), cache_control=caches)
        return COLLECTORS[session.collector].create(tools)

    @property
    def _capability(self) -> str | None:
        return self.execution.machine.environment.compute_capability

    def tool(self, collector: str) -> Collector:
        """The tool of a collector."""
        return COLLECTORS[collector].create(tools_of(self.execution))

    def ncu(self) -> Ncu:
        """The tool of explain sessions."""
        tool = self.tool(NCU)
        if not isinstance(tool, Ncu):
            raise TypeError(f"{NCU} explains nothing")
        return tool

    def limits(self) -> Limits:
        """Time limits of a session."""
        return Limits(step_s=self.execution.loaded.experiment.collect.time_limit_s)

    def metrics(self, session: SessionPlan) -> tuple[str, ...]:
        """Names of a session's metrics in its tool."""
        return ncu_names(session.metrics, self._capability)


def runner_job(execution: Execution, run: Path, *, session: str, collector: str) -> protocol.Job:
    """Job of a session of the runner, without its cells and visits; `run`: the run folder."""
    loaded = execution.loaded
    experiment, workload = loaded.experiment, loaded.experiment.workload
    if isinstance(workload, CommandWorkload):
        raise TypeError("an external command has no sessions of the runner")
    results, folders = run.resolve().parent, watched_folders(experiment, loaded.base)
    return protocol.Job(
        session=session,
        workload=workload.target(loaded.base),
        description=workload.document(loaded.base),
        collector=collector,
        device=execution.machine.device,
        seed=experiment.collect.seed,
        journal="",
        cells=(),
        visits=(),
        tolerances={
            dtype: protocol.Tolerance(bound.absolute, bound.relative)
            for dtype, bound in experiment.tolerance.items()
        },
        process=protocol.ProcessSettings(
            watched={label: str(folder) for label, folder in folders.items()},
            # Where runs of this experiment and built libraries are written.
            unwatched=(str(results), str(build_root(results.parent))),
        ),
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
        problem_params={
            name: value
            for name, value in cell.problem.params.items()
            if not cell.problem.on_zeros or name not in ON_ZEROS
        },
        on_zeros=cell.problem.on_zeros,
        library=libraries.get(cell.variant.id),
        check=check,
        # Inputs of every seed are the same there; its program is checked again on other values.
        recheck=recheck and not cell.variant.trust and not cell.problem.on_zeros,
        tolerances={
            dtype: protocol.Tolerance(*bounds) for dtype, bounds in cell.variant.tolerance.items()
        },
    )
