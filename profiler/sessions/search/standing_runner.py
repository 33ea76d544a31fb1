"""One runner process that stands and carries out orders, until it is closed or ends by itself."""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from profiler.machine.signals import raise_if_signalled
from profiler.runner import protocol
from profiler.runner.standing.orders import Order, append_order
from profiler.sessions.attempt import JOB, JOURNAL, Session, write_job
from profiler.sessions.process import (
    SessionResult,
    cap_output,
    cause_of,
    failing_cell,
    start,
    stop,
    stopped_on_leaving,
)
from profiler.sessions.watchdog import JournalTail, Record, Watchdog

ORDERS = "orders.jsonl"
_POLL_S = 0.004
_END_S = 10.0
"""For the runner to leave after its last order."""


class RunnerEndedError(Exception):
    """The process ended before its order was done."""

    def __init__(self, folder: Path, result: SessionResult) -> None:
        super().__init__(f"the runner ended: {result.cause}")
        self.folder = folder
        self.result = result


class StandingRunner:
    """A process behind its guard, and the file that its orders go to."""

    def __init__(self, session: Session, folder: Path) -> None:
        """Start the process; its files go to `folder`."""
        self.folder = folder
        self._limits = session.limits
        self._journal = folder / JOURNAL
        self._orders = folder / ORDERS
        self._tail = JournalTail(self._journal)
        self._began = time.monotonic()
        self._closing = ExitStack()
        folder.mkdir(parents=True)
        self._orders.touch()
        job = replace(
            session.job, journal=str(self._journal.absolute()), orders=str(self._orders.absolute())
        )
        write_job(job, folder / JOB)
        self._process: subprocess.Popen[bytes] = start(
            session.command(folder),
            folder=folder,
            limits=session.limits,
            journal=self._journal,
            lock_file=session.lock_file,
        )
        self._closing.enter_context(stopped_on_leaving(self._process, session.limits.grace_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process, whatever it does."""
        self._closing.close()

    def carry_out(self, order: Order) -> tuple[Record, ...]:
        """Have an order done; gives the records of the journal that were written meanwhile.

        Raises RunnerEndedError where the process ends before, or is silent for too long.
        """
        append_order(self._orders, order)
        watchdog = Watchdog(self._limits, time.monotonic, has_journal=True)
        records: list[Record] = []
        while True:
            has_ended = self._process.poll() is not None
            for record in self._tail.read():
                watchdog.saw(record)
                records.append(record)
                if record.get("event") == protocol.ORDER_FINISHED:
                    return tuple(records)
            if has_ended:
                raise self._ended(timed_out=False)
            cap_output(self.folder)
            if watchdog.expired():
                stop(self._process, self._limits.grace_s)
                raise self._ended(timed_out=True)
            raise_if_signalled()
            time.sleep(_POLL_S)

    def finish(self) -> None:
        """Have the process leave by itself, as long as that does not take long."""
        append_order(self._orders, Order(number=0, last=True))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_END_S)

    def _ended(self, *, timed_out: bool) -> RunnerEndedError:
        records = tuple(protocol.read_journal(self._journal))
        result = SessionResult(
            returncode=self._process.returncode,
            cause=cause_of(self._process.returncode, records, timed_out=timed_out),
            failing_cell=failing_cell(records),
            seconds=time.monotonic() - self._began,
        )
        return RunnerEndedError(self.folder, result)
