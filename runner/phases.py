"""Phases of cells, journalled before and after: what fails in one costs the cells concerned."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from profiler.runner import check, protocol
from profiler.runner.cell_settings import CellSettings
from profiler.runner.check import WrongResultError
from profiler.runner.device import Device
from profiler.runner.failures import OUT_OF_MEMORY, Failure, diagnose
from profiler.runner.journal import Journal
from profiler.runner.orders import LeavingError
from profiler.runner.protocol import JobCell, JobVisit
from profiler.runner.renewal import NotRenewableError
from profiler.runner.seal import ImplausibleError, Seal


class PhaseFailedError(Exception):
    """A phase failed and the journal says so; the cells concerned are not visited any more."""


class ContextLostError(Exception):
    """The device refuses all further work of this process; the journal names the failing cell."""


_SET_UP = frozenset({protocol.INPUTS, protocol.PREPARE, protocol.WARMUP})


class Phases:
    """The phases of a session, each in the settings of torch that are its cell's own."""

    def __init__(self, journal: Journal, device: Device, seal: Seal, source: Path) -> None:
        """`source`: file of the workload, in whose words errors are told."""
        self.journal = journal
        self._device, self._seal, self._source = device, seal, source
        self.settings = CellSettings()
        self.failed: set[str] = set()
        """Cells that have failed: they are not visited any more."""
        self.set_up_s = 0.0
        """Seconds that inputs, launches and warm-ups of this problem take where they lie now."""

    @contextmanager
    def passed_over(self, cells: Sequence[JobCell], *, memory_only: bool = False) -> Iterator[None]:
        """Journal that cells were not checked again, where the means for that failed.

        `memory_only`: only where no memory was left, which the second inputs took.
        """
        try:
            yield
        except (ContextLostError, LeavingError):
            raise
        except BaseException as error:
            failure, lost = self.diagnose(error)
            if lost:
                raise ContextLostError(failure.cause) from None
            if memory_only and failure.outcome != OUT_OF_MEMORY:
                raise
            cause = str(error) if isinstance(error, NotRenewableError) else failure.cause
            for cell in cells:
                self.journal.write(protocol.NOT_RECHECKED, cell=cell.id, cause=cause)

    @contextmanager
    def of(
        self, phase: str, cells: Sequence[JobCell], visit: JobVisit | None = None
    ) -> Iterator[dict[str, Any]]:
        """Journal a phase of the first cell; the findings go into its FINISHED record.

        All work is waited for inside, so that an error is blamed on the phase that caused it.
        Raises PhaseFailedError after all `cells` were journalled as failed.
        """
        where: dict[str, Any] = {"phase": phase}
        if visit is not None:
            where |= place_of(visit)
        if phase in protocol.PROBLEM_PHASES:
            where["problem"] = cells[0].problem
        self.journal.write(protocol.STARTED, cell=cells[0].id, **where)
        began = time.monotonic()
        findings: dict[str, Any] = {}
        try:
            with self._settings_in(phase, cells):
                yield findings
                self._device.settle()
            self._seal.require_whole()
        except LeavingError:
            raise
        except BaseException as error:
            self._give_up(error, cells, where)
            raise PhaseFailedError from None
        if phase in _SET_UP:
            self.set_up_s += time.monotonic() - began
        self.journal.write(protocol.FINISHED, cell=cells[0].id, **where, **findings)

    def _settings_in(self, phase: str, cells: Sequence[JobCell]) -> AbstractContextManager[None]:
        """Settings of torch in a phase: the cell's own. What makes inputs sets them for all."""
        if phase in (protocol.INPUTS, protocol.DECLARE):
            return nullcontext()
        return self.settings.of(cells[0].id if phase not in protocol.PROBLEM_PHASES else None)

    def _give_up(
        self, error: BaseException, cells: Sequence[JobCell], where: dict[str, Any]
    ) -> None:
        """Journal the failure of cells; ContextLostError where the device is lost with them."""
        failure, lost = self.diagnose(error)
        with suppress(OSError):  # what is said on stderr ends no session
            if not isinstance(error, WrongResultError | ImplausibleError):
                traceback.print_exception(error)
            _tell(f"{cells[0].id}: {failure.outcome} in {where['phase']}: {failure.cause}")
        errors = error_fields(getattr(error, "errors", None))
        extra: dict[str, Any] = errors if isinstance(error, WrongResultError) else {}
        if failure.of_host:
            extra["of_host"] = True
        for cell in cells:
            self.failed.add(cell.id)
            self.journal.write(
                protocol.FAILED,
                cell=cell.id,
                **where,
                outcome=failure.outcome,
                cause=failure.cause,
                **extra,
            )
        if lost:
            raise ContextLostError(failure.cause) from None

    def diagnose(self, error: BaseException) -> tuple[Failure, bool]:
        """What went wrong, and whether the device is lost: it then repeats its error for ever."""
        failure = diagnose(error, self._source)
        late = self._device.trouble()
        if late is None:
            return failure, False
        failure = diagnose(late, self._source).seen_after(failure)
        return failure, self._device.trouble() is not None


def _tell(line: str) -> None:
    print(f"runner: {line}", file=sys.stderr)  # noqa: T201 - the orchestrator keeps stderr


def place_of(visit: JobVisit) -> dict[str, int]:
    """Block of a visit, and its arm where that is not 0."""
    return {"block": visit.block} | ({"arm": visit.arm} if visit.arm else {})


def error_fields(errors: check.Errors | None) -> dict[str, float | None]:
    """Fields of the journal for the errors of a result; None: a check of its own tells none."""
    if errors is None:
        return {"max_abs_error": None, "max_rel_error": None}
    fields = {"max_abs_error": errors.max_abs, "max_rel_error": errors.max_rel}
    return fields if errors.rounding is None else {**fields, protocol.ROUNDING: errors.rounding}
