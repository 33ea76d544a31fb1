"""What others take: `export` in formats of other programs, and `figures` of matplotlib."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from profiler.commands.history import answers_of_findings
from profiler.commands.output import write_stdout, write_target
from profiler.commands.report import read_run
from profiler.commands.requests import ExportFormat, ExportRequest, FiguresRequest
from profiler.comparison.find_run import find_run
from profiler.errors import ExitCode, UsageError, naming
from profiler.exports.formats import bencher_metrics, openmetrics_lines, pytorch_records
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.findings.tuning_results import block_durations_ms, tuning_results
from profiler.history.answers import HistoryRun
from profiler.machine.console import make_console
from profiler.planning.matrix import expand
from profiler.planning.plan import largest_group
from profiler.planning.space import space_of
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder, write_bytes
from profiler.run_folder.load.report import Report
from profiler.search.space import SearchSpace, derived_conditions
from profiler.search.t1 import TuningProblem, t1_document
from profiler.search.t4 import CORRECT, t4_document
from profiler.sessions.experiment_files import load_experiment

USUAL_METRICS = ("duration_ns", "cycles", "l2_hit_pct", "registers")
"""What is drawn where no metric is named, as far as it was measured."""


def write_figures(request: FiguresRequest) -> ExitCode:
    """Write a file for each metric; raises UsageError for a metric or problem that is not there."""
    from profiler.render.excerpts import metric_figure  # brings matplotlib, which no export needs

    findings = find(read_run(open_run(find_run(str(request.run_folder), request.reports))))
    measured = {metric.name for metric in findings.numbers.metrics}
    metrics = request.metrics or tuple(name for name in USUAL_METRICS if name in measured)
    figures = {name: metric_figure(findings, name, request.problem) for name in metrics}
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(request.format)
    console = make_console("auto")
    with naming(request.out):
        request.out.mkdir(parents=True, exist_ok=True)
        for name, figure in figures.items():
            path = request.out / f"{findings.report.experiment.name}.{name}.{request.format}"
            content = io.BytesIO()
            figure.savefig(content, format=request.format, dpi=200, metadata=undated)
            write_bytes(path, content.getvalue())
            console.print(str(path), markup=False, soft_wrap=True)
    return ExitCode.COMPLETE


def export(request: ExportRequest) -> ExitCode:
    """Write a run, or the space of an experiment, in the format of another program."""
    write = _T_FILES.get(request.format)
    if write is not None:
        return write(request)
    if request.problem is not None:
        raise UsageError("--problem: only with --format t4.")
    report, run = _read(request)
    findings = find(report)
    measured = answers_of_findings(findings, run)
    parts = _FORMATS[request.format](measured, findings)
    _write_text(request.out, "".join(parts))
    count = len({answer.cell for answer in measured.answers})
    _say(request.out, f"{request.out}: {count} cells")
    return ExitCode.COMPLETE


def _read(request: ExportRequest) -> tuple[Report, RunFolder]:
    """The report of the run that is asked for, and its folder."""
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


def _bencher(measured: HistoryRun, _: Findings) -> tuple[str]:
    return (json.dumps(bencher_metrics(measured), indent=1, allow_nan=False) + "\n",)


def _openmetrics(measured: HistoryRun, _: Findings) -> Iterator[str]:
    return openmetrics_lines(measured)


def _write_space(request: ExportRequest) -> ExitCode:
    """Write the variants of an experiment as a T1 file."""
    loaded = load_experiment(request.source, overrides=request.settings or ())
    variants = expand(loaded, space_of(loaded)).variants
    tuned = largest_group(variants)
    space = SearchSpace.of_configurations([variant.params for variant in tuned])
    problem = TuningProblem(loaded.experiment.name, space, derived_conditions(space))
    _write_json(request.out, t1_document(problem))
    left_out = len(variants) - len(tuned)
    _say(
        request.out,
        f"{request.out}: {len(space)} configurations of {len(space.parameters)} parameters",
    )
    if left_out:
        _say(request.out, f"Left out: {left_out} variants with other parameters.")
    return ExitCode.COMPLETE


def _write_results(request: ExportRequest) -> ExitCode:
    """Write what a run measured at a problem as a T4 file."""
    report, _ = _read(request)
    results = tuning_results(report, request.problem)
    _write_json(request.out, t4_document(results))
    failed = sum(result.invalidity != CORRECT for result in results)
    _say(request.out, f"{request.out}: {len(results)} configurations, {failed} of them failed")
    return ExitCode.COMPLETE


_T_FILES: Mapping[ExportFormat, Callable[[ExportRequest], ExitCode]] = {
    ExportFormat.T1: _write_space,
    ExportFormat.T4: _write_results,
}
_FORMATS: Mapping[ExportFormat, Callable[[HistoryRun, Findings], Iterable[str]]] = {
    ExportFormat.PYTORCH: _pytorch,
    ExportFormat.BENCHER: _bencher,
    ExportFormat.OPENMETRICS: _openmetrics,
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
        raise UsageError(
            f"{target}: {error.strerror}", remedy="Choose another path with --out."
        ) from error


def _say(target: Path, text: str) -> None:
    """Print a line; to stderr where the target is stdout."""
    console = make_console("auto", stderr=str(target) == "-")
    console.print(text, markup=False, soft_wrap=True)
