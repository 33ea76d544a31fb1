"""Temporary folders that a killed process leaves for the next one to remove.

A folder is locked with `flock` by the process that made it: the system releases the lock however
that process ends. So a folder of this user without a lock is abandoned. Process ids could not tell:
they start anew in a container.
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
"""Prefix that differs from that of earlier versions, which do not lock their folders."""
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that only this user can read, removed on leaving, but not by forks of the process.

    Removes the folders that killed processes of this user left.
    """
    _remove_abandoned_folders(Path(tempfile.gettempdir()))
    folder, descriptor = _locked_folder()
    owner = os.getpid()
    try:
        yield folder
    finally:
        if os.getpid() == owner:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


def _locked_folder() -> tuple[Path, int]:
    """A new folder and the descriptor of its lock; an unlocked one may be removed by others."""
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
def _remove_abandoned_folders(parent: Path) -> None:
    """Remove the abandoned folders in a folder, once in a process."""
    with suppress(OSError):
        for folder in parent.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder of this user that no process locks; raises OSError for any other."""
    descriptor = os.open(folder, _FLAGS)
    try:
        if os.fstat(descriptor).st_uid == os.getuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, folder):
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, folder: Path) -> bool:
    """Whether an open folder lies at a path, which is no link."""
    with suppress(FileNotFoundError):
        state = folder.lstat()
        return stat.S_ISDIR(state.st_mode) and os.path.samestat(os.fstat(descriptor), state)
    return False
