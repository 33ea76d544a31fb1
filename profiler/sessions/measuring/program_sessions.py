"""Sessions of an external command: one process makes one visit."""

from __future__ import annotations

import shlex
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

from profiler.collect import Command
from profiler.collect.ncu import Ncu
from profiler.collect.nsys import Nsys
from profiler.errors import UsageError
from profiler.model import Cell, OrderedParts, Outcome, SessionKind, SessionPlan, Visit
from profiler.notices import counted
from profiler.parse import runner_journal
from profiler.planning.spec import CommandWorkload
from profiler.run_folder.folder import JOURNAL_FILE, AttemptRecord, AttemptResult, finish_attempt
from profiler.run_folder.load.loaded import Loaded, median_durations
from profiler.runner import protocol
from profiler.sessions.attempt import reserved_attempt
from profiler.sessions.execution import Meanwhile
from profiler.sessions.measuring.attempt_book import AttemptBook
from profiler.sessions.measuring.attempt_writer import AttemptWriter
from profiler.sessions.measuring.runner_sessions import Work
from profiler.sessions.process import SessionResult
from profiler.sessions.program import (
    Program,
    ended_before_its_turn,
    go,
    printed_doubt,
    run_check,
    run_visit,
    start_waiting_visit,
    tool_was_killed,
)
from profiler.sessions.progress import ProgressReporter, VisitProgress, duration_words
from profiler.sessions.recovery import ending
from profiler.sessions.waiting import Waiting, WaitingRoom, places
from profiler.sessions.watchdog import Record

_MOST_WAITING = 1
"""With two the programs of eight visits took 12.0 s, with one 11.0 (H200)."""


_AHEAD = 2
"""Waiting programs: the next one, and the one whose tool starts meanwhile."""


@dataclass(frozen=True)
class ProgramTurn:
    """One visit of a session, for which a process may wait."""

    session: SessionPlan
    visit: Visit

    @property
    def name(self) -> str:
        """Name of the visit, unique in a run."""
        arm = f", arm {self.visit.arm}" if self.visit.arm else ""
        return f"{self.session.name}, {self.visit.cell}, block {self.visit.block}{arm}"

    @property
    def visits(self) -> tuple[Visit, ...]:
        """The visit alone: known from the start."""
        return (self.visit,)


@dataclass
class Turns:
    """Turns of a session and of the sessions after it, for cells that have not failed."""

    coming: tuple[ProgramTurn, ...]
    """Turns that have not been taken."""
    failed: set[str] = field(default_factory=set)
    """Ids of cells that are not visited any more."""
    measured: set[str] = field(default_factory=set)
    """Ids of cells that were visited well."""

    def of_session(self, session: SessionPlan) -> Iterator[ProgramTurn]:
        """Turns of a session, taken one after the other."""
        while (turn := next(self._remaining_turns(), None)) is not None and turn.session == session:
            self.coming = self.coming[self.coming.index(turn) + 1 :]
            yield turn

    def ahead(self) -> tuple[ProgramTurn, ...]:
        """The next turns of all sessions; the first may have begun."""
        return tuple(islice(self._remaining_turns(), _AHEAD))

    def may_go_on(self, turn: ProgramTurn) -> bool:
        """Whether the next program may run right after the program of `turn`.

        How it ended is known when its tool has ended, too. The next visit of the same cell waits
        for that, unless the cell was measured before.
        """
        comes_next = next(self._remaining_turns(), None)
        same_cell = comes_next is not None and comes_next.visit.cell == turn.visit.cell
        return not same_cell or turn.visit.cell in self.measured

    def _remaining_turns(self) -> Iterator[ProgramTurn]:
        return (turn for turn in self.coming if turn.visit.cell not in self.failed)


def turns_of(visits: Iterable[tuple[SessionPlan, Iterable[Visit]]]) -> Turns:
    """Turns of sessions with their visits, in this order."""
    return Turns(
        tuple(ProgramTurn(session, visit) for session, its_visits in visits for visit in its_visits)
    )


@dataclass
class ProgramSessions:
    """Makes visits of sessions in order, while the tool of the next visit starts."""

    writer: AttemptWriter
    workload: CommandWorkload
    reporter: ProgressReporter
    meanwhile: Meanwhile
    _room: WaitingRoom[ProgramTurn] = field(init=False)

    def __post_init__(self) -> None:
        self._room = WaitingRoom(
            self._start_program,
            self.reporter.say,
            places=min(_MOST_WAITING, places()),
            import_is_safe=True,
        )

    @property
    def book(self) -> AttemptBook:
        """Results that the attempts of the run have."""
        return self.writer.book

    def close(self) -> None:
        """End the processes whose visits do not come."""
        self._room.__exit__()

    def run(self, work: Work, progress: VisitProgress) -> None:
        """Make the missing visits of a session, each in a process of its own."""
        has_samples = work.has_samples
        later = (
            (session, self.book.missing_visits(session, work.earlier)) for session in work.expected
        )
        turns = turns_of([(work.session, work.missing), *later])
        if self._room.begun is None:  # its tool starts while the checks run
            self._room.expect(turns.ahead())
        visited_cells = {visit.cell for visit in work.missing}
        checked = [cell for cell in self.book.plan.cells if cell.id in visited_cells]
        failed = self._run_checks(self._program(work.session), checked)
        for cell, (outcome, cause) in failed.items():
            turns.failed.add(cell)
            progress.failed(cell, f"{outcome}: {cause}")
        attempts_by_cell = defaultdict(list)
        for loaded in work.earlier:
            if loaded.attempt.record.visit is not None:
                attempts_by_cell[loaded.attempt.record.visit["cell"]].append(loaded)
        for turn in turns.of_session(work.session):
            # The filter may fit other cells, where none has been measured so far.
            other_cells = visited_cells - turns.failed - {turn.visit.cell}
            end, failure, loaded = self._make_turn(
                turn, turns, may_match=has_samples or bool(other_cells)
            )
            has_samples = has_samples or bool(loaded.visits)
            attempts_by_cell[turn.visit.cell].append(loaded)
            if failure is None:
                is_first = not turns.measured
                turns.measured.add(turn.visit.cell)
                progress.durations_ns |= median_durations(attempts_by_cell[turn.visit.cell])
                progress.visited(turn.visit.cell)
                if is_first:
                    rest = (len(work.missing), end.seconds, loaded.tool_facts.launches)
                    for line in visit_lines(self.workload, *rest):
                        self.reporter.say(line)
            else:
                turns.failed.add(turn.visit.cell)
                progress.failed(turn.visit.cell, f"{failure[0]}: {failure[1]}")

    def _make_turn(
        self, turn: ProgramTurn, turns: Turns, *, may_match: bool
    ) -> tuple[SessionResult, tuple[Outcome, str] | None, Loaded]:
        """Make one visit, while the processes of later visits wait.

        How its process ended, outcome and cause where it went wrong, and its results.
        """
        program, session = self._program(turn.session), turn.session
        begun = self._room.begun
        if begun is None or begun.session != turn.name:
            self._room.expect((turn, *turns.ahead()))
        waiting = self._room.take(turn.name)
        folder, end = self._run_turn(program, turn, turns, waiting)
        if waiting is not None and ended_before_its_turn(folder, end):
            self._room.discard(waiting)
            folder, end = self._run_turn(program, turn, turns)
        if tool_was_killed(end):  # which is no fault of the program: once more
            self.reporter.say(f"{turn.name}: {turn.session.collector} {ending(end.returncode)}")
            self.writer.finish(folder, _command_result(folder, [], end, None))
            self.writer.announce(folder)
            self._room.end_begun()  # one program at a time
            folder, end = self._run_turn(program, turn, turns)
        self.writer.keep_files(session, folder, end)
        loaded = self.book.load(self.book.run.attempt(folder))
        fault = loaded.parts.fault if loaded.parts is not None else ""
        measured = bool(loaded.visits)
        failure = program.failure(
            folder, end, measured=measured or bool(fault), may_match=may_match
        ) or ((Outcome.PARTS_DIFFER, fault) if fault else None)
        self.writer.finish(folder, _command_result(folder, [turn.visit.cell], end, failure))
        self.writer.announce(folder)
        return end, failure, loaded

    def _run_turn(
        self, program: Program, turn: ProgramTurn, turns: Turns, waiting: Waiting | None = None
    ) -> tuple[Path, SessionResult]:
        """Run the process of a visit; returns its folder and how it ended."""
        record = self._program_record(program, turn)
        folder = self.writer.begin(turn.session, record, waiting)
        command = self._program_command(program, turn, record, folder)
        self.book.run.write_command(folder, shlex.join(command.argv))
        began = time.monotonic() if waiting is None else waiting.began
        end_records: list[Record] = []

        def on_start() -> None:
            self._room.expect(turns.ahead())
            self.meanwhile.start()

        def on_end() -> None:
            end_records.append({"event": protocol.SESSION_FINISHED, "monotonic": time.monotonic()})
            if turns.may_go_on(turn):
                self._let_next_begin(turns, end_records[-1])

        with self.writer.clocks(folder, waiting):
            end = run_visit(
                program, command, folder, waiting=waiting, on_start=on_start, on_end=on_end
            )
        journal = runner_journal.read_journal(folder / JOURNAL_FILE)
        self.book.execution.seconds.session(folder.name, began, [*journal, *end_records])
        return folder, end

    def _let_next_begin(self, turns: Turns, record: Record) -> None:
        """Let the next program run, and start the tool of the program after it.

        `record`: of the end of the program before, whose tool still writes.
        """
        waiting = self._room.observe(record)
        if waiting is None:
            return
        with self.writer.begun_early(waiting, ()):
            go(waiting)
        self._room.expect(turns.ahead()[1:])

    def _start_program(self, turn: ProgramTurn) -> Waiting:
        """Start the process of a visit before its turn."""
        program = self._program(turn.session)
        if not program.can_wait:
            raise UsageError(f"{turn.session.collector} starts a program more than once")
        with reserved_attempt(self.book.run, turn.session.name) as orders:
            folder = orders.path.parent
            record = self._program_record(program, turn)
            command = self._program_command(program, turn, record, folder, held=True)
            return start_waiting_visit(program, turn.name, command, orders)

    def _program(self, session: SessionPlan) -> Program:
        """The external command with the tool and limits of a session."""
        tool = self.writer.templates.collector(session)
        if not isinstance(tool, Ncu | Nsys):  # the spec's own check refuses any other
            raise TypeError(f"{session.collector} cannot measure an external command")
        return Program(
            self.workload,
            base=self.book.execution.loaded.base,
            tool=tool,
            metrics=self.writer.templates.metrics(session),
            limits=self.writer.templates.limits(),
            lock_file=self.writer.templates.lock_file,
            variables=self.book.execution.machine.variables,
        )

    def _program_command(
        self,
        program: Program,
        turn: ProgramTurn,
        record: AttemptRecord,
        folder: Path,
        *,
        held: bool = False,
    ) -> Command:
        """Command of a visit; `held`: its program waits for its turn."""
        cell = next(cell for cell in self.book.plan.cells if cell.id == turn.visit.cell)
        return program.command(cell, folder, record.parts, counted=record.counted, held=held)

    def _program_record(self, program: Program, turn: ProgramTurn) -> AttemptRecord:
        """Record of a visit; the first of a cell counts the launches of its parts."""
        session, visit = turn.session, turn.visit
        workload_parts = program.workload.parts
        parts = workload_parts.reading() if workload_parts is not None else None
        if parts is not None and session.kind is SessionKind.EXPLAIN:
            parts = replace(parts, take=1)  # one launch tells why
        first = session.name == self.book.plan.sessions[0].name and visit.block == visit.arm == 0
        record = self.writer.record(session, [visit])
        counts = first and isinstance(parts, OrderedParts)
        return replace(record, visit=asdict(visit), parts=parts, counted=counts)

    def _run_checks(
        self, program: Program, cells: Sequence[Cell]
    ) -> dict[str, tuple[Outcome, str]]:
        """Outcome and cause by cell whose check fails; a check that has passed is not run again.

        Cells whose checks are the same command share one.
        """
        passed_cells = {cell for attempt in self.book.attempts() for cell in attempt.checked_cells}
        commands: dict[str, tuple[Command, dict[str, None]]] = {}
        for cell in cells:
            command = None if cell.id in passed_cells else program.check_command(cell)
            if command is not None:
                _, checked = commands.setdefault(shlex.join(command.argv), (command, {}))
                checked[cell.id] = None
        if commands:
            self._room.end_begun()  # a check uses the GPU, too
            self.reporter.say(f"check: {counted(len(commands), 'command')}")
        failed: dict[str, tuple[Outcome, str]] = {}
        for line, (command, checked) in commands.items():
            record = AttemptRecord(
                session=SessionKind.CHECK.value,
                collector=SessionKind.CHECK.value,
                kind=SessionKind.CHECK.value,
                metrics=(),
                keys={cell: self.book.keys[cell] for cell in checked},
                time_limit_s=self.book.execution.loaded.experiment.collect.time_limit_s,
            )
            folder = self.book.run.new_attempt(record)
            self.book.run.write_command(folder, line)
            end, failure = run_check(program, command, folder)
            finish_attempt(folder, _command_result(folder, checked, end, failure))
            self.writer.announce(folder)
            failed |= dict.fromkeys(checked, failure) if failure is not None else {}
        return failed


def _command_result(
    folder: Path, cells: Iterable[str], end: SessionResult, failure: tuple[Outcome, str] | None
) -> AttemptResult:
    blame = None if failure is None else (failure[0].value, failure[1])
    failed = {} if blame is None else dict.fromkeys(cells, blame)
    doubt = printed_doubt(folder) if blame is None else ""
    return AttemptResult(cause=end.cause.value, seconds=end.seconds, failed=failed, doubt=doubt)


_SHORT_REST_S = 30.0
"""Longest rest in seconds without a forecast."""
_LONG_VISIT_S = 20.0
"""Seconds of a visit from which on a line advises how to shorten visits."""


def visit_lines(
    workload: CommandWorkload, visits: int, seconds: float, launches: int
) -> Iterator[str]:
    """Lines on the seconds of a session's remaining visits, by the duration of one visit."""
    remaining_s = (visits - 1) * seconds
    if remaining_s < _SHORT_REST_S:
        return
    profiled = f" for {launches} profiled launches" if launches else ""
    yield (
        f"The first visit took {duration_words(seconds)}{profiled}: "
        f"{visits - 1} more take about {duration_words(remaining_s)}."
    )
    if seconds >= _LONG_VISIT_S:
        yield f"To shorten visits, limit {_limits(workload)}."


def _limits(workload: CommandWorkload) -> str:
    """Settings of a spec, with their keys, that would make its visits shorter."""
    if workload.parts is None:
        launches = "the launches (workload.launch_count, workload.kernel)"
    else:
        launches = "the launches of each part (workload.parts.take)"
    return f"{launches}, the metrics (collect.metrics), or the passes (collect.blocks)"
