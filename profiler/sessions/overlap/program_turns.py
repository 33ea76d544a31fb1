"""The visits of an external command in the order of their turns, as far as they are foreseen.

Each is a process of its own under the tool. Which come is known when a session begins, but for the
cells that fail meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from profiler.model import SessionPlan, Visit

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
    return Turns(tuple(ProgramTurn(session, visit) for session, each in visits for visit in each))
