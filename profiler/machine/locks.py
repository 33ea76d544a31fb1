"""One profiling process per GPU at a time, whoever started it, and lock files that users share.

Two tools that read the counters of one GPU disturb each other or fail; ncu's own lock depends on
TMPDIR and does not cover a run as a whole.

Lock files lie in a folder where everybody may make files and nobody takes away another's. There
Linux refuses to open a file of another user with O_CREAT (`fs.protected_regular`), and a link could
point anywhere: so a file is opened without creating it, or created where nothing is, and never
through a link. Locks are those of `flock`, which need no right to write.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from pathlib import Path

from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.machine.signals import raise_if_signalled

_PATIENCE_S = 1.0
"""How long to wait in silence; a lock that is about to be released needs no message."""
_POLL_S = 0.1

_held: set[Path] = set()
"""Locks of this process."""


@contextmanager
def gpu_lock(
    gpu_uuid: str | None,
    *,
    timeout_s: float,
    on_wait: Callable[[str], None],
    folder: Path | None = None,
) -> Iterator[Path]:
    """Hold the lock of a GPU; `on_wait` gets one message when that takes longer than a second.

    Gives the file that each session is to hold for as long as anything of it lives: unlike the lock
    itself it outlasts this process (`run_session(lock_file=...)`).

    The lock is released by the operating system when the process dies. `gpu_uuid` None (no GPU: a
    run on the CPU) is a lock of its own. Where the lock that all users share cannot be used, which
    `on_wait` hears of, it is one of this user. Raises EnvironmentUnusable where the lock is not
    free within `timeout_s` seconds, and ProfilerError where this process holds it already.
    """
    path = _usable_path(gpu_uuid, folder, on_wait)
    if path in _held:
        raise ProfilerError(
            f"This process already holds the GPU lock {path.name}.",
            remedy="This is a bug in the profiler; please report it.",
        )
    session_file = _session_file(path)
    wait_until = partial(
        _wait_until, path=path, gpu_uuid=gpu_uuid, timeout_s=timeout_s, on_wait=on_wait
    )
    with ExitStack() as held:
        wait_until(lambda: take_lock(path, held) is not None)
        # A session of a run that was killed may still be clearing up.
        wait_until(lambda: _is_free(session_file))
        with open_lock_file(path) as descriptor:
            write_holder(descriptor)
        _held.add(path)
        held.callback(_held.discard, path)
        yield session_file


def session_lock_file(gpu_uuid: str | None) -> Path:
    """The file that `gpu_lock` gives, whoever holds the lock of the GPU."""
    return _session_file(_usable_path(gpu_uuid, None, lambda _: None))


def is_free(gpu_uuid: str | None, folder: Path | None = None) -> bool:
    """Whether the lock of a GPU is free now; raises OSError where it cannot be used."""
    path = _path(gpu_uuid, lock_folder() if folder is None else folder)
    return path not in _held and _is_free(path) and _is_free(_session_file(path))


def _usable_path(gpu_uuid: str | None, folder: Path | None, say: Callable[[str], None]) -> Path:
    """Lock file that all users share; where it cannot be used, which is said, that of this user."""
    path = _path(gpu_uuid, lock_folder() if folder is None else folder)
    if folder is None and (trouble := _trouble(path)) is not None:
        say(f"Profilers of other users are not waited for: {path}: {trouble}.")
        path = _path(gpu_uuid, own_lock_folder())
    return path


def _session_file(path: Path) -> Path:
    return path.with_suffix(".session")


def _path(gpu_uuid: str | None, folder: Path) -> Path:
    name = re.sub(r"[^A-Za-z0-9-]", "_", gpu_uuid or "no-gpu")
    return folder / f"kernel-profiler-{name}.lock"


def _trouble(path: Path) -> str | None:
    """Why a lock file cannot be used; None where it can."""
    try:
        with open_lock_file(path):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _is_free(path: Path) -> bool:
    with ExitStack() as held:
        return take_lock(path, held) is not None


def _wait_until(
    attempt: Callable[[], bool],
    path: Path,
    gpu_uuid: str | None,
    *,
    timeout_s: float,
    on_wait: Callable[[str], None],
) -> None:
    """Retry until an attempt succeeds or the time is over; reports once that it waits."""
    began, speak_at = time.monotonic(), time.monotonic() + _PATIENCE_S
    while not attempt():
        now = time.monotonic()
        process = holder_of(path)
        holder = "Another profiler" + ("" if process is None else f" (process {process})")
        held = f"{holder} holds {gpu_uuid or 'the CPU'}"
        if now >= began + timeout_s:
            raise EnvironmentUnusable(
                f"{held} (waited {timeout_s:.0f} s).",
                remedy="Wait for it or end it; or choose another GPU: --device cuda:1.",
            )
        if now >= speak_at:
            speak_at = math.inf
            on_wait(f"{held}: waiting for it …")
        raise_if_signalled()
        time.sleep(min(_POLL_S, max(began + timeout_s - now, 0.0)))


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
