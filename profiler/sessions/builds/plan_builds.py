"""Builds what an execution launches.

Imports nothing that takes long: compilers run while what measures is imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from profiler.collect import cupti
from profiler.errors import EnvironmentUnusable, ProfilerError
from profiler.kernels.recipe import Recipe
from profiler.machine.compilers import find_compiler
from profiler.machine.environment import architecture_of
from profiler.machine.requirements import ARCHITECTURE_WITHOUT_GPU
from profiler.model import BuildResult, Params, SessionKind, Variant
from profiler.notices import counted
from profiler.planning.space import Space
from profiler.planning.spec import LoadedSpec
from profiler.run_folder.seconds import BUILDS
from profiler.sessions.builds.libraries import build_stamped, build_variants, is_as_built
from profiler.sessions.execution import Execution
from profiler.sessions.progress import ProgressReporter

_ABSENT = object()
"""Stands for a parameter that a variant does not have."""


def launch_params(
    variants: Sequence[Variant], recipe: Callable[[Params], Recipe | None]
) -> dict[str, Params]:
    """Parameters that act at launch only, by variant id: no value of the plan changes the recipe.

    Found by trying: a parameter acts at compile time where some value that it has elsewhere in the
    plan gives another recipe. Combinations that the workload refuses say nothing.
    """
    values = _values(variants)
    recipe_of = _cached_recipe(recipe)
    return {
        variant.id: {
            name: value
            for name, value in variant.params.items()
            if not _acts_on_recipe(variant.params, name, values[name], recipe_of)
        }
        for variant in variants
    }


def _cached_recipe(recipe: Callable[[Params], Recipe | None]) -> Callable[[Params], object]:
    """Cached `recipe`; it gives `_ABSENT` where the workload refuses the parameters."""
    recipes: dict[frozenset[tuple[str, str]], object] = {}

    def tried(params: Params) -> object:
        key = _by_text(params)
        if key not in recipes:
            try:
                recipes[key] = recipe(params)
            except ProfilerError:
                recipes[key] = _ABSENT
        return recipes[key]

    return tried


def _by_text(params: Params) -> frozenset[tuple[str, str]]:
    """Parameters with the text of their values: 1, 1.0 and true are different parameters."""
    return frozenset((name, repr(value)) for name, value in params.items())


def _values(variants: Iterable[Variant]) -> Mapping[str, list[Any]]:
    """Distinct values of each parameter in the plan; `_ABSENT` where a variant lacks it."""
    of_variants = [variant.params for variant in variants]
    names = dict.fromkeys(name for params in of_variants for name in params)
    return {
        name: [
            *{repr(v): v for v in (params.get(name, _ABSENT) for params in of_variants)}.values()
        ]
        for name in names
    }


def _acts_on_recipe(
    params: Params, name: str, values: Iterable[object], recipe_of: Callable[[Params], object]
) -> bool:
    """Whether some value of a parameter changes the recipe of a variant."""
    unchanged = recipe_of(params)
    recipes = (recipe_of(_with_value(params, name, value)) for value in values)
    return any(recipe != unchanged for recipe in recipes if recipe is not _ABSENT)


def _with_value(params: Params, name: str, value: object) -> Params:
    """Parameters with one value replaced, or removed where `value` is `_ABSENT`."""
    changed: dict[str, Any] = {key: param for key, param in params.items() if key != name}
    if value is not _ABSENT:
        changed[name] = value
    return changed


def without_effect(variants: Sequence[Variant], builds: Sequence[BuildResult]) -> tuple[str, ...]:
    """Sentences on parameters whose values all give the same program.

    Judged are variants that differ in it alone, have its machine code read, and were built.
    """
    programs = {build.variant: build.program for build in builds if build.program is not None}
    built = [variant for variant in variants if variant.id in programs]
    names = dict.fromkeys(name for variant in built for name in variant.params)
    return tuple(
        f"The parameter '{name}' changes no program: variants that differ in it alone have the "
        "same machine code and the same launch."
        for name in names
        if (counts := list(_program_counts(name, built, programs))) and set(counts) == {1}
    )


def _program_counts(
    name: str, variants: Sequence[Variant], programs: dict[str, str]
) -> Iterator[int]:
    """Numbers of distinct programs among variants that differ in one parameter alone."""
    groups: dict[frozenset[tuple[str, str]], list[str]] = {}
    for variant in variants:
        other_params = {key: value for key, value in variant.params.items() if key != name}
        groups.setdefault(_by_text(other_params), []).append(programs[variant.id])
    yield from (len(set(group)) for group in groups.values() if len(group) > 1)


def build_all(execution: Execution, reporter: ProgressReporter) -> tuple[BuildResult, ...]:
    """Build every variant of the plan."""
    experiment = execution.loaded.experiment
    with execution.seconds.stage("build"), execution.seconds.step(BUILDS):
        builds = build_plan(
            execution.loaded,
            execution.plan.variants,
            execution.space,
            arch=execution.machine.architecture(experiment.build.arch),
            build_root=execution.build_root,
            on_progress=lambda done, total: reporter.detail(f"build: step {done} of {total}"),
            on_wait=reporter.say,
        )
    if any(build.command or not build.ok for build in builds):
        reporter.say(_build_line(builds))
    for note in without_effect(execution.plan.variants, builds):
        reporter.warn(note)
    return builds


def build_all_stamped(
    execution: Execution, builds: Sequence[BuildResult], reporter: ProgressReporter
) -> dict[str, str]:
    """Libraries with stamps by variant id; empty where no session of the plan needs them."""
    if all(session.kind is not SessionKind.IN_KERNEL for session in execution.plan.sessions):
        return {}
    experiment = execution.loaded.experiment
    return build_stamped(
        execution.plan.variants,
        _recipes(execution.loaded, execution.plan.variants, execution.space),
        builds,
        build=partial(
            build_variants,
            arch=execution.machine.architecture(experiment.build.arch),
            build_root=execution.build_root,
            time_limit_s=experiment.build.time_limit_s,
            on_wait=reporter.say,
        ),
        warn=reporter.warn,
    )


def build_range_profiler(execution: Execution) -> str:
    """Library by which the runner reads counters; empty where no session of the plan needs it.

    Raises EnvironmentUnusable where it cannot be built.
    """
    if all(session.collector != cupti.KIND.name for session in execution.plan.sessions):
        return ""
    environment = execution.machine.environment
    built = built_range_profiler(architecture_of(environment), execution.build_root)
    if built.library is None:
        raise EnvironmentUnusable(
            f"The library that reads counters by CUPTI cannot be built:\n{built.error}",
            remedy="It needs CUPTI's headers, of CUDA 12.6 or newer: of a toolkit, or of the "
            f"package nvidia-cuda-cupti. {cupti.WITHOUT_CUPTI}",
        )
    return built.library


_RANGE_PROFILERS: dict[tuple[str | None, Path], BuildResult] = {}
"""Libraries that this process has built, by architecture and folder."""


def built_range_profiler(arch: str | None, build_root: Path) -> BuildResult:
    """Library that reads counters, built for an architecture; `arch` is None without a GPU.

    In a folder of its own, so that no build of variants waits for it. Looked up once in a process:
    asking nvcc what it is takes 40 ms.
    """
    earlier_build = _RANGE_PROFILERS.get((arch, build_root))
    if (
        earlier_build is not None
        and earlier_build.library is not None
        and Path(earlier_build.library).exists()
    ):
        return earlier_build
    library = Variant(id="range_profiler", name="range profiler", params={})
    flags = cupti.header_flags(find_compiler().path)
    (built,) = build_variants(
        (library,),
        {library.id: Recipe(sources=(cupti.SOURCE,), flags=flags)},
        arch=arch or ARCHITECTURE_WITHOUT_GPU,
        build_root=build_root / library.id,
    )
    _RANGE_PROFILERS[arch, build_root] = built
    return built


def build_plan(  # noqa: PLR0913 - all but three by keyword
    loaded: LoadedSpec,
    variants: Sequence[Variant],
    space: Space,
    *,
    arch: str,
    build_root: Path,
    jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_wait: Callable[[str], None] = lambda _: None,
) -> tuple[BuildResult, ...]:
    """Build every variant of a plan for one architecture; `jobs` as `build_variants` has them."""
    return build_variants(
        variants,
        _recipes(loaded, variants, space),
        arch=arch,
        build_root=build_root,
        time_limit_s=loaded.experiment.build.time_limit_s,
        jobs=jobs,
        on_progress=on_progress,
        on_wait=on_wait,
        launch_params=_at_launch(variants, space),
    )


def as_built(
    execution: Execution, builds: Sequence[BuildResult], built_at: float
) -> tuple[BuildResult, ...]:
    """Builds of an earlier run that a build today would repeat; starts nothing.

    `built_at`: when they were made, in seconds since the epoch.
    """
    experiment, built = execution.loaded.experiment, {build.variant for build in builds}
    variants = [variant for variant in execution.plan.variants if variant.id in built]
    recipes = _recipes(execution.loaded, variants, execution.space)
    arch = execution.machine.architecture(experiment.build.arch)
    return tuple(
        build
        for build in builds
        if build.variant in recipes and is_as_built(build, recipes[build.variant], arch, built_at)
    )


def _at_launch(variants: Sequence[Variant], space: Space) -> dict[str, Params]:
    """Parameters that act at launch, by variant id: from the space, else found by trying."""
    declared_params = {variant.id: space.at_launch(variant.params) for variant in variants}
    from_space = {id_: params for id_, params in declared_params.items() if params is not None}
    all_from_space = len(from_space) == len(declared_params)
    at_launch = from_space if all_from_space else launch_params(variants, space.recipe)
    # Variables act there, too.
    env_of = {variant.id: variant.env for variant in variants}
    return {
        id_: {**params, **({"env": json.dumps(dict(env_of[id_]))} if env_of[id_] else {})}
        for id_, params in at_launch.items()
    }


def _recipes(
    loaded: LoadedSpec, variants: Sequence[Variant], space: Space
) -> dict[str, Recipe | None]:
    """Recipes by variant id, with the flags of the experiment."""
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    return {
        id_: recipe and replace(recipe, flags=(*recipe.flags, *loaded.compiler_flags))
        for id_, recipe in recipes.items()
    }


def _build_line(builds: Sequence[BuildResult]) -> str:
    built = [build for build in builds if build.command]
    failed = sum(not build.ok for build in builds)
    cached = sum(build.cached for build in built)
    duplicates = sum(build.duplicate_of is not None for build in builds)
    return (
        f"Built {counted(len(built), 'variant')} ({cached} from the cache, "
        f"{failed} failed, {duplicates} with the machine code of another)."
    )
