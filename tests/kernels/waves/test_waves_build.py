"""Compiles the kernel for Hopper; needs nvcc, but no GPU."""

import shutil
from pathlib import Path

import pytest
from device_code import compile_device_code

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
def compiled(tmp_path_factory):
    """Parameters and device code of the variants of the experiment, and of the widest."""
    loaded = load_spec(SPEC)
    params = {variant.id: variant.params for variant in expand(loaded, space_of(loaded)).variants}
    params["widest"] = {"block_size": 128, "blocks_per_sm": 16, "chains": 8}
    recipes = {name: space.recipe(values) for name, values in params.items()}
    codes = compile_device_code(recipes, "sm_90", tmp_path_factory.mktemp("compiled"))
    return [(params[name], codes[name]) for name in params]


def test_nothing_spills_and_registers_leave_room(compiled):
    for params, code in compiled:
        (kernel,) = code.kernels
        assert (kernel.spill_load_bytes, kernel.spill_store_bytes) == (0, 0)
        threads = space.tuning(params)["block_size"]
        blocks = space.tuning(params)["blocks_per_sm"]
        # Shared memory shall decide how many blocks fit, so registers must not.
        assert kernel.registers * threads * blocks < REGISTERS_OF_AN_SM


def test_no_two_variants_are_the_same_program(compiled, tmp_path):
    """They would be measured once; but each has a grid and a number of steps of its own."""
    chains = {space.tuning(params)["chains"] for params, _ in compiled}
    assert len({code.text_hash for _, code in compiled}) == len(chains) == 3
    # What tells the others apart is code of the host, which reserves shared memory.
    variants = [Variant(str(number), "", {"blocks_per_sm": number}) for number in (1, 2)]
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    one, other = build_variants(variants, recipes, arch="sm_90", build_root=tmp_path)
    assert one.ok
    assert other.ok
    assert one.code_hash != other.code_hash
