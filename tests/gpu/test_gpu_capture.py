"""A capture on a real GPU: Triton, compiled graphs, CUDA graphs; `python -m pytest -m gpu`."""

import importlib
import time

import pytest
import torch

import profiler
from profiler.runner.capture.folder import read_calls
from profiler.runner.capture.replay import CapturedCalls, replay_all

KERNELS = """
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 512})], key=["n"])
@triton.jit
def scaled(x, out, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, factor * tl.load(x + at, mask=at < n), mask=at < n)
"""
SIZE, STEPS = 1 << 24, 4

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]


def captured(step, folder):
    """The document of a capture of two steps after two that are not."""
    with profiler.capture(folder, steps=(2, STEPS)) as recording:
        for _ in range(STEPS):
            step()
            recording.step()
    return read_calls(folder)


def test_a_triton_kernel_is_captured_and_launched_again(tmp_path, monkeypatch):
    (tmp_path / "kernels_of_a_user.py").write_text(KERNELS)
    monkeypatch.syspath_prepend(tmp_path)
    scaled = importlib.import_module("kernels_of_a_user").scaled
    x, out = torch.randn(SIZE, device="cuda"), torch.empty(SIZE, device="cuda")

    def step():
        scaled[lambda given: (-(-SIZE // given["BLOCK"]),)](x, out, SIZE, 0.5)

    (call,) = captured(step, tmp_path / "c")["calls"]

    assert (call["operator"], call["count"]) == ("kernels_of_a_user.scaled", 2)
    assert call["kernels"] == 2
    assert 2 * SIZE * 4 / 8e12 < 1e-9 * call["time_ns"] / 2 < 1e-2  # not faster than memory is
    calls = CapturedCalls(tmp_path / "c")
    inputs = calls.inputs(0)
    given, result = calls.relaunch(scaled, 0, inputs)
    torch.testing.assert_close(result, 0.5 * given)
    assert (
        calls.same_as(lambda call, /, **args: calls.relaunch(scaled, call, args))(
            [given, result], calls.inputs(0), {"call": 0}
        )
        is None
    )


def test_a_compiled_graph_is_timed_as_one_call(tmp_path):
    layer = torch.nn.Linear(2048, 2048, device="cuda")
    compiled = torch.compile(lambda x: torch.relu(layer(x)).square().mean())
    x = torch.randn(4096, 2048, device="cuda")

    document = captured(lambda: compiled(x).backward(), tmp_path / "c")

    graphs = [call for call in document["calls"] if "graph" in call]
    assert [call["operator"].rsplit(".")[-1] for call in graphs] == ["forward", "backward"]
    assert document["launches"] == []
    total = sum(call["time_ns"] for call in document["calls"])
    assert sum(call["time_ns"] for call in graphs) > 0.8 * total
    assert [replay for replay in replay_all(tmp_path / "c") if replay.failure] == []
    calls = CapturedCalls(tmp_path / "c")
    for call in graphs:
        right = calls.graph(call["id"])(calls.inputs(call["id"])["inputs"])
        assert calls.check(right, calls.inputs(call["id"]), {"call": call["id"]}) is None


def test_replays_of_a_cuda_graph_are_timed(tmp_path):
    x = torch.randn(2048, 2048, device="cuda")
    graph = torch.cuda.CUDAGraph()
    x @ x
    with torch.cuda.graph(graph):
        for _ in range(4):
            x @ x

    def step():
        graph.replay()  # looked up at each call, as programs do: bound before, it is not seen

    (row,) = captured(step, tmp_path / "c")["launches"]

    assert (row["kind"], row["count"]) == ("CUDA graph", 2)
    assert row["time_ns"] / 2 > 1e9 * 4 * 2 * 2048**3 / 2e15  # not faster than a GPU multiplies


def test_what_the_gpu_waits_for_is_told_by_operator(tmp_path):
    x, out = torch.randn(1024, 1024, device="cuda"), torch.empty(1024, 1024, device="cuda")
    with profiler.capture(tmp_path / "c", steps=(4, 6)) as recording:
        for _ in range(6):
            torch.mm(x, x, out=out)
            torch.cuda.synchronize()
            time.sleep(0.02)
            out.exp_()
            recording.step()

    waits = read_calls(tmp_path / "c")["waits"]

    (name, longest), *_ = waits["before_ns"].items()
    assert name == "exp_"
    assert 0.02e9 < longest <= waits["span_ns"] < 0.1e9
