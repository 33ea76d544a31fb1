from pathlib import Path

import pytest

from fusion.operators import OPERATORS
from profiler.metrics import passes
from profiler.metrics import queries as metrics
from profiler.metrics.catalogue import CATALOGUE
from profiler.planning.matrix import expand
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
GRID = {128 << step for step in range(10)}


@pytest.fixture(scope="module")
def expanded():
    """Variants and problems of an experiment, and which of their cells the space allows."""

    def load(name):
        loaded = load_spec(EXPERIMENTS / f"{name}.yaml")
        space = space_of(loaded)
        found = expand(loaded, space)
        problems = [problem.params for problem in found.problems]
        cells = [
            (variant.name, problem)
            for variant in found.variants
            for problem in problems
            if space.check_cell(variant.params, problem) is None
        ]
        assert found.excluded == ()
        return problems, cells

    return load


def test_the_grid_covers_every_operator_over_two_dimensions(expanded):
    problems, cells = expanded("fusion")
    assert {each["operator"] for each in problems} == set(OPERATORS) - {"attention"}
    for operator in ("softmax", "matmul_add", "bias_gelu"):
        shapes = [(p["dim0"], p["dim1"]) for p in problems if p["operator"] == operator]
        assert len(shapes) == 100
        assert set(shapes) == {(dim0, dim1) for dim0 in GRID for dim1 in GRID}
    written = {problem["operator"] for variant, problem in cells if variant == "triton"}
    assert written == {
        *("pointwise_chain", "softmax", "layer_norm", "bias_dropout_add", "bias_gelu")
    }
    for variant in ("eager", "compile"):
        assert len([1 for name, _ in cells if name == variant]) == len(problems)


def test_attention_has_both_grids_and_all_backends(expanded):
    problems, cells = expanded("fusion_attention")
    by_batch = [each for each in problems if "head_dim" in each]
    by_width = [each for each in problems if "embedding" in each]
    assert len(by_batch) == 2 * 6 * 7
    assert len(by_width) == 10 * 10
    assert {(each["heads"], each["head_dim"]) for each in by_batch} == {(32, 64), (16, 128)}
    assert {each["embedding"] for each in by_width} == GRID
    assert {name for name, _ in cells} == {"plain", "compile", "flash", "efficient", "cudnn"}


def test_five_forms_of_softmax(expanded):
    problems, cells = expanded("softmax_forms")
    assert {each["operator"] for each in problems} == {"softmax"}
    assert len({name for name, _ in cells}) == 5
    assert len(cells) == 5 * len(problems)


def test_layouts_by_twelve_sizes(expanded):
    problems, cells = expanded("layouts")
    assert {each["layout"] for each in problems} == set(OPERATORS["bias_dropout_add"].layouts)
    assert {each["dim1"] for each in problems} == {32 << step for step in range(12)}
    assert len(cells) == 3 * 5 * 12


def test_the_small_grid(expanded):
    problems, cells = expanded("fusion_small")
    assert len({(each["dim0"], each["dim1"]) for each in problems}) == 16
    assert {name for name, _ in cells} == {"eager", "compile"}


def test_the_grid_for_recordings(expanded):
    problems, cells = expanded("fusion_grid")
    sizes = {256 << step for step in range(6)}
    assert len(problems) == 4 * 36
    assert {each["dim0"] for each in problems} == {each["dim1"] for each in problems} == sizes
    # Three of the operators have a kernel written by hand.
    assert len(cells) == 36 * (4 * 2 + 3)


def test_every_operator_at_one_size(expanded):
    problems, cells = expanded("fusion_operators")
    assert sorted(each["operator"] for each in problems) == sorted(OPERATORS)
    implementations = ("eager", "compile", "triton", "flash", "efficient", "cudnn")
    assert {(name, problem["operator"]) for name, problem in cells} == {
        (name, operator)
        for operator, facts in OPERATORS.items()
        for name in implementations
        if name in facts.implementations
    }


@pytest.mark.parametrize("name", ["fusion", "fusion_grid", "fusion_operators", "fusion_attention"])
def test_all_nine_metrics_are_collected(name):
    collect = load_spec(EXPERIMENTS / f"{name}.yaml").experiment.collect
    assert set(metrics.expand(collect.metrics)) >= {
        *("dram_read_bytes", "dram_write_bytes", "buffer_bytes", "compile_s", "kernels"),
        *("duration_ns", "max_abs_error", "max_rel_error", "flops", "instructions", "peak_bytes"),
    }
    (counters,) = passes.counter_sessions(metrics.expand(collect.metrics), {("bf16",): 1})
    assert all(CATALOGUE[each].pass_class in ("timing", "single") for each in counters.metrics), (
        "more counters would replay kernels on 16 GiB"
    )


def test_the_same_cells_by_every_timer(expanded):
    _, cells = expanded("timers")
    assert len(cells) == 2 * 2 * 4
    collect = load_spec(EXPERIMENTS / "timers.yaml").experiment.collect
    assert collect.collectors == ("ncu", "timer", "torch_kernels", "wall_clock")
