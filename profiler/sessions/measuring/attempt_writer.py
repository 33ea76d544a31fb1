"""How the attempts of a run begin and end, and how those of a killed profiler are completed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler.collect import Need
from profiler.collect.registry import COLLECTORS, is_needed
from profiler.machine.clock_sampler import ClockSampler, GpuProcesses
from profiler.model import SessionKind, SessionPlan, Visit
from profiler.parse.clock_file import CLOCKS_FILE
from profiler.run_folder.folder import (
    CSV_FILE,
    Attempt,
    AttemptRecord,
    AttemptResult,
    compress,
    compress_reports,
    finish_attempt,
)
from profiler.run_folder.seconds import KEEPS_PAGES
from profiler.sessions.attempt import recover
from profiler.sessions.measuring.after_attempt import check_kernels, keep_pages
from profiler.sessions.measuring.attempt_book import AttemptBook
from profiler.sessions.process import EndCause, SessionResult
from profiler.sessions.sources import parted_files
from profiler.sessions.templates import Templates, timeline_settings
from profiler.sessions.timeline_files import keep_timeline, prepare_private
from profiler.sessions.waiting import Waiting, clear_abandoned


@dataclass
class AttemptWriter:
    """Writes the attempts of a run: their records, clocks and ends."""

    book: AttemptBook
    """Results that the attempts of the run have."""
    templates: Templates
    on_attempt: Callable[[Path], None] | None = None
    """Called with the folder of each attempt when all of its files are written."""
    parted: Mapping[str, str] = field(init=False)
    """`AttemptRecord.parted` with digests at construction, right after the keys were made."""
    _packing: Executor = field(default_factory=lambda: ThreadPoolExecutor(1, "packing"))
    """Compresses reports of sessions while later sessions measure."""
    _gpu_processes: dict[Path, dict[str, int | None]] = field(default_factory=dict)
    """Folder of an attempt → AttemptResult.gpu_processes."""
    _processes: GpuProcesses | None = None
    """Processes on the GPU during the newest attempt."""

    def __post_init__(self) -> None:
        loaded = self.book.execution.loaded
        self.parted = parted_files(loaded.experiment, loaded.base)

    def close(self) -> None:
        """Wait for what is packed."""
        self._packing.shutdown()

    def begin(
        self, session: SessionPlan, record: AttemptRecord, waiting: Waiting | None = None
    ) -> Path:
        """Folder of an attempt with its record: a new folder, or that of the waiting process."""
        if waiting is not None:
            self.book.run.begin_attempt(waiting.folder, record)
            return waiting.folder
        folder = self.book.run.new_attempt(record)
        if session.kind is SessionKind.TIMELINE:
            prepare_private(folder)
        return folder

    def record(self, session: SessionPlan, visits: Sequence[Visit]) -> AttemptRecord:
        """Record of a new attempt that will make visits."""
        recorded = session.kind is SessionKind.TIMELINE
        return AttemptRecord(
            settings=timeline_settings(self.book.execution)[session.collector] if recorded else {},
            session=session.name,
            collector=session.collector,
            kind=session.kind.value,
            metrics=session.metrics,
            time_limit_s=self.book.execution.loaded.experiment.collect.time_limit_s,
            keys={cell: self.book.keys[cell] for cell in dict.fromkeys(v.cell for v in visits)},
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
                folder, self.book.execution.machine.environment.gpu_uuid, processes=processes
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
            keep_timeline(self.book.execution, session.collector, folder, ended_well=ended_well)
        if session.kind is SessionKind.EXPLAIN:
            with self.book.execution.seconds.step(KEEPS_PAGES):
                keep_pages(self.templates.ncu(), folder)

    def finish(self, folder: Path, result: AttemptResult) -> None:
        """Write how an attempt ended; its reports are packed in a thread."""
        finish_attempt(folder, replace(result, gpu_processes=self._gpu_processes[folder]))
        self._packing.submit(compress_reports, folder)

    def announce(self, folder: Path) -> None:
        """Call `on_attempt` with the folder of a complete attempt."""
        self.book.forget(folder)
        if self.on_attempt is not None:
            self.on_attempt(folder)

    def check_kernels(self, attempt: Attempt) -> None:
        """Check the kernels of an attempt by the space, and write the result."""
        check = check_kernels(self.book.load(attempt), self.book.plan, self.book.execution.space)
        if check != attempt.kernel_check:
            self.book.run.write_kernel_check(attempt.folder, check)

    def recover_attempts(self) -> None:
        """Recover results of tools that were killed together with an earlier profiler."""
        clear_abandoned(self.book.run.path / "raw")
        for attempt in self.book.run.attempts():
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
        for attempt in self.book.run.attempts():
            if attempt.record.visit is None:
                self.check_kernels(attempt)

    def _save_timeline(self, attempt: Attempt) -> None:
        """Write the cleaned timeline of an interrupted session, if this machine has its tool."""
        collector = attempt.record.collector
        if is_needed([collector], Need.NSYS) and self.book.execution.machine.nsys is None:
            return
        if attempt.record.settings == timeline_settings(self.book.execution).get(collector):
            keep_timeline(self.book.execution, collector, attempt.folder, ended_well=False)
