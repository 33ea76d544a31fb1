"""What a command is doing, said on stderr once it has taken two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from profiler.sessions.progress import make_console

PATIENCE_S = 2.0


class Stages:
    """Stages of a command that reads and writes files; a quick one says nothing."""

    def __init__(self, color: str) -> None:
        self._console = make_console(color, stderr=True)
        self._began = time.monotonic()

    @contextmanager
    def stage(self, text: str) -> Iterator[None]:
        """Print `text` while the body runs, as soon as the command has taken two seconds."""
        left = self._began + PATIENCE_S - time.monotonic()
        timer = threading.Timer(max(0.0, left), self._say, [text])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _say(self, text: str) -> None:
        self._console.print(f"{text} …", markup=False, highlight=False, soft_wrap=True)
