"""Temporary folders that a killed process leaves for the next one to remove.

A folder is locked by the process that made it, as `flock` does: the system lets go of it however
that process ends. So one of this user that nobody holds is left over, whatever the ids of processes
say, which start anew in a container.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

_PREFIX = "profiler-held-"
"""Not that of earlier versions, which do not lock theirs."""
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that only this user can read, removed on leaving; forks of the process leave it.

    Removes those that killed processes of this user left.
    """
    _remove_left_over(Path(tempfile.gettempdir()))
    folder, descriptor = _made()
    owner = os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


def _made() -> tuple[Path, int]:
    """A new folder and its lock. Before it is locked, another process may take it for left over."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, _FLAGS)
            with suppress(OSError):  # a file system without locks: nothing there is left over
                fcntl.flock(descriptor, fcntl.LOCK_SH)
            if _is_at(descriptor, folder):
                return folder, descriptor
            os.close(descriptor)


@cache
def _remove_left_over(parent: Path) -> None:
    """Remove what is left over in a folder, once in a process."""
    with suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_if_left_over(folder)


def _remove_if_left_over(folder: Path) -> None:
    """Remove a folder of this user that nobody holds; raises OSError for any other."""
    descriptor = os.open(folder, _FLAGS)
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, folder):
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, folder: Path) -> bool:
    """Whether an open folder is the one at a path, which is no link."""
    with suppress(FileNotFoundError):
        state = folder.lstat()
        return stat.S_ISDIR(state.st_mode) and os.path.samestat(os.fstat(descriptor), state)
    return False
