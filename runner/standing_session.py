"""A session that takes the orders of a search, one process for all of its batches.

Inputs and right results of a problem are made once and kept, as long as there is memory for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from profiler.runner import protocol
from profiler.runner.checks.check import Tensors
from profiler.runner.orders import LEAVE, SEARCH, follow_orders, search_order
from profiler.runner.phases import PhaseFailedError
from profiler.runner.protocol import JobCell, JobVisit
from profiler.runner.session import Session
from profiler.runner.timing import Launch, make_stopwatch, restore
from profiler.runner.visits.kinds import TimedVisits

FREE_SHARE = 0.5
"""Least share of the device's memory that must be free to keep the inputs of several problems."""


class StandingSession(Session):
    """Carries out the orders of a search as long as any come."""

    _problems: dict[str, tuple[Any, Tensors | None]]
    """Inputs and right results by problem."""
    _launches: dict[str, Launch]
    """Launches by cell, of cells with right results."""
    _timers: dict[int, TimedVisits]
    """Timers by number of launches in a visit."""

    def _run_problems(self) -> None:
        self._problems, self._launches, self._timers = {}, {}, {}
        try:
            for kind, argument in follow_orders(Path(self.job.process.orders)):
                if kind == SEARCH:
                    order = search_order(argument)
                    self._forget(order.forget)
                    self._cells |= {cell.id: cell for cell in order.cells}
                    for problem, visits in groupby(order.visits, key=self._problem_of):
                        self._visit_problem(problem, tuple(visits), order.repeats.get(problem))
                    self._journal.write(protocol.ORDER_FINISHED)
                elif kind == LEAVE:
                    break
        finally:
            self._visits.close()

    def _forget(self, cells: Sequence[str]) -> None:
        for cell in cells:
            self._launches.pop(cell, None)
            self._cells.pop(cell, None)
            self._phases.failed.discard(cell)
        if cells:
            self._device.release()

    def _visit_problem(self, problem: str, visits: Sequence[JobVisit], repeats: int | None) -> None:
        ids = dict.fromkeys(visit.cell for visit in visits)
        new_cells = [self._cells[id_] for id_ in ids if id_ not in self._launches]
        self._prepare_cells(problem, [cell for cell in new_cells if not self._is_lost(cell)])
        timer = self._timer(repeats or self.job.settings.repeats)
        for visit in visits:
            launch = self._launches.get(visit.cell)
            if launch is not None and not self._time_visit(visit, launch, timer):
                del self._launches[visit.cell]
        if self._device.free_share() < FREE_SHARE:
            self._release_all()

    def _is_lost(self, cell: JobCell) -> bool:
        """Whether the variant of a cell failed, here or at another problem of the order."""
        failed = self._phases.failed & self._cells.keys()
        return any(self._cells[id_].variant == cell.variant for id_ in failed)

    def _prepare_cells(self, problem: str, cells: Sequence[JobCell]) -> None:
        """Make, check and warm up the launches of new cells."""
        if not cells:
            return
        try:
            inputs, expected = self._inputs(problem, cells)
        except PhaseFailedError:
            return
        launches = self._make_launches(cells, inputs, expected)
        for cell in cells:
            if cell.id in launches and self._warm_up(cell, launches[cell.id]):
                self._launches[cell.id] = launches[cell.id]

    def _inputs(self, problem: str, cells: Sequence[JobCell]) -> tuple[Any, Tensors | None]:
        if problem not in self._problems:
            self._problems[problem] = self._set_up(cells)
        return self._problems[problem]

    def _release_all(self) -> None:
        """Free all memory: inputs and launches are made again when they are needed."""
        self._problems.clear()
        self._launches.clear()
        self._device.release()

    def _timer(self, repeats: int) -> TimedVisits:
        if repeats not in self._timers:
            stopwatch = make_stopwatch(self.job.collector, self._device, repeats)
            self._timers[repeats] = TimedVisits(stopwatch)
        return self._timers[repeats]

    def _time_visit(self, visit: JobVisit, launch: Launch, timer: TimedVisits) -> bool:
        with (
            suppress(PhaseFailedError),
            self._phases.journalled(protocol.MEASURE, [self._cells[visit.cell]], visit) as findings,
        ):
            findings.update(timer.make(visit, launch))
            restore(launch)
        return visit.cell not in self._phases.failed
