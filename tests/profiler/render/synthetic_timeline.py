"""A made-up training of an MLP as a timeline; no numbers here were measured."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from synthetic_report import HOSTILE, HOSTILE_NAME, make_report, with_metrics, without

from profiler.analyse.cell_timeline import CellTimeline
from profiler.model import Problem
from profiler.parse.nsys import API_COLUMNS, OPERATION_COLUMNS, RANGE_COLUMNS, RecordedTimeline
from profiler.parse.nsys_attribution import attribute
from profiler.runner.protocol import NVTX_DOMAIN, launch_range_name, range_name

PROCESS = 0x1000001
MAIN, BACKWARD = (PROCESS << 24) + 1, (PROCESS << 24) + 2
WIDTHS = Problem("width=1024", "width=1024", {"width": 1024})
_TEXT = ("kind", "name", "demangled", "copy_kind")
_WHOLE = ("start_ns", "end_ns")


@dataclass
class Recorder:
    """Writes down calls and what they launch, with a clock for the host and one for the GPU."""

    seed: int
    speed: float = 1.0
    graph: bool = False
    now: int = 0
    gpu: int = 0
    operations: list[dict[str, object]] = field(default_factory=list)
    ranges: list[dict[str, object]] = field(default_factory=list)
    calls: list[tuple[int, int, str, int, int, int]] = field(default_factory=list)

    def __post_init__(self):
        self.random = np.random.default_rng(self.seed)

    def call(self, name, ns, thread=MAIN):
        """A CUDA call; gives its correlation id."""
        correlation = len(self.calls) + 1
        self.calls.append((self.now, self.now + ns, name, PROCESS, thread, correlation))
        self.now += ns
        return correlation

    def operation(self, kind, name, ns, thread=MAIN):
        """Launch something that takes about that long."""
        call = {"kernel": "cudaLaunchKernel", "memset": "cudaMemsetAsync"}.get(kind)
        begun = self.now
        correlation = self.call(call or "cudaMemcpyAsync", 2500, thread)
        self.run(kind, name, ns, correlation, begun)
        self.now += int(self.random.integers(500, 4000))

    def run(self, kind, name, ns, correlation, begun):
        """What runs on the GPU, after all before it."""
        start = max(self.gpu, begun + 4000)
        self.gpu = start + int(ns * self.speed * self.random.uniform(0.9, 1.1)) + 300
        is_kernel = kind == "kernel"
        self.operations.append(
            {
                "kind": kind,
                "start_ns": start,
                "end_ns": self.gpu - 300,
                "name": name.partition("<")[0] if is_kernel else name,
                "demangled": f"void {name}(float*)" if is_kernel else name,
                "device": 0,
                "context": 1,
                "stream": 7,
                "process": PROCESS,
                "correlation": correlation,
                "graph_node": 1 if self.graph and is_kernel else pd.NA,
                "copy_kind": "Host-to-Device" if kind == "memcpy" else None,
                "bytes": 4096 if kind != "kernel" else pd.NA,
            }
        )

    def open(self, name, domain=""):
        """Begin a range."""
        self.ranges.append({"name": name, "domain": domain, "start_ns": self.now})
        self.now += 200
        return len(self.ranges) - 1

    def close(self, number):
        """End a range."""
        self.ranges[number]["end_ns"] = self.now
        self.now += 200

    def timeline(self):
        """Frames as the parser gives them."""
        operations = pd.DataFrame(self.operations, columns=list(OPERATION_COLUMNS))
        for name in OPERATION_COLUMNS:
            kind = "category" if name in _TEXT else "int64" if name in _WHOLE else "Int64"
            operations[name] = operations[name].astype(kind)
        ranges = pd.DataFrame(self.ranges, columns=["name", "domain", "start_ns", "end_ns"])
        constant = {"kind": "push_pop", "open": False, "process": PROCESS, "thread": MAIN}
        ranges = ranges.assign(**constant, end_thread=pd.NA, colour=pd.NA)[list(RANGE_COLUMNS)]
        ranges = ranges.astype({"start_ns": "int64", "end_ns": "int64", "process": "Int64"})
        ranges = ranges.astype({"thread": "Int64", "end_thread": "Int64", "colour": "Int64"})
        ranges = ranges.astype(dict.fromkeys(("kind", "name", "domain"), "category"))
        api = pd.DataFrame(self.calls, columns=list(API_COLUMNS)).astype({"name": "category"})
        api = api.astype(dict.fromkeys(("process", "thread", "correlation"), "Int64"))
        operations = operations.sort_values("start_ns", kind="stable", ignore_index=True)
        return RecordedTimeline(operations, ranges, api)


def train(recorder, step, layers, gpu):
    """One step: forward, backward (on a thread of its own), optimizer."""
    whole = recorder.open(f"step_{step}")
    if gpu:
        recorder.operation("memcpy", "[CUDA memcpy Host-to-Device]", 3000)
    for phase, names, thread in (
        ("forward", ("ampere_sgemm<128, 64>", "bias_kernel<float>", "relu_kernel<float>"), MAIN),
        ("backward", ("ampere_sgemm_nt<64>", "relu_grad<float>", HOSTILE), BACKWARD),
    ):
        around = recorder.open(phase)
        for layer in range(layers):
            inner = recorder.open(f"layer_{layer}") if thread == MAIN else None
            for number, name in enumerate(names if gpu else ()):
                recorder.operation("kernel", name, 24000 / (1 + 3 * number), thread)
            recorder.now += 0 if gpu else 20_000
            if inner is not None:
                recorder.close(inner)
        recorder.close(around)
    around = recorder.open("optimizer_step")
    for _ in range(layers * 4 if gpu else 0):
        recorder.operation("kernel", "multi_tensor_apply<Adam>", 2500)
    recorder.now += 0 if gpu else 20_000
    recorder.close(around)
    recorder.close(whole)


def replay(recorder, layers):
    """One step as a CUDA graph: one call launches all."""
    around = recorder.open("step_0")
    begun, correlation = recorder.now, recorder.call("cudaGraphLaunch", 9000)
    for number in range(layers * 10):
        recorder.run("kernel", f"graph_kernel_{number % 5}<float>", 8000, correlation, begun)
    recorder.close(around)


def mlp(
    cell,
    *,
    launches=10,
    steps=1,
    layers=8,
    speed=1.0,
    graph=False,
    gpu=True,
    collector="nsys",
    seed=0,
):
    """A visit of some launches, each of some steps; a step has about ten kernels a layer."""
    recorder = Recorder(seed, speed, graph)
    visit = recorder.open(range_name(cell, 0, 0), NVTX_DOMAIN)
    for launch in range(launches):
        around = recorder.open(launch_range_name(launch), NVTX_DOMAIN)
        for step in range(steps):
            if graph:
                replay(recorder, layers)
            else:
                train(recorder, launch * steps + step, layers, gpu)
        recorder.close(around)
    if gpu:
        recorder.call("cudaDeviceSynchronize", max(1000, recorder.gpu - recorder.now))
    recorder.close(visit)
    found = attribute(recorder.timeline())
    return CellTimeline(
        cell=cell,
        collector=collector,
        operations=found.operations,
        ranges=found.ranges,
        stacks=found.stacks,
        api=found.api,
        launches=launches,
        operators=operators() if collector == "torch" else operators().iloc[:0],
    )


def on_cpu(timeline):
    """The same as torch.profiler tells it of a CPU: operations are operators, and the calls."""
    nothing = pd.array([pd.NA] * len(timeline.operations), dtype="Int64")
    operations = timeline.operations.assign(
        kind=pd.Categorical(["cpu_op"] * len(timeline.operations)),
        device=nothing,
        stream=nothing,
        graph_node=nothing,
        start_ns=timeline.operations["launch_ns"].astype("int64"),
        end_ns=timeline.operations["launch_end_ns"].astype("int64"),
    )
    return replace(timeline, collector="torch", operations=operations)


def operators():
    """Three operators of torch.profiler, one with a hostile stack."""
    columns = ("name", "calls", "self_cpu_us", "cpu_us", "self_device_us", "device_us", "stack")
    rows = [
        (
            "aten::addmm",
            160,
            900.0,
            1500.0,
            4000.0,
            4000.0,
            ("forward (mlp.py:12)", "run (x.py:3)"),
        ),
        (HOSTILE_NAME, 20, 300.0, 400.0, 100.5, 100.5, (HOSTILE,)),
        ("aten::zero_", 40, 30.0, 60.0, 0.0, 0.0, ()),
    ]
    return pd.DataFrame(rows, columns=list(columns))


def timeline_report(timelines=None, *, kind="timeline", count=6):
    """A run of some variants at one problem, with a timeline of each."""
    report = with_metrics(
        make_report(variant_count=count, problem_list=(WIDTHS,)), "duration_ns", "gbps", "tflops"
    )
    cells = [cell.id for cell in report.plan.cells]
    if timelines is None:
        timelines = [
            mlp(cell, speed=0.5 + 0.25 * number, graph=number == 3, seed=number)
            for number, cell in enumerate(cells)
        ]
    found = [replace(one, cell=cell) for one, cell in zip(timelines, cells, strict=False)]
    return without(report, kind=kind, timelines={one.cell: one for one in found})
