"""Recordings: what a replay needs of a run, without what is private to the machine that made it."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from profiler.errors import UsageError
from profiler.parse.bounded_files import read_packed, read_plain
from profiler.parse.clock_file import CLOCKS_FILE
from profiler.parse.timeline_files import API_FILE, FACTS_FILE, OPERATIONS_FILE, RANGES_FILE
from profiler.run_folder.folder import (
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
    compress,
    write_atomic,
)
from profiler.run_folder.redact import (
    PrivateTexts,
    with_folders,
    without_names_in_errors,
    without_private,
)
from profiler.run_folder.seconds import SECONDS_FILE
from profiler.runner.protocol import STAMPS_FILE

_OTHER_FOLDER = "Name another folder, or take this one away first."
RECORDED_NAMES = (
    *(SESSION_FILE, RESULT_FILE, KERNELS_FILE, WORKER_FILE),
    *(COMMAND_FILE, FACTS_FILE),
)
RECORDED_TABLES = (
    *(CSV_FILE, JOURNAL_FILE, CLOCKS_FILE),
    *(OPERATIONS_FILE, RANGES_FILE, API_FILE),
    STAMPS_FILE,
    *EXPLAIN_FILES,
)


def write_recording(
    run: RunFolder, target: Path, private: PrivateTexts, names: PrivateTexts = ()
) -> None:
    """Copy what a replay needs from a run folder: no tool reports, no console output, no job files.

    Of a timeline the cleaned files, and nothing of its private folder.

    `private` are (text, replacement) pairs: folders of this machine, longest first; they are
    replaced in every file that is copied, the CSV too. `names` are replaced in the words of errors
    and tools.

    An older recording of the same experiment is replaced, once the new one is whole. Raises
    UsageError where the target holds anything else, and where one folder would hold the other.
    """
    experiment = run.record().experiment
    target = target.resolve()  # through a link: what it points to is replaced, not the link
    _require_replaceable(run, target, experiment)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except (FileNotFoundError, FileExistsError, NotADirectoryError) as error:
        message = f"{target}: cannot be made: {error.strerror}"
        raise UsageError(message, remedy=_OTHER_FOLDER) from error
    try:
        redaction = _Redaction(with_folders(private, _source_folders(run)), names)
        _write_recorded(run, staging, redaction)
        staging.chmod(0o755)
        _require_replaceable(run, target, experiment)  # somebody may have begun a run there
        if target.exists():
            shutil.rmtree(target)
        staging.replace(target)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def _require_replaceable(run: RunFolder, target: Path, experiment: str) -> None:
    """Raise UsageError unless a recording may stand here: nobody measures the numbers again."""
    source = run.path.resolve()
    if source == target or source in target.parents or target in source.parents:
        raise UsageError(f"{target}: a recording cannot take the place of the run {run.path}")
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target}: not a folder", remedy=_OTHER_FOLDER)
    if not any(target.iterdir()):
        return
    older = RunFolder(target)
    if not older.is_recording():
        raise UsageError(
            f"{target}: holds {'a run' if older.exists() else 'files'} and no recording: "
            "it is not replaced",
            remedy=_OTHER_FOLDER,
        )
    if older.record().experiment != experiment:
        raise UsageError(
            f"{target}: a recording of {older.record().experiment}, not of {experiment}: "
            "it is not replaced",
            remedy=_OTHER_FOLDER,
        )


@dataclass(frozen=True)
class _Redaction:
    """Takes what is private out of the files of a run."""

    private: PrivateTexts
    names: PrivateTexts

    def of(self, name: str, text: str) -> str:
        """Content of a file of this name as it may be shared."""
        named = without_names_in_errors(name, text, self.names)
        return without_private(named, self.private)


def _write_recorded(run: RunFolder, target: Path, redaction: _Redaction) -> None:
    for name in (RUN_FILE, SPEC_FILE, PLAN_FILE, BUILD_FILE, SECONDS_FILE):
        _copy_text(run.path / name, target / name, redaction)
    compress(target / PLAN_FILE, level=9)
    _copy_text(run.path / SEARCH_JOURNAL_FILE, target / SEARCH_JOURNAL_FILE, redaction)
    compress(target / SEARCH_JOURNAL_FILE, level=9)
    recording = RunFolder(target)
    recording.write_record(replace(recording.record(), recording=True))
    for attempt in run.attempts():
        folder = target / "raw" / attempt.folder.name
        for name in RECORDED_NAMES:
            if name in attempt.damaged:
                continue
            _copy_text(attempt.folder / name, folder / name, redaction)
        for name in RECORDED_TABLES:
            _copy_text(attempt.folder / name, folder / name, redaction)
            compress(folder / name, level=9)  # it is made once and kept in a repository


_SOURCE_FILE = re.compile(rb'^"File (?:Path|Name)","(.+)/', re.MULTILINE)


def _source_folders(run: RunFolder) -> Iterator[str]:
    """Folders of the sources that pages of explain sessions name."""
    for attempt in run.attempts():
        for name in EXPLAIN_FILES:
            content = _content(attempt.folder / name)
            for match in _SOURCE_FILE.finditer(content or b""):
                yield match[1].decode("utf-8", errors="replace")


def _copy_text(source: Path, target: Path, redaction: _Redaction) -> None:
    """Copy a text file, compressed or not, without what is private; nothing where it is absent."""
    content = _content(source)
    if content is not None:
        text = content.decode("utf-8", errors="replace")
        write_atomic(target, redaction.of(source.name, text))


def _content(source: Path) -> bytes | None:
    """Content of a file, compressed or not; None where it is absent, or a link."""
    packed = source.with_name(f"{source.name}.gz")
    if source.is_symlink() or packed.is_symlink():
        return None
    if source.exists():
        return read_plain(source)
    return read_packed(packed) if packed.exists() else None
