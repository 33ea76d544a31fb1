"""When Python looks for garbage in the runner: never while something is imported or timed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector's pauses out of the body: milliseconds each with torch loaded.

    Of importing torch they are an eighth of the time, and nothing of it is garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
