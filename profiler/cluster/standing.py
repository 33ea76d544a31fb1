"""The bench of a search that a worker keeps between batches, with the lock on its GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from profiler.run_folder.folder import RunFolder
from profiler.sessions.search.bench import Bench

IDLE_S = 20.0
"""How long a bench stands without a batch: far longer than it takes to give one, and far shorter
than others wait for a GPU."""


@dataclass(frozen=True)
class Standing:
    """A bench, and the folder that its runners write into."""

    bench: Bench
    run: RunFolder


@dataclass
class _Kept:
    search: str
    standing: Standing
    closing: ExitStack
    idle: threading.Timer | None = None


_guard = threading.RLock()
_kept: list[_Kept] = []
"""None or one: a worker has one GPU."""


@contextmanager
def bench_kept(search: str, make: Callable[[ExitStack], Standing]) -> Iterator[Standing]:
    """The bench of a search; `make` enters what it holds where there is none.

    It stands afterwards, until another task begins or none comes for IDLE_S; not after an error.
    """
    with _guard:
        kept = _taken(search) or _made(search, make)
        try:
            yield kept.standing
        except BaseException:
            _close(kept)
            raise
        kept.idle = threading.Timer(IDLE_S, _close_if_idle, [kept])
        kept.idle.daemon = True
        kept.idle.start()


def end_standing() -> None:
    """End the bench that stands, if there is one."""
    with _guard:
        for kept in tuple(_kept):
            _close(kept)


def _taken(search: str) -> _Kept | None:
    """The bench of a search, whose time does not run out any more; that of another is ended."""
    for kept in tuple(_kept):
        if kept.search == search:
            if kept.idle is not None:
                kept.idle.cancel()
            kept.idle = None
            return kept
        _close(kept)
    return None


def _made(search: str, make: Callable[[ExitStack], Standing]) -> _Kept:
    with ExitStack() as closing:
        kept = _Kept(search, make(closing), closing.pop_all())
    _kept.append(kept)
    return kept


def _close_if_idle(kept: _Kept) -> None:
    with _guard:
        if kept.idle is threading.current_thread():
            _close(kept)


def _close(kept: _Kept) -> None:
    if kept in _kept:
        _kept.remove(kept)
        if kept.idle is not None:
            kept.idle.cancel()
        kept.closing.close()
