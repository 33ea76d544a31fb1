"""The journal as the runner writes it: every record stamped, appended and flushed.

Files that were opened since the last record are written down before the next one.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from profiler.runner import protocol
from profiler.runner.opened import OpenedFiles

_CLOSED = 1
"""Exit code where the workload has closed the journal: the cell that is under way did it."""


class LeavingError(BaseException):
    """The process is to leave; no workload's `except Exception` shall swallow it."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def open_journal(path: Path) -> Iterator[TextIO]:
    """Open a journal to append to it; raises LeavingError where that cannot be."""
    try:
        stream = path.open("a", encoding="utf-8")
    except OSError as error:
        raise LeavingError(protocol.EXIT_HOST_FAULT, f"cannot open {error}") from None
    try:
        yield stream
    finally:
        with suppress(OSError):  # a record that could not be written is written once more here
            stream.close()


class Journal:
    """Appends records to a stream; whatever kills the process, all written records are kept.

    Raises LeavingError where a record cannot be written: what follows would be known to nobody.
    """

    def __init__(self, stream: TextIO, opened: OpenedFiles | None = None) -> None:
        self._stream = stream
        self._lines = count()
        self._opened = opened
        self._noted: list[tuple[str, str]] = []

    def following(self, stream: TextIO) -> Journal:
        """The journal of the next job of this process; what was opened before stands in it, too."""
        if self._opened is not None:
            self._opened.give_again()
        return Journal(stream, self._opened)

    def note_opened(self) -> None:
        """Take down what was opened so far, with its content of now, for the next record.

        Before a wait: what is edited meanwhile was read in its earlier state.
        """
        if self._opened is not None:
            self._noted += self._opened.drain()

    def end_wait(self) -> None:
        """Count files that were edited during a wait like those that were before."""
        if self._opened is not None:
            self._opened.begin_again()

    def write(self, event: str, **fields: Any) -> None:
        """Append one record with its event and the time in seconds since the epoch."""
        # The first record says who we are: whoever ends a session looks for it there.
        if self._opened is not None and event != protocol.SESSION_STARTED:
            self.note_opened()
            for file, digest in self._noted:
                self._append(protocol.OPENED, file=file, digest=digest)
            self._noted.clear()
        self._append(event, **fields)

    def _append(self, event: str, **fields: Any) -> None:
        record = {"line": next(self._lines), "event": event, "time": time.time(), **fields}
        try:
            protocol.append_record(self._stream, record)
        except OSError as error:
            # Only who is in this process can have closed it.
            code = _CLOSED if error.errno == errno.EBADF else protocol.EXIT_HOST_FAULT
            raise LeavingError(code, f"cannot write its journal: {error}") from None
