from functools import partial

import pytest
import torch
from mlp_cases import SMALL, excess, prepared, small

from mlp import network, workload

OPTIMIZERS = ("none", "adam")


@pytest.fixture(autouse=True)
def as_in_a_session():
    with torch.no_grad(), torch.autograd.set_multithreading_enabled(False):
        yield


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_first_step_of_eager_code_is_right(optimizer):
    problem = small(optimizer)
    step, inputs = prepared("eager", problem, "cpu")
    right = workload.reference(problem, inputs)
    assert len(right) == 1 + 2 * 3 * (2 if optimizer == "adam" else 1)
    assert excess(step(), right) < 1


# Importing inductor imports what torch itself has deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_first_step_of_compiled_code_is_right(monkeypatch):
    """As dynamo traces it, forth and back; what inductor makes of that is tried on a GPU."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    problem = small("adam")
    step, inputs = prepared("compile", problem, "cpu")
    assert excess(step(), workload.reference(problem, inputs)) < 1
    assert step.compile_seconds > 0
    assert step.peak_bytes is None, "a CPU does not count"


def test_the_reference_of_adam_is_torchs_own():
    problem = small("adam")
    inputs = workload.make_inputs(problem, torch.device("cpu"), 1)
    right = workload.reference(problem, inputs)
    count = len(inputs.parameters)
    parameters = [each.double().requires_grad_() for each in inputs.parameters]
    for parameter, gradient in zip(parameters, right[1 : 1 + count], strict=True):
        parameter.grad = gradient
    torch.optim.Adam(parameters, lr=network.LEARNING_RATE, eps=network.ADAM_EPSILON).step()
    for parameter, after in zip(parameters, right[1 + count :], strict=True):
        torch.testing.assert_close(parameter.detach(), after, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("skipped", ["backward", "update"])
def test_a_step_that_leaves_something_out_is_found(skipped, monkeypatch):
    """The bounds are narrow enough to tell one layer's gradients, and one update, from another."""
    problem = small("adam")
    step, inputs = prepared("eager", problem, "cpu")
    right = workload.reference(problem, inputs)
    if skipped == "update":
        monkeypatch.setattr(torch.optim.Adam, "step", lambda self: None)
    got = list(step())
    if skipped == "backward":
        got[1], got[3] = got[3], got[1]
    assert excess(got, right) > 1


def test_adam_goes_on_from_step_to_step():
    step, _ = prepared("eager", small("adam"), "cpu")
    losses = [step()[0].item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_without_an_optimizer_every_step_is_the_first():
    step, _ = prepared("eager", small("none"), "cpu")
    assert step()[0].item() == step()[0].item()


def test_variants_do_not_share_parameters():
    problem = small("adam")
    first, inputs = prepared("eager", problem, "cpu")
    for _ in range(3):
        first()
    second = workload.prepare({"implementation": "eager"}, problem, inputs, None)
    assert excess(second(), workload.reference(problem, inputs)) < 1


def test_the_same_seed_gives_the_same_data():
    one = workload.make_inputs(small("none"), torch.device("cpu"), 3)
    two = workload.make_inputs(small("adam"), torch.device("cpu"), 3)
    other = workload.make_inputs(small("none"), torch.device("cpu"), 4)
    assert torch.equal(one.batch, two.batch)
    assert all(map(torch.equal, one.parameters, two.parameters))
    assert not torch.equal(one.batch, other.batch)


def test_graphs_need_a_cuda_device_and_say_so():
    with pytest.raises(RuntimeError, match="CUDA graphs need a CUDA device and cannot run on cpu"):
        prepared("graphs", small("none"), "cpu")


def test_an_unknown_implementation_is_refused():
    with pytest.raises(ValueError, match="must be one of eager"):
        prepared("jit", small("none"), "cpu")


def ranges_of(step, launches):
    """Names of the ranges of launches with the names of those around them."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        for _ in range(launches):
            step()
    wanted = ("step_", "forward", "layer_", "backward", "optimizer_step")
    found = []
    for event in seen.events():
        if event.name.startswith(wanted):
            path, parent = [event.name], event.cpu_parent
            while parent is not None:
                path.insert(0, parent.name)
                parent = parent.cpu_parent
            found.append("/".join(path))
    return found


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_ranges_name_the_step_its_phases_and_its_layers():
    step, _ = prepared("eager", small("adam"), "cpu")
    step()  # a warm-up counts
    layers = [f"layer_{number}" for number in range(1, SMALL["layers"] + 1)]
    parts = ["forward", *(f"forward/{name}" for name in layers), "backward", "optimizer_step"]
    assert ranges_of(step, 2) == [
        name
        for number in (2, 3)
        for name in (f"step_{number}", *(f"step_{number}/{part}" for part in parts))
    ]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_without_an_optimizer_there_is_no_range_of_it():
    step, _ = prepared("eager", small("none"), "cpu")
    assert not [name for name in ranges_of(step, 1) if "optimizer" in name]
