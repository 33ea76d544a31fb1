"""Recipe of a variant's library, from a workload to the build; standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class Recipe:
    """One shared library: CUDA sources, preprocessor definitions and extra nvcc flags.

    Two variants with equal recipes share one library.
    """

    sources: tuple[Path, ...]
    """Absolute paths of .cu files; headers beside them are found by the depfile."""
    defines: Mapping[str, str | int] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    included: tuple[Path, ...] = ()
    """Absolute paths of files that are included in front of each source, in this order."""
    arch: str | None = None
    """Architecture that the sources need, such as `sm_90a`; None: any architecture."""


def architecture_refusal(recipe: Recipe, arch: str) -> str | None:
    """Reason why a recipe's architecture does not fit a GPU, or None."""
    if recipe.arch is None or recipe.arch.rstrip("af") == arch.rstrip("af"):
        return None
    return f"the kernel needs {recipe.arch}, and this GPU is {arch}"


STAMPS_DEFINE = "PROFILER_TIMELINE"
"""Definition that makes `profiler/timeline.cuh` record."""


def with_stamps(recipe: Recipe) -> Recipe:
    """The recipe of the same library with in-kernel stamps."""
    return replace(recipe, defines={**recipe.defines, STAMPS_DEFINE: 1})
