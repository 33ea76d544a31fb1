"""External commands: one process under ncu or nsys is one visit of one cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from profiler.analyse.parts import launch_window
from profiler.collect import STDERR, STDOUT, Command, read_text, tail
from profiler.collect.command import find_program
from profiler.collect.ncu import LaunchFilter, Ncu
from profiler.collect.nsys import Nsys
from profiler.model import Cell, OrderedParts, Outcome, Parts, RangeParts
from profiler.planning.plan import command_values
from profiler.planning.spec import CommandWorkload
from profiler.sessions.process import Cause, SessionResult, run_session
from profiler.sessions.recovery import ending, signal_of
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
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables (`Machine.variables`)."""

    def command(
        self, cell: Cell, folder: Path, parts: Parts | None = None, *, counted: bool = False
    ) -> Command:
        """Command of one visit; its files go to `folder`.

        `parts`: those whose launches are profiled; None: all launches that the workload asks for.
        `counted`: launches after the last that is taken are profiled as well, to know their number.
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
        launches = self._launches(workload.kernel_filter(values), parts, counted=counted)
        command = self.tool.external_command(target, folder, self.metrics, launches)
        return replace(command, cwd=where)

    def _launches(self, kernel: str | None, parts: Parts | None, *, counted: bool) -> LaunchFilter:
        workload = self.workload
        skip, count = workload.launch_skip, workload.launch_count
        if isinstance(parts, OrderedParts):
            window = launch_window(parts, counted=counted)
            skip, count = skip + window.skip, window.count
        ranges = parts.pattern if isinstance(parts, RangeParts) else None
        return LaunchFilter(kernel=kernel, skip=skip or None, count=count, ranges=ranges)

    def check_command(self, cell: Cell) -> Command | None:
        """Command that tells whether the results of a cell are right; None where there is none.

        Raises SpecError as `command` does.
        """
        where = self.workload.folder(self.base)
        argv = self.workload.check_arguments(command_values(cell))
        if argv is None:
            return None
        return Command((str(find_program(argv, where)), *argv[1:]), cwd=where)

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
        return self._ended_wrong(end), f"{how}: {printed}" if printed else how

    def _ended_wrong(self, end: SessionResult) -> Outcome:
        """Outcome of a command that did not succeed; an exit code says so where one is named."""
        signalled = signal_of(end.returncode, under_tool=True) is not None
        named = self.workload.exit_code is not None
        return Outcome.WRONG_RESULT if named and not signalled else Outcome.CRASHED


def run_visit(program: Program, command: Command, folder: Path) -> SessionResult:
    """Run the process of one visit; its time limit is that of a visit."""
    end = _run(program, command, folder)
    if end.cause not in (Cause.FINISHED, Cause.DIED):
        return end
    succeeded = end.returncode == program.workload.success
    return replace(end, cause=Cause.FINISHED if succeeded else Cause.DIED)


def run_check(
    program: Program, command: Command, folder: Path
) -> tuple[SessionResult, tuple[Outcome, str] | None]:
    """Run the check of a command: how it ended, and outcome and cause where it did not pass."""
    end = _run(program, command, folder)
    if end.cause is Cause.FINISHED:
        return end, None
    if end.cause is Cause.TIMED_OUT:
        return end, (Outcome.TIMED_OUT, "its check did not end within the time limit")
    printed = tail("\n".join(read_text(folder / name) for name in (STDOUT, STDERR)), lines=3)
    how = f"its check {ending(end.returncode)}"
    return end, (Outcome.WRONG_RESULT, f"{how}: {printed}" if printed else how)


def _run(program: Program, command: Command, folder: Path) -> SessionResult:
    command = replace(command, env={**command.env, **program.variables})
    return run_session(
        command, folder=folder, limits=program.limits, journal=None, lock_file=program.lock_file
    )
