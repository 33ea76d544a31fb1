"""Measuring a list of visits to its end, although single cells crash, hang or take the GPU down.

One attempt after another runs what is still missing, without the cells that failed. Every attempt
must get further: measure something, or find out that a cell is at fault.
"""

from __future__ import annotations

import re
import signal
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from profiler.collect import STDERR, STDOUT, Collector, read_text, tail
from profiler.collect.ncu import LOG
from profiler.collect.timer import after_survived_failures
from profiler.errors import EnvironmentUnusable, ProfilerError, UsageError
from profiler.model import Outcome, Visit
from profiler.parse import runner_journal
from profiler.run_folder.folder import JOURNAL_FILE
from profiler.run_folder.load.outcomes import CellFailure
from profiler.runner import protocol
from profiler.sessions.attempt import journal_visits
from profiler.sessions.process import EndCause, SessionResult
from profiler.sessions.watchdog import Record

MAX_VISITS_PER_SESSION = 1500
"""More go to other attempts, so that a report that is lost or damaged costs a minute, and because
ncu's end takes longer than in proportion: 2.0, 3.6 and 16.8 s after 704, 1408 and 2816 launches on
an H200. The process of the next attempt waits meanwhile, so that its start costs half a second."""

_ENDING_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
"""The runner leaves with 128 + N at the last two; see `may_be_innocent`."""
_LEAST_ROOM = 2**16
"""Bytes that fit into the folder of a session that could write."""
_STACK = re.compile(r"^(?:Current thread|Stack) .*:\n(?: +.*\n)+", re.MULTILINE)
"""Stack of the thread that got a signal, innermost frame first, as faulthandler prints it."""
_FRAME = re.compile(r'^ +File "(.+)", line (\d+) in (.+)$', re.MULTILINE)
_RUNNER = f"{Path(protocol.__file__).parent}/"
_LIBRARY = re.compile(r"^<|/(?:site|dist)-packages/|/python3\.\d+/")
"""In the path of a frame that is of no workload: torch's synchronisation, decorators, generated
code."""
_STALLS = 2
"""Attempts in a row that may end without progress."""


def chunk(visits: Sequence[Visit], problem_of: Mapping[str, str], limit: int) -> tuple[Visit, ...]:
    """First visits of a list, at most `limit`, cut between problems.

    A problem that is too large by itself is cut between blocks, since visits of one block are
    compared with each other; a block is never cut.
    """
    first_visits: list[Visit] = []
    by_problem = groupby(visits, key=lambda visit: problem_of[visit.cell])
    for group in (list(group) for _, group in by_problem):
        if len(first_visits) + len(group) <= limit:
            first_visits += group
            continue
        return tuple(first_visits) if first_visits else _first_blocks(group, limit)
    return tuple(first_visits)


def _first_blocks(visits: Sequence[Visit], limit: int) -> tuple[Visit, ...]:
    first_visits: list[Visit] = []
    for group in (list(group) for _, group in groupby(visits, key=lambda visit: visit.block)):
        if first_visits and len(first_visits) + len(group) > limit:
            break
        first_visits += group
    return tuple(first_visits)


@dataclass(kw_only=True)
class Recovery:
    """Tracks missing visits over attempts, until each has results or its cell has failed."""

    session: str
    problem_of: Mapping[str, str]
    """Problem of each cell."""
    collector: Collector
    missing: tuple[Visit, ...]
    """Visits that have no result, of cells that have not failed."""
    has_samples: bool = False
    """Whether this run has measured something before, so that a session in which the tool saw
    nothing is the cells' fault, not the machine's."""
    measured: set[Visit] = field(default_factory=set)
    failures: dict[str, CellFailure] = field(default_factory=dict)
    """Failures by id of the cells that are not measured any further."""
    strikes: Counter[str] = field(default_factory=Counter)
    stalls: int = 0

    def learn(
        self, folder: Path, result: SessionResult, measured: Set[Visit]
    ) -> dict[str, CellFailure]:
        """Failure of each cell that fails because an attempt's process ended, by id.

        `measured`: visits with results in the attempt. A step of a whole problem fails all of its
        cells. Failures that the runner survived are in the journal.

        Raises EnvironmentUnusable where the tool's messages say that the machine is at fault, or
        where two attempts in a row bring nothing new.
        """
        records = tuple(runner_journal.read_journal(folder / JOURNAL_FILE))
        missing = set(self.missing)
        finished = journal_visits(folder) & missing
        measured &= missing
        self._raise_unrecoverable_fault(folder, result, records, measured, finished - measured)
        progress_before = len(self.failures) + len(self.measured) + sum(self.strikes.values())
        self.measured |= measured
        self.failures = self._lasting(_failed(records), records) | self.failures
        blamed = self._blame(folder, result)
        self.failures = blamed | self.failures
        if result.cause is EndCause.FINISHED:
            self.failures |= _unseen(finished, measured, self.failures)
        progress = (
            len(self.failures) + len(self.measured) + sum(self.strikes.values()) > progress_before
        )
        self._count_stall(folder, result, progress=progress)
        self.missing = tuple(
            visit
            for visit in self.missing
            if visit not in self.measured and visit.cell not in self.failures
        )
        return blamed

    def _lasting(
        self, failures: Mapping[str, CellFailure], records: Sequence[Record]
    ) -> dict[str, CellFailure]:
        """Failures without a first illegal address in a cell whose check had found it right.

        Another cell may have freed memory that it uses, such as the workspace of cuBLAS that CUDA
        graphs of a process share.
        """
        right_cells = {
            record["cell"]
            for record in records
            if (record.get("event"), record.get("phase")) == (protocol.FINISHED, protocol.CHECK)
        }
        return {
            cell: failure
            for cell, failure in failures.items()
            if failure.outcome is not Outcome.ILLEGAL_ADDRESS
            or cell not in right_cells
            or not self._is_first_strike(cell)
        }

    def _is_first_strike(self, cell: str) -> bool:
        """Count a failure that may be another's fault; a second one is no coincidence."""
        self.strikes[cell] += 1
        return self.strikes[cell] < 2

    def _raise_unrecoverable_fault(
        self,
        folder: Path,
        result: SessionResult,
        records: Sequence[Record],
        measured: Set[Visit],
        unseen: Set[Visit],
    ) -> None:
        ended_well = result.cause is EndCause.FINISHED
        if ended_well and not unseen:
            error = session_failed(result, records)
        else:
            error = fault_of_no_cell(self.collector, folder, result, records)
        if error is None and ended_well and unseen:
            tool_saw_nothing = not measured and not self.measured and not self.has_samples
            error = self.collector.nothing_seen(folder) if tool_saw_nothing else None
        if error is not None:
            raise error

    def _blame(self, folder: Path, result: SessionResult) -> dict[str, CellFailure]:
        """Failure of the cell that was running when the process ended early; empty without one.

        Of all cells of its problem where a step of the whole problem failed.
        """
        failing = result.failing_cell
        if failing is None or result.cause is EndCause.FINISHED or failing.cell in self.failures:
            return {}
        if may_be_innocent(result, self.collector) and self._is_first_strike(failing.cell):
            return {}
        outcome, cause = fault_of_end(self.collector, folder, result)
        where = f"in {failing.phase}"
        if failing.block is not None:
            where += f" of block {failing.block}"
        failure = CellFailure(outcome, f"{cause}, {where}")
        if failing.phase not in protocol.PROBLEM_PHASES:
            return {failing.cell: failure}
        problem = self.problem_of[failing.cell]
        siblings = (cell for cell, problem_id in self.problem_of.items() if problem_id == problem)
        return dict.fromkeys(siblings, failure)

    def _count_stall(self, folder: Path, result: SessionResult, *, progress: bool) -> None:
        self.stalls = 0 if progress else self.stalls + 1
        if self.stalls < _STALLS:
            return
        how = "finished" if result.cause is EndCause.FINISHED else ending(result.returncode)
        if result.cause is EndCause.TIMED_OUT:
            how = "was silent for too long"
        raise EnvironmentUnusable(
            f"Session {self.session} made no progress in {_STALLS} attempts in a row "
            f"(the last one {how}).\n{output_tail(folder)}".rstrip(),
            remedy=f"See the whole output in {folder}.",
        )


def _failed(records: Sequence[Record]) -> dict[str, CellFailure]:
    """First failure that the runner recorded itself, survived or not, by cell id."""
    return {
        str(record["cell"]): CellFailure(Outcome(record["outcome"]), str(record.get("cause", "")))
        for record in reversed(records)
        if record.get("event") == protocol.FAILED
    }


def _unseen(
    finished: Set[Visit], measured: Set[Visit], failures: Mapping[str, CellFailure]
) -> dict[str, CellFailure]:
    """Failures of cells (ids) that the runner finished and that the tool has no result of.

    A cell of which only some visits were seen is visited again.
    """
    seen_cells = {visit.cell for visit in measured}
    unseen_cells = sorted({visit.cell for visit in finished} - seen_cells - failures.keys())
    failure = CellFailure(Outcome.NO_KERNEL, "its range launched no kernel that the tool saw")
    return dict.fromkeys(unseen_cells, failure)


def fault_of_no_cell(
    collector: Collector, folder: Path, result: SessionResult, records: Sequence[Record]
) -> ProfilerError | None:
    """Error of the machine or the whole workload; None for a cell's fault."""
    error = session_failed(result, records) or fault_of_host(folder, result)
    return error or collector.diagnose(folder, result.returncode)


def session_failed(result: SessionResult, records: Sequence[Record]) -> ProfilerError | None:
    """Error of a runner that could not start."""
    for record in records:
        if record.get("event") == protocol.SESSION_FAILED:
            cause = str(record.get("cause", "the runner could not start"))
            if result.returncode == protocol.EXIT_NO_DEVICE:
                return EnvironmentUnusable(cause, remedy="`python -m profiler doctor` shows more.")
            return UsageError(cause, remedy="Correct the workload or the experiment file.")
    return None


def fault_of_host(
    folder: Path, result: SessionResult, *, by_runner: bool = True
) -> EnvironmentUnusable | None:
    """Error of a host that kept a session from writing, opening files or allocating; or None.

    Where a session dies while nothing can be written beside it, nobody knows what of: a tool cannot
    write its report, a library that was written by halves kills who loads it.
    """
    if result.cause is not EndCause.DIED:
        return None
    cause = _write_obstacle(folder)
    if cause is None and by_runner and result.returncode == protocol.EXIT_HOST_FAULT:
        cause = _last_line(read_text(folder / STDERR)) or "its runner left"
    if cause is None:
        return None
    return EnvironmentUnusable(
        f"The host did not let a session write, open or allocate what it needs: {cause}",
        remedy="Make room (disk, open files, memory) and run the same command again: it goes on "
        "with what is missing.",
    )


def _write_obstacle(folder: Path) -> str | None:
    """Why a folder cannot be written to; None where it can."""
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(_LEAST_ROOM))
    except FileNotFoundError:  # the folder is gone, which is reported elsewhere
        return None
    except OSError as error:
        return str(error)
    return None


def may_be_innocent(result: SessionResult, collector: Collector) -> bool:
    """Whether a cause other than the cell may have ended the process.

    Either the tool died, which hands on its target's end as a code (/usr/local/cuda/bin/ncu is a
    shell script, which says 128 + signal where its ncu was killed); or one of the signals came by
    which a person, a batch system or a machine without memory ends a process, and seldom a variant
    its own. Who ends the whole run so has signalled this process, too.
    """
    if result.cause is not EndCause.DIED:
        return False
    if collector.wraps_target and signal_of(result.returncode, under_tool=False) is not None:
        return True
    return signal_of(result.returncode, under_tool=collector.wraps_target) in _ENDING_SIGNALS


def fault_of_end(collector: Collector, folder: Path, result: SessionResult) -> tuple[Outcome, str]:
    """Outcome and cause of the phase that was running when a process ended early."""
    stderr = after_survived_failures(read_text(folder / STDERR))
    place = _place_in_stack(stderr)
    if result.cause is EndCause.TIMED_OUT:
        notes = _noted("collect.time_limit_s", place)
        return Outcome.TIMED_OUT, f"made no progress within the time limit{notes}"
    fault = collector.cell_fault(folder)
    if fault is not None:
        return fault
    if "illegal memory access" in stderr:
        return Outcome.ILLEGAL_ADDRESS, "CUDA reported an illegal memory access"
    how = f"the process {ending(result.returncode, under_tool=collector.wraps_target)}"
    last_line = _last_line(stderr)
    if not last_line and result.returncode > 0:  # a kill loses what a process was about to print
        printed = _last_line(_messages(read_text(folder / STDOUT)))
        last_line = printed and f"last printed: {printed}"
    return Outcome.CRASHED, how + _noted(last_line, place)


def _noted(*notes: str) -> str:
    """Notes that are not empty, in parentheses behind a sentence."""
    texts = "; ".join(filter(None, notes))
    return f" ({texts})" if texts else ""


def _place_in_stack(stderr: str) -> str:
    """Innermost line of the workload in the first stack that Python printed.

    Empty where stderr has no stack, or the runner itself was at work, or waited for kernels.
    """
    stack = _STACK.search(stderr)
    frames = _FRAME.findall(stack[0]) if stack else []

    def is_of_runner(frame: tuple[str, str, str]) -> bool:
        return frame[0].startswith(_RUNNER)

    # Innermost is the runner's own handler of the signal, or a hook.
    parts = (list(part) for of_runner, part in groupby(frames, is_of_runner) if not of_runner)
    of_workload = [frame for frame in next(parts, ()) if not _LIBRARY.search(frame[0])]
    if not of_workload:
        return ""
    source = of_workload[-1][0]  # the file that the runner has called; it may have called others
    line, function = next(rest for file, *rest in of_workload if file == source)
    return f"{Path(source).name}:{line} in {function}"


def _last_line(printed: str) -> str:
    """Last line that was printed; before a stack of Python, what led to it.

    That is the line of Python's fatal error, or of an abort the line before it, where a failed
    assertion or an exception of C++ prints itself.
    """
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    fatal = [place for place, line in enumerate(lines) if line.startswith("Fatal Python error")]
    if not fatal:
        return lines[-1] if lines else ""
    is_abort = fatal[-1] > 0 and lines[fatal[-1]] == "Fatal Python error: Aborted"
    return lines[fatal[-1] - is_abort]


_FATAL = frozenset(
    {
        *(signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL),
        *(signal.SIGKILL, signal.SIGTRAP, signal.SIGSYS),
    }
)


def signal_of(returncode: int, *, under_tool: bool) -> signal.Signals | None:
    """Signal that an exit code stands for.

    Negative: of the process itself; above 128: as a shell hands it on; `under_tool`: ncu hands its
    target's signal on as a plain number (11 for SIGSEGV, seen with 2025.3.1).
    """
    number = -returncode if returncode < 0 else returncode - 128 if returncode > 128 else None
    if number is None and under_tool and returncode in _FATAL:
        number = returncode
    try:
        return signal.Signals(number) if number is not None else None
    except ValueError:
        return None


def ending(returncode: int, *, under_tool: bool = False) -> str:
    """How a process ended, as the end of a sentence about it."""
    signum = signal_of(returncode, under_tool=under_tool)
    if signum is None:
        return f"exited with code {returncode}"
    if returncode in _FATAL:  # ncu's number for a signal may also be the program's own exit code.
        return f"ended with code {returncode} ({signum.name}, or its own exit code)"
    return f"was killed by {signum.name}"


def output_tail(folder: Path) -> str:
    """Last lines of what an attempt printed: the tool's messages and stderr, else stdout."""
    texts = {name: tail(_messages(read_text(folder / name))) for name in (LOG, STDERR, STDOUT)}
    if texts[LOG] or texts[STDERR]:
        del texts[STDOUT]
    return "\n".join(f"{name}:\n{text}" for name, text in texts.items() if text)


def _messages(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith('"'))
