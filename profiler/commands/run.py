"""`profiler run`: build, check and measure every variant, and write the page.

What brings pandas, SciPy or matplotlib is imported by the functions that need it: the process of
the first session is started before, and loads torch meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.commands.imports import import_ahead, kept_from_collector, measuring_imported
from profiler.commands.output import (
    notice_lines,
    show_page,
    write_json_target,
    write_markdown_target,
    write_results,
)
from profiler.commands.plan import selected_plan
from profiler.commands.requests import RunRequest, given_flags
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.findings.gates import (
    MOST_NAMED,
    Bound,
    Gate,
    beyond_bound,
    gated_cells,
    gated_values,
    metric_of,
    nearest_to_bound,
    not_judged,
    parse_run_gate,
    regressions,
    require_known_metric,
    tripped_message,
)
from profiler.machine.requirements import Machine, find_machine
from profiler.model import Cell, Outcome, Plan, Span
from profiler.notices import Notice, NoticeKind, counted, remedy, text
from profiler.planning.plan import judged_plan
from profiler.planning.readiness import check_ready, cpu_notice
from profiler.planning.session_plans import NCU, sessions_differ_on
from profiler.planning.space import Space, space_of
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.archive import find_run, open_run
from profiler.run_folder.folder import SEARCH_JOURNAL_FILE, RunFolder
from profiler.run_folder.runs import create_run, find_recording, require_folder
from profiler.run_folder.seconds import seconds_line
from profiler.sessions.early import EarlyStart, started_early
from profiler.sessions.execution import Budget, Execution, SecondsRecorder
from profiler.sessions.experiment_files import load_experiment
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from profiler.findings.cell_numbers import Value
    from profiler.findings.findings import Findings
    from profiler.run_folder.load.report import Report

_SHOWN_SETTINGS = ("collect.metrics",)
"""Settings under `collect` that also change a page."""
_MEASURES_ANEW = {
    "live": "--live",
    "fresh": "--fresh",
    "timeline": "--timeline",
    "budget_s": "--budget",
    "workers": "--workers",
}
"""Flag by the attribute of a request that a replay has no use for."""


@dataclass(frozen=True, eq=False)
class PlannedExperiment:
    """A requested experiment with its space and plan."""

    loaded: LoadedSpec
    space: Space
    plan: Plan


@dataclass(frozen=True, eq=False)
class WrittenRun:
    """Findings of a run or replay, and the paths they were written to."""

    findings: Findings
    folder: Path
    document: Mapping[str, Any]
    """The content of its summary.json."""
    page: Path | None
    spans: tuple[Span, ...]
    """Spans of this execution; empty for a replay."""
    exit_code: ExitCode
    left_out: tuple[str, ...] = ()
    """Steps that `--budget` had no time for."""


def run_command(request: RunRequest) -> ExitCode:
    """Run an experiment with its progress on this process's own streams."""
    return run_experiment(request, terminal_reporter(request))


def terminal_reporter(request: RunRequest) -> ProgressReporter:
    """Reporter of a run's progress on this process's own streams."""
    return ProgressReporter.for_terminal(
        color=request.color, quiet=request.quiet, verbose=request.verbose
    )


def run_experiment(request: RunRequest, reporter: ProgressReporter) -> ExitCode:
    """Plan, measure or replay, write the page, print the answer; returns the exit code."""
    started = time.monotonic()
    gate = checked_gate(request)
    run = written_run(request, reporter, gate)
    print_results(run, request, reporter)
    if run.left_out:
        reporter.warn(f"--budget {request.budget_s:g}: {left_out_words(run.left_out)}")
    reporter.say(seconds_line(run.spans, time.monotonic() - started))
    return gated_exit_code(run.exit_code, run.findings, gate, reporter)


def checked_gate(request: RunRequest) -> Gate | Bound | None:
    """The gate of `--fail-on`, or None; raises UsageError for flags that contradict each other."""
    gate = None if request.fail_on is None else parse_run_gate(request.fail_on)
    if request.open_page and request.no_report:
        raise UsageError("--open shows the page that --no-report leaves out: give one of them.")
    if request.explain and request.no_explain:
        raise UsageError(
            "--explain and --no-explain contradict each other.",
            remedy="Leave out --explain or --no-explain.",
        )
    if request.replay is not None and (flags := given_flags(request, _MEASURES_ANEW)):
        raise UsageError(f"{flags[0]} measures and --replay does not: leave one of them out.")
    if request.workers is not None and request.budget_s is not None:
        raise UsageError("--budget: only without --workers.", remedy="Leave out --budget.")
    if request.workers is None and request.mixed:
        raise UsageError("--mixed: only with --workers.")
    if request.no_dashboard and not str(request.workers).startswith("local:"):
        raise UsageError(
            "--no-dashboard: only with --workers local:N.",
            remedy="Elsewhere it is a flag of `dask scheduler`, and of `profiler worker`.",
        )
    if request.workers is None and any(request.tls):
        raise UsageError("--tls-ca, --tls-cert and --tls-key: only with --workers.")
    return gate


def written_run(
    request: RunRequest, reporter: ProgressReporter, gate: Gate | Bound | None = None
) -> WrittenRun:
    """Plan, measure or replay, and write the findings, without printing them."""
    if request.budget_s is not None:
        request = replace(request, budget=Budget(request.budget_s))
    seconds = SecondsRecorder()
    planned = plan_run(request, gate, seconds)
    source = _machine_or_recording(request, planned.loaded, reporter)
    if isinstance(source, Machine):
        planned = planned_for(request, planned, source)
        report, folder = _measure(request, planned, source, reporter, seconds)
        return write_run(request, report, folder, reporter, seconds)
    report, folder = _replay(request, source)
    return write_run(request, report, folder, reporter, None)


def plan_run(
    request: RunRequest, gate: Gate | Bound | None, seconds: SecondsRecorder
) -> PlannedExperiment:
    """The planned experiment; raises UsageError for what it cannot measure, explain or write."""
    with seconds.step("plans"):
        planned = plan_experiment(request, request.overrides)
    if isinstance(gate, Bound):
        asked = planned.loaded.experiment.collect.metrics
        require_known_metric(gate, (m if isinstance(m, str) else m.name for m in asked))
    require_explainable(request, planned)
    require_folder(request.out)
    return planned


def left_out_words(steps: Sequence[str]) -> str:
    """Sentence on the steps that there was no time for."""
    return f"left out: {', '.join(steps)}. The same command without a budget goes on."


def write_run(
    request: RunRequest,
    report: Report,
    folder: Path,
    reporter: ProgressReporter,
    seconds: SecondsRecorder | None,
) -> WrittenRun:
    """Write the findings, and where the seconds of a measuring run went."""
    from profiler.commands.answers import keep_answers
    from profiler.commands.index import write_index
    from profiler.findings.find import find

    recorder = SecondsRecorder() if seconds is None else seconds
    with recorder.step("finds and draws"), kept_from_collector():
        findings = find(report)
        document, page = write_results(findings, folder, page=not request.no_report)
    if seconds is not None:
        run = RunFolder(folder)  # the seconds after its sessions are in no file yet
        run.write_seconds(run.seconds()[:-1], seconds.spans)
        keep_answers(request.out, folder, document, reporter.warn)
    write_index(request.out, reporter.warn, {folder: document})
    return WrittenRun(
        findings=findings,
        folder=folder,
        document=document,
        page=page,
        spans=() if seconds is None else tuple(seconds.spans),
        exit_code=report.exit_code,
        left_out=() if request.budget is None else tuple(dict.fromkeys(request.budget.left_out)),
    )


def plan_experiment(request: RunRequest, overrides: tuple[str, ...]) -> PlannedExperiment:
    """The requested experiment, planned without a machine."""
    # A file of Python is imported by a process of its own, which takes seconds where torch is.
    importing = measuring_imported() if ".py" in request.spec.name else nullcontext()
    with importing:
        loaded = load_experiment(request.spec, overrides=overrides, candidate=request.referee)
    space = space_of(loaded)
    return PlannedExperiment(loaded, space, selected_plan(loaded, space, request.only))


def planned_for(
    request: RunRequest, planned: PlannedExperiment, machine: Machine
) -> PlannedExperiment:
    """The plan for this GPU: its sessions, without variants whose kernels need another GPU."""
    arch = machine.resolved_architecture(planned.loaded.experiment.build.arch)
    capability = machine.environment.compute_capability
    space = replace(planned.space, arch=arch, capability=capability)
    plan = planned.plan
    fits = all(space.check_variant(variant.params) is None for variant in plan.variants)
    if fits and not sessions_differ_on(plan, capability):
        return replace(planned, plan=replace(plan, capability=capability))
    plan = selected_plan(planned.loaded, space, request.only)
    return replace(planned, space=space, plan=plan)


# ---- this machine, or a recording ----------------------------------------------------------------


def _machine_or_recording(
    request: RunRequest, loaded: LoadedSpec, reporter: ProgressReporter
) -> Machine | RunFolder:
    """The local machine if it can measure the experiment; else a recording."""
    if request.replay is not None:
        recording = open_run(find_run(str(request.replay), request.out))
        _warn_of_replay(recording, reporter)
        return recording
    try:
        machine = find_machine(
            loaded.experiment, loaded.base, timeline=request.timeline, inquiry=request.inquiry
        )
    except EnvironmentUnusable as problem:
        beside = find_recording(loaded.path, loaded.experiment.name)
        # A request for a timeline wants a recording of its own, not other people's.
        if request.live or request.timeline or beside is None:
            problem.remedy = _with_replay(problem.remedy, request, beside)
            raise
        reporter.warn(f"Cannot measure here: {problem.message}")
        recording = open_run(beside)
        _warn_of_replay(recording, reporter)
        return recording
    if on_cpu := cpu_notice(loaded.experiment, machine.environment):
        reporter.warn(f"{text(on_cpu)} {remedy(on_cpu)}")
    return machine


def _with_replay(remedy: str | None, request: RunRequest, recording: Path | None) -> str | None:
    """Remedy that also names the given flags which rule out a recording."""
    opposed = [f for f, on in (("--live", request.live), ("--timeline", request.timeline)) if on]
    if recording is None or not opposed:
        return remedy
    return f"{remedy or ''} Or leave out {' and '.join(opposed)} to replay the recording.".strip()


def _warn_of_replay(run: RunFolder, reporter: ProgressReporter) -> None:
    """Warn that the following numbers are of another machine."""
    from profiler.run_folder.load.assemble import tool_words

    record = run.record()
    environment = record.environment
    reporter.warn(
        f"Replaying a recording: measured on {environment.processor} "
        f"at {record.created} with {tool_words(environment, run.plan())}, not on this machine."
    )


# ---- measuring -----------------------------------------------------------------------------------


def _measure(
    request: RunRequest,
    planned: PlannedExperiment,
    machine: Machine,
    reporter: ProgressReporter,
    seconds: SecondsRecorder,
) -> tuple[Report, Path]:
    """Build and measure missing visits, and read the run folder."""
    warn_unready(planned, machine, reporter)
    execution = Execution(
        loaded=planned.loaded,
        plan=planned.plan,
        space=planned.space,
        machine=machine,
        out=request.out.resolve(),
        fresh=request.fresh,
        created=request.created,
        seconds=seconds,
    )
    with started_early(execution, request.preloading) as early:
        return _measure_beside(early, request, execution, reporter)


def warn_unready(planned: PlannedExperiment, machine: Machine, reporter: ProgressReporter) -> None:
    """Print the notes of `plan` on a machine; raises SpecError for an experiment it cannot run."""
    capability = machine.environment.compute_capability
    for note in check_ready(planned.loaded, planned.plan, planned.space, capability=capability):
        reporter.warn(note)


def _measure_beside(
    early: EarlyStart | None, request: RunRequest, execution: Execution, reporter: ProgressReporter
) -> tuple[Report, Path]:
    """Build and measure while the early process of the first session, if any, loads."""
    from profiler.sessions.builds.plan_builds import build_all

    search = execution.plan.search
    with measuring_imported(None if early is None else early.run) as reader:
        builds = () if search else build_all(execution, reporter)
    from profiler.run_folder.load.assemble import assemble
    from profiler.sessions.measure import MeasureRequest, measure

    to_measure = MeasureRequest(
        **vars(execution),
        timeline=request.timeline,
        explain=request.explain,
        meanwhile=partial(import_ahead, page=not request.no_report),
        early=early,
        budget=request.budget,
        reader=reader.result(),
    )
    if search:
        # Loads SciPy's optimisers, which other runs do not need.
        from profiler.sessions.search.loop import measure_searched

        run = measure_searched(to_measure, search, reporter)
    else:
        run = measure(to_measure, builds, reporter)
    # Which variants a search leaves to be measured is known only now.
    plan = run.plan() if search else execution.plan
    with execution.seconds.step("reads the run"):
        report = assemble(run, execution.loaded, plan, reader=to_measure.reader)
    return report, run.path


def require_explainable(request: RunRequest, planned: PlannedExperiment) -> None:
    """Raise UsageError where `--explain` names an unknown cell, or ncu reads no counters."""
    if request.explain is None:
        return
    from profiler.sessions.explain_cells import asked_cells

    asked_cells(planned.plan, request.explain)
    if not planned.loaded.experiment.collect.reads_counters:
        raise UsageError(
            f"--explain counts under {NCU}, and no collector of collect.collectors counts.",
            remedy="Leave out --explain, or --timer.",
        )


# ---- replaying -----------------------------------------------------------------------------------


def _replay(request: RunRequest, recording: RunFolder) -> tuple[Report, Path]:
    """Report of a recording, and a new folder for results; measuring settings are ignored."""
    ignored = tuple(override for override in request.overrides if _only_measures(override))
    kept_overrides = tuple(override for override in request.overrides if override not in ignored)
    from profiler.run_folder.load.assemble import assemble

    planned = plan_experiment(request, kept_overrides)
    if planned.plan.search is not None:
        planned = replace(planned, plan=_recorded_plan(planned, recording))
    plan, notices = _recorded_part(planned.plan, recording)
    report = assemble(recording, planned.loaded, plan, replay=True)
    _require_measured(report, recording, plan)
    if ignored:
        notices = (*notices, Notice(NoticeKind.REPLAY_IGNORES, {"settings": ", ".join(ignored)}))
    report = replace(report, notices=(*report.notices, *notices))
    folder = create_run(request.out, planned.loaded.experiment.name, request.created)
    return report, folder.path


def _recorded_part(plan: Plan, recording: RunFolder) -> tuple[Plan, tuple[Notice, ...]]:
    """Plan of the cells that a recording has, and a notice on the number that it lacks.

    Counts of cells and problems are then those of the run. The whole plan where none are in it.
    """
    recorded = {cell.id for cell in recording.plan().cells}
    cells = tuple(cell for cell in plan.cells if cell.id in recorded)
    if len(cells) in (0, len(plan.cells)):
        return plan, ()
    counts = {"count": len(plan.cells) - len(cells), "total": len(plan.cells)}
    return replace(plan, cells=cells), (Notice(NoticeKind.NOT_RECORDED, counts),)


def _recorded_plan(planned: PlannedExperiment, recording: RunFolder) -> Plan:
    """Plan of the cells that the search of a recording left to be measured."""
    from profiler.search.journal import read_search

    search = read_search(recording.path / SEARCH_JOURNAL_FILE)
    finished = None if search is None else search.finished
    if finished is None:
        raise UsageError(
            f"{recording.given_path}: holds no finished search.",
            remedy="`profiler report` shows what it measured.",
        )
    return judged_plan(planned.loaded.experiment, planned.plan, finished.finalists)


def _only_measures(override: str) -> bool:
    """Whether a `key=value` changes only how an experiment is measured, not how it is shown."""
    key = override.partition("=")[0].strip()
    return key == "collect" or (key.startswith("collect.") and key not in _SHOWN_SETTINGS)


def _require_measured(report: Report, recording: RunFolder, plan: Plan) -> None:
    """Raise UsageError where a recording has none of the cells of a plan."""
    statuses = report.statuses.values()
    if any(status.outcome is not Outcome.NOT_MEASURED for status in statuses):
        return
    raise UsageError(
        f"The recording has none of these {len(plan.cells)} cells.",
        remedy=f"{_recorded_cells(recording, plan)} Or measure on a machine with an "
        "NVIDIA GPU and ncu.",
    )


def _recorded_cells(recording: RunFolder, plan: Plan) -> str:
    """Sentence that names another cell of a recording: `--only cell=ID` takes such an id."""
    keys = recording.record().keys
    planned_cells = {cell.id for cell in plan.cells}
    extra = [cell for cell in keys if cell not in planned_cells]
    if extra:
        return (
            f"It has {len(extra)} others, such as {extra[0]}; --only selects them where the "
            "experiment has them."
        )
    return "Its measurements cannot be read: take another copy of it." if keys else "It is empty."


# ---- the answer ----------------------------------------------------------------------------------


def print_results(run: WrittenRun, request: RunRequest, reporter: ProgressReporter) -> None:
    """Print the summary and the notices; then write the requested files, or to stdout."""
    findings = run.findings
    to_stdout = "-" in (request.json_target, request.markdown_target)
    if not to_stdout:
        from profiler.render.console.tables import final_summary

        reporter.results.print(final_summary(findings, verbose=reporter.verbose))
    for line in notice_lines(findings.notices, verbose=reporter.verbose):
        reporter.say(line)
    console = reporter.progress if to_stdout else reporter.results
    show_page(run.page, console, opens=request.open_page)
    write_markdown_target(findings, request.markdown_target)
    write_json_target(run.document, request.json_target)


def _bounded_exit_code(
    measured: ExitCode, findings: Findings, bound: Bound, reporter: ProgressReporter
) -> ExitCode:
    """GATE_TRIPPED, with a warning, where a number is beyond a bound; else the nearest is named.

    So that a bound in another unit than the metric's is seen, which no number ever reaches.
    """
    from profiler.render.words import numbers

    label = metric_of(findings, bound)
    values = gated_values(findings, label)

    def shown(cell: Cell, value: Value) -> str:
        interval = numbers.interval(value.low, value.high, label.unit)
        return f"{cell.id}: {numbers.show(value.median, label.unit)} {interval}".rstrip()

    if cells_beyond := beyond_bound(values, label, bound):
        lines = [f"  {shown(*of_cell)}" for of_cell in cells_beyond[:MOST_NAMED]]
        reporter.warn("\n".join([f"--fail-on {bound}: beyond it:", *lines]))
        return ExitCode.GATE_TRIPPED
    missing = len(gated_cells(findings)) - len(values)
    if missing:
        cells = counted(missing, "cell has", "cells have")
        reporter.warn(f"--fail-on {bound}: {cells} no {label.name}, and nothing was judged there.")
    if nearest := nearest_to_bound(values, bound):
        reporter.say(f"--fail-on {bound}: no cell is beyond it; nearest {shown(*nearest)}")
    return measured


def gated_exit_code(
    measured: ExitCode, findings: Findings, gate: Gate | Bound | None, reporter: ProgressReporter
) -> ExitCode:
    """GATE_TRIPPED, with a warning, where a cell trips the gate; else the findings' exit code."""
    if gate is None:
        return measured
    if isinstance(gate, Bound):
        return _bounded_exit_code(measured, findings, gate, reporter)
    from profiler.findings.document import judged_table

    cells = judged_table(findings.verdicts)
    cells = cells[cells["cell"].isin({cell.id for cell in gated_cells(findings)})]
    slower = regressions(cells, gate)
    if len(slower):
        reporter.warn(tripped_message(slower, gate))
        return ExitCode.GATE_TRIPPED
    if message := not_judged(cells, gate):
        reporter.warn(message)
    return measured
