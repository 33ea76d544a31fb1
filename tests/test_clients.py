"""The small experiments of benchmarks/clients: every habit is measured, every fault is found."""

from pathlib import Path

import pytest

CLIENTS = Path(__file__).parents[1] / "benchmarks/clients"
WRONG = {
    "ctypes_library": set(),
    "outputs_of_all_shapes": {"wrong_count"},
    "strided_complex": {"forgets_to_conjugate"},
    "small_integers": {"overflows"},
    "functional_gradients": set(),
}
"""Variants with a planted fault, by file; inline_extension takes half a minute to compile."""
SHORT = ("collect.device=cpu", "collect.collectors=timer", "collect.blocks=1", "collect.repeats=1")


@pytest.mark.parametrize("name", WRONG)
def test_each_habit_is_measured_and_each_fault_found(profiler, name):
    settings = (part for setting in SHORT for part in ("--set", setting))
    done = profiler.measure(CLIENTS / f"{name}.py", *settings, "--json", "-")
    outcomes = {(c["variant_params"]["function"], c["outcome"]) for c in done.json["cells"]}
    wrong = {function for function, outcome in outcomes if outcome == "wrong_result"}
    assert wrong == WRONG[name]
    assert {outcome for function, outcome in outcomes if function not in wrong} == {"measured"}
    assert done.code == (4 if wrong else 0), done.err
