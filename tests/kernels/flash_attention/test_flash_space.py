import itertools
import re
from collections import Counter
from dataclasses import replace

import pytest

from flash_attention import space, tuning
from flash_attention.config import FIELDS, Config, make_config, refusal
from profiler.kernels.build import watched_files


def test_a_configuration_has_the_thirteen_fields_in_the_order_of_a_kernels_name():
    assert FIELDS == (
        "dtype",
        "d_head",
        "B_r",
        "B_c",
        "n_warps",
        "async_copy",
        "eager_load_blocks",
        "swizzled",
        "Q_mma_load_K_tiles",
        "K_mma_load_K_tiles",
        "V_mma_load_K_tiles",
        "mma_double_buffer_loads",
        "optimized_softmax",
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"d": 128}, "d is no field"),
        ({"dtype": "FP32"}, "dtype must be one of FP16, BF16, not 'FP32'"),
        ({"dtype": 15}, "dtype must be one of"),
        ({"d_head": 96}, "d_head must be one of 64, 128, 256"),
        ({"B_r": "64"}, "B_r must be one of 64, 128, not '64'"),
        ({"B_r": 32}, "B_r must be one of"),
        ({"B_c": 16}, "B_c must be one of 32, 64, 128"),
        ({"n_warps": True}, "n_warps must be one of 4, 8, not True"),
        ({"swizzled": 1}, "swizzled must be true or false, not 1"),
        ({"optimized_softmax": "true"}, "must be true or false"),
        ({"K_mma_load_K_tiles": 1}, "0 or a power of two from 2, not 1"),
        ({"K_mma_load_K_tiles": 6}, "0 or a power of two from 2, not 6"),
        ({"K_mma_load_K_tiles": -2}, "0 or a power of two"),
        ({"V_mma_load_K_tiles": False}, "0 or a power of two"),
        ({"async_copy": False}, "eager_load_blocks needs async_copy"),
        ({"n_warps": 8}, "8 warps need B_r = 128"),
        ({"B_r": 128, "B_c": 128}, "O and S alone take 256 registers a thread; there are 255"),
        ({"B_r": 128, "d_head": 256}, "O and S alone take"),
        ({"Q_mma_load_K_tiles": 32}, "at most 16 at a depth of 128"),
        ({"d_head": 64, "K_mma_load_K_tiles": 16}, "at most 8 at a depth of 64"),
        ({"V_mma_load_K_tiles": 16}, "V_mma_load_K_tiles must be at most 8 at a depth of 64"),
        (
            {"K_mma_load_K_tiles": 16, "mma_double_buffer_loads": True},
            "at most 8 at a depth of 128 with double buffering",
        ),
        (
            {"B_c": 32, "V_mma_load_K_tiles": 4, "mma_double_buffer_loads": True},
            "at most 2 at a depth of 32 with double buffering",
        ),
    ],
)
def test_a_combination_that_cannot_act_is_refused_with_its_reason(params, words):
    reason = space.check_variant(params)
    assert reason is not None
    assert words in reason
    with pytest.raises(ValueError, match=re.escape(words)):
        space.recipe(params)


def test_the_largest_loads_are_legal():
    assert refusal({"K_mma_load_K_tiles": 16, "V_mma_load_K_tiles": 8}) is None
    assert refusal({"K_mma_load_K_tiles": 8, "mma_double_buffer_loads": True}) is None
    assert refusal({"B_r": 128, "B_c": 128, "n_warps": 8}) is None


@pytest.mark.parametrize(
    ("rows", "columns", "kib"), [(64, 32, 32), (64, 64, 48), (128, 32, 48), (128, 64, 64)]
)
def test_shared_memory(rows, columns, kib):
    assert Config(B_r=rows, B_c=columns).shared_bytes == kib * 1024


def test_the_filter_leaves_80_of_256_and_counts_the_others():
    every = tuning.candidates()
    kept, dropped = tuning.apply_rules(every)
    assert (len(every), len(set(every)), len(kept)) == (256, 256, 80)
    assert [each.count for each in dropped] == [0, 64, 0, 32, 16, 64]
    assert [rule.reason for rule in dropped] == [rule.reason for rule in tuning.RULES]
    assert Counter(config.dtype for config in kept) == {"FP16": 40, "BF16": 40}
    assert Counter((config.B_r, config.B_c) for config in kept) == {
        (64, 64): 32,
        (64, 32): 16,
        (128, 64): 16,
        (128, 32): 16,
    }


def test_the_rules_that_the_space_never_meets():
    odd = (
        replace(Config(), async_copy=False),
        replace(Config(), n_warps=8),
    )
    kept, dropped = tuning.apply_rules(odd)
    assert kept == ()
    assert [each.count for each in dropped] == [1, 0, 1, 0, 0, 0]


def test_the_named_sets_are_legal_and_distinct():
    sets = space.variant_sets()
    counts = {name: len(members) for name, members in sets.items()}
    assert counts == {
        "tune": 80,
        "prog": 16,
        "prog_bf16": 16,
        "all": 256,
        "64,32": 16,
        "64,64": 32,
        "128,32": 16,
        "128,64": 16,
    }
    for members in sets.values():
        assert [space.check_variant(params) for params in members] == [None] * len(members)
        assert len({space.variant_name(params) for params in members}) == len(members)
    tuned = {make_config(params) for params in sets["tune"]}
    tiles = [make_config(params) for name in sets if "," in name for params in sets[name]]
    assert set(tiles) == tuned
    assert len(tiles) == len(tuned)


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_each_step_of_the_ladder_adds_what_its_note_says(dtype):
    steps = tuning.ladder(dtype)
    assert [step.number for step in steps] == list(range(1, 17))
    assert len({step.note for step in steps}) == 16
    changes = [
        {name for name in (*FIELDS, "step") if before.params[name] != after.params[name]}
        for before, after in itertools.pairwise(steps)
    ]
    assert changes == [
        {"swizzled"},
        {"eager_load_blocks"},
        {"K_mma_load_K_tiles", "V_mma_load_K_tiles"},
        {"mma_double_buffer_loads"},
        {"optimized_softmax"},
        {"B_r", "Q_mma_load_K_tiles", "mma_double_buffer_loads"},
        *[{"step"}] * 9,
    ]
    assert steps[6].config in tuning.tuned_configs()


def test_the_ladder_as_a_set():
    variants = space.variant_sets()["prog"]
    assert [params["step"] for params in variants] == [7] * 7 + list(range(8, 17))
    assert space.variant_name(variants[0]) == (
        "(FP16, 128, 64, 64, 4): async+load_0_0_0_tiles at step 7"
    )
    recipes = [space.recipe(params) for params in variants]
    assert [recipe.defines["STEP"] for recipe in recipes if recipe] == [7] * 7 + [*range(8, 17)]


@pytest.mark.parametrize("step", [1, 17, True, "8", None])
def test_steps_that_there_are_not(step):
    reason = space.check_variant({"step": step}) or ""
    assert "step must be a whole number from 7 to 16" in reason


def test_the_last_step_is_for_16_heads():
    params = {"step": 16}
    assert space.check_cell(params, {"seq_len": 512}) is None
    assert space.check_cell({"step": 15}, {"seq_len": 512, "heads": 8}) is None
    reason = space.check_cell(params, {"seq_len": 512, "heads": 8})
    assert reason == "step 16 is for 16 heads, not 8"


def test_all_fields_and_the_step_reach_the_compiler():
    base = space.recipe(Config().params())
    assert len(base.defines) == 14
    text = "".join(path.read_text() for path in watched_files(base))
    for name in base.defines:
        assert name in text
    for field, value in {
        "dtype": "FP16",
        "d_head": 64,
        "B_r": 128,
        "B_c": 32,
        "eager_load_blocks": False,
        "swizzled": False,
        "Q_mma_load_K_tiles": 2,
        "K_mma_load_K_tiles": 2,
        "V_mma_load_K_tiles": 2,
        "mma_double_buffer_loads": True,
        "optimized_softmax": True,
        "step": 7,
    }.items():
        other = space.recipe({**Config().params(), field: value})
        changed = {name for name in base.defines if base.defines[name] != other.defines[name]}
        assert len(changed) == 1, field


def test_references_have_names_and_nothing_to_compile():
    params = {"implementation": "sdpa_cudnn", "dtype": "FP16"}
    assert space.check_variant(params) is None
    assert space.variant_name(params) == "sdpa_cudnn-FP16"
    assert space.recipe(params) is None
    assert "not 'sdpa_math'" in space.check_variant({"implementation": "sdpa_math"})


def test_a_cell_needs_matching_sizes_and_types():
    config = Config(B_r=128, B_c=64).params()
    assert space.check_cell(config, {"seq_len": 512}) is None
    assert "no multiple of B_r = 128" in (space.check_cell(config, {"seq_len": 448}) or "")
    assert "no multiple of B_r" in (space.check_cell(config, {"seq_len": 100}) or "")
    assert "heads of 64" in (space.check_cell(config, {"seq_len": 512, "head_dim": 64}) or "")
    wrong = space.check_cell(config, {"seq_len": 512, "precision": "FP16"})
    assert wrong == "the problem is about FP16, not BF16"
    reference = {"implementation": "sdpa_flash"}
    assert space.check_cell(reference, {"seq_len": 100, "precision": "FP16"}) is None


def test_only_torchs_own_have_a_causal_mask():
    problem = {"seq_len": 512, "is_causal": True}
    reason = space.check_cell(Config().params(), problem)
    assert reason == "the problem has a causal mask, the kernel has none"
    assert space.check_cell({"implementation": "sdpa_cudnn"}, problem) is None


def test_the_fastest_is_the_last_step_for_any_number_of_heads():
    params = tuning.fastest("FP16")
    assert params == tuning.ladder("FP16")[14].params
    assert space.check_cell(params, {"seq_len": 512, "heads": 3}) is None
