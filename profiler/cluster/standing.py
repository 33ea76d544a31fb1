"""The bench of a search that a worker keeps between batches, with the lock on its GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from profiler.run_folder.folder import RunFolder
from profiler.sessions.search.bench import Bench

IDLE_S = 20.0
"""How long a bench stands without a batch: far longer than it takes to give one, and far shorter
than others wait for a GPU."""

Standing = tuple[Bench, RunFolder]
"""A bench, and the run that its runners write into."""

_guard = threading.RLock()
_kept: dict[str, tuple[Standing, ExitStack]] = {}
"""By search, what stands and what it holds: one at most, for a worker has one GPU."""
_idle: set[threading.Thread] = set()
"""The timer that ends it, unless another batch comes before."""


@contextmanager
def bench_kept(search: str, make: Callable[[ExitStack], Standing]) -> Iterator[Standing]:
    """The bench of a search; `make` enters what it holds where there is none.

    It stands afterwards, until another task begins or none comes for IDLE_S; not after an error.
    """
    with _guard:
        if search not in _kept:
            end_standing()
            with ExitStack() as holds:
                _kept[search] = make(holds), holds.pop_all()
        _idle.clear()
        try:
            yield _kept[search][0]
        except BaseException:
            end_standing()
            raise
        timer = threading.Timer(IDLE_S, _end_if_idle)
        timer.daemon = True
        _idle.add(timer)
        timer.start()


def end_standing() -> None:
    """End the bench that stands, if there is one."""
    with _guard:
        while _kept:
            _, (_, holds) = _kept.popitem()
            holds.close()


def _end_if_idle() -> None:
    with _guard:
        if threading.current_thread() in _idle:
            end_standing()
