"""Which practical roofs a session that goes on has still to measure."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from profiler.metrics.passes import counter_sessions
from profiler.metrics.queries import expand, without_other_types
from profiler.run_folder.load.loaded import ToolFacts, missing_roofs, roof_faults

COUNTERS = counter_sessions(without_other_types(expand(["roofline"]), ["bf16"]), {("bf16",): 1})[
    0
].metrics
ALL = ("dram", "tensor_bf16", "fp32")


def attempt(*started, measured, faults, **samples):
    records = [{"event": "roof_started", "roof": roof} for roof in started]
    return SimpleNamespace(
        records=records,
        tool_facts=ToolFacts(practical_roofs=measured),
        roof_faults=lambda: dict(faults),
        samples=pd.DataFrame(samples),
    )


KILLED = attempt("dram", measured={}, faults={})


@pytest.mark.parametrize(
    ("earlier", "missing"),
    [
        ([], ALL),
        ([KILLED], ALL),
        ([KILLED, KILLED], ALL[1:]),
        ([attempt(*ALL, measured={"dram": 0.9}, faults={"fp32": "out of memory"})], ALL[1:2]),
        ([attempt(measured={}, faults={}, tensor_bf16_ops=[0.0, math.nan])], ("dram", "fp32")),
        ([attempt(measured={}, faults={}, tensor_bf16_ops=[0.0, 2e9])], ALL),
        ([attempt(measured={}, faults={}, tensor_bf16_ops=[math.nan])], ALL),
    ],
    ids=[
        "none yet",
        "killed meanwhile",
        "killed twice",
        "measured, and given up",
        "no tensor core worked",
        "one cell's tensor cores worked",
        "nothing counted",
    ],
)
def test_what_is_measured_or_given_up_is_not_missing(earlier, missing):
    assert missing_roofs(COUNTERS, earlier) == missing


def test_a_session_that_does_not_count_the_roofline_measures_none():
    assert missing_roofs(("duration_ns", "cycles"), []) == ()


def test_a_fault_is_told_only_of_what_no_attempt_measured():
    failed = attempt(measured={}, faults={"dram": "out of memory", "fp32": "out of memory"})
    later = attempt(measured={"dram": 0.9}, faults={})
    assert roof_faults([failed, later]) == {"fp32": "out of memory"}
