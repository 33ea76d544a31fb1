"""Visits of a session: made one by one, or counted several together."""

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
"""Function that makes a launch, and returns the fields of the visit's journal record."""


VisitAttempt = Callable[[JobVisit, str, MakeVisit], bool]
"""Function that makes a visit in a phase of the journal, and returns whether it succeeded.

Where it did not, the cell has failed and is not visited any more.
"""


class Visits(ABC):
    """Makes the visits of a session under one collector."""

    counters: RangeProfiler | None = None
    """Counters of kernels in this process; None where a tool counts from outside, or none does."""
    spared_s: float = 0.0
    """Seconds that the skipped warm-ups would have taken, so far."""

    def first_launch(self, cell: str, launch: Launch) -> Any:
        """Result of a launch that compiles and restores nothing: it may count as a warm-up."""
        del cell
        return launch()

    def remember(self, earlier: Visits) -> None:  # noqa: B027 - most kinds of visits learn nothing
        """Take over the facts of cells from the visits of an earlier session of this process."""

    def warm_up(self, cell: str, launch: Launch, times: int) -> Mapping[str, float]:
        """Launch a cell so many times before its first visit; returns facts of its launches."""
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
        """Make visits in their order, each by `attempt`; returns the visits that are counted later.

        Each comes with its kernels, by the names that the job has for their counters.
        """

    def close(self) -> None:  # noqa: B027 - nothing to close, mostly
        """End the visits; raises nothing, also where the device is lost."""


class SingleVisits(Visits):
    """Makes visits one by one: the journal record of each has all of its facts."""

    def make_all(
        self, visits: Sequence[JobVisit], attempt: VisitAttempt
    ) -> Iterable[tuple[JobVisit, list[dict[str, Any]]]]:
        """Make visits in their order; none is counted later."""
        for visit in visits:
            attempt(visit, protocol.MEASURE, partial(self.make, visit))
        return ()

    @abstractmethod
    def make(self, visit: JobVisit, launch: Launch) -> dict[str, Any]:
        """Journal fields of a visit, after a launch inside the range of the visit."""
