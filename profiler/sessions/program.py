"""External commands: one process under ncu or nsys is one visit of one cell.

Under ncu it may be started before its turn: ncu then starts `runner/held_program.py` in place of
the program. That waits until its orders come (`runner/orders.py`), and becomes the program. Its end
is seen before that of ncu (`ProgramEnd`), so that the next one need not wait for ncu.
"""

from __future__ import annotations

import fcntl
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]

import profiler
from profiler.analyse.parts import launch_window
from profiler.collect import STDERR, STDOUT, Command, read_text, tail
from profiler.collect.ncu import APPLICATION_REPLAY, Ncu, launch_filter
from profiler.collect.nsys import Nsys
from profiler.collect.programs import find_program
from profiler.model import Cell, OrderedParts, Outcome, Parts, RangeParts
from profiler.parse import runner_journal
from profiler.planning.plan import command_values
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import JOURNAL_FILE
from profiler.runner.orders import ORDERS_FILE, VISIT
from profiler.sessions.attempt import has_started
from profiler.sessions.process import EndCause, SessionResult, run_session, start
from profiler.sessions.recovery import ending, fault_of_host, signal_of
from profiler.sessions.waiting import Orders, Waiting, is_locked
from profiler.sessions.watchdog import Limits, Record

HOLDER = Path(profiler.__file__).parent / "runner" / "held_program.py"
"""Script that the tool starts in place of a program that waits."""
_POLL_S = 0.005
"""Seconds between two polls for a program's end: the GPU is idle until it is detected."""


@dataclass(frozen=True)
class Program:
    """An external command with the tool and limits of its visits."""

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

    @property
    def can_wait(self) -> bool:
        """Whether visits can wait for their turn: where a visit runs the program once."""
        return isinstance(self.tool, Ncu) and self.tool.replay_mode != APPLICATION_REPLAY

    def command(
        self,
        cell: Cell,
        folder: Path,
        parts: Parts | None = None,
        *,
        counted: bool = False,
        held: bool = False,
    ) -> Command:
        """Command of one visit; its files go to `folder`.

        `parts`: those whose launches are profiled; None: all launches that the workload asks for.
        `counted`: launches after the last that is taken are profiled as well, to know their number.
        `held`: the program waits for its turn, by the orders in `folder`.
        Raises SpecError for a placeholder without a value, or a program that is not there.
        """
        workload = self.workload
        working_folder = workload.folder(self.base)
        values = command_values(cell)
        argv = workload.arguments(values)
        program = str(find_program(argv, working_folder))
        target = (*(_holder(folder) if held else ()), program, *argv[1:])
        if isinstance(self.tool, Nsys):  # a timeline shows every kernel, whatever the filter
            return replace(self.tool.profile_command(target, folder), cwd=working_folder)
        launches = self._launches(workload.kernel_filter(values), parts, counted=counted)
        command = self.tool.command(target, folder, self.metrics, launches)
        return replace(command, cwd=working_folder)

    def _launches(self, kernel: str | None, parts: Parts | None, *, counted: bool) -> list[str]:
        workload = self.workload
        skip, count = workload.launch_skip, workload.launch_count
        if isinstance(parts, OrderedParts):
            before, count = launch_window(parts, counted=counted)
            skip += before
        ranges = parts.pattern if isinstance(parts, RangeParts) else None
        return launch_filter(kernel, skip=skip or None, count=count, ranges=ranges)

    def check_command(self, cell: Cell) -> Command | None:
        """Command that checks the results of a cell; None without a check.

        Raises SpecError as `command` does.
        """
        working_folder = self.workload.folder(self.base)
        argv = self.workload.check_arguments(command_values(cell))
        if argv is None:
            return None
        return Command((str(find_program(argv, working_folder)), *argv[1:]), cwd=working_folder)

    def failure(
        self, folder: Path, end: SessionResult, *, measured: bool, may_match: bool
    ) -> tuple[Outcome, str] | None:
        """Outcome and cause of a failed visit; None where it succeeded.

        Raises EnvironmentUnusable where the tool's messages say that the machine or the filter is
        at fault; `may_match`: the filter lets kernels of other visits through, or may do so.
        """
        if end.cause is EndCause.TIMED_OUT:
            return Outcome.TIMED_OUT, "did not end within the time limit (collect.time_limit_s)"
        if measured and end.cause is EndCause.FINISHED:
            return None
        error = fault_of_host(folder, end, by_runner=False) or self.tool.diagnose(
            folder, end.returncode
        )
        if error is None and end.cause is EndCause.FINISHED and not may_match:
            error = self.tool.nothing_seen(folder)
        if error is not None:
            raise error
        if end.cause is EndCause.FINISHED:
            return Outcome.NO_KERNEL, "it launched no kernel that the filter lets through"
        return self._fault(folder, end)

    def _fault(self, folder: Path, end: SessionResult) -> tuple[Outcome, str]:
        fault = self.tool.cell_fault(folder)
        if fault is not None:
            return fault
        printed = tail(read_text(folder / STDERR) or read_text(folder / STDOUT), lines=3)
        ended_process = self.tool.name if tool_was_killed(end) else "the command"
        how = f"{ended_process} {ending(end.returncode, under_tool=True)}"
        signalled = signal_of(end.returncode, under_tool=True) is not None
        is_wrong = self.workload.exit_code is not None and not signalled
        outcome = Outcome.WRONG_RESULT if is_wrong else Outcome.CRASHED
        return outcome, f"{how}: {printed}" if printed else how


def _holder(folder: Path) -> tuple[str, ...]:
    """Command line of the holder, which runs the appended program once `folder` has orders."""
    return (sys.executable, "-I", "-S", str(HOLDER), str(folder.absolute()))


def start_waiting_visit(program: Program, name: str, command: Command, orders: Orders) -> Waiting:
    """Start the process of a visit before its turn; `command` has a held program.

    Raises OSError where it cannot start.
    """
    process = start(
        _with_variables(program, command),
        folder=orders.path.parent,
        limits=program.limits,
        journal=None,  # the guard ends the innermost process: the program
        lock_file=program.lock_file,
    )
    return Waiting(name, orders.path.parent, process, orders)


def go(waiting: Waiting) -> None:
    """Have a waiting program begin; it inherits the lock on its orders."""
    waiting.orders.give(VISIT)
    waiting.orders.let_go()


def run_visit(  # noqa: PLR0913 - the last three by keyword
    program: Program,
    command: Command,
    folder: Path,
    *,
    waiting: Waiting | None = None,
    on_start: Callable[[], None] = lambda: None,
    on_end: Callable[[], None] = lambda: None,
) -> SessionResult:
    """Run the process of one visit; its time limit counts from its turn on.

    `waiting`: the process, where it was started before; its program may be running already.
    `on_start` is called when its turn has come, `on_end` when such a program has ended.
    """
    if waiting is None:
        return _by_exit_code(program, _run(program, command, folder, on_start=on_start))
    go(waiting)
    try:
        end = run_session(
            command,
            folder=folder,
            limits=program.limits,
            journal=None,
            process=waiting.process,
            on_start=on_start,
            on_look=ProgramEnd(folder, waiting.process.pid, on_end).look,
            poll_s=_POLL_S,
        )
    finally:
        waiting.orders.clear()
    return _by_exit_code(program, end)


def ended_before_its_turn(folder: Path, end: SessionResult) -> bool:
    """Whether a waiting process has ended before its program began.

    False where somebody deleted the folder, or where the process hung.
    """
    return folder.exists() and end.cause is not EndCause.TIMED_OUT and not has_started(folder)


def tool_was_killed(end: SessionResult) -> bool:
    """Whether a signal ended the tool itself; a program's signal arrives as its exit code."""
    return end.cause is EndCause.DIED and end.returncode < 0


def _by_exit_code(program: Program, end: SessionResult) -> SessionResult:
    """Result of a visit, judged by the exit code that the workload names for success."""
    if end.cause not in (EndCause.FINISHED, EndCause.DIED):
        return end
    succeeded = end.returncode == program.workload.success
    return replace(end, cause=EndCause.FINISHED if succeeded else EndCause.DIED)


def run_check(
    program: Program, command: Command, folder: Path
) -> tuple[SessionResult, tuple[Outcome, str] | None]:
    """Result of a command's check, and outcome and cause where the check failed."""
    end = _run(program, command, folder)
    if end.cause is EndCause.FINISHED:
        return end, None
    if end.cause is EndCause.TIMED_OUT:
        cause = "its check did not end within the time limit (collect.time_limit_s)"
        return end, (Outcome.TIMED_OUT, cause)
    printed = tail("\n".join(read_text(folder / name) for name in (STDOUT, STDERR)), lines=3)
    how = f"its check {ending(end.returncode)}"
    return end, (Outcome.WRONG_RESULT, f"{how}: {printed}" if printed else how)


_DOUBT = re.compile(
    r"\b(?:fail(?:ed|ure|s)?\b(?! to)|mismatch(?:ed|es)?\b(?! (?:penalty|score|cost))"
    r"|incorrect|wrong\b|(?:do|does)(?:n.t| not) match)",
    re.IGNORECASE,
)
"""Words of a program that finds its result wrong: the last of a test of CUDA's samples is FAIL."""
_NO_DOUBT = re.compile(
    r"\b(?:0|no|none|zero|without)(?: \w+)? (?:fail|mismatch|incorrect|wrong)"
    r"|(?:fail|mismatch|incorrect|wrong)[\w ]*[:=]\s*(?:0(?![.\d]*[1-9])|no|none|false)\b",
    re.IGNORECASE,
)
"""Counts of nothing: `0 failed`, `mismatches: 0`."""
_MOST_OF_LINE = 200
"""Letters of a printed line that are kept."""
_MOST_READ = 2**20
"""Last bytes of printed text that are looked through: a few milliseconds."""


def printed_doubt(folder: Path) -> str:
    """First line that a program printed and that reads as a wrong result; empty without one."""
    printed = (_end_of(folder / name) for name in (STDOUT, STDERR))
    lines = (line.strip() for text in printed for line in text.splitlines())
    doubts = (line for line in lines if _DOUBT.search(line) and not _NO_DOUBT.search(line))
    return next((line for line in doubts if not line.startswith("==")), "")[:_MOST_OF_LINE]


def _end_of(path: Path) -> str:
    """Last text of a file of output, which may be long; empty where it is absent."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_READ))
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _run(
    program: Program,
    command: Command,
    folder: Path,
    *,
    on_start: Callable[[], None] = lambda: None,
) -> SessionResult:
    return run_session(
        _with_variables(program, command),
        folder=folder,
        limits=program.limits,
        journal=None,
        lock_file=program.lock_file,
        on_start=on_start,
    )


def _with_variables(program: Program, command: Command) -> Command:
    return replace(command, env={**command.env, **program.variables})


_START_TIME = 19
"""The field of /proc/PID/stat, counted from the one after the name; as the holder reads it."""


@dataclass
class ProgramEnd:
    """Detects the end of a program and of its descendants."""

    folder: Path
    """The folder of the visit."""
    guard: int
    """Process id of the guard of its tool."""
    on_end: Callable[[], None]
    """Called once, when the end is detected."""
    _started: Record | None = None
    """The record that the holder wrote when it became the program; None before that."""
    _seen: bool = field(default=False, init=False)

    def look(self) -> None:
        """Call `on_end` if the program has ended; to be called every few milliseconds."""
        if not self._seen and self._program_has_ended():
            self._seen = True
            self.on_end()

    def _program_has_ended(self) -> bool:
        """Whether only the program's tool still runs: the cheapest test comes first.

        False where the tool has gone as well, being killed: nothing is gained by going on before
        its guard has, and the visit may have to be made again first.
        """
        if self._started is None:
            self._started = next(runner_journal.read_journal(self.folder / JOURNAL_FILE), None)
        if self._started is None or is_locked(self.folder / ORDERS_FILE, fcntl.LOCK_EX):
            return False
        if _is_running(int(self._started["pid"])):
            return False
        starts = _start_times_below(self.guard)
        return bool(starts) and max(starts) <= int(self._started["start_time"])


def _is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _start_times_below(guard: int) -> list[int]:
    """Start times of living descendants of a process, in ticks of the system's clock.

    A tool's own processes start before its program: the holder waits a tick before it becomes
    the program.
    """
    try:
        descendants = psutil.Process(guard).children(recursive=True)
    except psutil.Error:
        return []
    return [_start_time(process.pid) for process in descendants if _is_running(process.pid)]


def _start_time(pid: int) -> int:
    """Start time of a process, in ticks; 0 where the process is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0
    return int(fields[_START_TIME])
