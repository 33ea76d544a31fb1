"""What travels between a coordinator and its workers: run folders, as archives with their hash."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from profiler.errors import UsageError
from profiler.run_folder.archive import unpack, write_members
from profiler.run_folder.folder import RUN_FILE, SEARCH_JOURNAL_FILE, TOOL_REPORT_FILE, RunFolder
from profiler.run_folder.redact import MACHINE_FILE
from profiler.run_folder.seconds import SECONDS_FILE
from profiler.run_folder.workers import WORKERS_FILE

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
