import json
from dataclasses import replace
from pathlib import Path

import pytest
from studies import workload_of

from attention_families import space
from flash_attention import space as mma_space
from flash_attention.config import Config as MmaConfig
from flash_attention_hopper import space as hopper_space
from flash_attention_hopper.config import Config as HopperConfig
from profiler.commands.plan import BuildRequest, show_build
from profiler.errors import ExitCode
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.sessions.sources import source_files

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
PROBLEM = {"seq_len": 512}


def planned(name, arch):
    loaded = load_spec(EXPERIMENTS / f"{name}.yaml")
    return make_plan(loaded, replace(space_of(loaded), arch=arch))


def excluded(plan, reason):
    (exclusion,) = [exclusion for exclusion in plan.excluded if exclusion.reason == reason]
    return exclusion.count


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", None])
def test_the_autotuning_has_the_hopper_kernel_as_a_reference(arch):
    plan = planned("autotune", arch)
    assert len(plan.variants) == 83
    names = {variant.id: variant.name for variant in plan.variants}
    assert [names[reference] for reference in plan.references] == ["sdpa_cudnn", "hopper"]
    assert names[plan.baseline] == "sdpa_flash"
    problems = [cell.problem.name for cell in plan.cells if cell.variant.name == "hopper"]
    assert len(set(problems)) == 12
    assert len(plan.cells) == 516


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100"])
def test_on_another_card_the_autotuning_goes_on_without_it(arch):
    plan = planned("autotune", arch)
    assert excluded(plan, f"the kernel needs sm_90a, and this GPU is {arch}") == 1
    names = {variant.id: variant.name for variant in plan.variants}
    assert len(names) == 82
    assert [names[reference] for reference in plan.references] == ["sdpa_cudnn"]
    assert len(plan.cells) == 504


def test_on_another_card_the_ladder_has_only_what_runs_there():
    plan = planned("hopper", "sm_80")
    assert {variant.name for variant in plan.variants} == {"sdpa_cudnn", "sdpa_flash", "step-00"}
    assert excluded(plan, "the kernel needs sm_90a, and this GPU is sm_80") == 10
    assert not planned("hopper", "sm_90").excluded


def test_the_sweep_of_the_hopper_kernel_has_its_set():
    names = {variant.name for variant in planned("hopper_autotune", "sm_90").variants}
    assert len(names) == 144 + 4


def test_sources_of_both_kernels_are_those_of_the_autotuning():
    """So an edit of the Hopper kernel's launch measures its reference again."""
    loaded = load_spec(EXPERIMENTS / "autotune.yaml")
    plan = planned("autotune", "sm_90")
    files = source_files(loaded.experiment, loaded.base, plan.cells[0])
    paths = {"/".join(file.parts[-2:]) for file in files}
    assert {
        "flash_attention/workload.py",
        "flash_attention/config.py",
        "flash_attention_hopper/workload.py",
        "flash_attention_hopper/tuning.py",
        "attention/inputs.py",
        "attention/launch.py",
    } <= paths


@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_the_fastest_of_mma_sync_is_one_configuration(dtype):
    variant = {"implementation": "mma_sync", "dtype": dtype}
    family, params = space.family_variant(variant, PROBLEM)
    assert family == "mma_sync"
    assert (params["dtype"], params["step"]) == (dtype, 15)
    assert space.recipe(variant) == mma_space.recipe(params)
    assert space.recipe(variant).arch is None
    assert space.variant_name(variant) == f"mma_sync-{dtype}"
    assert space.recipe({"implementation": "sdpa_cudnn", "dtype": dtype}) is None


@pytest.mark.parametrize(
    ("seq_len", "config"),
    [
        (1, HopperConfig(consumers=2, B_c=128)),
        (1024, HopperConfig(consumers=2, B_c=128)),
        (1025, HopperConfig()),
        (16384, HopperConfig()),
    ],
)
@pytest.mark.parametrize("dtype", ["FP16", "BF16"])
def test_the_fastest_for_hopper_follows_length_and_type(seq_len, config, dtype):
    problem = {"seq_len": seq_len, "precision": dtype}
    variant = {"implementation": "hopper"}
    expected = ("hopper", replace(config, dtype=dtype).params())
    assert space.family_variant(variant, problem) == expected
    assert space.family_variant({**variant, "dtype": dtype}, {"seq_len": seq_len}) == expected
    assert space.recipe(variant) == hopper_space.fastest_recipe()
    assert space.variant_name(variant) == "hopper"


@pytest.mark.parametrize("config", [MmaConfig(), MmaConfig(B_r=128, Q_mma_load_K_tiles=2)])
def test_a_configuration_of_mma_sync_is_that_kernels(config):
    params = config.params()
    assert space.variant_name(params) == mma_space.variant_name(params)
    assert space.recipe(params) == mma_space.recipe(params)
    assert space.family_variant(params, PROBLEM) == ("mma_sync", params)


def test_a_configuration_for_hopper_is_that_kernels():
    params = {"consumers": 2, "B_c": 128}
    assert space.variant_name(params) == hopper_space.variant_name(params)
    assert space.recipe(params) == hopper_space.recipe(params)
    assert space.family_variant(params, PROBLEM) == ("hopper", params)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "a configuration needs fields that only its own kernel has: B_r, n_warps"),
        ({"dtype": "BF16", "d_head": 128, "B_c": 64}, "(mma_sync) or consumers, stages"),
        ({"n_warps": 4, "consumers": 2}, "fields that only its own kernel has"),
        ({"n_warps": 5}, "n_warps must be one of 4, 8"),
        ({"consumers": 4}, "consumers must be one of 1, 2, 3"),
        ({"step": 3}, "step must be a whole number from 7 to 16"),
        ({"implementation": "hopper", "B_c": 64}, "B_c has no effect on hopper"),
        ({"implementation": "wgmma"}, "sdpa_efficient, mma_sync, hopper, not 'wgmma'"),
        ({"implementation": "hopper", "dtype": "FP8"}, "dtype must be one of"),
    ],
)
def test_what_belongs_to_no_kernel_is_refused_with_its_reason(params, words):
    assert words in (space.check_variant(params) or "")
    with pytest.raises(ValueError, match=r"must|needs|has no effect"):
        space.recipe(params)
    if "implementation" not in params:
        assert space.variant_name(params) is None


@pytest.mark.parametrize(
    ("variant", "problem", "words"),
    [
        ({"implementation": "hopper"}, {"seq_len": 1000}, None),
        ({"implementation": "hopper"}, {"seq_len": 64, "precision": "FP16"}, None),
        (
            {"implementation": "hopper", "dtype": "BF16"},
            {"seq_len": 64, "precision": "FP16"},
            "the problem is about FP16, not BF16",
        ),
        ({"implementation": "hopper"}, {"seq_len": 64, "head_dim": 64}, "heads of 64 elements"),
        ({"implementation": "hopper"}, {"seq_len": 64, "is_causal": True}, "the kernel has none"),
        ({"implementation": "mma_sync"}, {"seq_len": 1024, "precision": "FP16"}, "about FP16"),
        ({"implementation": "mma_sync"}, {"seq_len": 1024}, None),
        ({"implementation": "mma_sync"}, {"seq_len": 1000}, "no multiple of B_r = 128"),
        ({"implementation": "mma_sync"}, {"seq_len": 1024, "head_dim": 64}, "heads of 64"),
        ({"implementation": "mma_sync"}, {"seq_len": 1024, "is_causal": True}, "has none"),
        ({"implementation": "sdpa_flash"}, {"seq_len": 1000, "precision": "FP16"}, None),
        ({"implementation": "sdpa_cudnn"}, {"seq_len": 64, "is_causal": True}, None),
        ({"n_warps": 4}, {"seq_len": 100}, "no multiple of B_r = 64"),
        ({"consumers": 3}, {"seq_len": 100}, None),
    ],
)
def test_cells(variant, problem, words):
    reason = space.check_cell(variant, problem)
    assert (reason is None) == (words is None)
    assert words is None or words in (reason or "")


def test_sets_are_those_of_both_kernels_by_name():
    sets = space.variant_sets()
    assert sets["mma_sync_tune"] == mma_space.variant_sets()["tune"]
    assert sets["hopper_tune_128"] == hopper_space.variant_sets()["tune_128"]
    for members in sets.values():
        assert [space.check_variant(params) for params in members] == [None] * len(members)


def test_a_build_for_another_card_goes_on_without_it(tmp_path, capsys):
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: two\n"
        f"workload: {workload_of('attention_families')}\n"
        "variants:\n"
        "  list:\n"
        "    - {name: flash, params: {implementation: sdpa_flash}}\n"
        "    - {name: hopper, params: {implementation: hopper}}\n"
        "problems: {matrix: {seq_len: [512]}}\n"
        "page: {references: [hopper]}\n"
    )
    target = tmp_path / "build.json"
    request = BuildRequest(spec=spec, out=tmp_path, arch="sm_80", json_target=str(target))
    assert show_build(request) is ExitCode.COMPLETE
    assert [build["name"] for build in json.loads(target.read_text())["builds"]] == ["flash"]
    assert "profiler plan --set build.arch=sm_80 has the reasons." in capsys.readouterr().err
