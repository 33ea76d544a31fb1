"""What a session has to do, and what those that follow can begin with while it still ends.

After its last launch a session takes seconds until its results are there: ncu writes its report.
The visits that follow are mostly known before that: the rest of the same session, a session of
counters, or the next programs, without the cells that have failed meanwhile. Where they turn out to
be others, what was measured counts, and another process makes what is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from profiler.model import SessionPlan, Visit
from profiler.run_folder.load.loaded import Loaded
from profiler.runner import protocol
from profiler.sessions.watchdog import Record


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

    def wanted(self, visits: Iterable[Visit]) -> tuple[Visit, ...]:
        """Visits without those of cells that have failed."""
        return tuple(visit for visit in visits if visit.cell not in self.failed)


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


_AHEAD = 2
"""While a program begins, the tool of the one after it starts."""


@dataclass(frozen=True)
class ProgramTurn:
    """One visit of a session, for which a process may wait."""

    session: SessionPlan
    visit: Visit

    @property
    def name(self) -> str:
        """What tells it from all others of a run."""
        arm = f", arm {self.visit.arm}" if self.visit.arm else ""
        return f"{self.session.name}, {self.visit.cell}, block {self.visit.block}{arm}"

    @property
    def visits(self) -> tuple[Visit, ...]:
        """The visit: it is known from the start."""
        return (self.visit,)


@dataclass
class Turns:
    """Turns of a session, and of those that follow it, of cells that have not failed."""

    coming: tuple[ProgramTurn, ...]
    """Turns that have not been taken."""
    failed: set[str] = field(default_factory=set)
    """Ids of cells that are not visited any more."""
    measured: set[str] = field(default_factory=set)
    """Ids of cells that were visited well."""

    def of_session(self, session: SessionPlan) -> Iterator[ProgramTurn]:
        """Take the turns of a session, one after the other."""
        while (turn := next(self._left(), None)) is not None and turn.session == session:
            self.coming = self.coming[self.coming.index(turn) + 1 :]
            yield turn

    def ahead(self) -> tuple[ProgramTurn, ...]:
        """The next ones, of whatever session: the first of them may have begun."""
        return tuple(islice(self._left(), _AHEAD))

    def may_go_on(self, turn: ProgramTurn) -> bool:
        """Whether the next program may run when the one whose turn it is has ended.

        How it ended is known when its tool has ended, too. The next visit of the same cell waits
        for that, unless the cell was measured before.
        """
        comes_next = next(self._left(), None)
        same_cell = comes_next is not None and comes_next.visit.cell == turn.visit.cell
        return not same_cell or turn.visit.cell in self.measured

    def _left(self) -> Iterator[ProgramTurn]:
        return (turn for turn in self.coming if turn.visit.cell not in self.failed)


def turns_of(visits: Iterable[tuple[SessionPlan, Iterable[Visit]]]) -> Turns:
    """Turns of sessions with their visits, in this order."""
    return Turns(
        tuple(ProgramTurn(session, visit) for session, its_visits in visits for visit in its_visits)
    )
