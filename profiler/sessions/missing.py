"""Missing visits of a plan in a run folder, found without measuring.

The same code decides as when it is measured: a measurement that stops where it would start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from profiler.model import BuildResult
from profiler.run_folder.folder import RunFolder
from profiler.sessions.execution import SecondsRecorder
from profiler.sessions.explaining import Explaining
from profiler.sessions.measure import MeasureRequest, decide_steps
from profiler.sessions.measuring.attempt_book import AttemptBook
from profiler.sessions.measuring.measurement import Measurement
from profiler.sessions.progress import ProgressReporter
from profiler.sessions.templates import Templates


class _VisitsMissingError(Exception):
    """A session has visits to make."""


@dataclass
class _DryMeasurement(Measurement):
    """A measurement that makes no visit."""

    def _make(self, *_: object) -> None:
        raise _VisitsMissingError


def is_measured(
    run: RunFolder,
    request: MeasureRequest,
    *,
    builds: Sequence[BuildResult],
    keys: Mapping[str, str],
    stamped: Mapping[str, str],
) -> bool:
    """Whether a run folder has every visit of a plan except those of explain sessions."""
    with _dry_measurement(run, request, builds, keys, stamped) as measurement:
        try:
            decide_steps(request, measurement)
        except _VisitsMissingError:
            return False
    return True


def cells_to_explain(
    run: RunFolder,
    request: MeasureRequest,
    *,
    builds: Sequence[BuildResult],
    keys: Mapping[str, str],
    reporter: ProgressReporter,
) -> tuple[str, ...]:
    """Ids of the cells that the measured samples point to and that are not explained yet."""
    with _dry_measurement(run, request, builds, keys, {}) as measurement:
        explaining = Explaining(request, request.explain, measurement)
        explaining.report_unexplained(reporter)
        if not explaining.is_wanted:
            return ()
        book = measurement.book
        missing = book.missing_visits(explaining.session(book.samples()), book.attempts())
        return tuple(dict.fromkeys(visit.cell for visit in missing))


def _dry_measurement(
    run: RunFolder,
    request: MeasureRequest,
    builds: Sequence[BuildResult],
    keys: Mapping[str, str],
    stamped: Mapping[str, str],
) -> _DryMeasurement:
    execution = replace(request, seconds=SecondsRecorder())
    book = AttemptBook(
        execution,
        run=run,
        builds=builds,
        keys=keys,
        reader=request.reader,
        opened=run.record().opened if run.exists() else {},
        templates=Templates(execution, run.path, stamped=stamped),
    )
    silent_console = Console(quiet=True)
    return _DryMeasurement(book, ProgressReporter(silent_console, silent_console, quiet=True))
