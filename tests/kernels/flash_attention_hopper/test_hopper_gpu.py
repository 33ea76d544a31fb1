"""The Hopper kernel against plain attention, on an NVIDIA GPU of compute capability 9.0."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from attention_on_gpu import build_libraries, error_and_bound

from flash_attention_hopper import space, workload
from flash_attention_hopper.config import Config, refusal, short_form

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
        reason="needs compute capability 9.0",
    ),
]

ROOT = Path(__file__).parents[3]
BEST = Config()
WIDE = replace(BEST, consumers=2, B_c=128)
UNDIVIDED = replace(WIDE, B_c=80, producer=False, ping_pong=False, persistent=False)
SWITCHES = (
    {"ping_pong": False},
    {"lazy_rescale": False},
    {"tensor_store": False},
    {"persistent": False},
    {"heads_innermost": True},
    {"overlap": False},
    {"persistent": False, "tensor_store": False},
)
SHAPES = (
    {"d_head": 64, "B_c": 128},
    {"d_head": 64, "B_c": 128, "ping_pong": False, "stages": 3},
    {"d_head": 64, "B_c": 192, "overlap": False},
    {"d_head": 64, "consumers": 2, "B_c": 192},
    {"d_head": 256, "consumers": 2, "B_c": 64},
    {"d_head": 256, "consumers": 2, "B_c": 80},
    {"d_head": 256, "consumers": 1, "B_c": 80, "ping_pong": False, "stages": 1},
    {"B_c": 64, "stages": 3},
    {"B_c": 16, "stages": 4},
    {"stages": 1},
    {"consumers": 2, "B_c": 128, "stages": 1},
    {"consumers": 2, "B_c": 160},
    {"consumers": 2, "B_c": 176},
    {"consumers": 2, "B_c": 192, "persistent": False},
    {"consumers": 1, "B_c": 128, "ping_pong": False},
)
CONFIGS = [
    *(replace(base, **switch) for base in (BEST, WIDE) for switch in ({}, *SWITCHES)),
    *(replace(BEST, **shape) for shape in SHAPES),
    *(
        replace(UNDIVIDED, consumers=consumers, stages=stages, overlap=overlap)
        for consumers in (1, 2, 3)
        for stages in (1, 2)
        for overlap in (False, True)
    ),
]
CAUSAL = [
    *(replace(base, **switch) for base in (BEST, WIDE) for switch in ({}, *SWITCHES)),
    *(replace(BEST, **shape) for shape in SHAPES),
    *(
        replace(UNDIVIDED, consumers=consumers, overlap=overlap)
        for consumers in (1, 2, 3)
        for overlap in (False, True)
    ),
]
HEADS_FIRST = (BEST, WIDE, UNDIVIDED, replace(BEST, causal=True))
LADDER = space.variant_sets()["prog"]
VARIANTS = {
    space.variant_name(params): params
    for params in (
        *(
            replace(config, dtype=dtype).params()
            for config in CONFIGS
            for dtype in ("FP16", "BF16")
        ),
        *LADDER,
        *(
            replace(config, causal=True, dtype=dtype).params()
            for config in CAUSAL
            for dtype in (("FP16", "BF16") if config in (BEST, WIDE) else ("BF16",))
        ),
        *(replace(config, kv_heads_first=True).params() for config in HEADS_FIRST),
    )
    if refusal(params) is None
}
SIZES = [
    # batch, seq_len, heads
    (2, 1, 3),
    (1, 63, 2),
    (2, 64, 1),
    (1, 65, 2),
    (2, 127, 3),
    (1, 193, 2),
    (2, 200, 2),
    (1, 385, 3),
    (3, 1000, 5),
    (1, 2049, 16),
    (8, 512, 16),
]


@pytest.fixture(scope="module")
def libraries(shared_folder):
    return build_libraries(VARIANTS, space, "sm_90", shared_folder / "build")


@pytest.fixture(scope="module")
def problems():
    """Inputs of every size by head dimension and mask, which all variants share."""
    made = {}
    for d_head, causal in itertools.product((64, 128, 256), (False, True)):
        for batch, length, heads in SIZES:
            problem = {"batch": batch, "seq_len": length, "heads": heads, "head_dim": d_head}
            problem["is_causal"] = causal
            inputs = workload.make_inputs(problem, torch.device("cuda"), seed=length)
            made.setdefault((d_head, causal), []).append((problem, inputs))
    return made


def excess(inputs, params, problem, library):
    """Largest error over the largest allowed one; unwritten elements are infinitely wrong."""
    error, bound = error_and_bound(workload, inputs, params, problem, library)
    # With one key the result is V itself, and no error is allowed.
    return error / max(bound, 1e-9)


def test_there_are_many_variants():
    assert len(VARIANTS) > 130
    assert all(refusal(config.params()) is None for config in (*CONFIGS, *CAUSAL))


@pytest.mark.parametrize("name", VARIANTS)
def test_it_is_the_attention_at_any_length(libraries, problems, name):
    params = VARIANTS[name]
    for problem, inputs in problems[params["d_head"], params.get("causal", False)]:
        assert excess(inputs, params, problem, libraries[name]) <= 1, problem


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [8.0, 100.0])
def test_large_scores_and_references_that_move(libraries, scale, causal):
    problem = {"batch": 1, "seq_len": 777, "heads": 2, "is_causal": causal}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=5)
    attention = inputs.attention("BF16")
    attention.query.mul_(scale)
    # Ever larger keys from the last tile, which is the first to be met, to the first one.
    growth = torch.linspace(2.0, 0.1, 777, device="cuda", dtype=torch.bfloat16)
    attention.key.mul_(growth[None, :, None, None])
    for lazy in (True, False):
        config = replace(BEST, lazy_rescale=lazy, causal=causal)
        assert excess(inputs, config.params(), problem, libraries[short_form(config)]) <= 1


def test_a_launch_gives_the_same_bits_again(libraries):
    problem = {"batch": 4, "seq_len": 1000, "heads": 16}
    inputs = workload.make_inputs(problem, torch.device("cuda"), seed=5)
    launch = workload.prepare(BEST.params(), problem, inputs, libraries[short_form(BEST)])
    first = launch().clone()
    assert all(torch.equal(first, launch()) for _ in range(20))


WATCHED = {
    "192x80": BEST,
    "128x128": WIDE,
    "one-tile": replace(BEST, persistent=False, tensor_store=False),
    "output-over-query": replace(WIDE, B_c=176),
    "no-producer": UNDIVIDED,
    "causal": replace(BEST, causal=True),
    "causal-in-order": replace(BEST, causal=True, overlap=False),
}


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize("name", WATCHED)
def test_the_sanitizer_finds_nothing(libraries, tool, name):
    config = WATCHED[name]
    done = subprocess.run(
        [
            *("compute-sanitizer", "--tool", tool, "--error-exitcode", "9"),
            *("--kernel-name", "kernel_substring=flash_attention_hopper"),
            *(sys.executable, str(Path(__file__).with_name("launch_once.py"))),
        ],
        input=json.dumps([[config.params(), str(libraries[short_form(config)])]]),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    none_found = "0 hazards displayed" if tool == "racecheck" else "ERROR SUMMARY: 0 errors"
    assert none_found in done.stdout
