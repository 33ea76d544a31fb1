"""One profiling process per GPU at a time.

Two tools that read the counters of one GPU disturb each other or fail; ncu's own lock depends on
TMPDIR and does not cover a run as a whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import filelock

from profiler.errors import EnvironmentUnusable, ProfilerError

_PATIENCE_S = 1.0
"""How long to wait in silence; a lock that is about to be released needs no message."""
_POLL_S = 0.1

_held: set[Path] = set()
"""Locks of this process."""


@dataclass(frozen=True)
class GpuLock:
    """A lock that is held."""

    session_file: Path
    """To be held by each session for as long as anything of it lives: unlike the lock itself it
    outlasts this process (`run_session(lock_file=...)`)."""


def lock_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Folder of the locks: in the user's cache, or in the temporary folder where that is closed."""
    environ = os.environ if environ is None else environ
    home = environ.get("HOME")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else None)
    if cache is not None:
        folder = Path(cache) / "kernel-profiler" / "locks"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK):
                return folder
    folder = Path(tempfile.gettempdir()) / f"kernel-profiler-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def gpu_lock(
    gpu_uuid: str | None,
    *,
    timeout_s: float,
    on_wait: Callable[[str], None],
    folder: Path | None = None,
) -> Iterator[GpuLock]:
    """Hold the lock of a GPU; `on_wait` gets one message when that takes longer than a second.

    The lock is released by the operating system when the process dies. `gpu_uuid` None (no GPU: a
    run on the CPU) is a lock of its own. Raises EnvironmentUnusable where the lock is not free
    within `timeout_s` seconds, and ProfilerError where this process holds it already.
    """
    path = _path(gpu_uuid, lock_folder() if folder is None else folder)
    if path in _held:
        raise ProfilerError(
            f"This process already holds the GPU lock {path.name}.",
            remedy="This is a bug in the profiler; please report it.",
        )
    lock = filelock.FileLock(path)
    session_file = path.with_suffix(".session")
    deadline = time.monotonic() + timeout_s
    waiting = _Waiting(gpu_uuid, deadline, timeout_s, on_wait)
    waiting.until(lambda: _acquired(lock))
    try:
        # A session of a run that was killed may still be clearing up.
        waiting.until(lambda: _free(session_file))
        _held.add(path)
        yield GpuLock(session_file)
    finally:
        _held.discard(path)
        lock.release()


def is_free(gpu_uuid: str | None, folder: Path | None = None) -> bool:
    """Whether the lock of a GPU is free now."""
    path = _path(gpu_uuid, lock_folder() if folder is None else folder)
    if path in _held:
        return False
    lock = filelock.FileLock(path)
    if not _acquired(lock):
        return False
    lock.release()
    return _free(path.with_suffix(".session"))


def _path(gpu_uuid: str | None, folder: Path) -> Path:
    name = re.sub(r"[^A-Za-z0-9-]", "_", gpu_uuid or "no-gpu")
    return folder / f"{name}.lock"


def _acquired(lock: filelock.BaseFileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return False
    return True


def _free(session_file: Path) -> bool:
    with session_file.open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


class _Waiting:
    """Retries until the lock is free or the deadline is over; reports once that it waits."""

    def __init__(
        self,
        gpu_uuid: str | None,
        deadline: float,
        timeout_s: float,
        on_wait: Callable[[str], None],
    ) -> None:
        self._gpu = gpu_uuid or "the CPU"
        self._deadline = deadline
        self._timeout_s = timeout_s
        self._on_wait = on_wait
        self._speak_at = time.monotonic() + _PATIENCE_S
        self._spoken = False

    def until(self, attempt: Callable[[], bool]) -> None:
        while not attempt():
            now = time.monotonic()
            if now >= self._deadline:
                raise EnvironmentUnusable(
                    f"Another profiling process holds {self._gpu} "
                    f"(waited {self._timeout_s:.0f} s).",
                    remedy="Wait for it or end it; or choose another GPU with "
                    "CUDA_VISIBLE_DEVICES.",
                )
            if now >= self._speak_at and not self._spoken:
                self._spoken = True
                self._on_wait(f"Waiting for another profiling process on {self._gpu} …")
            time.sleep(min(_POLL_S, max(self._deadline - now, 0.0)))
