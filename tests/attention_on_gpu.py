"""Attention kernels on a GPU, for tests: their libraries, and how far a result is off."""

import math
from pathlib import Path

import torch

from profiler.model import Variant
from profiler.sessions.builds.libraries import build_variants


def build_libraries(named_params, space, arch, folder):
    """Library of each variant by its name; every one has to compile.

    `folder`: one for all workers, so that only the first of them compiles, and not all at once.
    """
    variants = [Variant(name, "", params) for name, params in named_params.items()]
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    results = build_variants(variants, recipes, arch=arch, build_root=folder)
    assert [result.error for result in results if not result.ok] == []
    return {result.variant: Path(result.library) for result in results}


def error_and_bound(workload, inputs, params, problem, library):
    """Largest error of a launch, and the largest allowed; NaN and unwritten are infinite."""
    launch = workload.prepare(params, problem, inputs, library)
    (output,) = launch.outputs
    output.fill_(math.nan)
    result = launch()
    torch.cuda.synchronize()
    expected, (bound, _) = workload.expected(params, problem, inputs)
    error = (result.double() - expected.double()).abs().nan_to_num(nan=math.inf).max()
    return error.item(), bound
