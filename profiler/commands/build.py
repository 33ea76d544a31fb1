"""`profiler build`: compile every variant and show registers, spills and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from profiler.commands.output import write_json_target
from profiler.commands.plan import selected_plan
from profiler.commands.requests import BuildRequest
from profiler.errors import EnvironmentUnusable, ExitCode
from profiler.model import SCHEMA_VERSION, BuildResult, Plan
from profiler.planning.readiness import check_ready
from profiler.planning.space import space_of
from profiler.run_folder.folder import require_folder
from profiler.sessions.experiment_files import load_experiment
from profiler.sessions.progress import ProgressReporter


def show_build(request: BuildRequest) -> ExitCode:
    """Compile and print the static facts; SOME_CELLS_FAILED where a variant does not compile."""
    from profiler.machine.environment import resolved_architecture
    from profiler.sessions.builds.plan_builds import build_plan, without_effect

    arch_override = () if request.arch is None else (f"build.arch={request.arch}",)
    loaded = load_experiment(request.spec, overrides=(*(request.settings or ()), *arch_override))
    arch = resolved_architecture(loaded.experiment.build.arch)
    space = replace(space_of(loaded), arch=arch)
    plan = selected_plan(loaded, space, request.only)
    notes = check_ready(loaded, plan, space)
    require_folder(request.out)
    if arch is None:
        raise EnvironmentUnusable(
            "No GPU here whose architecture could be built for.", remedy="Pass --arch, e.g. sm_90."
        )
    reporter = ProgressReporter.for_terminal(color=request.color, quiet=request.quiet)
    for note in notes:
        reporter.warn(note)
    reporter.say(f"Building {len(plan.variants)} variants for {arch} …")
    excluded = sum(item.count for item in plan.excluded if item.stage == "variant")
    if excluded:
        reasons = f"profiler plan --set build.arch={arch}"
        reporter.say(f"Excluded: {excluded}; {reasons} has the reasons.")
    builds = build_plan(
        loaded.experiment,
        plan.variants,
        space,
        arch=arch,
        build_root=request.out.resolve() / ".build",
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


def _build_document(plan: Plan, builds: Sequence[BuildResult], arch: str) -> dict[str, object]:
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
