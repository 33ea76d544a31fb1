"""Every implementation on an NVIDIA GPU: right results, memory, and graphs that replay."""

import pytest
import torch
from mlp_cases import excess, prepared, small

from mlp import workload
from profiler.runner.checks import check

pytestmark = [
    pytest.mark.gpu,
    # Inductor imports what torch has deprecated, and gives advice (TF32, say) as warnings.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

FULL = {"layers": 8, "width": 1024, "batch": 128}


@pytest.fixture(autouse=True)
def as_in_a_session():
    with torch.no_grad(), torch.autograd.set_multithreading_enabled(False):
        yield
    torch.cuda.empty_cache()


@pytest.mark.parametrize("optimizer", ["none", "adam"])
@pytest.mark.parametrize("implementation", ["eager", "compile", "graphs"])
def test_the_first_step_is_right(implementation, optimizer):
    problem = {"optimizer": optimizer, **FULL}
    step, inputs = prepared(implementation, problem, "cuda")
    got = check.as_tensors(check.poisoned_result(step), "the result")
    torch.cuda.synchronize()
    assert excess(got, workload.reference(problem, inputs)) < 1
    # Gradients are given back between steps, and there is one for each parameter.
    assert step.buffer_bytes > sum(each.nbytes for each in inputs.parameters)
    assert 0 < step.peak_bytes <= step.buffer_bytes
    assert (step.compile_seconds is not None) == (implementation == "compile")


@pytest.mark.parametrize("implementation", ["compile", "graphs"])
def test_ten_steps_go_the_way_of_eager_code(implementation):
    problem = small("adam")
    eager, _ = prepared("eager", problem, "cuda")
    other, _ = prepared(implementation, problem, "cuda")
    one = [eager()[0].item() for _ in range(10)]
    two = [other()[0].item() for _ in range(10)]
    assert one == pytest.approx(two, rel=1e-4)
    assert one[-1] < one[0]


def test_a_replay_allocates_nothing():
    step, _ = prepared("graphs", small("adam"), "cuda")
    step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    step()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before


def test_graphs_keep_their_phases_apart():
    """Three replays a step, so that each phase has a launch in a range of its own."""
    step, _ = prepared("graphs", small("adam"), "cuda")
    step()
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as seen:
        step()
        torch.cuda.synchronize()
    assert sum(event.name == "cudaGraphLaunch" for event in seen.events()) == 3
