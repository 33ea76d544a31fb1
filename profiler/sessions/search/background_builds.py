"""Builds that go on in a thread while something else is measured."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from profiler.machine.signals import raise_if_signalled
from profiler.model import BuildResult, Variant

_POLL_S = 0.2
"""So that Ctrl-C is heard while the measuring thread waits."""

Build = Callable[[Sequence[Variant]], Sequence[BuildResult]]


@dataclass(frozen=True)
class Built:
    """A build that has ended, and the seconds of the batch that it was part of."""

    result: BuildResult
    seconds: float


class BackgroundBuilds:
    """Builds what is submitted, all that waits at a time: ninja shares the cores among them."""

    def __init__(self, build: Build) -> None:
        self._build = build
        self._waiting: deque[Variant] = deque()
        self._built: dict[str, Built] = {}
        self._error: BaseException | None = None
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="builds", daemon=True)
        self._thread.start()

    def submit(self, variants: Sequence[Variant]) -> None:
        """Have variants built."""
        with self._changed:
            self._waiting.extend(variants)
            self._changed.notify_all()

    def take_first(self, variants: Sequence[str]) -> tuple[str, Built]:
        """The first of some variants (ids) that is built; waits until one is.

        Raises what the build raised, where it was no fault of a variant.
        """
        with self._changed:
            while True:
                if self._error is not None:
                    raise self._error
                for variant in variants:
                    if variant in self._built:
                        return variant, self._built.pop(variant)
                raise_if_signalled()
                self._changed.wait(_POLL_S)

    def take_built(self) -> dict[str, Built]:
        """Builds that are done and were not taken, by variant id.

        Raises what the build raised, where it was no fault of a variant.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            built, self._built = self._built, {}
            return built

    def close(self) -> None:
        """Begin no further build; one under way ends with this process at the latest."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            began = time.monotonic()
            try:
                results = self._build(batch)
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            seconds = time.monotonic() - began
            with self._changed:
                self._built |= {result.variant: Built(result, seconds) for result in results}
                self._changed.notify_all()

    def _next_batch(self) -> Sequence[Variant] | None:
        """All variants that wait; None where no more will come."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            if self._closed:
                return None
            batch = tuple(self._waiting)
            self._waiting.clear()
            return batch
