"""Explaining cells: which cells, in what session, and which cells are passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from profiler.collect.ncu import KERNEL_REPLAY
from profiler.errors import EnvironmentUnusable
from profiler.metrics.explain import explain_metrics
from profiler.model import SessionPlan
from profiler.notices import counted
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.planning.session_plans import NCU, explain_session
from profiler.run_folder.load.outcomes import planned_cell
from profiler.sessions.execution import Execution
from profiler.sessions.explain_cells import MOST_KERNELS, asked_cells, explain_cells, many_kernels
from profiler.sessions.measuring.measurement import Measurement, Upcoming
from profiler.sessions.progress import ProgressReporter


@dataclass
class Explaining:
    """Explains cells of a run by what was measured of them so far."""

    execution: Execution
    requested_cells: Sequence[str] | None
    """Texts of `--explain`; None: the cells that the answer is about are explained."""
    measurement: Measurement
    is_unable: bool = False
    """Whether the machine cannot explain cells."""

    @property
    def is_wanted(self) -> bool:
        """Whether ncu explains cells: where counters are read and ncu is there.

        Not where kernels wait for one another: what tells why is counted kernel by kernel, and such
        a kernel alone would hang.
        """
        collect = self.execution.loaded.experiment.collect
        is_there = NCU in collect.collectors or self.execution.machine.environment.ncu is not None
        replays_kernels = collect.replay_mode == KERNEL_REPLAY
        return collect.explain and collect.reads_counters and is_there and replays_kernels

    def session(self, samples: pd.DataFrame) -> SessionPlan:
        """Session that explains the requested cells, else the cells that samples point to.

        A command is explained with all of its parts.
        """
        plan = self.execution.plan
        seen_cells = self.measurement.book.cells()
        if self.requested_cells is None:
            explained = self.measurement.book.explained_cells()
            tunes = PAGE_KINDS[self.execution.loaded.experiment.page.kind].tunes
            timed = replace(plan, cells=seen_cells)
            cells_to_explain = explain_cells(timed, samples, explained, tunes=tunes)
            passed_over = self._long_commands()
        else:
            cells_by_id = {cell.id: cell for cell in (*plan.cells, *seen_cells)}
            cells_to_explain = asked_cells(
                replace(plan, cells=tuple(cells_by_id.values())), self.requested_cells
            )
            passed_over = frozenset()
        planned = {cell.id for cell in plan.cells}
        owners = {planned_cell(cell.id, planned) for cell in cells_to_explain} - passed_over
        cells = [cell for cell in plan.cells if cell.id in owners]
        names = explain_metrics(self.execution.machine.environment.compute_capability)
        return explain_session(self.execution.loaded.experiment, cells, names)

    def foreseen(self, samples: pd.DataFrame) -> SessionPlan | None:
        """The explain session by the samples so far; None where no cell is explained.

        Before there are samples it has the visits of cells that are asked for, or none.
        """
        if not self.is_wanted or self.is_unable:
            return None
        session = self.session(samples)
        return session if session.visits or samples.empty else None

    def measure(self, upcoming: Upcoming, *, is_repeated: bool) -> None:
        """Collect every explaining counter of cells that are not explained yet.

        `is_repeated`: an earlier step explained cells; nothing is printed where none is left.
        """
        if self.is_unable:
            return
        book = self.measurement.book
        session = self.session(book.samples())
        if not session.visits or (
            is_repeated and not book.missing_visits(session, book.attempts())
        ):
            return
        try:
            with book.execution.seconds.stage(session.name):
                self.measurement.measure(session, f"{session.name}, why", upcoming)
        except EnvironmentUnusable as problem:  # an older ncu may lack a section
            self.is_unable = True
            self.measurement.reporter.warn(f"Not explained: {problem.message}")

    def report_unexplained(self, reporter: ProgressReporter) -> None:
        """Print cells that are not explained: explaining takes too long, or is impossible."""
        if not self.is_wanted:
            if self.requested_cells is not None:
                reporter.warn(
                    "Nothing is explained: that needs ncu on this machine, counters (not --timer) "
                    "and collect.replay_mode: kernel."
                )
            return
        if self.requested_cells is not None or self.is_unable:
            return
        if many := many_kernels(self.measurement.book.samples()):
            reporter.say(
                f"Not explained: {counted(len(many), 'cell')} with more than {MOST_KERNELS} "
                "kernels; --explain CELL does it."
            )
        if long := self._long_commands():
            reporter.say(
                f"Not explained: {counted(len(long), 'command')} of which ncu profiles more than "
                f"{MOST_KERNELS} launches; --explain CELL does it."
            )

    def _long_commands(self) -> frozenset[str]:
        """Ids of cells of external commands in which ncu profiles too many launches."""
        launches = self.measurement.book.launches()
        return frozenset(cell for cell, count in launches.items() if count > MOST_KERNELS)
