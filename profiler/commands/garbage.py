"""Python's collector of garbage, where it would go through what is no garbage time and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

RARELY = 100_000
"""Objects between two looks for garbage from which on the looks cost next to nothing."""


@contextmanager
def kept_from_collector() -> Iterator[None]:
    """Keep all that there is now from the collector of garbage until the body ends.

    The journals and samples of a run are millions of objects that stay. Going through them each
    time that new objects have come takes a seventh of the time of a large page.
    """
    # The command line looks seldom, or somebody keeps more than that. What is frozen is counted one
    # by one: that is asked last.
    if gc.get_threshold()[0] >= RARELY or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
