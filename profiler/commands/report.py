"""`profiler report`: page, CSV and JSON of a run again; `profiler record`: its recording.

Both read its raw files; a recording is what a replay needs, without what is private to this
machine.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

from profiler.commands.answers import keep_answers
from profiler.commands.index import write_index
from profiler.commands.output import (
    Stages,
    print_notices,
    show_page,
    warn,
    write_json_target,
    write_markdown_target,
    write_results,
)
from profiler.commands.requests import RecordRequest, ReportRequest
from profiler.comparison.runs import variant_id
from profiler.errors import ExitCode
from profiler.findings.find import find
from profiler.machine.console import make_console
from profiler.planning.cell_filter import select_cells
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import find_run, naming_archive, open_run
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.report import Report
from profiler.run_folder.recording import write_recording
from profiler.run_folder.redact import private_names, private_texts
from profiler.run_folder.runs import create_run, why_read_only


def rebuild_report(request: ReportRequest) -> ExitCode:
    """Write the results of a run again; results of an archive go to a new folder under `out`."""
    run = open_run(find_run(str(request.run_folder), request.reports))
    stages = Stages(request.color)
    with stages.stage(f"Reading {run.given_path}"):
        report = read_run(run)
    cells = len(report.plan.cells)
    with stages.stage(f"Comparing {cells} cells"):
        findings = find(report)
    with stages.stage("Writing page, CSV and JSON"):
        folder = _results_folder(run, request)
        document, page = write_results(findings, folder)
        if folder.resolve().parent.parent == request.out.resolve():
            if folder == run.path:
                keep_answers(request.out, folder, document, warn)
            write_index(request.out, warn, {folder: document})
    to_stdout = "-" in (request.json_target, request.markdown_target)
    console = make_console(request.color, stderr=to_stdout)
    if not to_stdout:
        from profiler.render.console.tables import final_summary

        console.print(final_summary(findings, verbose=request.verbose))
    show_page(page, console, opens=request.open_page)
    print_notices(findings.notices, request.color, verbose=request.verbose)
    write_markdown_target(findings, request.markdown_target)
    write_json_target(document, request.json_target)
    return report.exit_code


def read_run(run: RunFolder, *, baseline: str | None = None, only: str | None = None) -> Report:
    """Report of a run folder or a recording, by its own spec and plan.

    `baseline`: another variant that ratios refer to, by its name or id. `only`: the cells to read,
    as `select_cells` takes them.
    """
    with naming_archive(run):
        record, plan = run.record(), run.plan()
        if baseline is not None:
            variant = variant_id(plan.cells, baseline, f"--against {baseline}: {run.given_path}")
            plan = replace(plan, baseline=variant)
        if only is not None:
            plan = replace(plan, cells=select_cells(plan.cells, only, plan.baseline))
        loaded = load_spec(run.spec_file, overrides=record.overrides)
        return assemble(run, loaded, plan, replay=run.is_recording())


def _results_folder(run: RunFolder, request: ReportRequest) -> Path:
    """The run's folder; a new folder in `out` for an archive, a recording or a read-only run."""
    if run.archive is None and not run.is_recording():
        reason = why_read_only(run.path)
        if reason is None:
            return run.path
        text = f"{run.path} cannot be written to ({reason}): its page goes to {request.out}."
        warn(text, request.color)
    created = datetime.now().astimezone().isoformat(timespec="seconds")
    return create_run(request.out, run.record().experiment, created).path


def make_recording(request: RecordRequest) -> ExitCode:
    """Write the recording; raises UsageError where the target is no older recording."""
    run = open_run(find_run(str(request.run_folder), request.reports))
    private, names = private_texts(run.path), private_names(run.path)
    left_out: list[str] = []
    target = write_recording(run, request.target, private, names, left_out)
    console = make_console("auto")
    if left_out:
        damaged = f"Damaged, and not in it: {', '.join(left_out)}"
        console.print(damaged)
    console.print(f"Recording: {target}")
    return ExitCode.COMPLETE
