"""What travels: orders as JSON to workers, and run folders as archives with a hash, both ways."""

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
"""Override: what is explained depends on all problems, and so it is decided by the coordinator."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Configurations that a search proposes, to be measured beside the baseline."""

    terms: Terms
    """Batches of one search are measured by one standing runner."""
    noise: Noise
    """Noise as the search knows it, to tell who is clearly behind."""
    incumbent: str | None
    """The best so far, which is measured first; None while there is none."""
    candidates: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TaskOrder:
    """All versions of some problems, cells to explain, or a batch of a search: for one GPU."""

    run: str
    """Id of this execution of the coordinator: what a worker keeps is of one."""
    spec_text: str
    spec_path: str
    """Path from the folder in which the coordinator works, and from that of the worker."""
    overrides: tuple[str, ...]
    plan: Plan
    """The cells that are to be measured, with the sessions of the whole experiment."""
    builds: tuple[BuildResult, ...]
    """In place of the path of a library: the hash of its content, by which it travels."""
    stamped: Mapping[str, str]
    """Variant id → hash of its library with stamps."""
    sources: Mapping[str, str]
    """Cell id → hash of the files behind it, which a worker must have as well."""
    variables: Mapping[str, str]
    """Environment variables that are in keys (`variables_now`), which the sessions of a worker have
    from the command and not from the worker."""
    device: str
    """Model and driver that all GPUs of the run have."""
    timeline: bool = False
    explain: tuple[str, ...] | None = None
    """Ids of cells to explain; None: whatever is missing but explanations is measured."""
    batch: Batch | None = None
    """None: problems are measured, or cells explained."""
    quiet: bool = False
    """Whether the worker prints nothing, because it has the terminal of the coordinator."""
    profiler_version: str = field(default=profiler.__version__)


def spec_of_text(path: Path | str, text: str, overrides: Sequence[str]) -> LoadedSpec:
    """An experiment by its text, as a file at a path; raises SpecError as `load_spec`."""
    return check_document(read_text(Path(path), text), overrides=overrides)


def part_of(plan: Plan, problems: Collection[str], variants: Collection[str] | None = None) -> Plan:
    """The cells of some problems, with their visits in the sessions of the whole plan.

    `variants`: of these alone; None: of all.
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


def path_from_here(path: Path) -> str:
    """Path of a file from the working folder, absolute where it lies elsewhere."""
    here = Path.cwd()
    absolute = here / path
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


# ---- run folders ---------------------------------------------------------------------------------


Parcel = tuple[str, bytes]
"""SHA-256 of an archive, and the archive."""

OF_A_WORKER = (RUN_FILE, SECONDS_FILE, MACHINE_FILE, WORKERS_FILE, SEARCH_JOURNAL_FILE)
_STAYS = (TOOL_REPORT_FILE, f"{TOOL_REPORT_FILE}.gz")
"""ncu's own report: 60 MB for 350 launches, and what is read later of it is in the CSV."""


def content_hash(content: bytes) -> str:
    """SHA-256 of a content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def packed(run: RunFolder, attempts: Iterable[Path], names: Sequence[str] = OF_A_WORKER) -> Parcel:
    """A run with some of its attempts, but for their private files and ncu's reports.

    `names`: its own files that go along.
    """
    files = [run.path / name for name in names]
    for attempt in attempts:
        files += sorted(file for file in attempt.iterdir() if _travels(file))
    archive = io.BytesIO()
    write_members(
        archive,
        ((str(file.relative_to(run.path)), file.read_bytes()) for file in files if file.exists()),
    )
    return content_hash(archive.getvalue()), archive.getvalue()


def _travels(file: Path) -> bool:
    """Whether a file of an attempt is none of ncu's reports, no link, folder or draft."""
    is_plain = file.is_file() and not file.is_symlink()
    return is_plain and file.name not in _STAYS and not file.name.startswith(".")


def unpacked(parcel: Parcel, folder: Path) -> RunFolder:
    """The run of a parcel, in a folder.

    Raises UsageError where it is not what was sent, or holds an attempt that cannot be read.
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
