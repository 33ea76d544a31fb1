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
        if not _kept or _kept[0].search != search:
            end_standing()
            with ExitStack() as closing:
                _kept.append(_Kept(search, make(closing), closing.pop_all()))
        (kept,) = _kept
        _stop_clock(kept)
        try:
            yield kept.standing
        except BaseException:
            end_standing()
            raise
        kept.idle = threading.Timer(IDLE_S, _end_if_idle)
        kept.idle.daemon = True
        kept.idle.start()


def end_standing() -> None:
    """End the bench that stands, if there is one."""
    with _guard:
        while _kept:
            kept = _kept.pop()
            _stop_clock(kept)
            kept.closing.close()


def _end_if_idle() -> None:
    with _guard:
        if _kept and _kept[0].idle is threading.current_thread():
            end_standing()


def _stop_clock(kept: _Kept) -> None:
    if kept.idle is not None:
        kept.idle.cancel()
        kept.idle = None
