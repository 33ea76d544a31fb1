"""Recordings, and runs that somebody sends, as zip archives of a run folder.

A recording is what a replay needs of a run, without what is private to the machine that made it.

An archive is unpacked into a temporary folder, which lives as long as the program that reads it.
Its manifest is `run.json`: what was measured, when, on which machine and with which versions.
"""

from __future__ import annotations

import atexit
import gzip
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO

from profiler.errors import UsageError, naming
from profiler.machine.temporary_folders import temporary_folder
from profiler.parse.bounded_files import (
    MAX_UNPACKED_BYTES,
    beyond,
    read_packed,
    read_plain,
    replacing,
    require_regular,
)
from profiler.parse.clock_file import CLOCKS_FILE
from profiler.parse.timeline_files import API_FILE, FACTS_FILE, OPERATIONS_FILE, RANGES_FILE
from profiler.run_folder.folder import (
    ARCHIVE_SUFFIX,
    BUILD_FILE,
    COMMAND_FILE,
    CSV_FILE,
    EXPLAIN_FILES,
    JOURNAL_FILE,
    KERNELS_FILE,
    PLAN_FILE,
    RESULT_FILE,
    RUN_FILE,
    SEARCH_JOURNAL_FILE,
    SESSION_FILE,
    SPEC_FILE,
    WORKER_FILE,
    RunFolder,
    RunRecord,
    json_text,
)
from profiler.run_folder.redact import (
    PrivateTexts,
    Redaction,
    with_folders,
)
from profiler.run_folder.seconds import SECONDS_FILE
from profiler.runner.protocol import STAMPS_FILE

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)
"""What zipfile raises for an archive that is damaged, encrypted or of a method that it has not."""
_LEAST_BYTES = 4096
"""What an empty file takes on a disk."""
_UNDATED = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16
_PACKED = ".gz"


def open_run(path: Path) -> RunFolder:
    """The run in a folder, or in a zip archive of one; raises UsageError for any other archive."""
    return _open(path, None)


def open_record(path: Path) -> RunFolder:
    """The run as `open_run` gives it, but of an archive with its `run.json` alone."""
    return _open(path, RUN_FILE)


def write_archive(target: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files by their names into a zip archive; the same files give the same bytes."""
    with replacing(target) as stream:
        write_members(stream, files)


def write_members(stream: IO[bytes], files: Iterable[tuple[str, bytes]]) -> None:
    """Write a zip archive as `write_archive` does, into a stream."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files:
            member = zipfile.ZipInfo(name, _UNDATED)
            member.external_attr = _READABLE
            packed = name.endswith(_PACKED)
            member.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
            archive.writestr(member, content, compresslevel=9)


def _open(path: Path, only: str | None) -> RunFolder:
    if path.suffix != ARCHIVE_SUFFIX or path.is_dir():
        return RunFolder(path)
    require_regular(path)
    try:
        state = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    folder = _unpacked(path, (state.st_ino, state.st_mtime_ns, state.st_size), only)
    try:
        RunFolder(folder).record()
    except UsageError as error:
        message = error.message.replace(str(folder), str(path))
        raise UsageError(message, remedy=error.remedy) from error
    return RunFolder(folder, path)


@cache
def _unpacked(path: Path, _state: tuple[int, ...], only: str | None) -> Path:
    """Folder of the run in an archive, called as its folder there, else as the archive."""
    held = ExitStack()
    folder = held.enter_context(temporary_folder()) / path.stem
    atexit.register(held.close)
    return unpack(path, folder, only)


def unpack(path: Path, folder: Path, only: str | None = None) -> Path:
    """Unpack the run in an archive into a folder, or one file of it; returns the run's folder.

    Raises UsageError where the archive is damaged, too large, or no archive of one run.
    """
    try:
        with naming(path), zipfile.ZipFile(path) as archive:
            top = _top(path, archive)
            members = [
                member
                for member in archive.infolist()
                if (member.filename == f"{top}{only}" if only else member.filename.startswith(top))
            ]
            _require_bounded(path, members)
            archive.extractall(folder, members)
    except (*_DAMAGE, OSError) as error:
        raise UsageError(
            f"{path}: cannot be unpacked: {str(error) or 'it is cut off'}",
            remedy="If it was sent, have it sent again; or unpack it, and give the folder.",
        ) from error
    return folder / top


def _top(path: Path, archive: zipfile.ZipFile) -> str:
    """What the names of the files of the run begin with: nothing, or a folder with a slash."""
    names = archive.namelist()
    tops = [
        name.removesuffix(RUN_FILE)
        for name in names
        if PurePosixPath(name).name == RUN_FILE and name.count("/") <= 1
    ]
    if outside := next(filter(_leaves, names), None):
        raise UsageError(f"{path}: holds {outside!r}, which lies outside of it: it is not unpacked")
    if "" in tops:
        return ""
    if len(tops) != 1:
        holds = f"{len(tops)} runs" if tops else f"no run (no {RUN_FILE})"
        raise UsageError(
            f"{path}: holds {holds}",
            remedy="Give a zip archive of one run folder, or what `profiler record` wrote.",
        )
    return tops[0]


def _leaves(name: str) -> bool:
    """Whether a name leads out of the folder that it is unpacked into."""
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts


def _require_bounded(path: Path, members: Iterable[zipfile.ZipInfo]) -> None:
    """Raise UsageError for more than a disk should be filled with unasked."""
    if sum(max(member.file_size, _LEAST_BYTES) for member in members) > MAX_UNPACKED_BYTES:
        raise UsageError(
            f"{path}: {beyond(MAX_UNPACKED_BYTES)}",
            remedy="If it is meant to be so large, unpack it yourself, and give the folder.",
        )


# ---- recordings ----------------------------------------------------------------------------------

_OTHER_NAME = "Name another file, or take this one away first."
_RUN_FILES = (SPEC_FILE, PLAN_FILE, BUILD_FILE, SECONDS_FILE, SEARCH_JOURNAL_FILE)
_ATTEMPT_TABLES = (
    *(CSV_FILE, JOURNAL_FILE, CLOCKS_FILE),
    *(OPERATIONS_FILE, RANGES_FILE, API_FILE),
    STAMPS_FILE,
    *EXPLAIN_FILES,
)
_ATTEMPT_FILES = (
    *(SESSION_FILE, RESULT_FILE, KERNELS_FILE, WORKER_FILE),
    *(COMMAND_FILE, FACTS_FILE),
    *_ATTEMPT_TABLES,
)
_DEPTH = len(("raw", "attempt", "file"))
_TABLES = frozenset({PLAN_FILE, *_ATTEMPT_TABLES})
"""Files that are packed, by the end of their path: the journal of a search is called as those of
attempts."""


def write_recording(
    run: RunFolder, target: Path, private: PrivateTexts, names: PrivateTexts = ()
) -> Path:
    """Path of an archive with what a replay needs: no reports of tools, no output, no job files.

    Of a timeline the cleaned files, and nothing of its private folder. `.zip` is added to a
    `target` without it.

    `private` are (text, replacement) pairs: folders of this machine, longest first; they are
    replaced in every file that is copied, the CSV too. `names` are replaced in the words of errors
    and tools.

    An older recording of the same experiment is replaced, once the new one is whole. Raises
    UsageError where the target is anything else.
    """
    record = run.record()
    if target.is_dir():
        raise UsageError(f"{target}: is a folder, and a recording is one file", remedy=_OTHER_NAME)
    if target.suffix != ARCHIVE_SUFFIX:
        target = target.with_name(f"{target.name}{ARCHIVE_SUFFIX}")
    _require_replaceable(target, record.experiment)
    redaction = Redaction(with_folders(private, _source_folders(run)), names)
    try:  # through a link: what it points to is replaced, not the link
        write_archive(target.resolve(), _recorded_files(run, record, redaction))
    except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:
        message = f"{target}: cannot be made: {error.strerror}"
        raise UsageError(message, remedy=_OTHER_NAME) from error
    return target


def _require_replaceable(target: Path, experiment: str) -> None:
    """Raise UsageError unless a recording may stand here: nobody measures the numbers again."""
    if not target.exists():
        return
    older = open_run(target)
    if not older.is_recording():
        raise UsageError(
            f"{target}: holds a run and no recording: it is not replaced", remedy=_OTHER_NAME
        )
    if older.record().experiment != experiment:
        raise UsageError(
            f"{target}: a recording of {older.record().experiment}, not of {experiment}: "
            "it is not replaced",
            remedy=_OTHER_NAME,
        )
    files = (file.relative_to(older.path) for file in older.path.rglob("*") if file.is_file())
    foreign = [file.as_posix() for file in files if not _is_recorded(file)]
    if foreign:
        raise UsageError(
            f"{target}: holds {foreign[0]}, which is no part of a recording: it is not replaced",
            remedy=_OTHER_NAME,
        )


def _is_recorded(file: Path) -> bool:
    """Whether recordings have a file of this path, packed or not."""
    path = file.with_suffix("") if file.suffix == ".gz" else file
    if path.parts[0] == "raw" and len(path.parts) == _DEPTH:
        return path.name in _ATTEMPT_FILES
    return path.as_posix() in (RUN_FILE, *_RUN_FILES)


def _recorded_files(
    run: RunFolder, record: RunRecord, redaction: Redaction
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of a recording."""
    marked = json_text(asdict(replace(record, recording=True)))
    yield RUN_FILE, redaction.file(RUN_FILE, marked).encode()
    names = [*_RUN_FILES]
    for attempt in run.attempts():
        kept = (name for name in _ATTEMPT_FILES if name not in attempt.damaged)
        names += [f"raw/{attempt.folder.name}/{name}" for name in kept]
    for name in names:
        content = _content(run.path / name)
        if content is None:
            continue
        text = redaction.file(Path(name).name, content.decode("utf-8", errors="replace")).encode()
        if Path(name).name in _TABLES:  # it is made once and kept in a repository
            yield f"{name}.gz", gzip.compress(text, 9, mtime=0)
        else:
            yield name, text


_SOURCE_FILE = re.compile(rb'^"File (?:Path|Name)","(.+)/', re.MULTILINE)


def _source_folders(run: RunFolder) -> Iterator[str]:
    """Folders of the sources that pages of explain sessions name."""
    for attempt in run.attempts():
        for name in EXPLAIN_FILES:
            content = _content(attempt.folder / name)
            for match in _SOURCE_FILE.finditer(content or b""):
                yield match[1].decode("utf-8", errors="replace")


def _content(source: Path) -> bytes | None:
    """Content of a file, compressed or not; None where it is absent, or a link."""
    packed = source.with_name(f"{source.name}.gz")
    if source.is_symlink() or packed.is_symlink():
        return None
    if source.exists():
        return read_plain(source)
    return read_packed(packed) if packed.exists() else None
