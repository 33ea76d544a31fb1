"""The bench of a search that a worker keeps between batches, with the lock on its GPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from profiler.run_folder.folder import RunFolder
from profiler.sessions.search.bench import Bench

IDLE_S = 20.0
"""How long a bench stands without a batch: far longer than it takes to give one, and far shorter
than others wait for a GPU."""


@dataclass(eq=False)
class Standing:
    """A bench, and the folder that its runners write into."""

    bench: Bench
    run: RunFolder
    search: str = ""
    """Key of its search."""
    closing: ExitStack = field(default_factory=ExitStack)
    """What it holds."""
    idle: threading.Timer | None = None
    """Ends it where no batch comes."""


_guard = threading.RLock()
_standing: list[Standing] = []
"""None or one: a worker has one GPU."""


@contextmanager
def bench_kept(search: str, make: Callable[[ExitStack], Standing]) -> Iterator[Standing]:
    """The bench of a search; `make` enters what it holds where there is none.

    It stands afterwards, until another task begins or none comes for IDLE_S; not after an error.
    """
    with _guard:
        if not _standing or _standing[0].search != search:
            end_standing()
            with ExitStack() as closing:
                made = make(closing)
                made.search, made.closing = search, closing.pop_all()
            _standing.append(made)
        (standing,) = _standing
        _stop_clock(standing)
        try:
            yield standing
        except BaseException:
            end_standing()
            raise
        standing.idle = threading.Timer(IDLE_S, _end_if_idle)
        standing.idle.daemon = True
        standing.idle.start()


def end_standing() -> None:
    """End the bench that stands, if there is one."""
    with _guard:
        while _standing:
            standing = _standing.pop()
            _stop_clock(standing)
            standing.closing.close()


def _end_if_idle() -> None:
    with _guard:
        if _standing and _standing[0].idle is threading.current_thread():
            end_standing()


def _stop_clock(standing: Standing) -> None:
    if standing.idle is not None:
        standing.idle.cancel()
        standing.idle = None
