"""Locks: one profiling process per GPU at a time, and lock files that all users share.

Two tools that read the counters of one GPU disturb each other or fail; ncu's own lock depends on
TMPDIR and does not cover a run as a whole.

Lock files lie in a sticky folder where all users may create files. There Linux refuses to open a
file of another user with O_CREAT (`fs.protected_regular`), and a link could point anywhere: so a
file is opened without O_CREAT, or created with O_EXCL, and never through a link. Locks are those of
`flock`, which need no right to write.
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
"""Seconds of waiting before a message, which a lock that is about to be released does not need."""
_POLL_S = 0.1

_locks_of_process: set[Path] = set()
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

    Yields the file that each session holds for as long as any process of it lives: unlike the lock
    itself it outlasts this process (`run_session(lock_file=...)`).

    The lock is released by the operating system when the process dies. `gpu_uuid` None (no GPU: a
    run on the CPU) is a separate lock. Where the lock that all users share cannot be used, the lock
    of this user is taken, with a message to `on_wait`. Raises EnvironmentUnusable where the lock is
    not free within `timeout_s` seconds, and ProfilerError where this process holds it already.
    """
    path = _usable_path(gpu_uuid, folder, on_wait)
    if path in _locks_of_process:
        raise ProfilerError(
            f"This process already holds the GPU lock {path.name}.",
            remedy="This is a bug in the profiler; please report it.",
        )
    session_file = _session_file(path)
    wait_until = partial(
        _wait_until, path=path, gpu_uuid=gpu_uuid, timeout_s=timeout_s, on_wait=on_wait
    )
    with ExitStack() as lock_stack:
        wait_until(lambda: take_lock(path, lock_stack) is not None)
        # A session of a run that was killed may still be clearing up.
        wait_until(lambda: _is_free(session_file))
        with open_lock_file(path) as descriptor:
            write_holder(descriptor)
        _locks_of_process.add(path)
        lock_stack.callback(_locks_of_process.discard, path)
        yield session_file


def session_lock_file(gpu_uuid: str | None) -> Path:
    """Session file of a GPU, which `gpu_lock` yields to the holder of the lock."""
    return _session_file(_usable_path(gpu_uuid, None, lambda _: None))


def is_free(gpu_uuid: str | None, folder: Path | None = None) -> bool:
    """Whether the lock of a GPU is free now; raises OSError where it cannot be used."""
    path = _lock_path(gpu_uuid, lock_folder() if folder is None else folder)
    return path not in _locks_of_process and _is_free(path) and _is_free(_session_file(path))


def _usable_path(gpu_uuid: str | None, folder: Path | None, report: Callable[[str], None]) -> Path:
    """Lock file that all users share; where it cannot be used, this user's, with a report."""
    path = _lock_path(gpu_uuid, lock_folder() if folder is None else folder)
    if folder is None and (fault := _fault_of_lock_file(path)) is not None:
        report(f"Profilers of other users are not waited for: {path}: {fault}.")
        path = _lock_path(gpu_uuid, own_lock_folder())
    return path


def _session_file(path: Path) -> Path:
    return path.with_suffix(".session")


def _lock_path(gpu_uuid: str | None, folder: Path) -> Path:
    name = re.sub(r"[^A-Za-z0-9-]", "_", gpu_uuid or "no-gpu")
    return folder / f"kernel-profiler-{name}.lock"


def _fault_of_lock_file(path: Path) -> str | None:
    """Why a lock file cannot be used; None where it can."""
    try:
        with open_lock_file(path):
            return None
    except OSError as error:
        return error.strerror or str(error)


def _is_free(path: Path) -> bool:
    with ExitStack() as lock_stack:
        return take_lock(path, lock_stack) is not None


def _wait_until(
    attempt: Callable[[], bool],
    path: Path,
    gpu_uuid: str | None,
    *,
    timeout_s: float,
    on_wait: Callable[[str], None],
) -> None:
    """Retry until an attempt succeeds or the time is over; `on_wait` gets one message."""
    start, report_at = time.monotonic(), time.monotonic() + _PATIENCE_S
    while not attempt():
        now = time.monotonic()
        process = holder_of(path)
        holder = "Another profiler" + ("" if process is None else f" (process {process})")
        held_text = f"{holder} holds {gpu_uuid or 'the CPU'}"
        if now >= start + timeout_s:
            raise EnvironmentUnusable(
                f"{held_text} (waited {timeout_s:.0f} s).",
                remedy="Wait for it or end it; or choose another GPU: --device cuda:1.",
            )
        if now >= report_at:
            report_at = math.inf
            on_wait(f"{held_text}: waiting for it …")
        raise_if_signalled()
        time.sleep(min(_POLL_S, max(start + timeout_s - now, 0.0)))


FOLDER_VARIABLE = "PROFILER_LOCKS"
"""Names another folder for the locks: for file systems that several containers share."""
_SHARED_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # noqa: S108 - see the head of this module
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO would wait for its other end
_STICKY_FOR_ALL = stat.S_ISVTX | stat.S_IWOTH
_RIGHTS = 0o666
_TRIES = 100


def lock_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Folder of the locks, the same for every user of the machine.

    TMPDIR is not used, as it differs between users.
    """
    environ = os.environ if environ is None else environ
    if environ.get(FOLDER_VARIABLE):
        return Path(environ[FOLDER_VARIABLE])
    return next(filter(_is_shared, _SHARED_FOLDERS), own_lock_folder(environ))


def own_lock_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Folder of the locks of this user alone, used where the shared folder cannot be."""
    return own_cache_folder(environ) / "locks"


def own_cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Cache folder of this user's runs."""
    environ = os.environ if environ is None else environ
    home = environ.get("HOME")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    folder = Path(cache) if cache else _own_folder_in_shared_one(f"kernel-profiler-{os.getuid()}")
    return folder / "kernel-profiler"


@cache
def _own_folder_in_shared_one(name: str) -> Path:
    """Folder of this user in a shared folder; a new one where its name is taken by another user."""
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
    """Descriptor of a lock file, which is created if absent; closed on leaving.

    Raises OSError for a file that is not regular, has several links, or may not be read.
    """
    descriptor = _open_or_create(path)
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
        if not _lock_now(descriptor, path):
            return None
        held.push(attempt.pop_all())
        return descriptor


def _lock_now(descriptor: int, path: Path) -> bool:
    """Whether the lock was free and is taken now, and the file still lies at its path."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def write_holder(descriptor: int) -> None:
    """Write the id of this process into a lock file that it holds, where it may write it."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def holder_of(path: Path) -> int | None:
    """Id of the process that took a lock last; None where the file has no id."""
    with suppress(OSError, ValueError), open_lock_file(path) as descriptor:
        return int(os.pread(descriptor, 32, 0))
    return None


def _is_shared(folder: Path) -> bool:
    try:
        mode = folder.stat().st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) and mode & _STICKY_FOR_ALL == _STICKY_FOR_ALL


def _open_or_create(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_TRIES):  # between two steps it may be made, or taken away
        with suppress(FileNotFoundError):
            return _checked_descriptor(_open_existing(path), path)
        with suppress(FileExistsError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, _RIGHTS)
            os.fchmod(descriptor, _RIGHTS)  # whatever the umask
            return descriptor
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))


def _open_existing(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | _FLAGS)
    except PermissionError:  # another user's umask: enough for the lock itself
        return os.open(path, os.O_RDONLY | _FLAGS)


def _checked_descriptor(descriptor: int, path: Path) -> int:
    """The descriptor, if its file is a plain lock file; else raises OSError."""
    facts = os.fstat(descriptor)
    if stat.S_ISREG(facts.st_mode) and facts.st_nlink <= 1:
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a lock file", str(path))
