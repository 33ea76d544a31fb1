"""What a bisection finds: changes between commits, and what became of each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from profiler.model import Verdict


@dataclass(frozen=True)
class Change:
    """A later commit against an earlier one, measured in one session."""

    verdict: Verdict
    ratio: float = math.nan
    """The number at the later commit by that at the earlier one."""
    low: float = math.nan
    high: float = math.nan

    @property
    def differs(self) -> bool:
        """Whether the two were shown to differ by more than the margin."""
        return self.verdict in (Verdict.SLOWER, Verdict.FASTER)

    @property
    def is_open(self) -> bool:
        """Whether more blocks could tell."""
        return self.verdict is Verdict.UNCLEAR


UNCHANGED = Change(Verdict.SAME, 1.0, 1.0, 1.0)
"""Between two commits of the same program, which nobody measures."""


@dataclass(frozen=True)
class Survey:
    """What one session gave."""

    steps: tuple[Change, ...]
    """Each commit against the one before it."""
    whole: Change
    """The last commit against the first."""
    failed: tuple[int, ...] = ()
    """Places of commits that gave no right result: the session is made again without them."""


class State(StrEnum):
    """What became of a step between two commits."""

    FOUND = "found"
    """Measured alone in a second session, which says the same."""
    NOT_CONFIRMED = "not confirmed"
    """No second session shows it."""
    UNCLEAR = "unclear"
    """The sessions that there may be did not tell."""


@dataclass(frozen=True)
class Step:
    """A change between two commits that no usable commit lies between."""

    before: int
    after: int
    """Place of the culprit in the history; with skipped commits in between, one of these is."""
    change: Change
    state: State


@dataclass(frozen=True, eq=False)
class Bisection:
    """What a bisection found."""

    whole: Change
    """The last usable commit against the first one."""
    steps: tuple[Step, ...]
    """In the order of the history."""
    skipped: tuple[int, ...]
    """Places of commits that were not built, or gave no right result."""
    sessions: int
    out_of_sessions: bool = False

    @property
    def culprits(self) -> tuple[Step, ...]:
        """Confirmed steps that go the way the whole history went."""
        return tuple(
            step
            for step in self.steps
            if step.state is State.FOUND and step.change.verdict is self.whole.verdict
        )

    @property
    def opposite(self) -> tuple[Step, ...]:
        """Confirmed steps that go the other way, or that others undid."""
        return tuple(
            step
            for step in self.steps
            if step.state is State.FOUND and step.change.verdict is not self.whole.verdict
        )

    @property
    def remainder(self) -> float:
        """Ratio that the confirmed steps together leave of the whole change; 1: none."""
        ratios = [step.change.ratio for step in self.steps if step.state is State.FOUND]
        return self.whole.ratio / math.prod(ratios)
