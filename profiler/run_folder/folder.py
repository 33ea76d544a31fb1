"""The run folder: the only place where a run keeps data, written so that a kill loses nothing.

    reports/<experiment>/<YYYYmmdd-HHMMSS>/
      run.json     created, seed, environment, cell keys, seconds per stage, whether a recording
      spec.yaml    the text as given
      plan.json    cells, exclusions and sessions, as they were last asked for (in a recording
                   plan.json.gz)
      build.json   one BuildResult per variant
      sources.json text of the workload's own source files (not in a recording)
      search/      of a search: journal.jsonl, and runner.<number>/ with what its processes left
      compiled/    caches of torch's and Triton's compilers
      raw/<attempt>/   session.json and command.txt (before it starts), result.json (after it
                       ended), kernels.json (whether its kernels are those of their variants),
                       worker.json (which GPU, where workers measured), job.json,
                       journal.jsonl, ncu.csv(.gz), clocks.csv(.gz), report.ncu-rep(.gz),
                       stdout.txt, stderr.txt; of a timeline
                       operations.csv.gz, ranges.csv.gz, api.csv.gz, timeline.json, and private/
                       with what its tool wrote, which never leaves the run folder

What became of the cells is never stored apart: it is read from the attempts, each time. So a run
that was killed at any moment, a finished run and a recording are loaded by the same code.

A run folder is data: whoever reads one imports nothing that it names, and follows no link in it.
A recording is one as an archive (`archive.py`).
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from profiler.errors import UsageError
from profiler.model import (
    EXPERIMENT_NAME,
    SCHEMA_VERSION,
    BuildResult,
    Environment,
    OrderedParts,
    Outcome,
    Plan,
    RangeParts,
    SessionKind,
    SessionPlan,
    Span,
)
from profiler.outside_text import bounded_pattern
from profiler.parse.bounded_files import plain_or_packed, read_plain, replacing
from profiler.run_folder.documents import (
    read_dataclass,
    read_json,
    read_value,
    refuse_link,
    write_atomic,
    write_json,
)
from profiler.run_folder.redact import MACHINE_FILE, machine_texts, public_environment
from profiler.run_folder.seconds import SECONDS_FILE, Executions, read_seconds

RUN_FILE = "run.json"
SPEC_FILE = "spec.yaml"
PLAN_FILE = "plan.json"
BUILD_FILE = "build.json"
SESSION_FILE = "session.json"
RESULT_FILE = "result.json"
KERNELS_FILE = "kernels.json"
WORKER_FILE = "worker.json"
COMMAND_FILE = "command.txt"
JOURNAL_FILE = "journal.jsonl"
CSV_FILE = "ncu.csv"
EXPLAIN_FILES = ("rules.csv", "sass.csv", "source.csv", "series.json")
"""Pages of an explain session's report, and samples inside its launches."""
SEARCH_JOURNAL_FILE = "search/journal.jsonl"
"""Proposals of a search and their results (`profiler.search.journal`)."""
COMPILED_FOLDER = "compiled"
SOURCES_FILE = "sources.json"
TOOL_REPORT_FILE = "report.ncu-rep"
PRIVATE_FILES = ("private/report.nsys-rep", "private/timeline.sqlite")
"""Files of nsys in the folder of an attempt: its report and the SQLite export."""
PAGE_FILE = "index.html"
ARCHIVE_SUFFIX = ".zip"
SUMMARY_JSON_FILE = "summary.json"
_BLAME_PARTS = 2
"""Outcome and cause, in AttemptResult.failed."""
_MOST_BLOCKS = 2**31
_EARLIER_KEYS = {"plain_timer": "wall_clock"}
"""Today's key of a collector, by its key in older run folders."""
Named = TypeVar("Named", SessionPlan, "AttemptRecord")


@dataclass(frozen=True)
class Sources:
    """Digests of a workload's own source files, and of the sources of each variant."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Path from the workload's folder → digest of the content."""
    variants: Mapping[str, str] = field(default_factory=dict)
    """Variant id → digest; none where files cannot be told apart by variant."""


@dataclass(frozen=True)
class RunRecord:
    """The content of run.json."""

    experiment: str
    created: str
    """Local time at which the run began, ISO 8601 with offset."""
    seed: int
    environment: Environment
    keys: Mapping[str, str]
    """Cell id → hash of everything that could change its numbers."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage, added up over resumed executions."""
    spec_path: str = "SPEC"
    """Path of the experiment file, for a rerun command."""
    overrides: tuple[str, ...] = ()
    """`key=value` flags that were laid over the spec."""
    timelines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Collector of timelines → AttemptRecord.settings of today."""
    opened: Mapping[str, str] = field(default_factory=dict)
    """File that sessions opened (`profiler.runner.protocol.OPENED`) → digest of its content at the
    end of the last execution: what an attempt measured with another content is not used."""
    variables: str | None = None
    """Digest of the environment variables in keys; None for runs of versions without it."""
    libraries: Mapping[str, str] | None = None
    """Versions by name of the packages that the workload imports; None as above."""
    sources: Sources | None = None
    """None for runs of versions that did not record sources."""
    number: int = 0
    """Which run of its experiment in its folder it is, from 1; 0 of runs that were not counted.
    Clocks step back: this orders runs before `created` does."""
    recording: bool = False
    """Whether this is a copy by `profiler record`, which a newer one may replace."""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True)
class AttemptRecord:
    """Content of session.json: one process under one tool, written before its start."""

    session: str
    collector: str
    kind: str
    metrics: tuple[str, ...]
    """Names of the catalogue or raw ncu names."""
    keys: Mapping[str, str]
    """Cell id → key at the time; rows of a cell whose key is another today are not used."""
    visit: Mapping[str, Any] | None = None
    """Fields of a `Visit`, where one process makes one (external commands)."""
    parts: OrderedParts | RangeParts | None = None
    """Parts that the launches of a command's visit are sorted into."""
    counted: bool = False
    """Whether launches after the last taken one were profiled, so that their number is known."""
    time_limit_s: float | None = None
    """How long one visit could take."""
    parted: Mapping[str, str] = field(default_factory=dict)
    """Files of which keys hash parts, by the name that the journal has: their digests then. An edit
    of another part changes the file, and no key."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How timelines were made: launches, capture, version of the tool. They are no part of a cell's
    key, because no other session depends on them."""


@dataclass(frozen=True)
class AttemptResult:
    """Content of result.json: how an attempt ended; absent where the orchestrator was killed."""

    cause: str
    """Why the process ended: `finished`, `died`, `timed_out`, `context_lost`."""
    seconds: float
    failed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Cell id → (model.Outcome value, cause) for cells that the end of the process is blamed on."""
    gpu_processes: Mapping[str, int | None] = field(default_factory=dict)
    """Id of a process that is none of ours and had the GPU open → its device memory in bytes."""
    doubt: str = ""
    """Line that an external command printed and that reads as a wrong result, though it ended as
    after success."""


@dataclass(frozen=True)
class KernelCheck:
    """Results of a workload's `check_kernels` for an attempt, decided when it was first read."""

    fell_back: Mapping[str, str] = field(default_factory=dict)
    """Reason by cell id why its kernels are not those of its variant."""
    no_kernel: tuple[str, ...] = ()
    """Cells that finished a visit in which the tool saw no kernel. Only what was read right after
    the attempt says so: a file that is damaged or lost later is no reason to blame a cell."""
    undecided: tuple[str, ...] = ()
    """Cells that could not be checked: their key or the plan had changed since they ran."""


@dataclass(frozen=True)
class Worker:
    """The GPU of an attempt that a worker made."""

    name: str
    """`worker-1`: the number of the GPU in its run."""
    gpu: str | None = None
    gpu_uuid: str | None = None
    """A hash, as in the environment of the run."""
    driver: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One attempt on disk."""

    folder: Path
    record: AttemptRecord
    result: AttemptResult | None
    kernel_check: KernelCheck | None = None
    """Check of the attempt's kernels; None where the profiler was stopped before it."""
    damaged: tuple[str, ...] = ()
    """Names of existing but unusable files of the attempt, whose content counts as unknown."""
    worker: Worker | None = None
    """None where the machine of the run measured."""

    @property
    def journal(self) -> Path:
        """The runner's journal."""
        return self.folder / JOURNAL_FILE

    @property
    def was_cut_short(self) -> bool:
        """Whether the attempt is a visit of an external command whose profiler was stopped.

        Which of its launches are missing is not known: no journal tells.
        """
        is_over = self.result is not None or RESULT_FILE in self.damaged
        return self.record.visit is not None and not is_over

    def command(self) -> str:
        """The exact command line; empty where the profiler was stopped before writing it."""
        if COMMAND_FILE in self.damaged:
            return ""
        return (_command(self.folder / COMMAND_FILE) or "").strip()

    def csv(self) -> Path | None:
        """Path of the tool's CSV, compressed or not; None without one."""
        return plain_or_packed(self.folder / CSV_FILE)


@dataclass(frozen=True)
class AttemptListing:
    """Attempts of a run on disk, with the names of unreadable ones."""

    attempts: tuple[Attempt, ...]
    """Readable attempts, as in `RunFolder.attempts`."""
    damaged: tuple[str, ...]
    """Names of attempts whose session.json is damaged or gone."""
    linked: tuple[str, ...]
    """Names of attempts that are or hold links, whose targets are not read."""


_NO_ATTEMPTS: Mapping[Path, Attempt] = MappingProxyType({})


@dataclass(frozen=True)
class RunFolder:
    """A run folder on disk."""

    path: Path
    archive: Path | None = None
    """The archive that the folder was unpacked from; None for any other folder."""

    @property
    def given_path(self) -> Path:
        """Path that a user gave: of the archive, else of the folder."""
        return self.archive or self.path

    def write_spec(self, text: str) -> None:
        """Write the spec with its original text."""
        write_atomic(self.path / SPEC_FILE, text)

    @property
    def spec_file(self) -> Path:
        """Path of the spec's copy; raises UsageError where it is absent or a link."""
        path = self.path / SPEC_FILE
        refuse_link(path)
        if not path.is_file():
            raise UsageError(f"{self.path}: damaged: no {SPEC_FILE}")
        return path

    def write_record(self, record: RunRecord) -> None:
        """Write run.json."""
        write_json(self.path / RUN_FILE, asdict(record))

    def record(self) -> RunRecord:
        """Content of run.json; raises UsageError for no run folder or another version."""
        path = self.path / RUN_FILE
        data = read_json(path)
        if data.get("schema_version") != SCHEMA_VERSION:
            raise UsageError(
                f"{self.path}: written by another version (schema {data.get('schema_version')}, "
                f"this one reads {SCHEMA_VERSION})"
            )
        record = read_dataclass(path, RunRecord)
        if not EXPERIMENT_NAME.fullmatch(record.experiment):  # it becomes a folder
            raise UsageError(f"{path}: damaged: experiment: {record.experiment[:80]!r} is no name")
        try:
            datetime.fromisoformat(record.created)
        except ValueError as error:
            raise UsageError(f"{path}: damaged: created: {error}") from error
        # Earlier versions wrote the UUID in plain text.
        return replace(record, environment=public_environment(record.environment, record.seed))

    def note_machine(self, environment: Environment, seed: int, base: Path) -> None:
        """Write the texts that are private to this machine, which redaction removes."""
        write_json(self.path / MACHINE_FILE, machine_texts(self.path, environment, seed, base))

    def refuse_links(self) -> None:
        """Raise UsageError where a resumed run would write through a link."""
        for name in ("raw", "private", COMPILED_FOLDER, "search", SEARCH_JOURNAL_FILE):
            refuse_link(self.path / name)

    def exists(self) -> bool:
        """Whether the run has begun, and so has a record."""
        return (self.path / RUN_FILE).exists()

    def is_recording(self) -> bool:
        """Whether `profiler record` wrote it; raises UsageError where run.json is damaged."""
        return self.exists() and read_json(self.path / RUN_FILE).get("recording") is True

    def write_sources(self, texts: Mapping[str, str]) -> None:
        """Write the text of source files by their path from the workload's folder."""
        write_json(self.path / SOURCES_FILE, {"files": dict(texts)})

    def source_texts(self) -> Mapping[str, str]:
        """Text of source files by path; empty for a recording, which has digests alone."""
        path = self.path / SOURCES_FILE
        return read_value(path, "files", dict[str, str]) if path.exists() else {}

    def write_plan(self, plan: Plan) -> None:
        """Write plan.json, from which a page is rebuilt without the workload."""
        write_json(self.path / PLAN_FILE, asdict(plan), indent=None)

    def plan(self) -> Plan:
        """Content of plan.json."""
        path = self.path / PLAN_FILE
        plan = read_dataclass(plain_or_packed(path) or path, Plan)
        if not all(0 <= blocks < _MOST_BLOCKS for blocks in (*plan.looks, plan.final_blocks)):
            raise UsageError(f"{path}: damaged: blocks {[*plan.looks, plan.final_blocks]}")
        cells, variants, problems = (
            {part.id: part for part in parts}
            for parts in (plan.cells, plan.variants, plan.problems)
        )
        for cell in plan.cells:
            parts = (cells[cell.id], variants[cell.variant.id], problems[cell.problem.id])
            if parts[0] is not cell or parts[1:] != (cell.variant, cell.problem):
                raise UsageError(f"{path}: damaged: the cell {cell.id!r} contradicts another")
        return replace(plan, sessions=tuple(map(_with_todays_collector, plan.sessions)))

    def write_builds(self, builds: Iterable[BuildResult]) -> None:
        """Write build.json."""
        write_json(self.path / BUILD_FILE, {"builds": [asdict(build) for build in builds]})

    def builds(self) -> tuple[BuildResult, ...]:
        """Content of build.json; empty where nothing had to be built."""
        path = self.path / BUILD_FILE
        return read_value(path, "builds", tuple[BuildResult, ...]) if path.exists() else ()

    def seconds(self) -> Executions:
        """Spans of each execution, from seconds.json."""
        return read_seconds(self.path)

    def write_seconds(self, earlier: Executions, spans: Sequence[Span]) -> None:
        """Write seconds.json: spans of earlier executions, and of this one."""
        executions = [list(map(asdict, execution)) for execution in (*earlier, spans)]
        write_json(self.path / SECONDS_FILE, {"executions": executions})

    def new_attempt(self, record: AttemptRecord) -> Path:
        """Folder of a new attempt, with its session.json."""
        folder = self.reserve_attempt(record.session)
        self.begin_attempt(folder, record)
        return folder

    def reserve_attempt(self, session: str) -> Path:
        """Folder for a later attempt, without session.json."""
        attempts_folder = self.path / "raw"
        attempts_folder.mkdir(parents=True, exist_ok=True)
        number = 1 + max(
            (_age(folder)[1] for folder in attempts_folder.glob(f"{session}.*")), default=0
        )
        folder = attempts_folder / f"{session}.{number:03d}"
        folder.mkdir()
        return folder

    def begin_attempt(self, folder: Path, record: AttemptRecord) -> None:
        """Turn a reserved folder into an attempt, by writing its session.json."""
        write_json(folder / SESSION_FILE, asdict(record))

    def write_command(self, folder: Path, command: str) -> None:
        """Write the exact command line of an attempt."""
        write_atomic(folder / COMMAND_FILE, command + "\n")

    def write_kernel_check(self, folder: Path, check: KernelCheck) -> None:
        """Write the result of the kernel check of an attempt."""
        write_json(folder / KERNELS_FILE, asdict(check))

    def attempt(self, folder: Path) -> Attempt:
        """One attempt of this run."""
        return _attempt(folder)

    def attempts(self, read_before: Mapping[Path, Attempt] = _NO_ATTEMPTS) -> tuple[Attempt, ...]:
        """All attempts by session, and of one session in their order.

        Without attempts that are or hold links, attempts with a damaged session.json
        (`list_attempts`), and visits that were cut short. `read_before`: attempts by folder that
        need not be read again.
        """
        return self.list_attempts(read_before).attempts

    def list_attempts(self, read_before: Mapping[Path, Attempt] = _NO_ATTEMPTS) -> AttemptListing:
        """Attempts on disk, with names of unreadable ones; `read_before` as in `attempts`."""
        attempts: list[Attempt] = []
        damaged: list[str] = []
        linked: list[str] = []
        for folder in self._attempt_folders():
            if folder in read_before:
                attempts.append(read_before[folder])
            elif _is_linked(folder):
                linked.append(folder.name)
            else:
                try:
                    attempts.append(_attempt(folder))
                except UsageError:
                    damaged.append(folder.name)
        complete = tuple(attempt for attempt in attempts if not attempt.was_cut_short)
        return AttemptListing(complete, tuple(damaged), tuple(linked))

    def _attempt_folders(self) -> list[Path]:
        attempts_folder = self.path / "raw"
        refuse_link(attempts_folder)
        # A folder that ended is an attempt whose session.json is gone; others may still wait.
        names = {SESSION_FILE, RESULT_FILE}
        folders = (
            folder
            for folder in folder_entries(attempts_folder)
            if any(file.name in names for file in folder_entries(folder))
        )
        return sorted(folders, key=_age)


_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


def folder_entries(folder: Path) -> list[Path]:
    """Files and folders in a folder; none of what is no folder.

    Raises OSError where a folder cannot be read, which `glob` takes for an empty one.
    """
    try:
        return list(folder.iterdir())
    except OSError as error:
        if error.errno in _NO_FOLDER:
            return []
        raise


def _age(folder: Path) -> tuple[str, int]:
    session, _, number = folder.name.rpartition(".")
    return session, int(number) if number.isdecimal() else 0


def _with_todays_collector(session: Named) -> Named:
    """The plan or record of a session, with today's key of its collector."""
    return replace(session, collector=_EARLIER_KEYS.get(session.collector, session.collector))


def _attempt(folder: Path) -> Attempt:
    """An attempt from its files; raises UsageError where its session.json is damaged."""
    damaged: list[str] = []
    record = _with_todays_collector(read_dataclass(folder / SESSION_FILE, AttemptRecord))
    _check_record(record, folder)
    result = _read_unless_damaged(folder / RESULT_FILE, _result, damaged)
    kernel_check = _read_unless_damaged(
        folder / KERNELS_FILE, lambda path: read_dataclass(path, KernelCheck), damaged
    )
    worker = _read_unless_damaged(
        folder / WORKER_FILE, lambda path: read_dataclass(path, Worker), damaged
    )
    _read_unless_damaged(folder / COMMAND_FILE, _command, damaged)
    return Attempt(
        folder=folder,
        record=record,
        result=result,
        kernel_check=kernel_check,
        damaged=tuple(damaged),
        worker=worker,
    )


def _check_record(record: AttemptRecord, folder: Path) -> None:
    """Raise UsageError for values of session.json that this program never writes."""
    path = folder / SESSION_FILE
    if record.session != _age(folder)[0]:
        raise UsageError(f"{path}: damaged: the session is {record.session}")
    if record.kind not in frozenset(SessionKind):
        raise UsageError(f"{path}: damaged: {record.kind} is no kind of session")
    if isinstance(record.parts, RangeParts):
        try:
            bounded_pattern(record.parts.pattern.rpartition("@")[2])
        except ValueError as error:
            raise UsageError(f"{path}: damaged: parts: {error}") from error
    visit = record.visit
    if visit is not None and not _is_visit(visit):
        raise UsageError(f"{path}: damaged: visit {dict(visit)}")


def _is_visit(values: Mapping[str, Any]) -> bool:
    if not {"cell", "block"} <= values.keys() <= {"cell", "block", "arm"}:
        return False
    numbers = [values["block"], values.get("arm", 0)]
    return isinstance(values["cell"], str) and all(
        type(number) is int and 0 <= number < _MOST_BLOCKS for number in numbers
    )


def _result(path: Path) -> AttemptResult:
    result = read_dataclass(path, AttemptResult)
    for blame in result.failed.values():
        if len(blame) != _BLAME_PARTS or blame[0] not in frozenset(Outcome):
            raise UsageError(f"{path}: damaged: {list(blame)} is no outcome with its cause")
    return result


def _command(path: Path) -> str | None:
    try:
        return read_plain(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: damaged: {error}") from error


T = TypeVar("T")


def _read_unless_damaged(path: Path, reader: Callable[[Path], T], damaged: list[str]) -> T | None:
    """Result of `reader` on a file; None where it is absent, or damaged and so listed."""
    if not path.exists():
        return None
    try:
        return reader(path)
    except UsageError:
        damaged.append(path.name)
        return None


def _is_linked(folder: Path) -> bool:
    """Whether the folder of an attempt, or a file that is read from it, is a link."""
    with os.scandir(folder) as entries:  # which says of each what it is: no call for each file
        return folder.is_symlink() or any(entry.is_symlink() for entry in entries)


def finish_attempt(folder: Path, result: AttemptResult) -> None:
    """Write how an attempt ended, and compress its tool's rows."""
    write_json(folder / RESULT_FILE, asdict(result))
    compress(folder / CSV_FILE)


def compress_reports(folder: Path) -> None:
    """Compress the tool's own files of an attempt, which this project does not read any more.

    Not where the disk is full or the folder was deleted: they stay as they are.
    """
    for name in (TOOL_REPORT_FILE, *PRIVATE_FILES):
        with suppress(OSError, UsageError):
            compress(folder / name)


def compress(path: Path) -> None:
    """Replace a file by its gzip, atomically and without a time stamp, so that bytes repeat.

    At the fastest level: a report of ncu (60 MB for 350 launches of 15 passes) shrinks
    to a fifth in half a second.
    """
    if not path.exists():
        return
    with (
        path.open("rb") as source,
        replacing(path.with_name(f"{path.name}.gz")) as sink_file,
        gzip.GzipFile(filename="", mode="wb", fileobj=sink_file, mtime=0, compresslevel=1) as sink,
    ):
        shutil.copyfileobj(source, sink)
    path.unlink()
