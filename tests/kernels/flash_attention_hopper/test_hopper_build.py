"""Compiles a few kernels; needs nvcc, but no GPU."""

import ctypes
import re
import shutil
from dataclasses import replace

import pytest
from device_code import compile_device_code
from whole_runs import only_with_everything

from attention.problem import DTYPE_CODES, DTYPES
from flash_attention_hopper import space
from flash_attention_hopper.config import Config
from flash_attention_hopper.tuning import LONG, SHORT, fastest_name
from profiler.kernels.build import Compiler, plan_library, watched_files
from profiler.kernels.recipe import Recipe, with_stamps
from profiler.model import Variant
from profiler.sessions.builds.libraries import build_variants

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

BEST = Config()
LINKED = ("bf16_192x80", "fp16_128x128")
"""Two of the fastest, which share neither type nor tile: compiling one for a library takes 2 s."""
PLAIN = Config(
    dtype="FP16",
    consumers=1,
    B_c=128,
    stages=1,
    producer=False,
    overlap=False,
    ping_pong=False,
    lazy_rescale=False,
    tensor_store=False,
    persistent=False,
)


def build(recipes, arch, folder):
    variants = [Variant(name, "", {}) for name in recipes]
    results = build_variants(variants, recipes, arch=arch, build_root=folder)
    return {result.variant: result for result in results}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    serialized = space.recipe(BEST.params())
    # One column more than fits: what the space refuses, to see what ptxas says.
    serialized = replace(serialized, defines={**serialized.defines, "BLOCK_COLS": 96})
    together = space.fastest_recipe()
    linked = tuple(file for file in together.sources if file.stem.endswith(LINKED))
    assert len(linked) == len(LINKED)
    recipes = {
        "serialized": serialized,
        # Linked with stamps asked for: a library has one place for them, and these are several.
        "fastest": with_stamps(replace(together, sources=linked)),
    }
    return build(recipes, "sm_90", tmp_path_factory.mktemp("build"))


@needs_nvcc
def test_no_register_is_spilled_with_stamps(built):
    assert built["fastest"].error == ""
    for kernel in built["fastest"].kernels:
        assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0)


@needs_nvcc
def test_a_kernel_whose_products_are_serialised_says_why(built):
    assert built["serialized"].ok
    assert "register" in built["serialized"].serialized_wgmma
    assert built["fastest"].serialized_wgmma == ""


@only_with_everything  # the next test reads the sources
@needs_nvcc
def test_each_kernel_of_the_fastest_has_the_machine_code_of_its_configuration(tmp_path):
    """And none spills a register; the best one is among the fastest."""
    assert replace(LONG, dtype=BEST.dtype) == BEST
    together = space.fastest_recipe()
    recipes = {"plain": space.recipe(PLAIN.params())}
    # Each tile and each type once; what else a source could say, the next test reads.
    for dtype, tile in zip(DTYPES, (SHORT, LONG), strict=True):
        config = replace(tile, dtype=dtype)
        recipes[fastest_name(config)] = space.recipe(config.params())
    names = list(recipes)[1:]
    for source in together.sources:
        name = source.stem.removeprefix("fastest_")
        recipes[f"{name} of all"] = replace(together, sources=(source,))
    assert len(recipes) == 1 + len(names) + 4
    codes = compile_device_code(recipes, "sm_90a", tmp_path)
    for code in codes.values():
        (kernel,) = code.kernels
        assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0)
    assert len({codes[name].text_hash for name in names}) == 2
    for name in names:
        assert codes[name].text_hash == codes[f"{name} of all"].text_hash


def test_each_source_of_the_fastest_defines_its_type_and_tile_and_nothing_else():
    own = "flash_attention_hopper"
    for source in space.fastest_recipe().sources:
        name = source.stem.removeprefix("fastest_")
        dtype, rows, columns = re.fullmatch(r"(\w+)_(\d+)x(\d+)", name).groups()
        lines = [line.split() for line in source.read_text().splitlines() if line[:1] == "#"]
        assert lines == [
            ["#undef", "PROFILER_TIMELINE"],
            ["#define", "DTYPE", str(DTYPE_CODES[dtype.upper()])],
            ["#define", "CONSUMERS", str(int(rows) // 64)],
            ["#define", "BLOCK_COLS", columns],
            *(
                ["#define", f"{own}{part}", f"{own}_{name}{part}"]
                for part in ("", "_launch", "_error_string")
            ),
            ["#include", f'"{own}.cu"'],
        ]


@needs_nvcc
@pytest.mark.parametrize("name", LINKED)
def test_the_library_of_the_fastest_has_a_launcher_for_each(built, name):
    assert built["fastest"].error == ""
    library = ctypes.CDLL(built["fastest"].library)
    words = library[f"flash_attention_hopper_{name}_error_string"]
    words.restype = ctypes.c_char_p
    assert words(-2).decode() == "the device is not of compute capability 9.0"
    launch = library[f"flash_attention_hopper_{name}_launch"]
    assert launch(None, None, None, None, 0, 64, 1, 0, None) == -1
    assert not hasattr(library, "profiler_timeline_sizes")
    kernels = [kernel for kernel in built["fastest"].kernels if name in kernel.name]
    assert [kernel.spill_store_bytes for kernel in kernels] == [0]


def test_the_library_of_the_fastest_follows_the_sources_of_its_kernels():
    names = {file.name for file in watched_files(space.fastest_recipe())}
    assert {"flash_attention_hopper.cu", "attention.cuh", "softmax_math.cuh"} <= names


@needs_nvcc
@pytest.mark.parametrize(
    ("code", "words"),
    [
        (-1, "batch, seq_len and heads must be at least 1"),
        (-2, "the device is not of compute capability 9.0"),
        (-3, "there are more tiles than the kernel can count"),
        (-4, "the driver has no cuTensorMapEncodeTiled"),
        (-5, "cuTensorMapEncodeTiled refused a tensor"),
    ],
)
def test_refusals_have_words(built, code, words):
    library = ctypes.CDLL(built["fastest"].library)
    library.flash_attention_hopper_bf16_192x80_error_string.restype = ctypes.c_char_p
    assert library.flash_attention_hopper_bf16_192x80_error_string(code).decode() == words


@needs_nvcc
@pytest.mark.parametrize(("sizes", "code"), [((0, 64, 1), -1), ((65536, 65536, 65536), -3)])
def test_the_launcher_refuses_sizes_before_it_touches_a_device(built, sizes, code):
    launch = ctypes.CDLL(built["fastest"].library).flash_attention_hopper_bf16_192x80_launch
    assert launch(None, None, None, None, *sizes, 0, None) == code


@needs_nvcc
def test_other_cards_are_told_what_the_kernel_needs(tmp_path):
    results = build({"best": space.recipe(BEST.params())}, "sm_80", tmp_path)
    assert not results["best"].ok
    assert results["best"].error == "the kernel needs sm_90a, and this GPU is sm_80"


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_a_recipe_names_the_form_of_the_architecture(tmp_path, arch):
    source = tmp_path / "kernel.cu"
    source.write_text("")
    library = plan_library(Recipe((source,), arch="sm_90a"), arch, Compiler(source, "13.0"))
    assert "arch=compute_90a,code=sm_90a" in library.command
    assert "arch=compute_90a,code=sm_90a" in library.link_command
