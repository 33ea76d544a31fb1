"""The journal as the runner writes it: every record stamped, appended and flushed.

Files that were opened since the last record are written down before the next one: the numbers
depend on them. An audit hook sees every file that Python code opens for reading, from any place.
The hook costs one call per audit event; contents are hashed later, between phases.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from profiler.runner import protocol
from profiler.runner.import_path import INSTALLED
from profiler.runner.orders import LeavingError

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_FOREIGN_FOLDERS = INSTALLED | {".git"}


class OpenedFiles:
    """Files under some folders that this process opened to read, each given once.

    Left out are files that this process wrote, or that are younger than it: they are results of
    what ran, and would be others in each session.
    """

    def __init__(self, watched: Mapping[str, str], unwatched: Sequence[str]) -> None:
        self._watched = {label: _folder_prefix(folder) for label, folder in watched.items()}
        self._unwatched = tuple(map(_folder_prefix, (*unwatched, sys.prefix)))
        self._began = time.time()
        self._opened_paths: dict[str, None] = {}
        self._names: dict[str, str] = {}
        """Name of each file that was returned, by its path."""
        self._digests: dict[str, str] = {}
        """Digest of each file by its name: the content that was read then is what runs."""
        self._repeated: dict[str, str] = {}
        """Digests by name that are to be returned once more."""
        self._written: set[str] = set()

    def install(self) -> None:
        """Watch for files that are opened from now on; Python cannot remove an audit hook."""
        if self._watched:
            sys.addaudithook(self._hook)

    def include_changes_until_now(self) -> None:
        """Count files that were changed until now, too: this process waited meanwhile."""
        self._began = time.time()

    def repeat_files(self) -> None:
        """Return all files once more, with the digests of their first time."""
        self._repeated = dict(self._digests)

    def drain(self) -> Iterator[tuple[str, str]]:
        """Name (label, colon, path in its folder) and digest of each file that is new.

        The digest is empty for a file that was returned before and was written since.
        """
        repeated, self._repeated = self._repeated, {}
        yield from repeated.items()
        for path in self._written.intersection(self._names):
            name = self._names.pop(path)
            del self._digests[name]
            yield name, ""
        folders: dict[str, str] = {}
        while self._opened_paths:
            path, _ = self._opened_paths.popitem()
            name_and_file = self._counted_file(_source_of(path), folders)
            if name_and_file is None or path in self._written or name_and_file[0] in self._digests:
                continue
            name, file = name_and_file
            self._names[path], self._digests[name] = name, protocol.file_digest(file)
            yield name, self._digests[name]

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path, _, flags = arguments
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):  # a descriptor that is open already
            return
        path = os.path.abspath(path)  # noqa: PTH100 - a Path for every opened file takes longer
        if isinstance(flags, int) and flags & _WRITES:
            self._written.add(path)
        else:
            self._opened_paths[path] = None

    def _counted_file(self, source: str, folders: dict[str, str]) -> tuple[str, Path] | None:
        """Name and path of a file that counts; None for any other file."""
        file = _resolved(source, folders)
        place = self._place(file)
        if place is None:
            return None
        try:
            facts = os.stat(file)  # noqa: PTH116 - as in the hook
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(facts.st_mode) or facts.st_mtime >= self._began:
            return None
        label, inside = place
        is_foreign = _FOREIGN_FOLDERS.intersection(Path(inside).parts)
        return None if is_foreign else (f"{label}:{inside}", Path(file))

    def _place(self, file: str) -> tuple[str, str] | None:
        """Label of the watched folder of a file, and its path there; None without such a folder."""
        if file.startswith(self._unwatched):
            return None
        for label, folder in self._watched.items():
            if file.startswith(folder):
                return label, file.removeprefix(folder)
        return None


def _resolved(path: str, folders: dict[str, str]) -> str:
    """Absolute path without links; `folders`: resolved folders by path, each looked up once.

    Importing torch opens a thousand files in 270 folders. To resolve one by one asks the file
    system about each of the dozen parts of a path, and no visit begins before.
    """
    folder, name = os.path.split(path)
    if not name:
        return path
    if folder not in folders:
        folders[folder] = _resolved(folder, folders)
    path = os.path.join(folders[folder], name)  # noqa: PTH118
    return os.path.realpath(path) if os.path.islink(path) else path  # noqa: PTH114


def _folder_prefix(folder: str) -> str:
    """Prefix of the path of each file in a folder, links resolved."""
    return os.path.join(Path(folder).resolve(), "")  # noqa: PTH118 - a Path ends without a slash


def _source_of(path: str) -> str:
    """The Python source of a compiled file; any other file itself."""
    if path.endswith(".pyc"):
        try:
            return importlib.util.source_from_cache(path)
        except (ValueError, NotImplementedError):
            pass
    return path


_CLOSED = 1
"""Exit code where the workload has closed the journal: the cell that is under way did it."""


@contextmanager
def open_journal(path: Path) -> Iterator[TextIO]:
    """Open a journal to append to it; raises LeavingError where it cannot be opened."""
    try:
        stream = path.open("a", encoding="utf-8")
    except OSError as error:
        raise LeavingError(protocol.EXIT_HOST_FAULT, f"cannot open {error}") from None
    try:
        yield stream
    finally:
        with suppress(OSError):  # a record that could not be written is written once more here
            stream.close()


class Journal:
    """Appends records to a stream; all written records survive a kill of the process.

    Raises LeavingError where a record cannot be written: later work would be lost.
    """

    def __init__(self, stream: TextIO, opened: OpenedFiles | None = None) -> None:
        self._stream = stream
        self._lines = count()
        self._opened = opened
        self._noted: list[tuple[str, str]] = []

    def following_journal(self, stream: TextIO) -> Journal:
        """The journal of this process's next job; it names files that were opened before, too."""
        if self._opened is not None:
            self._opened.repeat_files()
        return Journal(stream, self._opened)

    def note_opened(self) -> None:
        """Note files that were opened so far, with their current content, for the next record.

        Before a wait: a file that is edited meanwhile was read in its earlier state.
        """
        if self._opened is not None:
            self._noted += self._opened.drain()

    def end_wait(self) -> None:
        """Count files that were edited during a wait like files that were edited before it."""
        if self._opened is not None:
            self._opened.include_changes_until_now()

    def write(self, event: str, **fields: Any) -> None:
        """Append one record with its event and the time in seconds since the epoch."""
        # The first record has the process id, by which a session is ended.
        if self._opened is not None and event != protocol.SESSION_STARTED:
            self.note_opened()
            for file, digest in self._noted:
                self._append(protocol.OPENED, file=file, digest=digest)
            self._noted.clear()
        self._append(event, **fields)

    def _append(self, event: str, **fields: Any) -> None:
        record = {"line": next(self._lines), "event": event, "time": time.time(), **fields}
        try:
            protocol.append_record(self._stream, record)
        except OSError as error:
            # Only who is in this process can have closed it.
            code = _CLOSED if error.errno == errno.EBADF else protocol.EXIT_HOST_FAULT
            raise LeavingError(code, f"cannot write its journal: {error}") from None
