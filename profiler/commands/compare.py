"""`profiler compare`: runs of other days, commits, drivers or GPUs against each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.output import print_notices, write_json_target, write_page
from profiler.commands.requests import CompareRequest
from profiler.errors import ExitCode, UsageError
from profiler.machine.console import make_console

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.findings.gates import Gate
    from profiler.findings.runs.comparison import RunComparison


def show_comparison(request: CompareRequest) -> ExitCode:
    """Print, and write as page and JSON, how runs differ; GATE_TRIPPED where the gate trips."""
    from profiler.comparison.runs import find_runs, read_runs
    from profiler.findings.gates import parse_gate
    from profiler.findings.runs.comparison import compare
    from profiler.findings.runs.document import comparison_document
    from profiler.render.runs.answer import comparison_tables

    option = next((name for name in request.runs if name.startswith("-")), None)
    if option is not None:
        raise UsageError(f"{option} is an option after --", remedy="Give it before the --.")
    spec = experiment_of(request.runs)
    if spec is not None:
        from profiler.commands.revisions import compare_revisions

        return compare_revisions(request, spec)
    gate = None if request.fail_on is None else parse_gate(request.fail_on)
    folders = find_runs(request.runs, request.reports)
    comparison = compare(read_runs(folders, baseline=request.baseline, only=request.only))
    write_json_target(comparison_document(comparison, gate), request.json_target)
    console = make_console(request.color, stderr=request.json_target == "-")
    if request.json_target != "-":
        console.print(comparison_tables(comparison))
    print_notices(comparison.notices, request.color)
    if not request.no_report:
        _write_page(comparison, request, console)
    return _exit_code(comparison, gate, request.color)


def experiment_of(named: Sequence[str]) -> Path | None:
    """The experiment that stands behind revisions; None where all are runs."""
    last = Path(named[-1])
    suffix = last.name.partition(":")[0].rpartition(".")[2]
    file = last.with_name(last.name.partition(":")[0])
    return last if suffix in ("py", "yaml", "yml") and file.is_file() else None


def _write_page(comparison: RunComparison, request: CompareRequest, console: Console) -> None:
    from profiler.render.runs.page import render_comparison

    name = "--".join(run.name for run in comparison.runs)
    target = request.page or request.reports / "compare" / f"{name}.html"
    write_page(target, render_comparison(comparison))
    console.print(f"Page: {target}", markup=False, soft_wrap=True)


def _exit_code(comparison: RunComparison, gate: Gate | None, color: str) -> ExitCode:
    """GATE_TRIPPED where a cell trips the gate; stderr names it, or what could not be judged."""
    from profiler.findings.gates import not_judged, regressions, tripped_message

    if gate is None:
        return ExitCode.COMPLETE
    cells = comparison.judged
    slower = regressions(cells, gate)
    message = tripped_message(slower, gate) if len(slower) else not_judged(cells, gate)
    if message:
        errors = make_console(color, stderr=True)
        errors.print(message, style="yellow", markup=False, soft_wrap=True)
    return ExitCode.GATE_TRIPPED if len(slower) else ExitCode.COMPLETE
