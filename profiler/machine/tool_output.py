"""Short commands of tools whose output is read: versions, exports, pages of reports."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from profiler.collect import Command
from profiler.errors import EnvironmentUnusable
from profiler.machine.signals import raise_if_signalled

_VERSION_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.005


CompletedCommand = subprocess.CompletedProcess[str]
"""Exit code and output of a command."""


def output_of(completed: CompletedCommand) -> str:
    """Output of a command that has ended, stdout before stderr."""
    return f"{completed.stdout}\n{completed.stderr}"


def run_command(command: Command, timeout_s: float = _VERSION_TIMEOUT_S) -> CompletedCommand:
    """Exit code and output of a command.

    Raises EnvironmentUnusable where it cannot be started or does not end in time.
    """
    (completed,) = run_commands([command], timeout_s)
    if isinstance(completed, EnvironmentUnusable):
        raise completed
    return completed


def run_commands(
    commands: Sequence[Command], timeout_s: float = _VERSION_TIMEOUT_S
) -> list[CompletedCommand | EnvironmentUnusable]:
    """Exit codes and outputs of commands that run side by side, in their order.

    A command that cannot be started, or does not end in time, has an error in its place. Commands
    that still run when this process is asked to end are killed.
    """
    with ExitStack() as stack:
        started = [_start(command, stack) for command in commands]
        deadline = time.monotonic() + timeout_s
        while any(command.is_running for command in started) and time.monotonic() < deadline:
            raise_if_signalled()
            time.sleep(_LOOK_EVERY_S)
        return [command.end(timeout_s) for command in started]


@dataclass(frozen=True)
class _StartedCommand:
    """A command that was started, or the error of its start."""

    program: str
    process: subprocess.Popen[bytes] | EnvironmentUnusable
    stdout: IO[str]
    stderr: IO[str]
    """Files, as a pipe that nobody empties would block its command."""

    @property
    def is_running(self) -> bool:
        return isinstance(self.process, subprocess.Popen) and self.process.poll() is None

    def end(self, timeout_s: float) -> CompletedCommand | EnvironmentUnusable:
        if isinstance(self.process, EnvironmentUnusable):
            return self.process
        code = self.process.poll()
        if code is None:
            return EnvironmentUnusable(
                f"{self.program} did not end within {timeout_s:.0f} s.",
                remedy="Start it by hand to see what it waits for.",
            )
        return CompletedCommand(
            self.process.args, code, _content(self.stdout), _content(self.stderr)
        )


def _start(command: Command, stack: ExitStack) -> _StartedCommand:
    """A started command, which ends at the latest when the stack is closed."""
    program = command.argv[0]
    stdout, stderr = _output_file(stack), _output_file(stack)
    try:
        process = subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **command.env},
            cwd=command.cwd,
            start_new_session=True,  # so that what a script starts ends with it
        )
    except OSError as error:
        fault = EnvironmentUnusable(
            f"{program} cannot be run: {error.strerror}", remedy="Install it again."
        )
        return _StartedCommand(program, fault, stdout, stderr)
    stack.enter_context(_killed_on_exit(process))
    return _StartedCommand(program, process, stdout, stderr)


def _output_file(stack: ExitStack) -> IO[str]:
    return stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))


@contextmanager
def _killed_on_exit(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Kill a command and its child processes, if they still run when the body ends."""
    try:
        yield
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _content(stream: IO[str]) -> str:
    stream.seek(0)
    return stream.read()
