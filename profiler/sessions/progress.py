"""Progress of a run on stderr: one live line on a terminal, else a line every few seconds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Self

from rich.console import Console

from profiler.machine.console import make_console
from profiler.model import Cell, Outcome
from profiler.runner import protocol
from profiler.sessions.forecasts.session_costs import CostReader, TypicalVisit
from profiler.sessions.watchdog import Record

if TYPE_CHECKING:
    from rich.progress import Progress

LINE_EVERY_S = 5.0
"""Between two lines of one session where no terminal shows a live one."""
_STATE_EVERY_S = 0.5
"""Between two forecasts on the live line."""
_SILENT_S = 10.0
"""In one phase of a cell until a line says so: autotuners of Triton take minutes of a first launch.
"""
_PHASE_WORDS = {
    protocol.PREPARE: "set-up",
    protocol.CHECK: "first launch",
    protocol.WARMUP: "warm-up",
    protocol.RELAUNCH: "launch on new inputs",
    protocol.RECHECK: "check on new inputs",
    protocol.MEASURE: "visit",
    protocol.COUNT: "further pass of counters",
}
"""Names of phases that are not called so themselves."""
_MAY_COMPILE = (protocol.PREPARE, protocol.CHECK, protocol.WARMUP)
_MOST_FAILURES = 10
"""Failures with a line of their own; the results have all failures."""
_MOST_CAUSE = 160
"""Most letters of a cause in a failure's line."""


@dataclass
class ProgressReporter:
    """Prints the progress of a run to stderr; also holds the console for results."""

    results: Console
    progress: Console
    quiet: bool = False
    verbose: bool = False
    warnings: list[str] = field(default_factory=list)
    """Lines of `warn`; a worker of a cluster sends them to its coordinator and removes them."""

    @classmethod
    def for_terminal(cls, *, color: str, quiet: bool = False, verbose: bool = False) -> Self:
        """Reporter on the process's own streams."""
        return cls(
            results=make_console(color),
            progress=make_console(color, stderr=True),
            quiet=quiet,
            verbose=verbose,
        )

    def say(self, text: str) -> None:
        """Print one line of progress."""
        if not self.quiet:
            self.progress.print(text, markup=False, soft_wrap=True)

    def detail(self, text: str) -> None:
        """Print one line where `-v` asked for more."""
        if self.verbose:
            self.say(text)

    def warn(self, text: str) -> None:
        """Print one line, also when quiet."""
        self.warnings.append(text)
        self.progress.print(text, style="yellow", markup=False, soft_wrap=True)


@dataclass
class FailureLines:
    """Prints a line for each of the first causes of failures, and counts further failed cells."""

    reporter: ProgressReporter
    _failed: int = 0
    _alike: int = 0
    """Cells that failed for a cause which has a line."""
    _causes: set[str] = field(default_factory=set)

    def say(self, head: str, cause: str) -> None:
        """Print a failure with the first line of its cause; a known cause is counted only."""
        if cause in self._causes and not self.reporter.verbose:
            self._alike += 1
            return
        self._causes.add(cause)
        self._failed += 1
        if self._failed > _MOST_FAILURES and not self.reporter.verbose:
            return
        first_line = cause.splitlines()[0] if cause else ""
        if len(first_line) > _MOST_CAUSE:
            first_line = f"{first_line[: _MOST_CAUSE - 1]}…"
        self.reporter.say(f"{head}{first_line}".rstrip())

    def end(self, title: str) -> None:
        """Print the number of failures without a line."""
        if self._failed > _MOST_FAILURES and not self.reporter.verbose:
            further_count = self._failed - _MOST_FAILURES
            self.reporter.say(f"{title}: {further_count} more failed; the results tell why")
        if self._alike:
            self.reporter.say(f"{title}: {self._alike} more failed in the same way")


@dataclass
class _PhaseUnderWay:
    """The phase of a cell that has begun and not ended, and when to say that it takes long."""

    clock: Callable[[], float]
    cell: str | None = None
    """None: no phase is under way."""
    name: str = ""
    """The newest phase of any cell."""
    _began: float = 0.0
    _silent_s: float = _SILENT_S
    """Seconds in a phase from which on a line says so."""

    def begin(self, cell: str, name: str) -> None:
        """A phase of a cell begins; one of the same name as before is no news."""
        self._silent_s = self._silent_s if name == self.name else _SILENT_S
        self.cell, self.name, self._began = cell, name, self.clock()

    def end(self) -> None:
        """No phase is under way any more."""
        self.cell = None

    def long_seconds(self) -> float | None:
        """Seconds in the phase where a line is due on it: less and less often; else None."""
        seconds = self.clock() - self._began
        if self.cell is None or seconds < self._silent_s:
            return None
        self._silent_s *= 2
        return seconds


@dataclass
class _StateLine:
    """The live line of a session on a terminal; elsewhere a line every few seconds."""

    reporter: ProgressReporter
    title: str
    clock: Callable[[], float]
    _began: float = 0.0
    _next_at: float = 0.0
    """When the next line may be printed."""
    _bar: Progress | None = None

    def start(self, total: int) -> None:
        """Show the live line of so many visits where there is a terminal."""
        self._began = self.clock()
        if self.reporter.progress.is_terminal and not self.reporter.quiet:
            self._bar = _live_line(self.reporter.progress)
            self._bar.add_task(self.title, total=total, state="")
            self._bar.start()
        self._wait()

    def stop(self, counts: str) -> None:
        """Remove the live line; without a terminal, print the final counts, if there are any."""
        if self._bar is not None:
            self._bar.stop()
        elif counts:
            seconds = duration_words(self.clock() - self._began)
            self.reporter.say(f"{self.title}: {counts} in {seconds}")

    def advance(self, done: int) -> None:
        """Show on the live line how many visits are done."""
        if self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, completed=done)

    @property
    def is_due(self) -> bool:
        """Whether it is time for the state of the session."""
        return self.clock() >= self._next_at

    def show(self, counts: str, state: Sequence[str]) -> None:
        """Show the state of the session; a line of its own has its counts, too."""
        self.say(", ".join(state if self._bar is not None else (counts, *state)))
        self._wait()

    def say(self, state: str) -> None:
        """Show a state at once."""
        if self._bar is not None:
            self._bar.update(self._bar.tasks[0].id, state=state)
        else:
            self.reporter.say(f"{self.title}: {state}")

    def _wait(self) -> None:
        every_s = LINE_EVERY_S if self._bar is None else _STATE_EVERY_S
        self._next_at = self.clock() + every_s


@dataclass
class VisitProgress:
    """Counts the visits of a session by its journal; prints progress and failures."""

    reporter: ProgressReporter
    title: str
    cells: Mapping[str, Cell]
    remaining: dict[str, int]
    """Remaining visits by cell id."""
    typical_visit: TypicalVisit | None = None
    """Typical visit of the session, to forecast its rest; None: that is by the rate of visits."""
    durations_ns: dict[str, float] = field(default_factory=dict)
    """Durations by cell id, as far as they are known."""
    visit_advice: str = ""
    """Advice on a visit that takes long, printed behind its name."""
    clock: Callable[[], float] = time.monotonic
    _total: int = 0
    _done: int = 0
    """Visits that were made, and those that failed cells do not make."""
    _visits: int = 0
    """Visits that were made."""
    _first_at: float = 0.0
    """When the first of them ended: before it a process starts."""

    def __post_init__(self) -> None:
        self._phase = _PhaseUnderWay(self.clock)
        self._line = _StateLine(self.reporter, self.title, self.clock)
        self._failures = FailureLines(self.reporter)
        self._undecided: dict[str, Callable[[], None]] = {}
        self._costs = CostReader({id_: cell.problem.id for id_, cell in self.cells.items()})

    def __enter__(self) -> VisitProgress:
        """Show the live line where there is a terminal."""
        self._total = sum(self.remaining.values())
        self._line.start(self._total)
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the live line; without a terminal, print the final progress."""
        self._line.stop(self._counts() if self._done else "")
        self._failures.end(self.title)

    def record(self, record: Record) -> None:
        """Update progress by one record of the runner's journal."""
        self._costs.observe(record)
        cell, event, phase = record.get("cell"), record.get("event"), record.get("phase")
        if event == protocol.SESSION_STARTED:  # what the process before did not end is over
            self._phase.end()
        if not isinstance(cell, str) or cell not in self.remaining:
            return
        self._phase.end()
        if event == protocol.STARTED:
            self._phase.begin(cell, str(phase))
        if event == protocol.FINISHED and phase == protocol.MEASURE:
            durations = record.get("durations_ns")
            if isinstance(durations, list) and durations:
                self.durations_ns[cell] = statistics.median(durations)
            self.visited(cell)
        elif event == protocol.FINISHED and phase == protocol.COUNT:
            self._show(cell, counts_again=True)
        elif event == protocol.FAILED:
            cause = f"{record.get('outcome')}: {record.get('cause')}"
            with_problem = phase in protocol.PROBLEM_PHASES
            if record.get("outcome") == Outcome.ILLEGAL_ADDRESS:
                self._undecided[cell] = partial(self.failed, cell, cause, with_problem=with_problem)
            else:
                self.failed(cell, cause, with_problem=with_problem)

    def settle(self, failed_cells: Container[str]) -> None:
        """Print failures that were undecided until the process of the session ended.

        `failed_cells`: ids; another cell is tried once more.
        """
        for cell, print_failure in self._undecided.items():
            if cell in failed_cells:
                print_failure()
        self._undecided.clear()

    def look(self) -> None:
        """Print which phase of which cell goes on, where it takes long; less and less often."""
        cell, seconds = self._phase.cell, self._phase.long_seconds()
        if cell is None or seconds is None:
            return
        phase = self._phase.name
        is_of_problem = phase in protocol.PROBLEM_PHASES
        name = self.cells[cell].problem.name if is_of_problem else self._name(cell)
        advice = self.visit_advice if phase == protocol.MEASURE else ""
        if phase in _MAY_COMPILE:
            advice = "; may compile or tune"
        title = _PHASE_WORDS.get(phase, phase)
        self._line.say(f"{name}, {title}: {duration_words(seconds)} so far{advice}")

    def failed(self, cell: str, cause: str, *, with_problem: bool = False) -> None:
        """Print that a cell, or each cell of its problem, failed; drop its remaining visits."""
        if cell not in self.remaining:
            return
        self._phase.end()
        self._done += self.remaining[cell]
        self.remaining[cell] = 0
        self.durations_ns.pop(cell, None)
        name = f"all at {self.cells[cell].problem.name}" if with_problem else self._name(cell)
        self._failures.say(f"{name}  FAILED ", cause)
        self._show(cell)

    def visited(self, cell: str) -> None:
        """Count one visit."""
        if self.remaining[cell] == 0:  # made again, because the tool lost it the first time
            return
        self._visits += 1
        if self._visits == 1:
            self._first_at = self.clock()
        self._done += 1
        self.remaining[cell] -= 1
        self._show(cell)

    def _show(self, cell: str, *, counts_again: bool = False) -> None:
        """Show the progress of the session after a visit of a cell.

        `counts_again`: it was made again, for counters that took no part in its first pass.
        """
        self._line.advance(self._done)
        if self._line.is_due and (self._done < self._total or counts_again):
            state = ["in a further pass of counters"] if counts_again else []
            self._line.show(self._counts(), [*state, *self._state(cell)])

    def _counts(self) -> str:
        cells_done = sum(count == 0 for count in self.remaining.values())
        cells = f"{cells_done}/{len(self.remaining)} cells"
        return f"{self._done}/{self._total} visits, {cells}"

    def _state(self, cell: str) -> Iterator[str]:
        """Known ones of: rate, remaining time, and the fastest variant at the cell's problem."""
        since_first_s = self.clock() - self._first_at
        rate = (self._visits - 1) / since_first_s if self._visits > 1 and since_first_s > 0 else 0.0
        if rate:
            yield f"{rate:.1f}/s"
        remaining_s = self._seconds_left(rate)
        if remaining_s and remaining_s >= 0.1:  # below, it would read 0.0 s
            yield f"about {duration_words(remaining_s)} left"
        problem = self.cells[cell].problem
        durations = {
            id_: duration
            for id_, duration in self.durations_ns.items()
            if id_ in self.cells and self.cells[id_].problem == problem
        }
        if durations:
            fastest = min(durations, key=durations.__getitem__)
            yield f"lowest so far {self._name(fastest)}: {_time(durations[fastest])}"

    def _seconds_left(self, rate: float) -> float | None:
        """Seconds to the last visit: by the forecast, else by the rate.

        None before the second visit: the first one has what the tool takes once.
        """
        if self._visits < 2:
            return None
        if self.typical_visit is None:
            return sum(self.remaining.values()) / rate if rate else None
        return self._costs.costs.rest_s(self.remaining, self.typical_visit)

    def _name(self, cell: str) -> str:
        return f"{self.cells[cell].variant.name} {self.cells[cell].problem.name}"


def _time(duration_ns: float) -> str:
    return f"{duration_ns / 1e6:.2f} ms" if duration_ns >= 1e6 else f"{duration_ns / 1e3:.2f} µs"


def _live_line(console: Console) -> Progress:
    """A live line of a terminal that shows the progress of a task."""
    from rich.progress import (  # noqa: PLC0415 - only for terminals
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}"),
        console=console,
        transient=True,
    )


def duration_words(seconds: float) -> str:
    """`9 s`, `4 min` or `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
