"""Lock files that the programs of several users share.

They lie in a folder where everybody may make files and nobody takes away another's. There Linux
refuses to open a file of another user with O_CREAT (`fs.protected_regular`), and a link could point
anywhere: so a file is opened without creating it, or created where nothing is, and never through a
link. Locks are those of `flock`, which need no right to write.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

FOLDER_VARIABLE = "PROFILER_LOCKS"
"""Names another folder for the locks: for file systems that several containers share."""
_SHARED_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - see the head of this module
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would wait for its other end
_STICKY_FOR_ALL = stat.S_ISVTX | stat.S_IWOTH
_RIGHTS = 0o666
_TRIES = 100


def lock_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Folder of the locks, the same for every user of the machine.

    Not the one that TMPDIR names, which differs between users.
    """
    environ = os.environ if environ is None else environ
    if environ.get(FOLDER_VARIABLE):
        return Path(environ[FOLDER_VARIABLE])
    return next(filter(_is_shared, _SHARED_FOLDERS), own_lock_folder(environ))


def own_lock_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Folder of the locks of this user alone, for where the shared ones cannot be used."""
    return own_cache_folder(environ) / "locks"


def own_cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Folder for what this user's runs may keep, and lose, between them."""
    environ = os.environ if environ is None else environ
    home = environ.get("HOME")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    folder = Path(cache) if cache else _own_folder_among_all(f"kernel-profiler-{os.getuid()}")
    return folder / "kernel-profiler"


@cache
def _own_folder_among_all(name: str) -> Path:
    """Folder of this user in one of all users; a new one where another's, or a link, lies there."""
    folder = _SHARED_FOLDERS[-1] / name
    with suppress(OSError):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        facts = folder.lstat()
        is_own = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid()
        if is_own and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return folder
    return Path(tempfile.mkdtemp(prefix=f"{name}-"))


@contextmanager
def open_lock_file(path: Path) -> Iterator[int]:
    """Descriptor of a lock file, made where there is none; closed on leaving.

    Raises OSError for what is no regular file, has several names, or may not be read.
    """
    descriptor = _open(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def take_lock(path: Path, held: ExitStack) -> int | None:
    """Descriptor of a lock file, locked until the stack is closed; None where it is not free.

    Raises OSError as `open_lock_file` does.
    """
    with ExitStack() as attempt:
        descriptor = attempt.enter_context(open_lock_file(path))
        if not _locked(descriptor, path):
            return None
        held.push(attempt.pop_all())
        return descriptor


def _locked(descriptor: int, path: Path) -> bool:
    """Whether the lock could be taken at once, and the file is still the one at its path."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def write_holder(descriptor: int) -> None:
    """Write the id of this process into a lock file that it holds, as far as that is allowed."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def holder_of(path: Path) -> int | None:
    """Id of the process that took a lock last; None where that is not written."""
    with suppress(OSError, ValueError), open_lock_file(path) as descriptor:
        return int(os.pread(descriptor, 32, 0))
    return None


def _is_shared(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & _STICKY_FOR_ALL == _STICKY_FOR_ALL


def _open(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_TRIES):  # between two steps it may be made, or taken away
        with suppress(FileNotFoundError):
            return _checked(_open_existing(path), path)
        with suppress(FileExistsError):
            return _make(path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))


def _open_existing(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | _FLAGS)
    except PermissionError:  # another user's umask: enough for the lock itself
        return os.open(path, os.O_RDONLY | _FLAGS)


def _make(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, _RIGHTS)
    os.fchmod(descriptor, _RIGHTS)  # whatever the umask
    return descriptor


def _checked(descriptor: int, path: Path) -> int:
    """The descriptor of a lock file; raises OSError for a file that somebody may have put there."""
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a lock file", str(path))
