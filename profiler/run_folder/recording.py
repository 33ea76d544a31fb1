"""Recordings: the files of a run that a replay needs, without texts private to its machine."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from profiler.errors import UsageError
from profiler.parse.bounded_files import plain_or_packed, read_named
from profiler.parse.clock_file import CLOCKS_FILE
from profiler.parse.timeline_files import API_FILE, FACTS_FILE, OPERATIONS_FILE, RANGES_FILE
from profiler.run_folder.archive import open_run, write_archive
from profiler.run_folder.documents import json_text
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
)
from profiler.run_folder.redact import PrivateTexts, Redaction, with_folders
from profiler.run_folder.seconds import SECONDS_FILE
from profiler.runner.protocol import STAMPS_FILE

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
"""Files to pack, by the end of their path: a search's journal is named like an attempt's."""


def write_recording(
    run: RunFolder,
    target: Path,
    private: PrivateTexts,
    names: PrivateTexts = (),
    left_out: list[str] | None = None,
) -> Path:
    """Path of an archive of the files that a replay needs: no reports, output or job files.

    Of a timeline the cleaned files, and nothing of its private folder. `.zip` is added to a
    `target` without it.

    `private` are (text, replacement) pairs: folders of this machine, longest first; they are
    replaced in every file that is copied, the CSV too. `names` are replaced in the words of errors
    and tools. Names of files that are damaged, and so are not copied, are added to `left_out`.

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
        files = _recorded_files(run, record, redaction, [] if left_out is None else left_out)
        write_archive(target.resolve(), files)
    except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:
        message = f"{target}: cannot be made: {error.strerror}"
        raise UsageError(message, remedy=_OTHER_NAME) from error
    return target


def _require_replaceable(target: Path, experiment: str) -> None:
    """Raise UsageError unless the target may be replaced: numbers would be lost for good."""
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
    """Whether recordings include a file of this path, packed or not."""
    path = file.with_suffix("") if file.suffix == ".gz" else file
    if path.parts[0] == "raw" and len(path.parts) == _DEPTH:
        return path.name in _ATTEMPT_FILES
    return path.as_posix() in (RUN_FILE, *_RUN_FILES)


def _recorded_files(
    run: RunFolder, record: RunRecord, redaction: Redaction, left_out: list[str]
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file of a recording."""
    marked_record = json_text(asdict(replace(record, recording=True)))
    yield RUN_FILE, redaction.redacted_file(RUN_FILE, marked_record).encode()
    names = [*_RUN_FILES]
    for attempt in run.attempts():
        file_names = (name for name in _ATTEMPT_FILES if name not in attempt.damaged)
        names += [f"raw/{attempt.folder.name}/{name}" for name in file_names]
    for name in names:
        try:
            content = _content(run.path / name)
        except OSError as error:
            if error.errno is not None:  # of the disk, and not of what is packed
                raise
            left_out.append(name)
            continue
        if content is None and name in (SPEC_FILE, PLAN_FILE):
            raise UsageError(
                f"{run.path / name}: is absent, or a link: nothing can be read of a recording "
                "without it"
            )
        if content is None:
            continue
        text = redaction.redacted_file(
            Path(name).name, content.decode("utf-8", errors="replace")
        ).encode()
        if Path(name).name in _TABLES:  # it is made once and kept in a repository
            yield f"{name}.gz", gzip.compress(text, 9, mtime=0)
        else:
            yield name, text


_SOURCE_FILE = re.compile(rb'^"File (?:Path|Name)","(.+)/', re.MULTILINE)


def _source_folders(run: RunFolder) -> Iterator[str]:
    """Folders of sources that pages of explain sessions name."""
    for attempt in run.attempts():
        for name in EXPLAIN_FILES:
            with suppress(OSError):
                for match in _SOURCE_FILE.finditer(_content(attempt.folder / name) or b""):
                    yield match[1].decode("utf-8", errors="replace")


def _content(source: Path) -> bytes | None:
    """Content of a file, compressed or not; None where it is absent, or a link."""
    packed = source.with_name(f"{source.name}.gz")
    if source.is_symlink() or packed.is_symlink():
        return None
    file = plain_or_packed(source)
    return None if file is None else read_named(file)
