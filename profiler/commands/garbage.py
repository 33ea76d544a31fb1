"""Python's collector of garbage, where it would go through what is no garbage time and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_from_collector() -> Iterator[None]:
    """Keep all that there is now from the collector of garbage until the body ends.

    The journals and samples of a run are millions of objects that stay. Going through them each
    time that new objects have come takes a seventh of the time of a large page.
    """
    if gc.get_freeze_count():  # by whoever keeps more than that
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
