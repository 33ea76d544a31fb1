"""What limits a kernel, from its throughputs and stall reasons."""

import math
from types import SimpleNamespace

import pytest

from profiler.findings.counters import limit_at, limit_kind
from profiler.metrics.queries import label


def _limit(**medians):
    """Limit of a cell with these numbers."""
    return limit_at(
        SimpleNamespace(
            metrics=tuple(map(label, medians)),
            correct_at=lambda _variant, _problem, metric: SimpleNamespace(
                median=medians.get(metric, math.nan)
            ),
        ),
        None,
        None,
    )


@pytest.mark.parametrize(
    ("compute", "memory", "kind"),
    [
        # compute and memory throughput of a GEMM and a softmax on an H200, in percent
        (90.32, 69.87, "compute"),
        (75.25, 15.53, "compute"),
        (20.0, 91.0, "memory"),
        (65.0, 70.0, "balanced"),
        (18.0, 16.9, "latency"),
    ],
)
def test_the_busier_side_limits(compute, memory, kind):
    assert limit_kind(compute, memory) == kind
    found = _limit(compute_throughput_pct=compute, memory_throughput_pct=memory)
    assert found == (kind, compute, memory, None)


def test_without_throughputs_nothing_is_claimed():
    assert _limit(compute_throughput_pct=95.0) is None
    assert _limit() is None


def test_the_stall_that_is_named_is_the_longest_wait():
    throughputs = {"compute_throughput_pct": 10.0, "memory_throughput_pct": 20.0}
    found = _limit(
        **throughputs,
        stall_barrier=1.0,
        stall_long_scoreboard=3.0,
        stall_membar=0.0,
        stall_selected=1.0,
        stall_not_selected=50.0,
    )
    assert found[3] == "long_scoreboard"
    assert _limit(**throughputs, stall_selected=1.0, stall_barrier=0.0)[3] is None
