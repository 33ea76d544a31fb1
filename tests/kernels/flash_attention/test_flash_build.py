"""Compiles kernels; needs nvcc, but no GPU."""

import ctypes
import shutil
from dataclasses import replace

import pytest
from device_code import compile_device_code
from whole_runs import EVERYTHING, only_with_everything

from flash_attention import space, tuning
from flash_attention.config import FIELDS, Config
from flash_attention.names import short_form
from profiler.model import Variant
from profiler.sessions.builds.libraries import build_variants

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

PARTS = Config(K_mma_load_K_tiles=2, V_mma_load_K_tiles=2, optimized_softmax=True)
WIDE = replace(PARTS, B_r=128, Q_mma_load_K_tiles=2)
LATE = replace(PARTS, eager_load_blocks=False)

ONE_FIELD = {
    "dtype": (PARTS, replace(PARTS, dtype="FP16")),
    "d_head": (PARTS, replace(PARTS, d_head=64)),
    "B_r": (replace(PARTS, Q_mma_load_K_tiles=2), WIDE),
    "B_c": (PARTS, replace(PARTS, B_c=32)),
    "n_warps": (WIDE, replace(WIDE, n_warps=8)),
    "async_copy": (LATE, replace(LATE, async_copy=False)),
    "eager_load_blocks": (PARTS, LATE),
    "swizzled": (PARTS, replace(PARTS, swizzled=False)),
    "Q_mma_load_K_tiles": (PARTS, replace(PARTS, Q_mma_load_K_tiles=2)),
    "K_mma_load_K_tiles": (PARTS, replace(PARTS, K_mma_load_K_tiles=0)),
    "V_mma_load_K_tiles": (PARTS, replace(PARTS, V_mma_load_K_tiles=0)),
    "mma_double_buffer_loads": (PARTS, replace(PARTS, mma_double_buffer_loads=True)),
    "optimized_softmax": (PARTS, replace(PARTS, optimized_softmax=False)),
}
"""Two configurations for each field that differ in this field alone."""

TILES = {
    "64,32": replace(WIDE, B_r=64, B_c=32),
    "64,64": PARTS,
    "128,32": replace(WIDE, B_c=32),
    "128,64": WIDE,
}
"""A configuration of the autotune space for each tile."""

CODE_STEPS = {
    step: {**TILES["64,32"].params(), "step": step}
    for step in range(tuning.FIRST_CODE_STEP, tuning.LAST_CODE_STEP + 1)
}

MOST_REGISTERS = {"64,32": 128, "64,64": 177, "128,32": 241, "128,64": 255}


def build(configs, arch, folder, more=()):
    params = [*(config.params() for config in configs), *more]
    distinct = {space.variant_name(fields): fields for fields in params}
    variants = [Variant(name, "", fields) for name, fields in distinct.items()]
    recipes = {variant.id: space.recipe(variant.params) for variant in variants}
    results = build_variants(variants, recipes, arch=arch, build_root=folder)
    assert [result.error for result in results if not result.ok] == []
    return {result.variant: result for result in results}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Device code of all configurations and steps, by their names."""
    of_fields = ONE_FIELD.values() if EVERYTHING else ()
    configs = [*TILES.values(), *(config for pair in of_fields for config in pair)]
    params = [*(config.params() for config in configs), *CODE_STEPS.values()]
    recipes = {space.variant_name(fields): space.recipe(fields) for fields in params}
    return compile_device_code(recipes, "sm_90", tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Libraries with the launcher: one of the autotune space, and the last step of the ladder."""
    last = CODE_STEPS[tuning.LAST_CODE_STEP]
    return build([PARTS], "sm_90", tmp_path_factory.mktemp("build"), [last])


def test_each_field_is_tried():
    assert tuple(ONE_FIELD) == FIELDS
    for field, (one, other) in ONE_FIELD.items():
        assert replace(one, **{field: getattr(other, field)}) == other


@only_with_everything  # test_flash_space.py: each field is a definition that the source reads
@pytest.mark.parametrize("field", FIELDS)
def test_each_field_changes_the_machine_code(compiled, field):
    one, other = (compiled[short_form(config)].text_hash for config in ONE_FIELD[field])
    assert one != other


def test_each_step_of_the_ladder_changes_the_machine_code(compiled):
    codes = [compiled[space.variant_name(params)].text_hash for params in CODE_STEPS.values()]
    assert len(set(codes)) == len(codes) == 10


@pytest.mark.parametrize("tile", TILES)
def test_registers(compiled, tile):
    (kernel,) = compiled[short_form(TILES[tile])].kernels
    assert kernel.registers <= MOST_REGISTERS[tile]
    assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0)


def test_the_largest_head_and_both_types_compile_for_an_older_architecture(tmp_path):
    configs = {
        "largest": replace(PARTS, d_head=256, Q_mma_load_K_tiles=2),
        "other type": replace(WIDE, dtype="FP16"),
    }
    recipes = {name: space.recipe(config.params()) for name, config in configs.items()}
    codes = compile_device_code(recipes, "sm_80", tmp_path)
    assert all(len(code.kernels) == 1 for code in codes.values())


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ((0, 64, 1), "batch, seq_len and heads must be at least 1"),
        ((1, 96, 1), "seq_len is no multiple of B_r"),
        ((1, 64, 70000), "heads and batch must be at most 65535"),
    ],
)
def test_the_launcher_refuses_sizes_before_it_touches_a_device(built, sizes, words):
    code, said = refusal(built[short_form(PARTS)].library, sizes)
    assert code < 0
    assert said == words


def refusal(path, sizes):
    """Code that the launcher of a library gives for (batch, seq_len, heads), and its words."""
    library = ctypes.CDLL(path)
    library.flash_attention_error_string.restype = ctypes.c_char_p
    code = library.flash_attention_launch(None, None, None, None, *sizes, None)
    return code, library.flash_attention_error_string(code).decode()


def test_a_step_with_a_fixed_stride_refuses_other_numbers_of_heads(built):
    last = space.variant_name(CODE_STEPS[tuning.LAST_CODE_STEP])
    code, words = refusal(built[last].library, (1, 128, 4))
    assert code < 0
    assert words == "this step of the ladder is for 16 heads"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-3, "seq_len is no multiple of B_c"),
        (-4, "the device has a compute capability below 8.0"),
        (-5, "the tiles need more shared memory than the device has for a block"),
    ],
)
def test_what_only_a_device_can_be_refused_for_has_words_too(built, code, words):
    library = ctypes.CDLL(built[short_form(PARTS)].library)
    library.flash_attention_error_string.restype = ctypes.c_char_p
    assert library.flash_attention_error_string(code).decode() == words
