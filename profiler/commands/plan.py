"""`profiler plan` and `profiler build`: the visits and cost of a run, and its compiled variants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiler.commands.output import write_json_target
from profiler.commands.requests import BuildRequest, PlanRequest
from profiler.errors import EnvironmentUnusable, ExitCode
from profiler.machine.console import make_console
from profiler.machine.environment import (
    Gpu,
    capability_of,
    find_gpu,
    resolved_architecture,
)
from profiler.machine.requirements import ARCHITECTURE_WITHOUT_GPU
from profiler.model import SCHEMA_VERSION, BuildResult, Plan, SearchPlan
from profiler.notices import counted, remedy, text
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.planning.plan import foreseen_plan, make_plan, plan_document
from profiler.planning.readiness import check_ready, unchecked_notice
from profiler.planning.space import Space, space_of
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.runs import newest_run, require_folder
from profiler.sessions.execution import build_root
from profiler.sessions.experiment_files import load_experiment
from profiler.sessions.progress import ProgressReporter

if TYPE_CHECKING:
    from profiler.sessions.forecasts.forecast import (
        EarlierSearch,
        EarlierVisits,
        Forecast,
        RunForecast,
    )


def show_plan(request: PlanRequest) -> ExitCode:
    """Print the plan with a forecast of each session, or write it as JSON."""
    from profiler.sessions.forecasts.forecast import first_command, run_forecast

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
    unchecked = unchecked_notice(loaded.experiment)
    for note in (*notes, *([f"{text(unchecked)} {remedy(unchecked)}"] if unchecked else ())):
        reporter.warn(note)
    earlier = _earlier_visits(request.out, loaded, plan, space, gpu)
    run_cost = run_forecast(loaded, earlier, request.out, None if gpu is None else gpu.name)
    with_sessions = replace(plan, sessions=earlier.plan.sessions)
    write_json_target(_plan_document(with_sessions, run_cost, earlier.search), request.json_target)
    if request.json_target != "-":
        command = first_command(earlier.plan, loaded.experiment)
        _print_plan(with_sessions, earlier, run_cost, command, request.color)
    return ExitCode.COMPLETE


def _earlier_visits(
    out: Path, loaded: LoadedSpec, plan: Plan, space: Space, gpu: Gpu | None
) -> EarlierVisits:
    """Visits of a plan that the newest run under `out` holds."""
    from profiler.sessions.forecasts.forecast import EarlierVisits

    experiment = loaded.experiment
    newest = newest_run(out, experiment.name)
    if newest is None:
        return EarlierVisits(foreseen_plan(experiment, plan))
    # Here, because it brings pandas.
    from profiler.sessions.execution import Execution
    from profiler.sessions.forecasts.earlier_visits import earlier_visits, likely_machine

    run, record = newest
    machine = likely_machine(experiment, run, gpu)
    execution = Execution(loaded, plan, space, machine, out, fresh=False, created=record.created)
    return earlier_visits(execution)


def _plan_document(
    plan: Plan, run_cost: RunForecast, search: EarlierSearch | None
) -> dict[str, Any]:
    document = plan_document(plan)
    if document["search"] is not None:
        document["search"]["evaluated"] = 0 if search is None else search.evaluations
        document["search"]["finished"] = search is not None and search.finalists is not None
    document["expected_seconds"] = run_cost.seconds if run_cost.is_known else None
    for session, cost in zip(document["sessions"], run_cost.sessions, strict=True):
        session["measured"] = len(cost.held.measured)
        session["left_out"] = len(cost.held.left_out)
        session["why_again"] = cost.held.why_again
        session["expected_seconds"] = cost.seconds if run_cost.is_known else None
    return document


def _print_plan(
    plan: Plan, earlier: EarlierVisits, run_cost: RunForecast, command: str, color: str
) -> None:
    from profiler.render.console.lists import plan_table
    from profiler.sessions.forecasts.launch_counts import launch_counts, launches_note

    console = make_console(color)
    measured = earlier.plan
    has_finalists = earlier.search is not None and earlier.search.finalists is not None
    table = plan_table(
        plan, launch_counts(measured), launches_note(measured), has_finalists=has_finalists
    )
    console.print(table)
    if plan.search is not None:
        console.print(_search_line(plan.search, earlier.search))
    for cost in run_cost.sessions:
        console.print(_session_line(cost, is_known=run_cost.is_known))
    beside = ", without the search" if plan.search is not None and not has_finalists else ""
    if not run_cost.is_known:
        console.print("How long a run takes on the CPU is known from its first one on.")
    elif run_cost.seconds:
        console.print(_whole_line(run_cost, beside))
    console.print(f"First command: {command}")


def _whole_line(run_cost: RunForecast, beside: str) -> str:
    """Line on the expected seconds of a whole run; `beside`: words for parts not counted."""
    from profiler.sessions.progress import duration_words

    parts = []
    if run_cost.further_s:
        parts.append(f"{duration_words(run_cost.further_s)} for what the first look leaves open")
    if run_cost.explained:
        parts.append(
            f"{duration_words(run_cost.explain_s)} for explaining "
            f"{counted(run_cost.explained, 'cell')}"
        )
    parts_text = f", of it about {' and '.join(parts)}" if parts else ""
    source = (
        "by the newest run on such a machine"
        if all(cost.by_earlier_run for cost in run_cost.sessions)
        else "roughly, on a GPU like an H200"
    )
    return f"In all about {duration_words(run_cost.seconds)}{beside}, {source}{parts_text}."


def _session_line(cost: Forecast, *, is_known: bool) -> str:
    """Line on the measured visits of a session, and the expected seconds of the rest if known."""
    from profiler.sessions.progress import duration_words

    held = cost.held
    reason = f" ({held.why_again})" if held.why_again else ""
    left_out = (
        f", {len(held.left_out)} left out (failed, or the same program as another)"
        if held.left_out
        else ""
    )
    rest = f"about {duration_words(cost.seconds)}" if is_known else str(cost.remaining)
    return (
        f"{cost.session}: {len(held.measured)} of {cost.visits} visits measured{reason}{left_out}, "
        f"{rest if cost.seconds else 'nothing'} to go"
    )


def _search_line(plan: SearchPlan, search: EarlierSearch | None) -> str:
    """Line on the progress of a search."""
    budget = f"{plan.evaluations} evaluations" if plan.evaluations else f"{plan.seconds:g} s"
    if search is None:
        return f"search: {budget} to go"
    if search.restarts:
        return f"search: {budget} to go (what it depends on was changed since the newest run)"
    if search.finalists is None:
        return f"search: {search.evaluations} evaluations made, of {budget}"
    return (
        f"search: done, {search.evaluations} evaluations; its {len(search.finalists)} finalists "
        "are measured"
    )


def selected_plan(loaded: LoadedSpec, space: Space, only: str | None) -> Plan:
    """Plan of an experiment, or of the cells that `only` names; raises like `make_plan`."""
    plan = make_plan(loaded, space)
    if only is None:
        return plan
    from profiler.findings.variant_names import names_in_plan

    # Labels are those of the whole experiment's page: made of differences among all variants.
    names = names_in_plan(plan, PAGE_KINDS[loaded.experiment.page.kind])
    labels = {variant.id: names.label(variant) for variant in plan.variants}
    return make_plan(loaded, space, only=only, labels=labels)


def show_build(request: BuildRequest) -> ExitCode:
    """Compile and print the static facts; SOME_CELLS_FAILED where a variant does not compile."""
    from profiler.sessions.builds.plan_builds import build_plan, without_effect

    arch_override = () if request.arch is None else (f"build.arch={request.arch}",)
    loaded = load_experiment(request.spec, overrides=(*(request.settings or ()), *arch_override))
    arch = resolved_architecture(loaded.experiment.build.arch)
    space = replace(space_of(loaded), arch=arch)
    plan = selected_plan(loaded, space, request.only)
    notes = check_ready(loaded, plan, space)
    require_folder(request.out)
    needs_build = any(space.recipe(variant.params) for variant in plan.variants)
    if arch is None and needs_build:
        raise EnvironmentUnusable(
            "No GPU here whose architecture could be built for.", remedy="Pass --arch, e.g. sm_90."
        )
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    for note in notes:
        reporter.warn(note)
    if needs_build:
        reporter.say(f"Building {counted(len(plan.variants), 'variant')} for {arch} …")
    else:
        reporter.say("Nothing to build: no variant has a build step.")
    excluded = sum(item.count for item in plan.excluded if item.stage == "variant")
    if excluded:
        reasons = f"profiler plan --set build.arch={arch}"
        reporter.say(f"Excluded: {excluded}; {reasons} has the reasons.")
    builds = build_plan(
        loaded,
        plan.variants,
        space,
        arch=arch or ARCHITECTURE_WITHOUT_GPU,
        build_root=build_root(request.out.resolve()),
        on_wait=reporter.say,
    )
    for note in without_effect(plan.variants, builds):
        reporter.warn(note)
    write_json_target(_build_document(plan, builds, arch), request.json_target)
    if request.json_target != "-":
        from profiler.render.console.tables import build_table

        reporter.results.print(build_table(builds, plan.variants))
    complete = all(build.ok for build in builds)
    return ExitCode.COMPLETE if complete else ExitCode.SOME_CELLS_FAILED


def _build_document(
    plan: Plan, builds: Sequence[BuildResult], arch: str | None
) -> dict[str, object]:
    variants = {variant.id: variant for variant in plan.variants}
    return {
        "schema_version": SCHEMA_VERSION,
        "experiment": plan.experiment,
        "arch": arch,
        "builds": [
            {
                "name": variants[build.variant].name,
                "params": dict(variants[build.variant].params),
                **asdict(build),
            }
            for build in builds
        ],
    }
