"""One profiling process per GPU at a time, whoever started it.

Two tools that read the counters of one GPU disturb each other or fail; ncu's own lock depends on
TMPDIR and does not cover a run as a whole.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.machine.lock_files import (
    holder_of,
    lock_folder,
    open_lock_file,
    own_lock_folder,
    take_lock,
    write_holder,
)
from profiler.machine.signals import raise_if_signalled

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


@contextmanager
def gpu_lock(
    gpu_uuid: str | None,
    *,
    timeout_s: float,
    on_wait: Callable[[str], None],
    folder: Path | None = None,
) -> Iterator[GpuLock]:
    """Hold the lock of a GPU; `on_wait` gets one message when that takes longer than a second.

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
    waiting = _Waiting(gpu_uuid, path, timeout_s, on_wait)
    with ExitStack() as held:
        waiting.until(lambda: take_lock(path, held) is not None)
        # A session of a run that was killed may still be clearing up.
        waiting.until(lambda: _is_free(session_file))
        with open_lock_file(path) as descriptor:
            write_holder(descriptor)
        _held.add(path)
        held.callback(_held.discard, path)
        yield GpuLock(session_file)


def session_lock_file(gpu_uuid: str | None) -> Path:
    """`GpuLock.session_file` of a GPU, whoever holds its lock."""
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


class _Waiting:
    """Retries until the lock is free or the deadline is over; reports once that it waits."""

    def __init__(
        self,
        gpu_uuid: str | None,
        path: Path,
        timeout_s: float,
        on_wait: Callable[[str], None],
    ) -> None:
        self._gpu = gpu_uuid or "the CPU"
        self._path = path
        self._deadline = time.monotonic() + timeout_s
        self._timeout_s = timeout_s
        self._on_wait = on_wait
        self._speak_at = time.monotonic() + _PATIENCE_S
        self._spoken = False

    def until(self, attempt: Callable[[], bool]) -> None:
        while not attempt():
            now = time.monotonic()
            if now >= self._deadline:
                raise EnvironmentUnusable(
                    f"{self._holder()} holds {self._gpu} (waited {self._timeout_s:.0f} s).",
                    remedy="Wait for it or end it; or choose another GPU: --device cuda:1.",
                )
            if now >= self._speak_at and not self._spoken:
                self._spoken = True
                self._on_wait(f"{self._holder()} holds {self._gpu}: waiting for it …")
            raise_if_signalled()
            time.sleep(min(_POLL_S, max(self._deadline - now, 0.0)))

    def _holder(self) -> str:
        process = holder_of(self._path)
        return "Another profiler" + ("" if process is None else f" (process {process})")
