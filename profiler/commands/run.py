"""The whole story of a run, top to bottom."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from profiler import notices
from profiler.commands.output import report_document, write_json_target, write_results
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.findings.document import judged_table
from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.findings.gates import Gate, not_judged, regressions, tripped_message
from profiler.machine.requirements import Machine, find_machine
from profiler.model import Outcome, Plan
from profiler.notices import Notice, NoticeKind
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import LoadedSpec, load_spec
from profiler.render.console.tables import final_summary
from profiler.run_folder.folder import RunFolder, create_run, require_folder
from profiler.run_folder.load.assemble import Finished, assemble, tool_words
from profiler.run_folder.recording import find_recording
from profiler.sessions.measure import Live, Stopwatch, measure
from profiler.sessions.progress import Narrator

_SHOWN_SETTINGS = ("collect.metrics",)
"""Settings under `collect` that also say what a page shows."""


@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    spec: Path
    out: Path
    overrides: tuple[str, ...] = ()
    only: str | None = None
    fresh: bool = False
    live: bool = False
    """Refuse to replay."""
    replay: Path | None = None
    page: bool = True
    gate: Gate | None = None
    """When the finished run fails (exit code 5)."""
    timeline: bool = False
    """Whether the finalists get a timeline by nsys."""
    created: str = field(
        default_factory=lambda: datetime.now().astimezone().isoformat(timespec="seconds")
    )


def run_experiment(request: Request, narrator: Narrator, *, json_target: str | None) -> ExitCode:
    """Spec → plan → build → sessions → samples → summary → page; returns the exit code."""
    watch, started = Stopwatch(), time.monotonic()
    loaded = load_spec(request.spec, overrides=request.overrides)
    space = space_of(loaded)
    plan = make_plan(loaded, space, only=request.only)
    require_folder(request.out)
    source = _machine_or_recording(request, loaded, narrator)
    if isinstance(source, Machine):
        live = Live(
            loaded,
            plan,
            space,
            source,
            request.out.resolve(),
            request.fresh,
            request.created,
            request.timeline,
        )
        run = measure(live, narrator, watch)
        finished = assemble(run, loaded, plan)
        folder = run.path
    else:
        finished = _replayed(request, source)
        folder = create_run(request.out, loaded.experiment.name, request.created).path
    findings = find(finished.report)
    page = write_results(findings, folder, page=request.page)
    _tell(findings, page, narrator, json_target)
    narrator.say(_time_line(watch, time.monotonic() - started, live=isinstance(source, Machine)))
    if _passes(findings, request.gate, narrator):
        return finished.exit_code
    return ExitCode.GATE_TRIPPED


def _replayed(request: Request, source: Path) -> Finished:
    """Read a recording; settings of a measurement do nothing there, and it says so."""
    ignored = tuple(one for one in request.overrides if _only_measures(one))
    kept = tuple(one for one in request.overrides if one not in ignored)
    loaded = load_spec(request.spec, overrides=kept)
    plan = make_plan(loaded, space_of(loaded), only=request.only)
    finished = assemble(RunFolder(source), loaded, plan, replay=True)
    if all(one.outcome is Outcome.NOT_MEASURED for one in finished.report.statuses.values()):
        raise UsageError(
            f"The recording has none of these {len(plan.cells)} cells.",
            remedy=f"{_recorded_words(RunFolder(source), plan)} Or measure on a machine with an "
            "NVIDIA GPU and ncu.",
        )
    if not ignored:
        return finished
    notice = Notice(NoticeKind.REPLAY_IGNORES, {"settings": ", ".join(ignored)})
    report = replace(finished.report, notices=(*finished.report.notices, notice))
    return replace(finished, report=report)


def _recorded_words(run: RunFolder, plan: Plan) -> str:
    """What else a recording has, in a line: `--only cell=ID` takes such an id."""
    keys = run.record().keys
    asked = {cell.id for cell in plan.cells}
    others = [cell for cell in keys if cell not in asked]
    if others:
        return f"It has {len(others)} others, such as {others[0]}: choose of those with --only."
    return "Its measurements cannot be read: take another copy of it." if keys else "It is empty."


def _only_measures(override: str) -> bool:
    """Whether a `key=value` changes how it is measured, and nothing of how that is shown."""
    key = override.partition("=")[0].strip()
    return key == "collect" or (key.startswith("collect.") and key not in _SHOWN_SETTINGS)


def _passes(findings: Findings, gate: Gate | None, narrator: Narrator) -> bool:
    """Whether no cell trips the gate; says which do, and what could not be judged."""
    if gate is None:
        return True
    cells = judged_table(findings)
    found = regressions(cells, gate)
    if len(found):
        narrator.warn(tripped_message(found, gate))
    elif words := not_judged(cells, gate):
        narrator.warn(words)
    return found.empty


def _time_line(watch: Stopwatch, total_s: float, *, live: bool) -> str:
    """Where the seconds of this execution went: inside sessions (tool, runner, kernels) or not."""
    if not live:
        return f"{total_s:.1f} s."
    build_s = watch.stages.get("build", 0.0)
    sessions = {name: s for name, s in watch.stages.items() if name != "build"}
    inside_s = sum(sessions.values())
    parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in sessions.items())
    return (
        f"{total_s:.1f} s: {inside_s:.1f} s inside sessions ({parts}), "
        f"{total_s - inside_s:.1f} s outside (build {build_s:.1f})."
    )


def _machine_or_recording(
    request: Request, loaded: LoadedSpec, narrator: Narrator
) -> Machine | Path:
    """Give this machine, if it can do the experiment; else a recording, which is said first."""
    if request.replay is not None:
        if request.timeline:
            raise UsageError("--timeline records and --replay does not: leave one of them out.")
        return _recording(request.replay, narrator)
    try:
        return find_machine(loaded.experiment, loaded.base, timeline=request.timeline)
    except EnvironmentUnusable as problem:
        recording = find_recording(loaded.path, loaded.experiment.name)
        # Who asks for a timeline wants to record, and would not be helped by other people's.
        if request.live or request.timeline or recording is None:
            raise
        narrator.warn(f"Cannot measure here: {problem.message}")
        return _recording(recording, narrator)


def _recording(folder: Path, narrator: Narrator) -> Path:
    record = RunFolder(folder).record()
    environment = record.environment
    tool = tool_words(environment)
    narrator.warn(
        f"Replaying a recording: measured on {environment.gpu or environment.cpu} "
        f"at {record.created} with {tool}, not on this machine."
    )
    return folder


def _tell(
    findings: Findings, page: Path | None, narrator: Narrator, json_target: str | None
) -> None:
    if json_target is not None:  # a document of timelines takes seconds
        write_json_target(report_document(findings), json_target)
    if json_target != "-":
        narrator.results.print(final_summary(findings))
    for notice in findings.notices:
        narrator.say(f"{notices.severity(notice).value}: {notices.text(notice)}")
    if page is not None:
        (narrator.progress if json_target == "-" else narrator.results).print(
            f"Page: {page}", markup=False, soft_wrap=True
        )
