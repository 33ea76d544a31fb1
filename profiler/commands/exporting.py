"""Files for other programs: `export` in their formats, and `figures` of matplotlib."""

from __future__ import annotations

import gzip
import io
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from profiler.commands.answers import answers_of_findings
from profiler.commands.output import raise_unwritable, warn, write_stdout, write_target
from profiler.commands.report import read_run
from profiler.commands.requests import ExportFormat, ExportRequest, FiguresRequest
from profiler.errors import ExitCode, UsageError, naming
from profiler.exports.formats import bencher_metrics, openmetrics_lines, pytorch_records
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.history.answers import HistoryRun, collector_of
from profiler.machine.console import make_console
from profiler.model import Cell, Outcome, SessionKind
from profiler.notices import counted, first_names
from profiler.planning.cell_filter import problems_called
from profiler.planning.plan import largest_group, make_plan
from profiler.planning.space import space_of
from profiler.run_folder.archive import find_run, open_run
from profiler.run_folder.documents import write_bytes
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.report import Report
from profiler.run_folder.runs import require_folder
from profiler.search.space import SearchSpace, derived_conditions
from profiler.search.t1 import TuningProblem, t1_document
from profiler.search.t4 import CORRECT, RecordedResult, t4_document
from profiler.sessions.experiment_files import load_experiment

USUAL_METRICS = ("duration_ns", "cycles", "l2_hit_pct", "registers")
"""Metrics to draw by default, if measured."""


def write_figures(request: FiguresRequest) -> ExitCode:
    """Write a file for each metric; raises UsageError for an unknown metric or problem."""
    # They bring matplotlib, which no export needs.
    from matplotlib import rc_context, rcParams

    from profiler.render.excerpts import metric_figure
    from profiler.render.figures.fonts import fonts_with, lacking_letters

    require_folder(request.out)
    findings = find(read_run(open_run(find_run(str(request.run_folder), request.reports))))
    measured = {metric.name for metric in findings.numbers.metrics}
    drawn_by_default = tuple(name for name in USUAL_METRICS if name in measured)
    metrics = request.metrics or drawn_by_default or USUAL_METRICS[:1]
    warnings.filterwarnings("ignore", "Glyph ")  # letters without a font are named below
    figures = [metric_figure(findings, name, request.problem) for name in metrics]
    families, boxes = fonts_with(lacking_letters(figures))
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(request.format)
    console = make_console("auto")
    all_families = [*rcParams["font.family"], *families]
    with naming(request.out), rc_context({"font.family": all_families}):
        request.out.mkdir(parents=True, exist_ok=True)
        for name, drawn in zip(metrics, figures, strict=True):
            # A text keeps the fonts that were set when it was made.
            figure = metric_figure(findings, name, request.problem) if families else drawn
            path = request.out / f"{findings.report.experiment.name}.{name}.{request.format}"
            content = io.BytesIO()
            figure.savefig(content, format=request.format, dpi=200, metadata=undated)
            write_bytes(path, content.getvalue())
            console.print(str(path))
    if boxes:
        warn(
            f"No installed font has {first_names(sorted(boxes))}: boxes stand in their place. "
            "Install one that has (for Chinese, Japanese and Korean: Noto Sans CJK)."
        )
    return ExitCode.COMPLETE


def export(request: ExportRequest) -> ExitCode:
    """Write a run, or the space of an experiment, in the format of another program."""
    if request.problem is not None and request.format != "t4":
        raise UsageError("--problem: only with --format t4.")
    if request.settings and request.format != "t1":
        raise UsageError("--set: only with --format t1; a run is written as it was measured.")
    write = _T_FILES.get(request.format)
    if write is not None:
        return write(request)
    report, run = _read_report(request)
    findings = find(report)
    measured = answers_of_findings(findings, run)
    parts = _FORMATS[request.format](measured, findings)
    _write_text(request.out, "".join(parts))
    count = len({answer.cell for answer in measured.answers})
    _print_line(request.out, f"{request.out}: {count} cells")
    return ExitCode.COMPLETE


def _read_report(request: ExportRequest) -> tuple[Report, RunFolder]:
    """The report of the requested run, and its folder."""
    run = open_run(find_run(str(request.source), request.reports))
    return read_run(run), run


def _pytorch(measured: HistoryRun, findings: Findings) -> Iterator[str]:
    """Records of PyTorch's benchmark database, one in a line."""
    durations = {
        cell: [value * 1e6 for value in values]
        for cell, values in block_durations_ms(findings.report).items()
    }
    problems = {cell.id: cell.problem.params for cell in findings.programs.plan.cells}
    for record in pytorch_records(measured, durations, problems):
        yield json.dumps(record, allow_nan=False) + "\n"


def _write_space(request: ExportRequest) -> ExitCode:
    """Write the variants of an experiment as a T1 file."""
    loaded = load_experiment(request.source, overrides=request.settings or ())
    variants = make_plan(loaded, space_of(loaded)).variants
    tuned = largest_group(variants)
    space = SearchSpace.of_configurations([variant.params for variant in tuned])
    problem = TuningProblem(loaded.experiment.name, space, derived_conditions(space))
    _write_json(request.out, t1_document(problem))
    counts_text = f"{len(space)} configurations of {len(space.parameters)} parameters"
    return _print_counts(request.out, counts_text, len(variants) - len(tuned))


def _write_results(request: ExportRequest) -> ExitCode:
    """Write a run's results at a problem as a T4 file."""
    report, _ = _read_report(request)
    results = tuning_results(report, request.problem)
    _write_json(request.out, t4_document(results))
    failed = sum(result.invalidity != CORRECT for result in results)
    counts_text = f"{len(results)} configurations, {failed} of them failed"
    variants = report.plan.variants
    return _print_counts(request.out, counts_text, len(variants) - len(largest_group(variants)))


def _print_counts(out: Path, counts_text: str, left_out: int) -> ExitCode:
    """Print what a file of a tuning holds, and how many variants are not in it."""
    _print_line(out, f"{out}: {counts_text}")
    if left_out:
        _print_line(out, f"Left out: {counted(left_out, 'variant')} with other parameters.")
    return ExitCode.COMPLETE


_T_FILES: Mapping[ExportFormat, Callable[[ExportRequest], ExitCode]] = {
    "t1": _write_space,
    "t4": _write_results,
}
_FORMATS: Mapping[ExportFormat, Callable[[HistoryRun, Findings], Iterable[str]]] = {
    "pytorch": _pytorch,
    "bencher": lambda run, _: json.dumps(bencher_metrics(run), indent=1, allow_nan=False) + "\n",
    "openmetrics": lambda run, _: openmetrics_lines(run),
}


def _write_json(target: Path, document: Mapping[str, Any]) -> None:
    _write_text(target, json.dumps(document, indent=1, allow_nan=False) + "\n")


def _write_text(target: Path, text: str) -> None:
    """Write a text, compressed where the name ends in .gz; the same text gives the same bytes."""
    if str(target) == "-":
        write_stdout((text,))
        return
    try:
        if target.suffix == ".gz":
            target.write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            write_target(target, (text,))
    except OSError as error:
        raise_unwritable(error, str(target), "Choose another path with --out.")


def _print_line(target: Path, text: str) -> None:
    """Print a line; to stderr where the target is stdout."""
    console = make_console("auto", stderr=str(target) == "-")
    console.print(text)


# ---- results of a run as records of a tuning -----------------------------------------------------

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
    """Results of the tuned variants at the problem that a text names; None: the only problem.

    Cells that were not measured have no record. Raises UsageError where the run has no such
    problem, several and no name is given, or nothing was measured.
    """
    cells = report.plan.cells
    problems = report.plan.problems
    called = problems if problem is None else problems_called(problems, problem)
    names = "; ".join(candidate.name for candidate in (called or problems)[:MOST_NAMED])
    if len(called) > 1:
        raise UsageError(
            f"A T4 file holds one problem, and there are {len(called)} of them: {names}.",
            remedy="Name one with --problem.",
        )
    if not called:
        raise UsageError(f"--problem {problem}: there are {names}.")
    of_problem = [cell for cell in cells if cell.problem == called[0]]
    tuned = {variant.id for variant in largest_group(report.plan.variants)}
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
    """Duration of each timing block by cell id, in milliseconds: as `duration_ns` has it.

    First arms under the first of the timers; of several launches in a block the median.
    """
    samples = report.measured.samples
    if "duration_ns" not in samples:  # nothing was measured
        return {}
    timing = samples[(samples["kind"] == SessionKind.TIMING.value) & (samples["arm"] == 0)]
    timed = timing[(timing["collector"] == collector_of(report.plan)) & (timing["duration_ns"] > 0)]
    blocks = timed.groupby(["cell", "block"], observed=True)["duration_ns"].median() / 1e6
    cells = blocks.groupby("cell", observed=True)
    return {str(cell): tuple(map(float, values)) for cell, values in cells}
