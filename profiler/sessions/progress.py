"""Progress of a run on stderr (one live line on a terminal, else one line per cell)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from profiler.errors import UsageError
from profiler.model import Cell
from profiler.outside_text import safe
from profiler.runner import protocol

_PIPE_WIDTH = 200
"""Columns where nothing says how wide the reader is: a file or a log."""
_MIN_WIDTH = 40
"""A table of fewer columns has no room for its numbers; rich fails on some."""


class _Console(Console):
    def print(self, *objects: Any, **options: Any) -> None:
        """Print; a plain text without anything that a terminal would obey.

        What is said on stderr ends no run: where it cannot be written (a full disk, a terminal that
        was closed), it is said to nobody from then on.
        """
        try:
            super().print(*(safe(o) if isinstance(o, str) else o for o in objects), **options)
        except OSError:
            if not self.stderr:
                raise
            with suppress(OSError, ValueError):  # what the stream still holds goes there, too
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def on_broken_pipe(self) -> None:
        """Leave it to the command line, which knows that a reader may leave early."""
        raise BrokenPipeError


def make_console(color: str, *, stderr: bool = False) -> Console:
    """Console for one stream; `color` is auto, always or never, and NO_COLOR is obeyed by auto."""
    if color not in ("auto", "always", "never"):
        raise UsageError(f"--color {color}: not one of auto, always, never")
    stream = sys.stderr if stderr else sys.stdout
    terminal = {"auto": None, "always": True, "never": False}[color]
    # no-color.org: set, and not to an empty text.
    no_color = color == "never" or (color == "auto" and bool(os.environ.get("NO_COLOR")))
    width = None if stream.isatty() or "COLUMNS" in os.environ else _PIPE_WIDTH
    console = _Console(
        stderr=stderr, force_terminal=terminal, no_color=no_color, width=width, highlight=False
    )
    console.width = max(console.width, _MIN_WIDTH)
    return console


@dataclass
class ProgressReporter:
    """Prints the progress of a run to stderr; holds the console for its results as well."""

    results: Console
    progress: Console
    quiet: bool = False
    verbose: bool = False

    @classmethod
    def for_terminal(
        cls, *, color: str, quiet: bool = False, verbose: bool = False
    ) -> ProgressReporter:
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
        self.progress.print(text, style="yellow", markup=False, soft_wrap=True)


@dataclass
class VisitProgress:
    """Counts the visits of a session by its journal; prints when a cell is done or has failed."""

    reporter: ProgressReporter
    title: str
    cells: Mapping[str, Cell]
    remaining: dict[str, int]
    """Cell id → visits still to come."""
    _total: int = 0
    _done: int = 0
    _cells_done: int = 0
    _bar: Progress | None = None

    def __enter__(self) -> VisitProgress:
        """Show the live line where there is a terminal."""
        self._total = sum(self.remaining.values())
        if self.reporter.progress.is_terminal and not self.reporter.quiet:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=self.reporter.progress,
                transient=True,
            )
            self._bar.add_task(self.title, total=self._total, rate="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the live line away."""
        if self._bar is not None:
            self._bar.stop()

    def record(self, record: Mapping[str, object]) -> None:
        """Take one record of the runner's journal."""
        cell, event, phase = record.get("cell"), record.get("event"), record.get("phase")
        if not isinstance(cell, str) or cell not in self.remaining:
            return
        if event == protocol.FINISHED and phase == protocol.MEASURE:
            self.visited(cell, _microseconds(record))
        elif event == protocol.FAILED:
            self.failed(cell, f"{record.get('outcome')}: {record.get('cause')}")

    def failed(self, cell: str, cause: str) -> None:
        """Print that a cell failed; its remaining visits will not come."""
        if cell not in self.remaining:
            return
        self._done += self.remaining[cell]
        self.remaining[cell] = 0
        self._show()
        self._cell_done(cell, f"FAILED {cause.splitlines()[0] if cause else ''}")

    def visited(self, cell: str, value: str = "") -> None:
        """Count one visit; `value` is its result, as far as the journal has it."""
        if self.remaining[cell] == 0:  # made again, because the tool lost it the first time
            return
        self._done += 1
        self.remaining[cell] -= 1
        self._show()
        if self.remaining[cell] == 0:
            self._cell_done(cell, value)

    def _show(self) -> None:
        if self._bar is not None:
            task = self._bar.tasks[0]
            rate = f"{task.speed:.1f}/s" if task.speed else ""
            self._bar.update(task.id, completed=self._done, rate=rate)

    def _cell_done(self, cell: str, text: str) -> None:
        self._cells_done += 1
        if self._bar is not None and not text.startswith("FAILED"):
            return
        names = f"{self.cells[cell].variant.name} {self.cells[cell].problem.name}"
        width = len(str(len(self.remaining)))
        counter = f"[{self._cells_done:>{width}}/{len(self.remaining)}]"
        self.reporter.say(f"{counter} {names}  {text}".rstrip())


def _microseconds(record: Mapping[str, object]) -> str:
    durations = record.get("durations_ns")
    if not isinstance(durations, list) or not durations:
        return ""
    middle = sorted(durations)[len(durations) // 2]
    return f"{middle / 1000:.1f} us"
