"""Messages to and from workers: orders as JSON, and run folders as archives with a hash."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import profiler
from profiler.errors import UsageError
from profiler.model import BuildResult, Plan
from profiler.planning.spec import LoadedSpec, check_document
from profiler.planning.spec.source import read_text
from profiler.run_folder.archive import unpack, write_members
from profiler.run_folder.folder import RUN_FILE, SEARCH_JOURNAL_FILE, TOOL_REPORT_FILE, RunFolder
from profiler.run_folder.redact import MACHINE_FILE
from profiler.run_folder.seconds import SECONDS_FILE
from profiler.run_folder.workers import WORKERS_FILE
from profiler.search.estimates import Noise
from profiler.search.journal import Terms

WITHOUT_EXPLANATIONS = "collect.explain=false"
"""Override: the cells to explain depend on all problems, so the coordinator chooses them."""


@dataclass(frozen=True)
class SentSpec:
    """An experiment file on its way to a worker, which may lie elsewhere there."""

    text: str
    path: str
    """Path from the working folders of the coordinator and of the worker."""
    overrides: tuple[str, ...]

    @classmethod
    def of(cls, loaded: LoadedSpec) -> SentSpec:
        """Text, path and overrides by which a worker loads an experiment as it is loaded here."""
        return cls(loaded.text, _path_from_here(loaded.path), loaded.flags)

    def load(self, *further_overrides: str) -> LoadedSpec:
        """The experiment, as of a file at the path; raises SpecError as `load_spec`."""
        document = read_text(Path(self.path), self.text)
        return check_document(document, overrides=(*self.overrides, *further_overrides))


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Configurations that a search proposes, to be measured beside the baseline."""

    terms: Terms
    """Batches of one search are measured by one standing runner."""
    noise: Noise
    """Noise of the search, to tell which candidates are clearly behind."""
    incumbent: str | None
    """The best so far, which is measured first; None at the begin."""
    candidates: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TaskOrder:
    """Work for one GPU: all variants of some problems, cells to explain, or a batch of a search."""

    run: str
    """Id of this execution of the coordinator; files that a worker keeps belong to one."""
    spec: SentSpec
    plan: Plan
    """The cells to measure, with the sessions of the whole experiment."""
    builds: tuple[BuildResult, ...]
    """Build results with the paths that the libraries have at the coordinator."""
    stamped: Mapping[str, str]
    """Variant id → path of its library with stamps."""
    sources: Mapping[str, str]
    """Cell id → hash of the files behind it, which a worker must have as well."""
    variables: Mapping[str, str]
    """Environment variables that are in keys (`variables_now`), which the sessions of a worker have
    from the command and not from the worker."""
    device: str
    """Model and driver that all GPUs of the run have."""
    timeline: bool = False
    explain: tuple[str, ...] | None = None
    """Ids of cells to explain; None: the missing cells are measured without explanations."""
    batch: Batch | None = None
    """Batch of a search; None: problems are measured, or cells explained."""
    profiler_version: str = field(default=profiler.__version__)


def plan_part(
    plan: Plan, problems: Collection[str], variants: Collection[str] | None = None
) -> Plan:
    """Plan of the cells of given problems, with their visits in the sessions of the whole plan.

    `variants`: only cells of these variants; None: of all variants.
    """
    cells = tuple(
        cell
        for cell in plan.cells
        if cell.problem.id in problems and (variants is None or cell.variant.id in variants)
    )
    ids = {cell.id for cell in cells}
    sessions = tuple(
        replace(session, visits=tuple(visit for visit in session.visits if visit.cell in ids))
        for session in plan.sessions
    )
    return replace(plan, cells=cells, sessions=sessions, excluded=(), search=None)


def _path_from_here(path: Path) -> str:
    """Path of a file from the working folder, absolute where it lies elsewhere."""
    here, absolute = Path.cwd(), path.absolute()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


# ---- libraries and run folders -------------------------------------------------------------------


Parcel = tuple[str, bytes]
"""SHA-256 of a content, and the content: a library, or the archive of a run."""

OF_A_WORKER = (RUN_FILE, SECONDS_FILE, MACHINE_FILE, WORKERS_FILE, SEARCH_JOURNAL_FILE)
_STAYS = (TOOL_REPORT_FILE, f"{TOOL_REPORT_FILE}.gz")
"""ncu's own report: 60 MB for 350 launches; its values that are read later are in the CSV."""


def content_hash(content: bytes) -> str:
    """SHA-256 of a content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def parcel_of(content: bytes) -> Parcel:
    """A content with its hash."""
    return content_hash(content), content


def packed_run(
    run: RunFolder, attempts: Iterable[Path], names: Sequence[str] = OF_A_WORKER
) -> Parcel:
    """Archive of a run with given attempts, without their private files and ncu's reports.

    `names`: its own files that go along.
    """
    files = [run.path / name for name in names]
    for attempt in attempts:
        files += sorted(file for file in attempt.iterdir() if _is_sent(file))
    archive = io.BytesIO()
    write_members(
        archive,
        ((str(file.relative_to(run.path)), file.read_bytes()) for file in files if file.exists()),
    )
    return parcel_of(archive.getvalue())


def _is_sent(file: Path) -> bool:
    """Whether a file of an attempt is sent: no report of ncu, link, folder or draft."""
    is_plain = file.is_file() and not file.is_symlink()
    return is_plain and file.name not in _STAYS and not file.name.startswith(".")


def unpacked_run(parcel: Parcel, folder: Path) -> RunFolder:
    """The run of a parcel, in a folder.

    Raises UsageError where its content changed on the way, or has an unreadable attempt.
    """
    digest, content = parcel
    if content_hash(content) != digest:
        raise UsageError("the run folder that arrived is not the one that was sent")
    archive = folder / "parcel.zip"
    archive.write_bytes(content)
    run = RunFolder(unpack(archive, folder / "run"))
    archive.unlink()
    listing = run.list_attempts()
    if unreadable := (*listing.damaged, *listing.linked):
        raise UsageError(f"what arrived has attempts that cannot be read: {', '.join(unreadable)}")
    return run
