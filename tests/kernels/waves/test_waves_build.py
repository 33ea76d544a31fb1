"""Compiles the kernel for Hopper; needs nvcc, but no GPU."""

import shutil
from pathlib import Path

import pytest

from profiler.model import Variant
from profiler.planning.matrix import expand
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.sessions.builds.libraries import build_variants
from waves import space

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

SPEC = Path(__file__).parents[3] / "experiments" / "waves.yaml"
REGISTERS_OF_AN_SM = 65536


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    loaded = load_spec(SPEC)
    variants = [
        *expand(loaded, space_of(loaded)).variants,
        Variant("widest", "", {"block_size": 128, "blocks_per_sm": 16, "chains": 8}),
    ]
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    results = build_variants(
        variants, recipes, arch="sm_90", build_root=tmp_path_factory.mktemp("build")
    )
    assert [result.error for result in results if not result.ok] == []
    return list(zip(variants, results, strict=True))


def test_nothing_spills_and_registers_leave_room(built):
    for variant, result in built:
        (kernel,) = result.kernels
        assert (kernel.spill_load_bytes, kernel.spill_store_bytes) == (0, 0)
        threads = space.tuning(variant.params)["block_size"]
        blocks = space.tuning(variant.params)["blocks_per_sm"]
        # Shared memory shall decide how many blocks fit, so registers must not.
        assert kernel.registers * threads * blocks < REGISTERS_OF_AN_SM


def test_no_two_variants_are_the_same_program(built):
    """They would be measured once; but each has a grid and a number of steps of its own."""
    assert [result.duplicate_of for _, result in built] == [None] * len(built)
    assert len({result.code_hash for _, result in built}) == len(built)
