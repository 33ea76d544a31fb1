"""Zip archives of run folders: recordings, and runs from other people.

An archive is unpacked into a temporary folder, which lives as long as the program that reads it.
Its manifest is `run.json`: what was measured, when, on which machine and with which versions.
"""

from __future__ import annotations

import atexit
import os
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO

from profiler.errors import (
    SPEC_SUFFIXES,
    ProfilerError,
    UsageError,
    close_hint,
    naming,
    nearest_file,
)
from profiler.machine.temporary_folders import temporary_folder
from profiler.notices import counted
from profiler.parse.bounded_files import (
    MAX_UNPACKED_BYTES,
    over_limit_text,
    replacing,
    require_regular,
)
from profiler.run_folder.folder import ARCHIVE_SUFFIX, RUN_FILE, RunFolder
from profiler.run_folder.runs import recordings_here, runs

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)
"""Exceptions of zipfile for a damaged or encrypted archive, or an unknown method."""
_LEAST_BYTES = 4096
"""Bytes of an empty file on a disk."""
_UNDATED = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16
_PACKED = ".gz"
_NAME = re.compile(r"(?P<experiment>[^/~]+)(?:~(?P<back>\d+))?")


def find_run(text: str, out: Path) -> Path:
    """Folder or archive of the run that a command line names; raises UsageError without one.

    A run folder or a file in it such as its page, an archive of one such as a recording, a folder
    of runs (its newest), or an experiment: its newest run under `out`, or its recording in the
    folder here; `NAME~1` is the run before the newest.
    """
    # Path.expanduser raises where no user has the name behind `~`.
    path = Path(os.path.expanduser(text))  # noqa: PTH111
    if RunFolder(path).exists() or (path.suffix == ARCHIVE_SUFFIX and path.is_file()):
        return path
    if path.is_file() and RunFolder(path.parent).exists():
        return path.parent
    name = _NAME.fullmatch(text)
    if name is not None:
        recorded = runs(out, name["experiment"])
        steps_back = int(name["back"] or 0)
        if steps_back < len(recorded):
            return recorded[-1 - steps_back].path
        if recorded:
            count = counted(len(recorded), "run")
            raise UsageError(
                f"{text}: {name['experiment']} has only {count} in {out}",
                remedy="`--fresh` starts a new run; without it, the newest goes on.",
            )
        recording = recordings_here().get(name["experiment"]) if steps_back == 0 else None
        if recording is not None:
            return recording
        if not recorded and (out / name["experiment"]).is_dir():
            raise UsageError(
                f"{text}: {out / name['experiment']} holds only replays, which have no raw files.",
                remedy="Name the folder of the recording that was replayed.",
            )
    if path.is_dir():
        return _newest_in(path, text)
    raise _no_run(path, text, out)


def _no_run(path: Path, text: str, out: Path) -> UsageError:
    """The error of a text that names no run."""
    if path.suffix == ARCHIVE_SUFFIX and not path.exists():
        return UsageError(f"{text}: there is no such file{nearest_file(path)}")
    hint = ""
    if path.suffix in SPEC_SUFFIXES:
        hint = f"; those of an experiment file go by the experiment's name, as in `{path.stem}`"
    elif path.is_file():
        hint = "; `profiler import` reads files of other tools"
    measured = {file.parents[1].name for file in out.glob(f"*/*/{RUN_FILE}")}
    experiments = measured | recordings_here().keys()
    return UsageError(
        f"{text}: neither a run folder nor an experiment with runs in {out}, and no recording"
        f"{close_hint(text, experiments)}",
        remedy=f"`profiler list` shows the runs that there are{hint}.",
    )


def _newest_in(folder: Path, text: str) -> Path:
    """The newest run in a folder of runs, such as `reports/softmax`."""
    recorded = runs(folder.resolve().parent, folder.resolve().name)
    if recorded:
        return recorded[-1].path
    raise UsageError(
        f"{text}: not a run folder (no run.json), and no runs in it",
        remedy="Name a run folder or a recording; the folder of a replay holds no raw files.",
    )


def open_run(path: Path) -> RunFolder:
    """The run in a folder, or in a zip archive of one; raises UsageError for any other archive."""
    return _opened_run(path, None)


def open_record(path: Path) -> RunFolder:
    """The run like `open_run`, but of an archive only its `run.json` is unpacked."""
    return _opened_run(path, RUN_FILE)


def write_archive(target: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write named files into a zip archive; equal files give equal bytes."""
    with replacing(target) as stream:
        write_members(stream, files)


def write_members(stream: IO[bytes], files: Iterable[tuple[str, bytes]]) -> None:
    """Write a zip archive into a stream, like `write_archive`."""
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files:
            member = zipfile.ZipInfo(name, _UNDATED)
            member.external_attr = _READABLE
            packed = name.endswith(_PACKED)
            member.compress_type = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
            archive.writestr(member, content, compresslevel=9)


def _opened_run(path: Path, only: str | None) -> RunFolder:
    if path.suffix != ARCHIVE_SUFFIX or path.is_dir():
        return RunFolder(path)
    require_regular(path)
    try:
        state = path.stat()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    run = RunFolder(
        _unpacked_folder(path, (state.st_ino, state.st_mtime_ns, state.st_size), only), path
    )
    with naming_archive(run):
        run.record()
    return run


@contextmanager
def naming_archive(run: RunFolder) -> Iterator[None]:
    """In errors of the body, name the archive in place of the folder it was unpacked into."""
    try:
        yield
    except ProfilerError as error:
        if run.archive is not None:
            error.message = error.message.replace(str(run.path), str(run.archive))
        raise


@cache
def _unpacked_folder(path: Path, _state: tuple[int, ...], only: str | None) -> Path:
    """Folder of the run in an archive, with its folder's name there, else the archive's."""
    cleanup = ExitStack()
    folder = cleanup.enter_context(temporary_folder()) / path.stem
    atexit.register(cleanup.close)
    return unpack(path, folder, only)


def unpack(path: Path, folder: Path, only: str | None = None) -> Path:
    """The run's folder after its archive, or one file of it, is unpacked into `folder`.

    Raises UsageError where the archive is damaged, too large, or no archive of one run.
    """
    try:
        with naming(path), zipfile.ZipFile(path) as archive:
            top = _top_folder(path, archive)
            members = [
                member
                for member in archive.infolist()
                if (member.filename == f"{top}{only}" if only else member.filename.startswith(top))
            ]
            _require_bounded(path, members)
            _require_single(path, members)
            archive.extractall(folder, members)
    except (*_DAMAGE, OSError) as error:
        raise UsageError(
            f"{path}: cannot be unpacked: {str(error) or 'it is cut off'}",
            remedy="If it was sent, have it sent again; or unpack it, and give the folder.",
        ) from error
    return folder / top


def _top_folder(path: Path, archive: zipfile.ZipFile) -> str:
    """Prefix of the run's file names in an archive: empty, or its folders with a slash."""
    names = archive.namelist()
    if outside := next(filter(_leaves_folder, names), None):
        raise UsageError(f"{path}: holds {outside!r}, which lies outside of it: it is not unpacked")
    records = (name for name in names if PurePosixPath(name).name == RUN_FILE)
    folders = {name.removesuffix(RUN_FILE) for name in records}
    tops = [top for top in folders if not any(top.startswith(other) for other in folders - {top})]
    if len(tops) != 1:
        holds = f"{len(tops)} runs" if tops else f"no run (no {RUN_FILE})"
        raise UsageError(
            f"{path}: holds {holds}",
            remedy="Give a zip archive of one run folder, or what `profiler record` wrote.",
        )
    return tops[0]


def _require_single(path: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise UsageError for a duplicate name: it is ambiguous which file is meant."""
    duplicates = [name for name, count in Counter(m.filename for m in members).items() if count > 1]
    if duplicates:
        raise UsageError(
            f"{path}: holds {duplicates[0]!r} more than once",
            remedy="Unpack it yourself, see which is meant, and give the folder.",
        )


def _leaves_folder(name: str) -> bool:
    """Whether a name points outside of the folder that it is unpacked into."""
    path = PurePosixPath(name)
    return path.is_absolute() or ".." in path.parts


def _require_bounded(path: Path, members: Iterable[zipfile.ZipInfo]) -> None:
    """Raise UsageError for an archive that would fill the disk with more than a fixed limit."""
    if sum(max(member.file_size, _LEAST_BYTES) for member in members) > MAX_UNPACKED_BYTES:
        raise UsageError(
            f"{path}: {over_limit_text(MAX_UNPACKED_BYTES)}",
            remedy="If it is meant to be so large, unpack it yourself, and give the folder.",
        )
