"""Our kernels against plain attention, on an NVIDIA GPU (run with -m gpu)."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from attention_on_gpu import build_libraries, error_and_bound

from attention.implementations import SDPA
from attention.problem import DTYPES
from flash_attention import space, workload
from flash_attention.config import Config

pytestmark = pytest.mark.gpu

PARTS = Config(
    Q_mma_load_K_tiles=2, K_mma_load_K_tiles=2, V_mma_load_K_tiles=2, optimized_softmax=True
)
# What the autotune space leaves out: other head dimensions, 8 warps, wide tiles, larger parts.
BEYOND = [
    *(replace(PARTS, dtype=dtype, d_head=64) for dtype in ("FP16", "BF16")),
    *(replace(PARTS, dtype=dtype, d_head=256) for dtype in ("FP16", "BF16")),
    replace(PARTS, d_head=64, B_r=128, mma_double_buffer_loads=True),
    replace(PARTS, d_head=256, B_c=32, swizzled=False),
    replace(PARTS, B_r=128, n_warps=8),
    replace(PARTS, B_r=128, B_c=128, n_warps=8),
    replace(PARTS, d_head=256, B_r=128, n_warps=8, async_copy=False, eager_load_blocks=False),
    replace(PARTS, B_c=128),
    replace(PARTS, Q_mma_load_K_tiles=4, K_mma_load_K_tiles=8, V_mma_load_K_tiles=4),
    replace(PARTS, Q_mma_load_K_tiles=2, K_mma_load_K_tiles=4, mma_double_buffer_loads=True),
    replace(PARTS, async_copy=False, eager_load_blocks=False),
    replace(PARTS, async_copy=False, eager_load_blocks=False, swizzled=False, B_r=128),
]
SETS = space.variant_sets()
VARIANTS = {
    space.variant_name(params): params
    for params in (
        *SETS["tune"],
        *SETS["prog"],
        *SETS["prog_bf16"],
        *(config.params() for config in BEYOND),
    )
}
TILE = ("dtype", "d_head", "B_r", "B_c", "n_warps")
ONE_OF_EACH_TILE = {tuple(params[key] for key in TILE): name for name, params in VARIANTS.items()}
ROOT = Path(__file__).parents[3]
PROBLEMS = [
    {"seq_len": 128, "batch": 1, "heads": 1},
    {"seq_len": 384, "batch": 3, "heads": 5},
    {"seq_len": 2048, "batch": 2, "heads": 16},
]


@pytest.fixture(scope="module")
def libraries(shared_folder):
    major, minor = torch.cuda.get_device_capability()
    return build_libraries(VARIANTS, space, f"sm_{major}{minor}", shared_folder / "build")


def excess(inputs, params, problem, library):
    """Largest error in units of what is allowed; NaN and unwritten elements are infinite."""
    error, bound = error_and_bound(workload, inputs, params, problem, library)
    return error / bound


@pytest.mark.parametrize("scale", [1.0, 4.0], ids=["normal", "peaked"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_every_variant_is_correct(libraries, problem, scale):
    wrong = {}
    for head_dim in (64, 128, 256):
        sized = {**problem, "head_dim": head_dim}
        inputs = workload.make_inputs(sized, torch.device("cuda"), seed=problem["seq_len"])
        for dtype in DTYPES:
            # Larger queries make scores far apart, so that maxima move and most keys count nothing.
            inputs.attention(dtype).query.mul_(scale)
        for name, params in VARIANTS.items():
            if space.check_cell(params, sized) is None:
                found = excess(inputs, params, sized, libraries[name])
                if not found <= 1:
                    wrong[name] = found
    assert wrong == {}


def test_references_move_in_the_middle_of_a_row(libraries):
    """Keys grow along the sequence, so that every block has a new maximum."""
    problem = {"seq_len": 512, "batch": 1, "heads": 16}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=5)
    for dtype in DTYPES:
        growth = torch.linspace(0.1, 8.0, 512, device="cuda").view(1, 512, 1, 1)
        key = inputs.attention(dtype).key
        key.copy_(key.float() * growth)
    wrong = {}
    for name, params in VARIANTS.items():
        if space.check_cell(params, problem) is None:
            found = excess(inputs, params, problem, libraries[name])
            if not found <= 1:
                wrong[name] = found
    assert wrong == {}


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing_on_any_tile(libraries, tool):
    sanitizer = shutil.which("compute-sanitizer")
    assert sanitizer is not None, "compute-sanitizer comes with the CUDA toolkit"
    chosen = [(VARIANTS[name], str(libraries[name])) for name in ONE_OF_EACH_TILE.values()]
    done = subprocess.run(
        [
            *(sanitizer, "--tool", tool, "--error-exitcode", "9"),
            *("--kernel-name", "kernel_substring=flash_attention_forward"),
            *(sys.executable, str(Path(__file__).with_name("launch_once.py"))),
        ],
        input=json.dumps(chosen),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    none_found = "ERROR SUMMARY: 0 errors" if tool == "memcheck" else "0 hazards displayed"
    assert none_found in done.stdout


@pytest.mark.parametrize("implementation", SDPA)
def test_references_run(implementation):
    problem = {"seq_len": 256, "batch": 2, "heads": 4}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=1)
    variant = {"implementation": implementation, "dtype": "BF16"}
    expected, (bound, _) = workload.expected(variant, problem, inputs)
    result = workload.prepare(variant, problem, inputs, None)()
    assert result.shape == expected.shape
    assert (result.double() - expected.double()).abs().max().item() <= bound


def test_a_length_that_does_not_divide_is_refused(libraries):
    problem = {"seq_len": 192, "batch": 1, "heads": 1}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=1)
    config = replace(PARTS, B_r=128)
    library = next(iter(libraries.values()))
    with pytest.raises(ValueError, match="192 is no multiple of B_r = 128"):
        workload.prepare(config.params(), problem, inputs, library)


def test_too_much_shared_memory_is_refused():
    config = replace(PARTS, d_head=256, B_r=128, B_c=128, n_warps=8)
    limits = workload.device_limits(torch.device("cuda"))
    small = replace(limits, shared_bytes=100 * 1024)
    with pytest.raises(ValueError, match=r"196608 bytes of shared memory; .* may have 102400"):
        workload.guard_device(config, small)
