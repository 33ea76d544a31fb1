import itertools
import re
from collections import Counter
from dataclasses import replace

import pytest

from attention.problem import DTYPES
from flash_attention_hopper import space, tuning
from flash_attention_hopper.config import (
    CHOICES,
    FIELDS,
    FLAG_FIELDS,
    SHARED_BYTES,
    Config,
    refusal,
    short_form,
)
from profiler.kernels.build import watched_files
from profiler.model import Variant
from profiler.sessions.builds.plan_builds import launch_params

PLAIN = {"producer": False, "ping_pong": False, "persistent": False}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"B_r": 128}, "B_r is no field"),
        ({"dtype": "FP8"}, "dtype must be one of FP16, BF16, not 'FP8'"),
        ({"d_head": 96}, "d_head must be one of 64, 128, 256"),
        ({"consumers": 4}, "consumers must be one of 1, 2, 3, not 4"),
        ({"B_c": 72}, "B_c must be one of 16, 32,"),
        ({"stages": True}, "stages must be one of 1, 2, 3, 4, not True"),
        ({"causal": None}, "causal must be true or false, not None"),
        ({"overlap": 1}, "overlap must be true or false, not 1"),
        ({**PLAIN, "ping_pong": True}, "ping_pong needs a producer"),
        ({**PLAIN, "persistent": True}, "persistent needs a producer"),
        ({"consumers": 1, "B_c": 64}, "ping_pong needs two consumers"),
        ({"B_c": 96}, "O, S and P take 136 registers a thread; 3 consumers have 128 for them"),
        ({"B_c": 144, "overlap": False}, "O and S take 136 registers a thread"),
        ({"d_head": 256}, "O, S and P take 188 registers a thread"),
        ({"d_head": 64, "consumers": 2, "B_c": 240}, "2 consumers have 208 for them"),
        (
            {"consumers": 2, "B_c": 128, "stages": 4},
            "the tiles take 295936 bytes of shared memory; a block may have 232448",
        ),
    ],
)
def test_a_combination_that_cannot_act_is_refused_with_its_reason(params, words):
    reason = space.check_variant(params)
    assert reason is not None
    assert words in reason
    assert space.variant_name(params) is None
    with pytest.raises(ValueError, match=re.escape(words)):
        space.recipe(params)


@pytest.mark.parametrize(
    ("config", "kib"),
    [
        (Config(), 48 + 80 + 48 + 1),
        (Config(persistent=False), 48 + 80 + 1),
        (Config(tensor_store=False), 48 + 80 + 1),
        (Config(consumers=2, B_c=128), 32 + 128 + 32 + 1),
        # No room for an output of its own: it takes the place of Q.
        (Config(consumers=2, B_c=176), 32 + 176 + 1),
        (Config(consumers=2, B_c=64, d_head=256), 64 + 128 + 1),
    ],
)
def test_shared_memory(config, kib):
    assert config.shared_bytes == kib * 1024 <= SHARED_BYTES


def test_the_whole_space():
    # Fields that no rule looks at are left at one value: dtype, lazy_rescale, heads_innermost, …
    free = {"lazy_rescale", "heads_innermost", "kv_heads_first", "causal"}
    flags = [name for name in FLAG_FIELDS if name not in free]
    values = (*CHOICES.values(), *[(False, True)] * len(flags))
    grid = list(itertools.product(*values))
    legal = sum(
        refusal(dict(zip((*CHOICES, *flags), point, strict=True))) is None for point in grid
    )
    others = len(DTYPES) * 2 ** len(free)
    assert (len(grid) * others, legal * others) == (589_824, 161_088)


def test_the_autotune_space_is_what_is_legal_of_864():
    every, tuned = tuning.candidates(), tuning.tuned_configs()
    assert (len(every), len(set(every)), len(tuned)) == (864, 864, 384)
    reasons = Counter((refusal(config.params()) or "legal").split(" take ")[0] for config in every)
    assert reasons == {"legal": 384, "O, S and P": 416, "the tiles": 64}
    assert Counter(config.d_head for config in tuned) == {64: 224, 128: 144, 256: 16}


def test_the_named_sets_are_legal_and_distinct():
    sets = space.variant_sets()
    assert {name: len(members) for name, members in sets.items()} == {
        "tune": 384,
        "tune_64": 224,
        "tune_128": 144,
        "tune_256": 16,
        "causal": 768,
        "causal_64": 448,
        "causal_128": 288,
        "causal_256": 32,
        "prog": 10,
        "prog_fp16": 10,
    }
    for members in sets.values():
        assert [space.check_variant(params) for params in members] == [None] * len(members)
        recipes = {str(space.recipe(params)) for params in members}
        assert len(recipes) == len(members)


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_each_step_of_the_ladder_adds_what_its_note_says(dtype):
    steps = tuning.ladder(dtype)
    assert len({step.note for step in steps}) == len(steps)
    changes = [
        {name for name in FIELDS if getattr(before.config, name) != getattr(after.config, name)}
        for before, after in itertools.pairwise(steps)
    ]
    assert changes == [
        {"stages"},
        {"overlap"},
        {"producer"},
        {"consumers"},
        {"ping_pong"},
        {"lazy_rescale"},
        {"tensor_store"},
        {"persistent"},
        {"consumers", "B_c"},
    ]


def test_names():
    config = Config()
    assert space.variant_name(config.params()) == short_form(config)
    assert short_form(config) == (
        "(BF16, 128, 192, 80, 2): producer+overlap+ping_pong+lazy_rescale+tensor_store+persistent"
    )
    plain = replace(
        config,
        producer=False,
        overlap=False,
        ping_pong=False,
        lazy_rescale=False,
        tensor_store=False,
        persistent=False,
    )
    assert short_form(plain) == "(BF16, 128, 192, 80, 2): plain"
    assert space.variant_name({"implementation": "sdpa_cudnn"}) == "sdpa_cudnn"


def test_each_field_is_one_definition_that_the_sources_read():
    base = space.recipe({})
    assert base.arch == "sm_90a"
    assert len(base.defines) == len(FIELDS) - 1
    assert space.recipe({"kv_heads_first": True}) == base, "it acts at the launch"
    text = "".join(path.read_text() for path in watched_files(base))
    for name in base.defines:
        assert name in text
    for field, value in {
        "dtype": "FP16",
        "d_head": 64,
        "consumers": 2,
        "B_c": 64,
        "stages": 3,
        "overlap": False,
        "ping_pong": False,
        "lazy_rescale": False,
        "tensor_store": False,
        "persistent": False,
        "heads_innermost": True,
        "causal": True,
    }.items():
        other = space.recipe({field: value})
        changed = {name for name in base.defines if base.defines[name] != other.defines[name]}
        assert len(changed) == 1, field


def test_the_fastest_are_one_library_with_a_source_for_each():
    recipe = space.fastest_recipe()
    assert recipe.arch == "sm_90a"
    assert all(source.is_file() for source in recipe.sources)
    for source in recipe.sources:
        own = dict(re.findall(r"#define ([A-Z_]+) (\d+)", source.read_text()))
        defines = {**recipe.defines, **{name: int(value) for name, value in own.items()}}
        assert not own.keys() & recipe.defines.keys()
        config = Config(
            dtype={5: "FP16", 15: "BF16"}[defines["DTYPE"]],
            consumers=defines["CONSUMERS"],
            B_c=defines["BLOCK_COLS"],
        )
        assert defines == space.recipe(config.params()).defines
        assert source.stem == f"fastest_{tuning.fastest_name(config)}"
        assert config in {tuning.fastest(config.dtype, length) for length in (512, 16384)}


def test_torchs_own_need_no_build():
    assert space.recipe({"implementation": "sdpa_cudnn"}) is None
    assert "not 'sdpa_math'" in space.check_variant({"implementation": "sdpa_math"})


@pytest.mark.parametrize(
    ("variant", "problem", "words"),
    [
        ({}, {"seq_len": 1000}, None),
        ({"d_head": 64}, {"seq_len": 1000}, "heads of 128 elements, but the kernel is for 64"),
        ({"d_head": 64}, {"seq_len": 1, "head_dim": 64}, None),
        ({}, {"seq_len": 64, "precision": "FP16"}, "the problem is about FP16, not BF16"),
        ({"dtype": "FP16"}, {"seq_len": 64, "precision": "FP16"}, None),
        ({"implementation": "sdpa_flash"}, {"seq_len": 1000, "precision": "FP16"}, None),
        ({"causal": True}, {"seq_len": 64, "is_causal": True}, None),
        ({"causal": True}, {"seq_len": 64}, "the kernel has a causal mask, the problem has none"),
        (
            {},
            {"seq_len": 64, "is_causal": True},
            "the problem has a causal mask, the kernel has none",
        ),
        ({"implementation": "sdpa_cudnn"}, {"seq_len": 64, "is_causal": True}, None),
        ({"kv_heads_first": True}, {"seq_len": 64}, None),
        ({"kv_heads_first": True}, {"seq_len": 64, "heads": 1}, "of one head K and V lie the same"),
    ],
)
def test_cells(variant, problem, words):
    reason = space.check_cell(variant, problem)
    assert (reason is None) == (words is None)
    assert words is None or words in (reason or "")


def test_a_layout_makes_another_program_of_one_library():
    variants = [
        Variant(str(flag), "", Config(kv_heads_first=flag).params()) for flag in (False, True)
    ]
    at_launch = launch_params(variants, space.recipe)
    assert at_launch["False"]["kv_heads_first"] is False
    assert at_launch["True"]["kv_heads_first"] is True
