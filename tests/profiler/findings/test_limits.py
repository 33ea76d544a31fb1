"""What limits a kernel, from its throughputs and stall reasons."""

import pandas as pd
import pytest
from analyse_frames import make_cell, samples_of

from profiler.analyse.summary import summarise
from profiler.findings.counters import LimitKind, limit

CELL = make_cell("a")


def _limit(**metrics):
    samples = samples_of({CELL.id: [1.0]}).assign(**metrics)
    return limit(summarise(samples, cells=[CELL]), CELL.id)


@pytest.mark.parametrize(
    ("compute", "memory", "kind"),
    [
        # compute and memory throughput of a GEMM and a softmax on an H200, in percent
        (90.32, 69.87, LimitKind.COMPUTE),
        (75.25, 15.53, LimitKind.COMPUTE),
        (20.0, 91.0, LimitKind.MEMORY),
        (65.0, 70.0, LimitKind.BALANCED),
        (18.0, 16.9, LimitKind.LATENCY),
    ],
)
def test_the_busier_side_limits(compute, memory, kind):
    found = _limit(compute_throughput_pct=compute, memory_throughput_pct=memory)
    assert found.kind is kind
    assert (found.compute_pct, found.memory_pct) == (compute, memory)


def test_without_throughputs_nothing_is_claimed():
    found = _limit(compute_throughput_pct=95.0)
    assert found.kind is LimitKind.UNKNOWN
    assert found.memory_pct is None
    assert found.stalls == ()


def test_stalls_are_sorted_and_shares_add_up():
    found = _limit(
        stall_barrier=1.0,
        stall_long_scoreboard=3.0,
        stall_membar=0.0,
        stall_selected=1.0,
        stall_not_selected=50.0,
    )
    assert [stall.reason for stall in found.stalls] == ["long_scoreboard", "barrier"]
    assert [stall.share_pct for stall in found.stalls] == [75.0, 25.0]


def test_a_cell_without_a_summary_has_an_unknown_limit():
    empty = pd.DataFrame({"cell": [], "metric": [], "median": []})
    assert limit(empty, "nobody").kind is LimitKind.UNKNOWN
