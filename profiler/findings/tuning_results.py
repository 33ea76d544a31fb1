"""Results of a run as records of a tuning, one for each variant at a problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from profiler.errors import UsageError
from profiler.model import Cell, Outcome, SessionKind
from profiler.planning.cell_filter import problems_called
from profiler.planning.plan import largest_group
from profiler.run_folder.load.report import Report
from profiler.search.t4 import CORRECT, RecordedResult

_INVALIDITY: Mapping[Outcome, str] = {
    Outcome.MEASURED: CORRECT,
    Outcome.DUPLICATE: CORRECT,
    Outcome.COMPILE_FAILED: "compile",
    Outcome.WRONG_RESULT: "correctness",
    Outcome.IMPLAUSIBLE: "correctness",
    Outcome.FELL_BACK: "correctness",
    Outcome.TIMED_OUT: "timeout",
}
"""Every other outcome is a failure at run time."""
MOST_NAMED = 20
"""Problems that a message names."""


def tuning_results(report: Report, problem: str | None) -> tuple[RecordedResult, ...]:
    """What was measured of the tuned variants at the problem that a text means; None: the only one.

    Cells that were not measured have no record. Raises UsageError where the run has no such
    problem, several and no name is given, or nothing was measured.
    """
    cells = report.plan.cells
    problems = report.plan.problems
    called = problems if problem is None else problems_called(problems, problem)
    names = "; ".join(other.name for other in (called or problems)[:MOST_NAMED])
    if len(called) > 1:
        raise UsageError(
            f"A T4 file holds one problem, and there are {len(called)} of them: {names}.",
            remedy="Name one with --problem.",
        )
    if not called:
        raise UsageError(f"--problem {problem}: there are {names}.")
    of_problem = [cell for cell in cells if cell.problem == called[0]]
    variants = list({cell.variant.id: cell.variant for cell in cells}.values())
    tuned = {variant.id for variant in largest_group(variants)}
    results = tuple(_results(report, [c for c in of_problem if c.variant.id in tuned]))
    if not results:
        raise UsageError(f"No variant was measured at {called[0].name}.")
    return results


def _results(report: Report, cells: list[Cell]) -> Iterator[RecordedResult]:
    runtimes = block_durations_ms(report)
    for cell in cells:
        status = report.statuses.get(cell.id)
        if status is None or status.outcome is Outcome.NOT_MEASURED:
            continue
        times = runtimes.get(status.duplicate_of or status.cell, ())
        if status.outcome.correct and not times:
            continue
        yield RecordedResult(
            params=cell.variant.params,
            invalidity=_INVALIDITY.get(status.outcome, "runtime"),
            runtimes_ms=times if status.outcome.correct else (),
        )


def block_durations_ms(report: Report) -> dict[str, tuple[float, ...]]:
    """Durations of the timing blocks' first arms by cell id, in milliseconds."""
    samples = report.measured.samples
    timing = samples[(samples["kind"] == SessionKind.TIMING.value) & (samples["arm"] == 0)]
    durations = timing[timing["duration_ns"] > 0]
    return {
        str(cell): tuple(float(value) / 1e6 for value in values)
        for cell, values in durations.groupby("cell", observed=True)["duration_ns"]
    }
