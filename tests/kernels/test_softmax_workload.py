import math
from pathlib import Path

import pytest
import torch

from softmax import workload

CPU = torch.device("cpu")


def problem(rows=7, columns=1000, dtype="float32"):
    return {"rows": rows, "columns": columns, "dtype": dtype}


def largest_violation(output, expected, dtype):
    absolute, relative = workload.TOLERANCES[dtype]
    error = (output.double() - expected.double()).abs()
    return (error / (absolute + relative * expected.double().abs())).max().item()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("algorithm", ["torch", "torch-naive"])
def test_torch_variants_are_correct_on_the_cpu(algorithm, dtype):
    case = problem(dtype=dtype)
    inputs = workload.make_inputs(case, CPU, seed=1)
    launch = workload.prepare({"algorithm": algorithm}, case, inputs, None)
    expected = workload.reference(case, inputs)
    output = launch()
    assert output.dtype == getattr(torch, dtype)
    assert output.shape == expected.shape == (7, 1000)
    assert largest_violation(output, expected, dtype) < 1


def test_the_reference_is_the_softmax_in_double_precision(monkeypatch):
    monkeypatch.setattr(workload, "_REFERENCE_ELEMENTS", 3000)  # three rows at a time, then one
    case = problem()
    inputs = workload.make_inputs(case, CPU, seed=1)
    exponentials = inputs.values.double().exp()
    expected = exponentials / exponentials.sum(dim=1, keepdim=True)
    torch.testing.assert_close(
        workload.reference(case, inputs).double(), expected, rtol=1e-7, atol=0
    )


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_tolerances_catch_a_wrong_normalisation(dtype):
    case = problem(rows=2, columns=16384, dtype=dtype)
    expected = workload.reference(case, workload.make_inputs(case, CPU, seed=1))
    # One of 1024 threads left out of the sum, and all zeros: both are small in absolute terms.
    for wrong in (expected * (1 + 1 / 512), torch.zeros_like(expected)):
        assert largest_violation(wrong, expected, dtype) > 1


def test_the_seed_decides_the_inputs():
    first, again, other = (workload.make_inputs(problem(), CPU, seed) for seed in (1, 1, 2))
    assert torch.equal(first.values, again.values)
    assert not torch.equal(first.values, other.values)
    assert first.values.std().item() == pytest.approx(workload.INPUT_SCALE, rel=0.05)


def test_the_launch_writes_to_the_output_that_it_names():
    inputs = workload.make_inputs(problem(), CPU, seed=1)
    launch = workload.prepare({"algorithm": "torch"}, problem(), inputs, None)
    (output,) = launch.outputs
    output.fill_(math.nan)
    assert launch() is output
    assert not output.isnan().any()


def test_cuda_variants_say_that_they_cannot_run_on_the_cpu():
    inputs = workload.make_inputs(problem(), CPU, seed=1)
    with pytest.raises(RuntimeError, match="vector is a CUDA kernel and cannot run on cpu"):
        workload.prepare({"algorithm": "vector"}, problem(), inputs, Path("library.so"))


def test_least_work_of_a_problem():
    case = problem(rows=8192, columns=4096, dtype="float16")
    assert workload.bytes(case) == 2 * 8192 * 4096 * 2
    assert workload.bytes({**case, "dtype": "float32"}) == 2 * 8192 * 4096 * 4
    assert workload.flops(case) == 5 * 8192 * 4096


def test_a_problem_of_the_wrong_type_is_refused():
    with pytest.raises(TypeError, match="whole numbers"):
        workload.flops({"rows": "8", "columns": 8, "dtype": "float16"})
    with pytest.raises(ValueError, match="dtype must be one of"):
        workload.bytes({"rows": 8, "columns": 8, "dtype": "int8"})
