"""What makes the visits of a session: each by itself, or some that are counted together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from profiler.runner import protocol
from profiler.runner.protocol import JobVisit
from profiler.runner.timing import Launch, restore

if TYPE_CHECKING:
    from profiler.runner.cupti.range_profiler import RangeProfiler

MakeVisit = Callable[[Launch], Mapping[str, Any]]
"""Launches, and gives the fields of its record in the journal."""


VisitAttempt = Callable[[JobVisit, str, MakeVisit], bool]
"""Does something with the launch of a visit, in a phase of the journal: whether it went well.

Where not, the cell has failed and is not visited any more.
"""


class Visits(ABC):
    """Makes the visits of a session under one collector."""

    counters: RangeProfiler | None = None
    """Counts in this process, where no tool outside of it does."""
    spared_s: float = 0.0
    """Seconds that warm-ups would have taken that were left out so far."""

    def first_launch(self, cell: str, launch: Launch) -> Any:
        """Result of a launch that compiles and restores nothing: it may stand for a warm-up."""
        del cell
        return launch()

    def remember(self, earlier: Visits) -> None:  # noqa: B027 - most find out nothing
        """Take over what those of an earlier session of this process found out of their cells."""

    def warm_up(self, cell: str, launch: Launch, times: int) -> Mapping[str, float]:
        """Launch a cell so many times before its first visit; gives what was found out by that."""
        del cell
        for _ in range(times):
            restore(launch)
            launch()
        return {}

    def input_sets(self, inputs: Any) -> int:
        """Number of sets of these inputs that launches take in turn."""
        del inputs
        return 1

    @abstractmethod
    def make_all(
        self, visits: Sequence[JobVisit], attempt: VisitAttempt
    ) -> Iterable[tuple[JobVisit, list[dict[str, Any]]]]:
        """Make visits in their order, each by `attempt`; gives those that were counted later.

        With each go its kernels, by the names that the job has for their counters.
        """

    def close(self) -> None:  # noqa: B027 - nothing to close, mostly
        """No visit will follow; raises nothing, also where the device is lost."""


class SingleVisits(Visits):
    """Makes each visit by itself: its record in the journal has all that it gives."""

    def make_all(
        self, visits: Sequence[JobVisit], attempt: VisitAttempt
    ) -> Iterable[tuple[JobVisit, list[dict[str, Any]]]]:
        """Make visits in their order; none is counted later."""
        for visit in visits:
            attempt(visit, protocol.MEASURE, partial(self.make, visit))
        return ()

    @abstractmethod
    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """Launch inside the range of the visit; gives the fields of its journal record."""
