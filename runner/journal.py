"""The journal as the runner writes it: every record stamped, appended and flushed."""

from __future__ import annotations

import time
from typing import Any, TextIO

from runner.protocol import append_record


class Journal:
    """Appends records to a stream; whatever kills the process, all written records are kept."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, event: str, **fields: Any) -> None:
        """Append one record with its event and the time in seconds since the epoch."""
        append_record(self._stream, {"event": event, "time": time.time(), **fields})
