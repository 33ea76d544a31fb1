"""What others take: `export-space` (T1), `export-results` (T4), and `figures` of matplotlib."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler.commands.requests import ExportResultsRequest, ExportSpaceRequest, FiguresRequest
from profiler.commands.targets import write_stdout, write_target
from profiler.errors import ExitCode, UsageError, naming
from profiler.run_folder.folder import write_bytes
from profiler.sessions.progress import make_console

USUAL_METRICS = ("duration_ns", "cycles", "l2_hit_pct", "registers")
"""What is drawn where no metric is named, as far as it was measured."""


def write_figures(request: FiguresRequest) -> ExitCode:
    """Write a file for each metric; raises UsageError for a metric or problem that is not there."""
    from profiler.commands.report import read_run
    from profiler.comparison.find_run import find_run
    from profiler.findings.find import find
    from profiler.render.excerpts import metric_figure
    from profiler.run_folder.archive import open_run

    run = open_run(find_run(str(request.run_folder), request.reports))
    findings = find(read_run(run).report)
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


def write_space(request: ExportSpaceRequest) -> ExitCode:
    """Write the variants of an experiment as a T1 file."""
    from profiler.planning.matrix import expand
    from profiler.planning.plan import largest_group
    from profiler.planning.space import space_of
    from profiler.search.conditions import derived_conditions
    from profiler.search.space import SearchSpace
    from profiler.search.t1 import TuningProblem, t1_document
    from profiler.sessions.experiment_files import load_experiment

    loaded = load_experiment(request.spec, overrides=request.settings or ())
    variants = expand(loaded, space_of(loaded)).variants
    tuned = largest_group(variants)
    space = SearchSpace.of_configurations([variant.params for variant in tuned])
    problem = TuningProblem(loaded.experiment.name, space, derived_conditions(space))
    _write(request.out, t1_document(problem))
    left_out = len(variants) - len(tuned)
    _say(
        request.out,
        f"{request.out}: {len(space)} configurations of {len(space.parameters)} parameters",
    )
    if left_out:
        _say(request.out, f"Left out: {left_out} variants with other parameters.")
    return ExitCode.COMPLETE


def write_run_results(request: ExportResultsRequest) -> ExitCode:
    """Write what a run measured at a problem as a T4 file."""
    from profiler.commands.report import read_run
    from profiler.comparison.find_run import find_run
    from profiler.findings.tuning_results import tuning_results
    from profiler.run_folder.archive import open_run
    from profiler.search.t4 import CORRECT, t4_document

    run = open_run(find_run(str(request.run_folder), request.reports))
    report = read_run(run).report
    results = tuning_results(report, request.problem)
    _write(request.out, t4_document(results))
    failed = sum(result.invalidity != CORRECT for result in results)
    _say(request.out, f"{request.out}: {len(results)} configurations, {failed} of them failed")
    return ExitCode.COMPLETE


def _write(target: Path, document: Mapping[str, Any]) -> None:
    """Write JSON, compressed where the name ends in .gz; the same content gives the same bytes."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
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
