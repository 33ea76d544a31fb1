"""What one session has to do, and what is done once beside the first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from profiler.model import SessionPlan, Visit
from profiler.run_folder.load.attempts import Loaded
from profiler.sessions.overlap.handing_on import SeenSoFar


@dataclass(frozen=True)
class Work:
    """Missing visits of a session, and the sessions whose processes may wait meanwhile."""

    session: SessionPlan
    missing: Sequence[Visit]
    expected: Sequence[SessionPlan]
    earlier: Sequence[Loaded]
    """Attempts of the run before this session."""
    has_samples: bool
    """Whether the tool of the session has shown in this run that it works."""
    seen: SeenSoFar = field(default_factory=SeenSoFar)

    @property
    def checked(self) -> set[str]:
        """Cells that an attempt before this session compared with the reference."""
        return {cell for attempt in self.earlier for cell in attempt.checked()}


@dataclass
class Meanwhile:
    """Work that is done once, beside the start of the first session, in a thread of its own.

    The process waits for it at its end: Python ends a daemon thread by unwinding its stack, and a
    module in C++ that is being loaded on it then aborts the process.
    """

    do: Callable[[], None] | None

    def start(self) -> None:
        """Begin with it, the first time that this is called."""
        if self.do is not None:
            threading.Thread(target=self.do, name="meanwhile").start()
            self.do = None
