"""What takes long says so; what is large is read piece by piece."""

import json
import sys
import tracemalloc
from pathlib import Path

import torch_traces

sys.path.append(str(Path(__file__).parents[1]))
from whole_runs import wait_for

from profiler.commands import output as stages
from profiler.parse.chrome_trace import read_traces


def test_a_command_says_what_it_does_once_it_takes_long(monkeypatch, capsys):
    written = []

    def something_is_written():
        written.append(capsys.readouterr())
        return written[-1].err

    monkeypatch.setattr(stages, "PATIENCE_S", 60.0)
    with stages.Stages("never").stage("Quick"):
        pass
    monkeypatch.setattr(stages, "PATIENCE_S", 0.05)
    slow = stages.Stages("never")
    for text in ("Reading [1] file", "Writing"):
        with slow.stage(text):
            wait_for(something_is_written)
    assert "".join(output.out for output in written) == ""
    lines = "".join(output.err for output in written).splitlines()
    assert lines == ["Reading [1] file …", "Writing …"]


def test_a_trace_takes_little_more_memory_than_its_text(tmp_path):
    trace = torch_traces.TraceFile(tmp_path / "trace.json")
    for number in range(2_000):
        trace.launch(number * 20, number * 20 + 10)
    operator = {"cat": "cpu_op", "name": "aten::mm", "Input Dims": [[64, 1024]] * 4}
    trace.events += [{**trace.events[-1], "args": operator, "cat": "python_function"}] * 20_000
    path = trace.write()
    size = path.stat().st_size
    tracemalloc.start()
    assert len(read_traces([path]).operations) == 2_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    whole = len(json.loads(path.read_text())["traceEvents"])
    assert whole > 20_000
    assert peak < 3 * size
