"""The NVTX range around a visit, seen as it is pushed."""

import pytest

from profiler.runner.protocol import (
    NVTX_DOMAIN,
    domain_of_range,
    launch_range_name,
    parse_range_name,
    range_name,
    roof_range_name,
)
from profiler.runner.visits import ranges


def test_a_visit_is_one_range(steps):
    with ranges.visit_range("online.b128..p0", 7):
        assert steps == ["push cell=online.b128..p0;block=7"]
    assert steps[1:] == ["pop"]


@pytest.mark.parametrize("arm", [0, 1])
def test_the_name_of_the_range_leads_back_to_the_visit(steps, arm):
    with ranges.visit_range("a=1..b=2", 12, arm):
        name = steps[0].removeprefix("push ")
    assert parse_range_name(name) == ("a=1..b=2", 12, arm)


def test_a_range_ends_when_its_launch_raises(steps):
    with pytest.raises(ZeroDivisionError), ranges.visit_range("a", 0):
        raise ZeroDivisionError
    assert steps[-1] == "pop"


def test_without_a_tool_nobody_listens():
    assert ranges.tool_listens() is False


def test_only_the_measured_launches_are_inside_a_range(bench, steps, monkeypatch):
    import torch

    plain = torch.sum
    monkeypatch.setattr(torch, "sum", lambda *a, **k: (steps.append("launch"), plain(*a, **k))[1])

    bench.run(bench.job(["plain"], blocks=1, collector="ncu"))

    before, inside, after = steps[:2], steps[2:5], steps[5:]
    assert inside == ["push cell=plain..p0;block=0", "launch", "pop"]
    assert (before, after) == (["launch", "launch"], ["launch"])


@pytest.mark.parametrize(
    "name", [range_name("a..p0", 3, 1), launch_range_name(4), roof_range_name("memory", 2)]
)
def test_ranges_of_the_runner_are_known_in_the_default_domain(name):
    assert domain_of_range("", name) == NVTX_DOMAIN
    assert domain_of_range("theirs", name) == "theirs"
    assert domain_of_range("", f"{name} of another program") == ""
