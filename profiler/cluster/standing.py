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
class _OpenBench:
    search: str
    standing: Standing
    closing: ExitStack
    idle: threading.Timer | None = None


_guard = threading.RLock()
_open_benches: list[_OpenBench] = []
"""None or one: a worker has one GPU."""


@contextmanager
def bench_kept(search: str, make: Callable[[ExitStack], Standing]) -> Iterator[Standing]:
    """The bench of a search; `make` enters what it holds where there is none.

    It stands afterwards, until another task begins or none comes for IDLE_S; not after an error.
    """
    with _guard:
        bench = _taken(search) or _made(search, make)
        try:
            yield bench.standing
        except BaseException:
            _close(bench)
            raise
        bench.idle = threading.Timer(IDLE_S, _close_if_idle, [bench])
        bench.idle.daemon = True
        bench.idle.start()


def end_standing() -> None:
    """End the bench that stands, if there is one."""
    with _guard:
        for bench in tuple(_open_benches):
            _close(bench)


def _taken(search: str) -> _OpenBench | None:
    """The bench of a search, whose time does not run out any more; that of another is ended."""
    for bench in tuple(_open_benches):
        if bench.search == search:
            if bench.idle is not None:
                bench.idle.cancel()
            bench.idle = None
            return bench
        _close(bench)
    return None


def _made(search: str, make: Callable[[ExitStack], Standing]) -> _OpenBench:
    with ExitStack() as closing:
        bench = _OpenBench(search, make(closing), closing.pop_all())
    _open_benches.append(bench)
    return bench


def _close_if_idle(bench: _OpenBench) -> None:
    with _guard:
        if bench.idle is threading.current_thread():
            _close(bench)


def _close(bench: _OpenBench) -> None:
    if bench in _open_benches:
        _open_benches.remove(bench)
        if bench.idle is not None:
            bench.idle.cancel()
        bench.closing.close()
