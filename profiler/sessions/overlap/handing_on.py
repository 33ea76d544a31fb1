"""What the process of the next session can begin with, while the one before it still ends.

After its last launch a session takes seconds until its results are there: ncu writes its report.
The visits that follow are mostly known before that: the rest of the same session, or a session of
counters, without the cells that have failed meanwhile. Where they turn out to be others, what was
measured counts, and another process makes what is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field

from profiler.model import Visit
from profiler.runner import protocol
from profiler.sessions.overlap.waiting import Waiting
from profiler.sessions.watchdog import Record


@dataclass(frozen=True)
class Begun:
    """A session that has begun with visits of its own."""

    waiting: Waiting
    visits: tuple[Visit, ...]
    sampling: ExitStack
    """Samples the clocks of the GPU until it is closed."""

    def end(self) -> None:
        """End it, where its visits are not wanted any more; its folder goes."""
        self.sampling.close()
        self.waiting.end()


@dataclass
class NextBegun:
    """Place of the one session that has begun before its turn; empty where none has."""

    _begun: Begun | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing has begun."""
        return self._begun is None

    def put(self, begun: Begun) -> None:
        """Keep what has begun until its turn."""
        self._begun = begun

    def take(self, session: str) -> Begun | None:
        """The session that has begun under this name; one of another name is ended."""
        begun, self._begun = self._begun, None
        if begun is None or begun.waiting.session == session:
            return begun
        begun.end()
        return None

    def end(self) -> None:
        """End what has begun: its turn does not come."""
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.end()


@dataclass
class SeenSoFar:
    """What the records of a session tell of those that follow."""

    failed: set[str] = field(default_factory=set)
    """Ids of cells that are not visited any more."""
    checked: set[str] = field(default_factory=set)
    """Ids of cells that were compared with the reference."""
    roofs: set[str] = field(default_factory=set)
    """Practical roofs that were measured, or could not be."""

    def record(self, record: Record) -> None:
        """Take a record of the journal."""
        event = record.get("event")
        if event == protocol.FAILED:
            self.failed.add(str(record["cell"]))
        elif event == protocol.FINISHED and record.get("phase") == protocol.CHECK:
            self.checked.add(str(record["cell"]))
        elif event == protocol.ROOF_STARTED:
            self.roofs.add(str(record["roof"]))

    def blame(self, cells: Iterable[str]) -> None:
        """Take cells to which the end of a process is put down."""
        self.failed.update(cells)

    def wanted(self, visits: Iterable[Visit]) -> tuple[Visit, ...]:
        """Visits without those of cells that have failed."""
        return tuple(visit for visit in visits if visit.cell not in self.failed)

    def roofs_left(self, roofs: Iterable[str]) -> tuple[str, ...]:
        """Practical roofs without those that were measured."""
        return tuple(roof for roof in roofs if roof not in self.roofs)
