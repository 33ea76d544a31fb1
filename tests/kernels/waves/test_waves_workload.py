import pytest
import torch

from waves import space, workload

CPU = torch.device("cpu")


def in_steps(params, starts):
    """Do what the kernel does, step by step, each rounded to float32."""
    chains = space.tuning(params)["chains"]
    values = torch.stack([starts + k for k in range(chains)]).double()
    for _ in range(space.steps_of(params)):
        values = (values * workload.FACTOR + workload.ADDEND).float().double()
    return values.sum(0)


@pytest.mark.parametrize("params", [{}, {"blocks_per_sm": 4, "chains": 4}], ids=str)
def test_the_closed_form_is_that_of_the_steps(params):
    starts = workload.make_inputs({"waves": 1}, CPU, 1)[:50]
    right = workload.chain_sums(params, starts, 120)
    assert right.shape == (120,)
    assert torch.equal(right[:50], right[50:100])
    _, relative = workload.TOLERANCE
    error = ((in_steps(params, starts) - right[:50]).abs() / right[:50]).max().item()
    assert error < relative / 2


def test_a_wrong_number_of_steps_would_show(monkeypatch):
    starts = workload.make_inputs({"waves": 1}, CPU, 1)
    params = {"blocks_per_sm": 4}
    right = workload.chain_sums(params, starts, 100)
    monkeypatch.setattr(workload, "steps_of", lambda params: space.steps_of(params) - 64)
    wrong = workload.chain_sums(params, starts, 100)
    assert ((wrong - right).abs() / right).max() > 4 * workload.TOLERANCE[1]


def test_expected_is_as_long_as_the_grid():
    inputs = workload.make_inputs({"waves": 3}, CPU, 1)
    result, (absolute, relative) = workload.expected({"blocks_per_sm": 4}, {"waves": 3}, inputs)
    assert result.shape == (1 * 4 * 3 * 128,), "a CPU counts as one multiprocessor"
    assert (absolute, relative) == workload.TOLERANCE


def test_the_same_seed_gives_the_same_values():
    one, two = (workload.make_inputs({"waves": 1}, CPU, 5) for _ in range(2))
    assert torch.equal(one, two)
    assert 1 <= one.min() < one.max() < 2


def test_without_a_gpu_or_a_library_it_says_so():
    inputs = workload.make_inputs({"waves": 1}, CPU, 1)
    with pytest.raises(RuntimeError, match="counted in multiprocessors of a GPU"):
        workload.prepare({}, {"waves": 1}, inputs, None)
    if not torch.cuda.is_available():
        assert workload.flops({"waves": 1}) is None
