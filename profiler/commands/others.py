"""The commands other than `run`: each prints one thing, or writes it as JSON.

What takes long to import (pandas, SciPy, matplotlib) is imported by the command that needs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from profiler.commands.output import (
    report_document,
    write_comparison,
    write_json_target,
    write_results,
)
from profiler.errors import EnvironmentUnusable, ExitCode, ParseError, UsageError
from profiler.findings.gates import Gate
from profiler.model import SCHEMA_VERSION, BuildResult, Plan, TunedConfig
from profiler.notices import Notice, remedy, severity, text
from profiler.planning.plan import make_plan, plan_document
from profiler.planning.space import space_of
from profiler.planning.spec import LoadedSpec, json_schema, load_spec
from profiler.run_folder.folder import (
    SPEC_FILE,
    RunFolder,
    RunRecord,
    create_run,
    require_folder,
    runs,
    write_atomic,
)
from profiler.run_folder.load.planned import is_recording, plan_of
from profiler.sessions.progress import Narrator, make_console

if TYPE_CHECKING:
    from rich.console import Console

    from profiler.importers.timelines import ImportedTimeline


def show_plan(  # noqa: PLR0913 - the flags of the command
    spec: Path,
    *,
    overrides: Sequence[str],
    only: str | None,
    json_target: str | None,
    out: Path,
    color: str,
) -> None:
    """`profiler plan`: cells, exclusions, sessions, and what they will cost."""
    from profiler.sessions.forecast import first_command, forecast

    loaded, plan = _plan(spec, overrides, only)
    expected = forecast(plan, loaded.experiment, out)
    document = plan_document(plan)
    for session, cost in zip(document["sessions"], expected, strict=True):
        session["measured"] = cost.measured
        session["expected_seconds"] = cost.seconds
    write_json_target(document, json_target)
    if json_target == "-":
        return
    from profiler.render.console.tables import plan_table

    console = make_console(color)
    console.print(plan_table(plan))
    for cost in expected:
        line = (
            f"{cost.session}: {cost.measured} of {cost.visits} visits measured, "
            f"about {cost.seconds / 60:.1f} min to go"
        )
        console.print(line, markup=False, soft_wrap=True)
    command = first_command(plan, loaded.experiment)
    console.print(f"First command: {command}", markup=False, soft_wrap=True)


def _plan(spec: Path, overrides: Sequence[str], only: str | None) -> tuple[LoadedSpec, Plan]:
    loaded = load_spec(spec, overrides=overrides)
    space = space_of(loaded)
    return loaded, make_plan(loaded, space, only=only)


def show_build(  # noqa: PLR0913 - the flags of the command
    spec: Path,
    *,
    overrides: Sequence[str],
    arch: str | None,
    only: str | None,
    out: Path,
    json_target: str | None,
    quiet: bool,
    color: str,
) -> ExitCode:
    """`profiler build`: compile and show the static facts; SOME_CELLS_FAILED where one fails."""
    from profiler.sessions.measure import build_plan

    asked = () if arch is None else (f"build.arch={arch}",)
    loaded, plan = _plan(spec, (*overrides, *asked), only)
    require_folder(out)
    space = space_of(loaded)
    narrator = Narrator.for_terminal(color=color, quiet=quiet)
    target = _architecture(loaded)
    narrator.say(f"Building {len(plan.variants)} variants for {target} …")
    builds = build_plan(
        loaded.experiment,
        plan.variants,
        space,
        arch=target,
        build_root=out.resolve() / ".build",
    )
    write_json_target(_build_document(plan, builds, target), json_target)
    if json_target != "-":
        from profiler.render.console.tables import build_table

        make_console(color).print(build_table(builds, plan.variants))
    failed = any(not build.ok for build in builds)
    return ExitCode.SOME_CELLS_FAILED if failed else ExitCode.COMPLETE


def _architecture(loaded: LoadedSpec) -> str:
    wanted = loaded.experiment.build.arch
    if wanted != "auto":
        return wanted
    from profiler.machine.environment import architecture_of, find_gpu

    gpu = find_gpu()
    found = None if gpu is None else architecture_of(gpu)
    if found is None:
        raise EnvironmentUnusable(
            "No GPU here whose architecture could be built for.", remedy="Pass --arch, e.g. sm_90."
        )
    return found


def _build_document(plan: Plan, builds: Sequence[BuildResult], arch: str) -> dict[str, object]:
    names = {variant.id: variant for variant in plan.variants}
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": plan.experiment,
        "arch": arch,
        "builds": [
            {
                "name": names[build.variant].name,
                "params": dict(names[build.variant].params),
                **asdict(build),
            }
            for build in builds
        ],
    }


def rebuild_report(folder: Path, *, out: Path, json_target: str | None, color: str) -> ExitCode:
    """`profiler report`: page, CSV and JSON again, from the raw files of a run.

    Those of a recording go to a new folder under `out`: a recording stays as it is.
    """
    from profiler.findings.find import find
    from profiler.run_folder.load.assemble import assemble

    run = RunFolder(folder)
    record = run.record()
    loaded = load_spec(folder / SPEC_FILE, overrides=record.overrides)
    replay = is_recording(run)
    finished = assemble(run, loaded, plan_of(run, loaded, record), replay=replay)
    target = folder
    if replay:
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        target = create_run(out, loaded.experiment.name, now).path
    findings = find(finished.report)
    page = write_results(findings, target)
    if json_target is not None:
        write_json_target(report_document(findings), json_target)
    if json_target != "-":
        from profiler.render.console.tables import final_summary

        console = make_console(color)
        console.print(final_summary(findings))
        console.print(f"Page: {page}", markup=False, soft_wrap=True)
    _say_notices(findings.notices, color)
    return finished.exit_code


def _say_notices(notices: Sequence[Notice], color: str) -> None:
    errors = make_console(color, stderr=True)
    for notice in notices:
        errors.print(f"{severity(notice).value}: {text(notice)}", markup=False, soft_wrap=True)


def compare_runs(  # noqa: PLR0913 - the flags of the command
    wanted: Sequence[str],
    *,
    only: str | None,
    baseline: str | None,
    gate: Gate | None,
    json_target: str | None,
    page: Path | None,
    write_page: bool,
    reports: Path,
    color: str,
) -> ExitCode:
    """`profiler compare`: table, page and JSON of two or more runs; GATE_TRIPPED where one does."""
    from profiler.comparison.document import comparison_document
    from profiler.comparison.joined import compare_sides
    from profiler.comparison.sides import find_runs, read_sides
    from profiler.findings.gates import not_judged, regressions, tripped_message
    from profiler.render.console.runs import comparison_tables

    sides = read_sides(find_runs(wanted, reports), baseline=baseline, only=only)
    comparison = compare_sides(sides)
    write_json_target(comparison_document(comparison, gate), json_target)
    console = make_console(color, stderr=json_target == "-")
    errors = make_console(color, stderr=True)
    if json_target != "-":
        console.print(comparison_tables(comparison))
    _say_notices(comparison.notices, color)
    if write_page:
        target = page or reports / "compare" / f"{'--'.join(side.name for side in sides)}.html"
        write_comparison(comparison, target)
        console.print(f"Page: {target}", markup=False, soft_wrap=True)
    if gate is None:
        return ExitCode.COMPLETE
    cells = comparison.judged
    found = regressions(cells, gate)
    said = tripped_message(found, gate) if len(found) else not_judged(cells, gate)
    if said:
        errors.print(said, style="yellow", markup=False, soft_wrap=True)
    return ExitCode.GATE_TRIPPED if len(found) else ExitCode.COMPLETE


def import_files(
    files: Sequence[Path], *, json_target: str | None, page: Path | None, color: str
) -> None:
    """`profiler import`: a table and a page of files that the user already has."""
    from profiler.importers.ncu_files import import_document, read_imports
    from profiler.importers.timelines import read_timelines
    from profiler.importers.tuning_logs import read_tuning_logs

    timelines = read_timelines(files)
    if timelines is not None:
        _import_timelines(timelines, files, json_target=json_target, page=page, color=color)
        return
    try:
        imported = read_imports(files)
    except ParseError:
        tuned = read_tuning_logs(files)
        if tuned is None:
            raise
        _import_tuning(tuned, files, json_target=json_target, page=page, color=color)
        return
    write_json_target(import_document(imported), json_target)
    if json_target == "-" and page is None:
        return
    from profiler.render.console.tables import import_table
    from profiler.render.import_page import render_import_page

    console = make_console(color, stderr=json_target == "-")
    if json_target != "-":
        console.print(import_table(imported.launches))
    for notice in imported.notices:
        line = f"{text(notice)} {remedy(notice)}".strip()
        make_console(color, stderr=True).print(line, markup=False, soft_wrap=True)
    names = [file.name for file in files]
    html = render_import_page(imported.launches, imported.notices, names)
    _write_import(html, files, page, console)


def _import_timelines(
    imported: Sequence[ImportedTimeline],
    files: Sequence[Path],
    *,
    json_target: str | None,
    page: Path | None,
    color: str,
) -> None:
    """Timelines, as tables and a page."""
    from profiler.importers.timelines import timelines_document
    from profiler.render.import_timeline import (
        render_timelines_page,
        timeline_part,
        timelines_console,
    )

    write_json_target(timelines_document(imported), json_target)
    if json_target == "-" and page is None:
        return
    parts = [timeline_part(each.file, each.recorded_by, each.overview) for each in imported]
    console = make_console(color, stderr=json_target == "-")
    if json_target != "-":
        console.print(timelines_console(parts))
    html = render_timelines_page(parts, [each.timeline for each in imported])
    _write_import(html, files, page, console)


def _import_tuning(
    tuned: Sequence[TunedConfig],
    files: Sequence[Path],
    *,
    json_target: str | None,
    page: Path | None,
    color: str,
) -> None:
    """What inductor's autotuner tried, as a table and a page."""
    from profiler.importers.tuning_logs import tuning_document
    from profiler.render.tuning_page import console_tables, render_tuning_page

    write_json_target(tuning_document(tuned), json_target)
    if json_target == "-" and page is None:
        return
    console = make_console(color, stderr=json_target == "-")
    if json_target != "-":
        for table in console_tables(tuned):
            console.print(table)
    html = render_tuning_page(tuned, [file.name for file in files])
    _write_import(html, files, page, console)


def _write_import(html: str, files: Sequence[Path], page: Path | None, console: Console) -> None:
    """Write a page; by default in the current folder: that of the files may be somebody else's."""
    target = page or Path(files[0].name.removesuffix(".gz")).with_suffix(".html")
    try:
        write_atomic(target, html)
    except OSError as error:
        raise UsageError(
            f"{target}: the page cannot be written: {error.strerror}",
            remedy="Choose another path with --out.",
        ) from error
    console.print(f"Page: {target}", markup=False, soft_wrap=True)


def show_doctor(*, json_target: str | None, color: str) -> ExitCode:
    """`profiler doctor`: everything that a run needs."""
    from profiler.machine.doctor import essential_missing, examine

    checks = examine()
    document = {"schema_version": SCHEMA_VERSION, "checks": [asdict(check) for check in checks]}
    write_json_target(document, json_target)
    if json_target != "-":
        from profiler.render.console.tables import doctor_table

        make_console(color).print(doctor_table(checks))
    return ExitCode.ENVIRONMENT if essential_missing(checks) else ExitCode.COMPLETE


def list_runs(out: Path, *, json_target: str | None, color: str) -> None:
    """`profiler list`: the runs under a folder, oldest first."""
    found = [(run, record) for run in runs(out) if (record := _record(run)) is not None]
    rows = [
        {
            "run": str(run.path),
            "experiment": record.experiment,
            "created": record.created,
            "gpu": record.environment.gpu,
            "cells": len(record.keys),
        }
        for run, record in found
    ]
    write_json_target({"schema_version": SCHEMA_VERSION, "runs": rows}, json_target)
    if json_target != "-":
        from profiler.render.console.tables import runs_table

        make_console(color).print(runs_table(rows))


def _record(run: RunFolder) -> RunRecord | None:
    """Record of a run; one that cannot be read is named, and hides no other."""
    try:
        return run.record()
    except UsageError as error:
        sys.stderr.write(f"profiler: left out: {error}\n")
        return None


def make_recording(folder: Path, target: Path) -> None:
    """`profiler record`: what a replay needs, without what is private to this machine."""
    from profiler.run_folder.recording import write_recording
    from profiler.run_folder.redact import private_texts

    run = RunFolder(folder)
    run.record()
    if target.exists() and not (target / "run.json").exists():
        raise UsageError(f"{target} exists and is not a recording")
    write_recording(run, target, private_texts(folder))
    make_console("auto").print(f"Recording: {target}", markup=False, soft_wrap=True)


def show_schema() -> None:
    """`profiler schema`: the JSON Schema of the experiment file."""
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
