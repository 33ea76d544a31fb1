"""Ranges of a workload, as NVTX and torch.profiler see them."""

import pytest
import torch
from torch.autograd import profiler as torch_profiler
from torch.profiler import ProfilerActivity, profile

from profiler.kernels.marks import mark


def test_ranges_nest(steps):
    with mark("forward"), mark("layer 0"):
        assert steps == ["push forward", "push layer 0"]
    assert steps[2:] == ["pop", "pop"]


def test_a_range_ends_when_its_body_raises(steps):
    with pytest.raises(ZeroDivisionError), mark("forward"):
        raise ZeroDivisionError
    assert steps == ["push forward", "pop"]


def test_torch_profiler_sees_the_range_and_what_ran_inside():
    x = torch.ones(8, 8)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        with mark("forward"), mark("matmul"):
            x @ x
        torch.relu(x)

    forward = next(event for event in seen.events() if event.name == "forward")
    inner = forward.cpu_children
    assert [event.name for event in inner] == ["matmul"]
    assert "aten::matmul" in [event.name for event in inner[0].cpu_children]
    assert "aten::relu" not in [event.name for event in forward.cpu_children]


def test_nothing_is_recorded_where_no_profiler_listens(monkeypatch):
    def refuse(name):
        raise AssertionError(f"record_function({name!r}) without a profiler")

    monkeypatch.setattr(torch_profiler, "record_function", refuse)

    with mark("forward"):
        pass
