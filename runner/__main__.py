"""Run one job in this process: `python -P profiler/runner/__main__.py JOB.json`.

It is started by its path, and with -P, so that no file of the current folder stands in for another
module: with -m, a `profiler.py` or `types.py` there would end it before its first line.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if not __package__:  # started by its path; last, so that nothing beside the project is found first
    sys.path.append(str(Path(__file__).absolute().parents[2]))

from profiler.runner import protocol
from profiler.runner.import_path import no_garbage_collection
from profiler.runner.journal import Journal, OpenedFiles, open_journal
from profiler.runner.orders import PREPARE, LeavingError, Turn, follow_orders
from profiler.runner.protocol import Job

if TYPE_CHECKING:  # it imports torch
    from profiler.runner.session import Session

GRACE_S = 3.0
"""For threads that a workload left, and functions that it registered for the end of the process."""


class _RefusedError(Exception):
    """There is no session to run; the message says why."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job; the exit codes are defined in `profiler.runner.protocol`."""
    stamps = {protocol.PYTHON_BEGUN: time.monotonic()}
    options = _parser().parse_args(arguments)
    faulthandler.enable()
    for signum, code in _SIGNALS.items():
        signal.signal(signum, partial(_leave_on_signal, code))
    try:
        path = options.job or _job_after_torch(options.orders[0], options.orders[1], stamps)
        job = protocol.read_job(path)
    except (OSError, ValueError) as error:
        _print_to_stderr(f"cannot read the job: {error}")
        return protocol.EXIT_BAD_JOB
    except (LeavingError, _RefusedError) as leaving:
        _print_to_stderr(str(leaving))
        return leaving.code
    os.environ.update(job.process.environment)
    os.environ[protocol.RUNNER_VARIABLE] = str(os.getpid())
    turn = Turn(Path(job.process.orders) if job.process.orders else None, stamps)
    opened_files = OpenedFiles(job.process.watched, job.process.unwatched)
    opened_files.install()
    return _run(job, opened_files, turn)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="runner", description="Run one job in this process.")
    job_source = parser.add_mutually_exclusive_group(required=True)
    job_source.add_argument(
        "job", nargs="?", type=Path, help="a job as JSON; see runner/protocol.py"
    )
    job_source.add_argument(
        "--orders",
        nargs=2,
        type=Path,
        metavar=("ORDERS", "JOURNAL"),
        help="import torch, then run the job that ORDERS will name (runner/orders.py); JOURNAL "
        "names this process meanwhile",
    )
    return parser


def _job_after_torch(orders: Path, journal: Path, stamps: dict[str, float]) -> Path:
    """Path of a job that comes later; torch is imported before the wait for it.

    Raises LeavingError where no job comes.
    """
    with open_journal(journal) as stream:
        Journal(stream).write(protocol.PRELOADING, pid=os.getpid())
    with no_garbage_collection():
        _import_torch()
    stamps[protocol.TORCH_IMPORTED] = time.monotonic()
    for order, path in follow_orders(orders):
        if order == PREPARE:
            _redirect_output(Path(path))
            return Path(path)
    raise LeavingError(0)


def _import_torch() -> None:
    """Import torch, which takes seconds; raises _RefusedError where that fails."""
    try:
        import torch  # noqa: F401, PLC0415 - --help need not wait for it
    except ImportError as error:
        message = f"torch cannot be imported: {error}"
        raise _RefusedError(protocol.EXIT_NO_DEVICE, message) from error


_SIGNALS = {
    signal.SIGINT: protocol.EXIT_INTERRUPTED,
    signal.SIGTERM: protocol.EXIT_TERMINATED,
}
"""Exit code by signal. A KeyboardInterrupt is the workload's own: it fails what raises it."""


def _leave_on_signal(code: int, _signal: int, _frame: object) -> NoReturn:
    faulthandler.dump_traceback(2, all_threads=False)  # sys.stderr may be the workload's
    raise LeavingError(code)


def _run(job: Job, opened: OpenedFiles, turn: Turn) -> int:
    try:
        with open_journal(Path(job.journal)) as stream:
            return _run_session(job, Journal(stream, opened), turn)
    except LeavingError as leaving:
        _print_to_stderr(str(leaving))
        return leaving.code


def _run_session(job: Job, journal: Journal, turn: Turn) -> int:
    """Run the session of a job, and the sessions of the jobs that follow in this process."""
    code, session = _run_to_its_end(partial(_opened_session, job, journal, turn), journal)
    if code or session is None:
        return code
    for path in turn.following_jobs():
        _redirect_output(path)
        following = protocol.read_job(path)
        with open_journal(Path(following.journal)) as stream:
            journal = journal.following_journal(stream)
            code, session = _run_to_its_end(
                partial(_following_session, session, following, journal), journal
            )
        if code or session is None:
            return code
    return 0


def _run_to_its_end(open_: Callable[[], Session], journal: Journal) -> tuple[int, Session | None]:
    """Exit code of a session, and the session unless it could not begin."""
    try:
        with no_garbage_collection():
            session = open_()
    except _RefusedError as refused:
        return _refuse(journal, refused.code, str(refused)), None
    from profiler.runner.phases import ContextLostError  # noqa: PLC0415 - it imports torch

    gc.freeze()  # libraries are no garbage
    try:
        session.run()
    except ContextLostError:
        return protocol.EXIT_CONTEXT_LOST, session
    return 0, session


def _redirect_output(job: Path) -> None:
    """Redirect stdout and stderr of this process to files beside a job."""
    for descriptor, (stream, name) in enumerate(
        zip((sys.stdout, sys.stderr), protocol.OUTPUT, strict=True), start=1
    ):
        stream.flush()
        with (job.parent / name).open("ab") as file:
            os.dup2(file.fileno(), descriptor)


def _following_session(before: Session, job: Job, journal: Journal) -> Session:
    """The session of another job; raises _RefusedError where this machine has no such session."""
    from profiler.runner.device import DeviceMissingError  # noqa: PLC0415 - it imports torch

    try:
        return before.following_session(job, journal)
    except DeviceMissingError as error:
        raise _RefusedError(protocol.EXIT_NO_DEVICE, str(error)) from error


def _opened_session(job: Job, journal: Journal, turn: Turn) -> Session:
    """The session of a job, with torch and the workload imported.

    Raises _RefusedError where the job or this machine has no such session.
    """
    _import_torch()
    turn.stamp(protocol.TORCH_IMPORTED)
    from profiler.runner import (  # noqa: PLC0415 - they import torch
        device,
        failures,
        session,
        workload,
    )
    from profiler.runner.standing_session import StandingSession  # noqa: PLC0415

    kind = StandingSession if job.process.searches else session.Session
    try:
        return session.open_session(job, journal, turn, kind)
    except (workload.WorkloadError, ValueError) as error:
        if failures.is_fault_of_host(error):
            raise LeavingError(protocol.EXIT_HOST_FAULT, str(error)) from None
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        raise _RefusedError(protocol.EXIT_BAD_JOB, str(error)) from error
    except device.DeviceMissingError as error:
        raise _RefusedError(protocol.EXIT_NO_DEVICE, str(error)) from error


def _refuse(journal: Journal, code: int, cause: str) -> int:
    journal.write(protocol.SESSION_FAILED, cause=cause)
    _print_to_stderr(cause)
    return code


def _print_to_stderr(line: str) -> None:
    if line:
        with suppress(OSError):  # a failed write to stderr ends no session
            print(f"runner: {line}", file=sys.stderr)  # noqa: T201 - the orchestrator keeps it


def _leave(code: int) -> None:
    """End the process; with a lost context at once, because destructors would only crash on it.

    Threads of a workload that still run get a few seconds: all work of the job is done.
    """
    _discard_unprintable_output()
    if code == protocol.EXIT_CONTEXT_LOST:
        _exit_now(code)
    timer = threading.Timer(GRACE_S, _end_threads, [code])
    timer.daemon = True
    timer.start()
    sys.exit(code)


def _discard_unprintable_output() -> None:
    """Drop output that cannot be flushed: else a full disk makes the exit code 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _end_threads(code: int) -> NoReturn:
    _print_to_stderr(f"what the workload left running was ended after {GRACE_S:g} s")
    _exit_now(code)


def _exit_now(code: int) -> NoReturn:
    _discard_unprintable_output()
    os._exit(code)


if __name__ == "__main__":
    own_arguments = sys.argv[1:]
    sys.argv[1:] = []  # a workload that parses its command line finds an empty one
    _leave(main(own_arguments))
