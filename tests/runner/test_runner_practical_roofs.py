"""Practical roofs in the runner: ranges of their own, before any cell, and no cell's failure."""

import pytest
import torch

from profiler.runner.protocol import PRACTICAL_ROOFS, parse_range_name, roof_range_name
from profiler.runner.visits import practical_roofs, ranges
from profiler.runner.visits.practical_roofs import LAUNCHES


@pytest.fixture
def names(monkeypatch):
    """Names of the ranges that were opened for roofs."""
    opened = []

    def roof_range(roof, launch):
        opened.append(roof_range_name(roof, launch))
        return open_range(roof, launch)

    open_range = ranges.roof_range
    monkeypatch.setattr(practical_roofs.ranges, "roof_range", roof_range)
    return opened


def test_each_roof_is_measured_before_any_cell_in_ranges_of_no_visit(bench, select, names):
    records = bench.run(bench.job(["plain"], practical_roofs=PRACTICAL_ROOFS))

    assert [r["roof"] for r in select(records, event="roof_finished")] == list(PRACTICAL_ROOFS)
    assert {r["launches"] for r in select(records, event="roof_finished")} == {LAUNCHES}
    events = [record["event"] for record in records]
    assert events.index("started") > max(
        place for place, event in enumerate(events) if event == "roof_finished"
    )
    assert len(names) == LAUNCHES * len(PRACTICAL_ROOFS)
    assert not any(map(parse_range_name, names))
    assert select(records, event="finished", phase="measure")


def test_without_memory_there_is_no_roof_and_every_cell_is_measured(bench, select, monkeypatch):
    def exhausted(*_arguments, **_keywords):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")

    monkeypatch.setattr(practical_roofs.torch, "mm", exhausted)
    precision = torch.backends.cuda.matmul.fp32_precision
    records = bench.run(bench.job(["plain"], practical_roofs=("tensor_tf32", "dram")))

    (failed,) = select(records, event="roof_failed")
    assert failed["roof"] == "tensor_tf32"
    assert failed["cause"] == "out of memory: asked for 1073741824 bytes"
    assert [r["roof"] for r in select(records, event="roof_finished")] == ["dram"]
    assert torch.backends.cuda.matmul.fp32_precision == precision
    assert not select(records, event="failed")
    assert len(select(records, event="finished", phase="measure")) == 2
