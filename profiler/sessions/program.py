"""External commands: one process under ncu or nsys is one visit of one cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profiler.collect import STDERR, STDOUT, Command, read_text, tail
from profiler.collect.command import find_program
from profiler.collect.ncu import LaunchFilter, Ncu
from profiler.collect.nsys import Nsys
from profiler.model import Cell, Outcome
from profiler.planning.plan import command_values
from profiler.planning.spec import CommandWorkload
from profiler.sessions.process import Cause, SessionResult, run_session
from profiler.sessions.recovery import ending
from profiler.sessions.watchdog import Limits


@dataclass(frozen=True)
class Program:
    """An external command, and how its visits are measured."""

    workload: CommandWorkload
    base: Path
    """Folder of the spec."""
    tool: Ncu | Nsys
    metrics: Sequence[str]
    """Names of the tool."""
    limits: Limits
    lock_file: Path | None = None

    def command(self, cell: Cell, folder: Path) -> Command:
        """Command of one visit; its files go to `folder`.

        Raises SpecError for a placeholder without a value, or a program that is not there.
        """
        workload = self.workload
        where = workload.folder(self.base)
        values = command_values(cell)
        argv = workload.arguments(values)
        program = str(find_program(argv, where))
        target = (program, *argv[1:])
        if isinstance(self.tool, Nsys):  # a timeline shows every kernel, whatever the filter
            return replace(self.tool.profile_command(target, folder), cwd=where)
        launches = LaunchFilter(
            kernel=workload.kernel_filter(values),
            skip=workload.launch_skip or None,
            count=workload.launch_count,
        )
        command = self.tool.external_command(target, folder, self.metrics, launches)
        return replace(command, cwd=where)

    def failure(
        self, folder: Path, end: SessionResult, *, measured: bool, has_samples: bool
    ) -> tuple[Outcome, str] | None:
        """Outcome and cause of a visit that went wrong, None where it went well.

        Raises EnvironmentUnusable where the tool's messages say that the machine or the filter is
        at fault; `has_samples`: something was measured before, so the filter can match.
        """
        if end.cause is Cause.TIMED_OUT:
            return Outcome.TIMED_OUT, "did not end within the time limit"
        if measured and end.cause is Cause.FINISHED:
            return None
        error = self.tool.diagnose(folder, end.returncode)
        if error is None and end.cause is Cause.FINISHED and not has_samples:
            error = self.tool.nothing_seen(folder)
        if error is not None:
            raise error
        if end.cause is Cause.FINISHED:
            return Outcome.NO_KERNEL, "it launched no kernel that the filter lets through"
        return self._fault(folder, end)

    def _fault(self, folder: Path, end: SessionResult) -> tuple[Outcome, str]:
        fault = self.tool.cell_fault(folder)
        if fault is not None:
            return fault
        printed = tail(read_text(folder / STDERR) or read_text(folder / STDOUT), lines=3)
        how = f"the command {ending(end.returncode, under_tool=True)}"
        return Outcome.CRASHED, f"{how}: {printed}" if printed else how


def run_visit(program: Program, command: Command, folder: Path) -> SessionResult:
    """Run the process of one visit; its time limit is that of a visit."""
    return run_session(
        command, folder=folder, limits=program.limits, journal=None, lock_file=program.lock_file
    )
