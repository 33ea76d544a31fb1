"""Running ninja behind the guard of sessions: its compilers end with it, and none runs for ever."""

from __future__ import annotations

import math
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from profiler.machine.compilers import find_ninja
from profiler.machine.signals import raise_if_signalled
from profiler.sessions.process import guarded, stopped_on_leaving
from profiler.sessions.watchdog import Limits

_STEP = re.compile(r"^\[(\d+)/(\d+)\] \w+ (.*)")
"""Finished steps, all steps, and the output that the newest one made or failed to make."""
_NINJA_STATUS = "[%f/%t] "
_FAILED = re.compile(r"^FAILED: (?:\[code=(\d+)\] )?(.*)")
"""ninja 1.12 and newer name the exit code."""
_POLL_S = 1.0
_LIMITS = Limits(step_s=math.inf, grace_s=0.0)
"""Grace of 0 s: compilers are asked to end at once, and remove their temporary files."""

Progress = Callable[[int, int], None]
"""Called after each step of ninja with the number of steps done and of all steps."""
OnEnd = Callable[[str], None]
"""Called when a step has ended, well or not, with the path of what it makes."""


@dataclass
class NinjaResult:
    """How a run of ninja ended."""

    time_limit_s: float
    failed: dict[str, str] = field(default_factory=dict)
    """Path of a failed output → exit code of its command, where ninja names it."""
    complaints: list[str] = field(default_factory=list)
    """Lines of ninja's own messages."""
    overdue: list[str] = field(default_factory=list)
    """Command lines that were ended after the time limit."""

    def is_overdue(self, outputs: Sequence[str]) -> bool:
        """Whether a command for one of the outputs was ended at the time limit."""
        return any(output in command for output in outputs for command in self.overdue)

    def ending(self, outputs: Sequence[str]) -> str:
        """How the commands of some outputs ended, as error text where they printed nothing."""
        if self.is_overdue(outputs):
            return (
                f"nvcc did not end within {self.time_limit_s:g} s and was ended "
                "(build.time_limit_s)"
            )
        for output in outputs:
            if output in self.failed:
                code = self.failed[output]
                with_code = f" with exit code {code}" if code else ""
                return f"nvcc failed{with_code} and printed nothing ({Path(output).name})"
        return "".join(self.complaints).strip() or "nvcc ended well, and wrote not all of its files"


def run_ninja(  # noqa: PLR0913 - all but the first by keyword
    build_file: Path,
    *,
    jobs: int | None,
    time_limit_s: float,
    on_progress: Progress | None,
    on_end: OnEnd,
    lock: int,
) -> NinjaResult:
    """Build every output that can be built; no command of ninja's outlives the time limit.

    `lock` is the descriptor of a locked file: it stays locked while a compiler lives.
    """
    command = [str(find_ninja()), "-f", build_file.name, "-k", "0"]
    if jobs is not None:
        command += ["-j", str(jobs)]
    result = NinjaResult(time_limit_s)
    process = subprocess.Popen(
        guarded(command, _LIMITS, lock=lock),
        cwd=build_file.parent,
        env={**os.environ, "NINJA_STATUS": _NINJA_STATUS},
        stdin=subprocess.PIPE,  # the guard's
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        pass_fds=(lock,),
    )
    with process, stopped_on_leaving(process, _LIMITS.grace_s), _limited(process.pid, result):
        for line in process.stdout or ():
            _read_line(line, result, on_progress, on_end)
            raise_if_signalled()
        process.wait()
    return result


def _read_line(line: str, result: NinjaResult, on_progress: Progress | None, on_end: OnEnd) -> None:
    if step := _STEP.match(line):
        on_end(step[3].strip())
        if on_progress is not None:
            on_progress(int(step[1]), int(step[2]))
    elif failed := _FAILED.match(line):
        result.failed[failed[2].strip()] = failed[1] or ""
    else:
        result.complaints.append(line)


@contextmanager
def _limited(guard: int, result: NinjaResult) -> Iterator[None]:
    """While the body runs, end commands of ninja that outlive the time limit."""
    over = threading.Event()
    watcher = threading.Thread(target=_end_overdue, args=(guard, result, over), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def _end_overdue(guard: int, result: NinjaResult, over: threading.Event) -> None:
    while not over.wait(min(_POLL_S, result.time_limit_s / 4)):
        with suppress(psutil.Error):
            for command in _commands(psutil.Process(guard)):
                if time.time() - command.create_time() > result.time_limit_s:
                    result.overdue.append(" ".join(command.cmdline()))
                    # From above, so that no shell lives to report the end of what it started.
                    for process in [command, *command.children(recursive=True)]:
                        with suppress(psutil.Error):
                            process.kill()


def _commands(guard: psutil.Process) -> Iterator[psutil.Process]:
    """Processes that ninja, the child of the guard, has started."""
    for ninja in guard.children():
        yield from ninja.children()
