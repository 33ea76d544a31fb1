"""`profiler plan`: the cells of an experiment, what is excluded and why, and what it will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.commands.output import write_json_target
from profiler.commands.selected_plan import selected_plan
from profiler.errors import ExitCode
from profiler.machine.environment import capability_of, find_gpu, resolved_architecture
from profiler.model import Plan
from profiler.planning.plan import foreseen_plan, plan_document
from profiler.planning.readiness import check_ready
from profiler.planning.space import space_of
from profiler.sessions.experiment_files import load_experiment
from profiler.sessions.progress import ProgressReporter, make_console

if TYPE_CHECKING:
    from profiler.sessions.forecasts.forecast import Forecast


@dataclass(frozen=True)
class PlanRequest:
    """Flags of `profiler plan`."""

    spec: Path
    out: Path
    """Where runs are written: the newest one says what is measured already."""
    overrides: tuple[str, ...] = ()
    only: str | None = None
    json_target: str | None = None
    color: str = "auto"


def show_plan(request: PlanRequest) -> ExitCode:
    """Print the plan with a forecast of each session, or write it as JSON."""
    from profiler.sessions.forecasts.forecast import first_command, forecast

    loaded = load_experiment(request.spec, overrides=request.overrides)
    gpu = find_gpu()
    space = replace(
        space_of(loaded),
        arch=resolved_architecture(loaded.experiment.build.arch),
        capability=None if gpu is None else gpu.compute_capability,
    )
    plan = selected_plan(loaded, space, request.only)
    notes = check_ready(loaded, plan, space, capability=capability_of(loaded.experiment.build.arch))
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=False)
    for note in notes:
        reporter.warn(note)
    foreseen = foreseen_plan(loaded.experiment, plan)
    forecasts = forecast(
        foreseen, loaded.experiment, request.out, None if gpu is None else gpu.name
    )
    with_sessions = replace(plan, sessions=foreseen.sessions)
    write_json_target(_plan_document(with_sessions, forecasts), request.json_target)
    if request.json_target != "-":
        command = first_command(foreseen, loaded.experiment)
        _print_plan(with_sessions, foreseen, forecasts, command, request.color)
    return ExitCode.COMPLETE


def _plan_document(plan: Plan, forecasts: Sequence[Forecast]) -> dict[str, Any]:
    document = plan_document(plan)
    for session, cost in zip(document["sessions"], forecasts, strict=True):
        session["measured"] = cost.measured
        session["expected_seconds"] = cost.seconds
    return document


def _print_plan(
    plan: Plan, foreseen: Plan, forecasts: Sequence[Forecast], command: str, color: str
) -> None:
    from profiler.render.console.plan import plan_table
    from profiler.sessions.forecasts.duration_words import duration_words
    from profiler.sessions.forecasts.forecast import further_seconds
    from profiler.sessions.launch_counts import after_first_look, launch_counts, launches_note

    console = make_console(color)
    console.print(plan_table(plan, launch_counts(foreseen), launches_note(foreseen)))
    for cost in forecasts:
        line = (
            f"{cost.session}: {cost.measured} of {cost.visits} visits measured, "
            f"about {duration_words(cost.seconds)} to go"
        )
        console.print(line, markup=False, soft_wrap=True)
    source = (
        "by the newest run on this GPU"
        if all(cost.by_earlier_run for cost in forecasts)
        else "roughly, on a GPU like an H200"
    )
    together = duration_words(sum(cost.seconds for cost in forecasts))
    further_s = further_seconds(after_first_look(foreseen), forecasts[0]) if forecasts else 0.0
    further = (
        f"; what is still open after that about {duration_words(further_s)} more, by the launches "
        "that are expected"
        if further_s
        else ""
    )
    console.print(f"In all about {together}, {source}{further}.", markup=False, soft_wrap=True)
    console.print(f"First command: {command}", markup=False, soft_wrap=True)
