"""Results of a run as records of a tuning, one for each variant at a problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from profiler.errors import UsageError
from profiler.model import Cell, CellStatus, Outcome, SessionKind
from profiler.run_folder.load.report import Report
from profiler.search.parameter_groups import largest_group
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


def tuning_results(report: Report, problem: str | None) -> tuple[RecordedResult, ...]:
    """What was measured of the tuned variants at a problem (name or id; None: the only one).

    Cells that were not measured have no record. Raises UsageError where the run has no such
    problem, several and no name is given, or nothing was measured.
    """
    cells = report.plan.cells
    names = list(dict.fromkeys(cell.problem.name for cell in cells))
    if problem is None and len(names) > 1:
        raise UsageError(
            f"The run has {len(names)} problems, and a T4 file holds one: {'; '.join(names[:20])}.",
            remedy="Name one with --problem.",
        )
    short = [name for name in names if set((problem or "").split(",")) <= set(name.split(","))]
    # Pages leave out of a name what all problems share: `rows=64` of `rows=64,columns=1024`.
    wanted = short[0] if problem not in names and len(short) == 1 else problem
    of_problem = [c for c in cells if wanted in (None, c.problem.name, c.problem.id)]
    if not of_problem:
        raise UsageError(f"--problem {problem}: there are {'; '.join(names[:20])}.")
    variants = list({cell.variant.id: cell.variant for cell in cells}.values())
    tuned = {variant.id for variant in largest_group(variants)}
    results = tuple(_results(report, [c for c in of_problem if c.variant.id in tuned]))
    if not results:
        raise UsageError(f"No variant was measured at {of_problem[0].problem.name}.")
    return results


def _results(report: Report, cells: list[Cell]) -> Iterator[RecordedResult]:
    runtimes = _runtimes_ms(report)
    for cell in cells:
        status = report.statuses.get(cell.id)
        if status is None or status.outcome is Outcome.NOT_MEASURED:
            continue
        times = runtimes.get(_measured_cell(status), ())
        if status.outcome.correct and not times:
            continue
        yield RecordedResult(
            params=cell.variant.params,
            invalidity=_INVALIDITY.get(status.outcome, "runtime"),
            runtimes_ms=times if status.outcome.correct else (),
        )


def _measured_cell(status: CellStatus) -> str:
    return status.duplicate_of or status.cell


def _runtimes_ms(report: Report) -> dict[str, tuple[float, ...]]:
    """Durations of the timing blocks' first arms by cell id, in milliseconds."""
    samples = report.samples
    timing = samples[(samples["kind"] == SessionKind.TIMING.value) & (samples["arm"] == 0)]
    durations = timing[timing["duration_ns"] > 0]
    return {
        str(cell): tuple(float(value) / 1e6 for value in values)
        for cell, values in durations.groupby("cell", observed=True)["duration_ns"]
    }
