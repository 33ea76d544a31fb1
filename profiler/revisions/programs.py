"""The program that a variant is at each of several commits: two of one name run alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from profiler.kernels.recipe import Recipe
from profiler.model import Variant
from profiler.planning.spec import CudaWorkload
from profiler.revisions.versions import Version
from profiler.sessions.builds.libraries import build_variants

Program = tuple[str | None, str]
"""Machine code and what launches it, by digests joined with a colon; None with the compiler's words
where it cannot be built."""


def build_programs(
    versions: Sequence[Version], arch: str | None, build_root: Path
) -> list[Program]:
    """Build the only variant of each version, side by side; libraries are cached for its runs.

    Where no architecture is known nothing is compiled, and each commit is a program of its own.
    """
    # By commit: ids of one variant are the same at all of them.
    variants = {v.commit.short: next(iter(v.variants.values())) for v in versions}
    recipes = {v.commit.short: _recipe(v, variants[v.commit.short]) for v in versions}
    compiled = {name: recipe for name, recipe in recipes.items() if recipe is not None}
    built = {}
    if arch is not None and compiled:
        results = build_variants(
            [Variant(id=name, name=name) for name in compiled],
            compiled,
            arch=arch,
            build_root=build_root,
            launch_params={
                v.commit.short: v.space.at_launch(variants[v.commit.short].params) or {}
                for v in versions
            },
        )
        built = {result.variant: result for result in results}
    programs: list[Program] = []
    for version in versions:
        name = version.commit.short
        digest = version.digests[variants[name].name]
        result = built.get(name)
        if result is not None and not result.ok:
            programs.append((None, result.error))
        elif result is None:
            programs.append((f"{name if name in compiled else ''}:{digest}", ""))
        else:
            # What a `.cu` file is launched with is in its program already.
            is_cuda = isinstance(version.loaded.experiment.workload, CudaWorkload)
            programs.append((f"{result.program}:{'' if is_cuda else digest}", ""))
    return programs


def _recipe(version: Version, variant: Variant) -> Recipe | None:
    recipe = version.space.recipe(variant.params)
    if recipe is None:
        return None
    return replace(recipe, flags=(*recipe.flags, *version.loaded.experiment.build.flags))
