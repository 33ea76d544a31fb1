"""The attempts of a run while it is measured: what they have, and how one begins and ends."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from profiler.collect import Need
from profiler.collect.registry import COLLECTORS, has_counters, is_needed
from profiler.machine.clock_sampler import ClockSampler, GpuProcesses
from profiler.model import BuildResult, Cell, Plan, SessionKind, SessionPlan, Visit
from profiler.parse import runner_journal
from profiler.parse.clock_file import CLOCKS_FILE
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import (
    CSV_FILE,
    Attempt,
    AttemptRecord,
    AttemptResult,
    RunFolder,
    compress,
    compress_reports,
    finish_attempt,
)
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.loaded import Loaded, missing_roofs
from profiler.run_folder.load.outcomes import Results, failures, find_aliases, gather
from profiler.run_folder.seconds import KEEPS_PAGES
from profiler.sessions.attempt import recover
from profiler.sessions.execution import Execution
from profiler.sessions.measuring.after_attempt import check_kernels, keep_pages
from profiler.sessions.process import EndCause, SessionResult
from profiler.sessions.sources import parted_files
from profiler.sessions.templates import Templates, timeline_settings
from profiler.sessions.timeline_files import keep_timeline, prepare_private
from profiler.sessions.waiting import Waiting, clear_abandoned


@dataclass
class AttemptBook:
    """Reads the attempts of a run, each once, and writes new ones."""

    execution: Execution
    run: RunFolder
    builds: Sequence[BuildResult]
    keys: Mapping[str, str]
    """Cell id → key of today."""
    reader: AttemptReader
    opened: Mapping[str, str]
    """Today's digests of the files that earlier sessions opened, as in RunRecord.opened."""
    templates: Templates
    on_attempt: Callable[[Path], None] | None = None
    """Called with the folder of each attempt when all of its files are written."""
    parted: Mapping[str, str] = field(init=False)
    """`AttemptRecord.parted` with digests at construction, right after the keys were made."""
    earlier: Set[Path] = field(init=False)
    """Folders of the attempts that earlier executions made."""
    _ended: dict[Path, Loaded] = field(default_factory=dict)
    """Finished attempts by folder, each read once."""
    _gathered: tuple[Sequence[Loaded], Results] | None = None
    """Attempts, and the results gathered from them."""
    _packing: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "packing"))
    """Compresses reports of sessions while later sessions measure."""
    _gpu_processes: dict[Path, dict[str, int | None]] = field(default_factory=dict)
    """Folder of an attempt → AttemptResult.gpu_processes."""
    _processes: GpuProcesses | None = None
    """Processes on the GPU during the newest attempt."""

    def __post_init__(self) -> None:
        loaded = self.execution.loaded
        self.parted = parted_files(loaded.experiment, loaded.base)
        self.earlier = {attempt.folder for attempt in self.run.attempts()}

    @property
    def plan(self) -> Plan:
        """What is measured."""
        return self.execution.plan

    def close(self) -> None:
        """Wait for what is packed."""
        self._packing.shutdown()

    # ---- what there is ----

    def attempts(self) -> list[Loaded]:
        """Every attempt of the run so far; an attempt is read again after its end."""
        on_disk = self._attempts_on_disk()
        self.reader.read_ahead(on_disk, self.execution.machine.environment.compute_capability)
        attempts = [self._ended.get(attempt.folder) or self.load(attempt) for attempt in on_disk]
        self._ended = {loaded.attempt.folder: loaded for loaded in filter(_has_ended, attempts)}
        return attempts

    def opened_meanwhile(self) -> dict[str, str]:
        """Last digest by name of each file that sessions of this execution opened."""
        on_disk = self._attempts_on_disk()
        attempts = (attempt for attempt in on_disk if attempt.folder not in self.earlier)
        journals = filter(None, map(self._records, attempts))
        opened: dict[str, str] = {}
        for records in sorted(journals, key=lambda records: records[0].get("time", 0.0)):
            opened |= runner_journal.opened_files(records)
        return opened

    def _records(self, attempt: Attempt) -> Sequence[Mapping[str, Any]]:
        loaded = self._ended.get(attempt.folder)
        return loaded.records if loaded else tuple(runner_journal.read_journal(attempt.journal))

    def _attempts_on_disk(self) -> tuple[Attempt, ...]:
        ended_attempts = {folder: loaded.attempt for folder, loaded in self._ended.items()}
        return self.run.attempts(ended_attempts)

    def load(self, attempt: Attempt) -> Loaded:
        """Read an attempt, once."""
        capability = self.execution.machine.environment.compute_capability
        settings = timeline_settings(self.execution)
        # Measurements of this execution count until its end, also after edits.
        opened = self.opened if attempt.folder in self.earlier else {}
        return self.reader.load(attempt, self.keys, capability, settings, opened)

    def measured_visits(self, folder: Path) -> Set[Visit]:
        """Visits with results in an attempt."""
        return self.load(self.run.attempt(folder)).visits

    def missing_visits(
        self,
        session: SessionPlan,
        earlier: Sequence[Loaded],
        throttled: Set[Visit] = frozenset(),
    ) -> tuple[Visit, ...]:
        """Visits still to make, including repeats of `throttled` ones."""
        return missing_visits(
            self.plan,
            session,
            earlier,
            builds=self.builds,
            stamped=self.templates.stamped,
            time_limit_s=self.execution.loaded.experiment.collect.time_limit_s,
            throttled=throttled,
        )

    def roofs(self, session: SessionPlan, earlier: Sequence[Loaded]) -> tuple[str, ...]:
        """Practical roofs for a session to measure: roofs that no earlier attempt has.

        None where nothing is explained: they are part of the why, and take some seconds.
        """
        if not self.execution.loaded.experiment.collect.explain or not has_counters(
            session.collector
        ):
            return ()
        return missing_roofs(session.metrics, earlier)

    def samples(self) -> pd.DataFrame:
        """Samples so far, without those of failed cells."""
        results = self._results()
        failed = {cell for cell, status in results.statuses.items() if status.outcome.failed}
        return results.samples[~results.samples["cell"].isin(failed)]

    def cells(self) -> tuple[Cell, ...]:
        """Cells of the plan; the parts seen so far of an external command."""
        if not isinstance(self.execution.loaded.experiment.workload, CommandWorkload):
            return self.plan.cells
        return self._results().cells

    def explained_cells(self) -> frozenset[str]:
        """Ids of the explained cells; of an external command the ids of its parts."""
        return frozenset(cell for loaded in self.attempts() for cell in loaded.profiles or ())

    def launches(self) -> dict[str, int]:
        """Most profiled launches in a visit of an external command, by planned cell."""
        launches: dict[str, int] = {}
        for loaded in self.attempts():
            visit, counted = loaded.attempt.record.visit, loaded.attempt.record.counted
            if visit is not None and not counted:
                launches[visit["cell"]] = max(launches.get(visit["cell"], 0), loaded.launches)
        return launches

    def _results(self) -> Results:
        """Results so far: gathered again only after an attempt began or ended."""
        attempts = self.attempts()
        if self._gathered is None or not _are_same_attempts(self._gathered[0], attempts):
            results = gather(self.plan, self.builds, attempts, self.execution.machine.environment)
            self._gathered = attempts, results
        return self._gathered[1]

    # ---- one attempt ----

    def begin(
        self, session: SessionPlan, record: AttemptRecord, waiting: Waiting | None = None
    ) -> Path:
        """Folder of an attempt with its record: a new folder, or that of the waiting process."""
        if waiting is not None:
            self.run.begin_attempt(waiting.folder, record)
            return waiting.folder
        folder = self.run.new_attempt(record)
        if session.kind is SessionKind.TIMELINE:
            prepare_private(folder)
        return folder

    def record(self, session: SessionPlan, visits: Sequence[Visit]) -> AttemptRecord:
        """Record of a new attempt that will make visits."""
        recorded = session.kind is SessionKind.TIMELINE
        return AttemptRecord(
            settings=timeline_settings(self.execution)[session.collector] if recorded else {},
            session=session.name,
            collector=session.collector,
            kind=session.kind.value,
            metrics=session.metrics,
            time_limit_s=self.execution.loaded.experiment.collect.time_limit_s,
            keys={cell: self.keys[cell] for cell in dict.fromkeys(v.cell for v in visits)},
            parted=self.parted,
        )

    @contextmanager
    def clocks(self, folder: Path, waiting: Waiting | None = None) -> Iterator[None]:
        """While the body runs, sample the GPU's clocks and processes for an attempt.

        A process that waited may have opened the GPU already, so that the first look has no meaning
        any more: the one before the first session of the row stands for it. The first session has
        not: its gates open inside. One that makes visits already is sampled since then.
        """
        if waiting is not None and waiting.visits is not None:
            with waiting.sampling:
                yield
            return
        processes = GpuProcesses()
        if waiting is not None and self._processes is not None:
            processes = self._processes.for_next_session()
        self._processes = processes
        try:
            with ClockSampler(
                folder, self.execution.machine.environment.gpu_uuid, processes=processes
            ):
                yield
        finally:
            compress(folder / CLOCKS_FILE)
            self._gpu_processes[folder] = processes.other_processes()

    @contextmanager
    def begun_early(self, waiting: Waiting, visits: tuple[Visit, ...]) -> Iterator[None]:
        """Sample the clocks from now on for a process that begins its visits in the body."""
        with ExitStack() as sampling:
            sampling.enter_context(self.clocks(waiting.folder, waiting))
            yield
            waiting.visits, waiting.sampling = visits, sampling.pop_all()

    def keep_files(self, session: SessionPlan, folder: Path, result: SessionResult) -> None:
        """Keep the tool's files that later readers need."""
        if session.kind is SessionKind.TIMELINE:
            ended_well = result.cause is EndCause.FINISHED
            keep_timeline(self.execution, session.collector, folder, ended_well=ended_well)
        if session.kind is SessionKind.EXPLAIN:
            with self.execution.seconds.step(KEEPS_PAGES):
                keep_pages(self.templates.ncu(), folder)

    def finish(self, folder: Path, result: AttemptResult) -> None:
        """Write how an attempt ended; its reports are packed in a thread."""
        finish_attempt(folder, replace(result, gpu_processes=self._gpu_processes[folder]))
        self._packing.submit(compress_reports, folder)

    def announce(self, folder: Path) -> None:
        """Call `on_attempt` with the folder of a complete attempt."""
        self._ended.pop(folder, None)
        if self.on_attempt is not None:
            self.on_attempt(folder)

    def check_kernels(self, attempt: Attempt) -> None:
        """Check the kernels of an attempt by the space, and write the result."""
        check = check_kernels(self.load(attempt), self.plan, self.execution.space)
        if check != attempt.kernel_check:
            self.run.write_kernel_check(attempt.folder, check)

    # ---- what a killed profiler left ----

    def recover_attempts(self) -> None:
        """Recover results of tools that were killed together with an earlier profiler."""
        clear_abandoned(self.run.path / "raw")
        for attempt in self.run.attempts():
            collector, kind = attempt.record.collector, attempt.record.kind
            if attempt.result is not None or collector not in COLLECTORS:  # of a newer version
                continue
            if kind == SessionKind.TIMELINE:
                self._save_timeline(attempt)
                continue
            log = attempt.folder / CSV_FILE
            if log.exists():
                recover(self.templates.tool(collector), attempt.folder)
                compress(log)
            if kind == SessionKind.EXPLAIN:
                keep_pages(self.templates.ncu(), attempt.folder)

    def check_recovered_kernels(self) -> None:
        """Check the kernels of attempts whose profiler was stopped before it did."""
        for attempt in self.run.attempts():
            if attempt.record.visit is None:
                self.check_kernels(attempt)

    def _save_timeline(self, attempt: Attempt) -> None:
        """Write the cleaned timeline of an interrupted session, if this machine has its tool."""
        collector = attempt.record.collector
        if is_needed([collector], Need.NSYS) and self.execution.machine.nsys is None:
            return
        if attempt.record.settings == timeline_settings(self.execution).get(collector):
            keep_timeline(self.execution, collector, attempt.folder, ended_well=False)


def _has_ended(loaded: Loaded) -> bool:
    """Whether an attempt is complete; one with unreadable files may be mended and read again."""
    return loaded.attempt.result is not None and not loaded.unreadable


def _are_same_attempts(earlier: Sequence[Loaded], current: Sequence[Loaded]) -> bool:
    return len(earlier) == len(current) and all(map(operator.is_, earlier, current))


def missing_visits(  # noqa: PLR0913 - all but the first three by keyword
    plan: Plan,
    session: SessionPlan,
    earlier: Sequence[Loaded],
    *,
    builds: Sequence[BuildResult],
    stamped: Collection[str],
    time_limit_s: float,
    throttled: Set[Visit],
) -> tuple[Visit, ...]:
    """Visits still to make, including repeats of `throttled` ones.

    `stamped`: ids of the variants that have a library with stamps; `time_limit_s`: of a visit.
    """
    measured = measured_visits(session, earlier) - throttled
    skipped = {build.variant for build in builds if not build.ok}
    if session.kind is SessionKind.IN_KERNEL:
        skipped |= {v.id for v in plan.variants if v.id not in stamped}
    failed = failures(plan, earlier, kind=session.kind)
    left_out = {cell for cell, failure in failed.items() if failure.is_lasting(time_limit_s)}
    left_out |= set(find_aliases(plan.cells, builds))
    variant_of = {cell.id: cell.variant.id for cell in plan.cells}
    return tuple(
        visit
        for visit in session.visits
        if visit not in measured
        and visit.cell not in left_out
        and variant_of[visit.cell] not in skipped
    )


def measured_visits(session: SessionPlan, earlier: Sequence[Loaded]) -> set[Visit]:
    """Visits with results in the attempts of a session."""
    of_session = (a for a in earlier if a.attempt.record.session == session.name)
    return set[Visit]().union(*(loaded.visits for loaded in of_session))
