"""The NVTX range around a visit, seen by a domain that records."""

from __future__ import annotations

import nvtx
import pytest

from profiler.runner import ranges
from profiler.runner.protocol import parse_range_name


class RecordingDomain:
    def __init__(self):
        self.calls = []

    def get_event_attributes(self, message):
        return message

    def push_range(self, attributes):
        self.calls.append(("push", attributes))

    def pop_range(self):
        self.calls.append(("pop",))


@pytest.fixture
def domain(monkeypatch):
    domains = {}
    monkeypatch.setattr(nvtx, "get_domain", lambda n: domains.setdefault(n, RecordingDomain()))
    return lambda name: domains[name]


def test_a_visit_is_one_range_in_our_own_domain(domain):
    with ranges.visit_range("online.b128..p0", 7):
        assert domain("profiler").calls == [("push", "cell=online.b128..p0;block=7")]
    assert domain("profiler").calls[1:] == [("pop",)]


def test_the_name_of_the_range_leads_back_to_the_visit(domain):
    with ranges.visit_range("a=1..b=2", 12):
        ((_, name),) = domain("profiler").calls
    assert parse_range_name(name) == ("a=1..b=2", 12, 0)


def test_the_second_visit_of_a_block_says_so(domain):
    with ranges.visit_range("a=1..b=2", 12, 1):
        ((_, name),) = domain("profiler").calls
    assert name == "cell=a=1..b=2;block=12;arm=1"
    assert parse_range_name(name) == ("a=1..b=2", 12, 1)


def test_a_range_ends_when_its_launch_raises(domain):
    with pytest.raises(ZeroDivisionError), ranges.visit_range("a", 0):
        raise ZeroDivisionError
    assert domain("profiler").calls[-1] == ("pop",)


def test_without_a_tool_nobody_listens():
    assert ranges.tool_listens() is False


def test_only_the_measured_launches_are_inside_a_range(bench, domain, monkeypatch):
    import torch

    plain = torch.sum
    monkeypatch.setattr(
        torch,
        "sum",
        lambda *a, **k: (nvtx.get_domain("profiler").calls.append("launch"), plain(*a, **k))[1],
    )

    bench.run(bench.job(["plain"], blocks=1, collector="ncu"))

    before, (push, launch, pop), after = (
        domain("profiler").calls[part] for part in (slice(2), slice(2, 5), slice(5, None))
    )
    assert (push, launch, pop) == (("push", "cell=plain..p0;block=0"), "launch", ("pop",))
    assert before == after == ["launch", "launch"]
