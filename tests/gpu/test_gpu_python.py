"""An experiment of Python functions on a real GPU: Triton, and arrays of other libraries."""

import subprocess
import sys

import pytest

import profiler

pytestmark = pytest.mark.gpu

OTHERS = '''

class OnlyCudaArray:
    """What a library without DLPack gives."""

    def __init__(self, tensor):
        self.tensor = tensor

    @property
    def __cuda_array_interface__(self):
        return self.tensor.__cuda_array_interface__


@experiment.variant
def without_dlpack(x):
    return OnlyCudaArray(torch.softmax(x, -1))


@experiment.variant(setup=True)
def compiled(x):
    function = torch.compile(lambda x: torch.softmax(x, -1))
    return lambda: function(x)


@experiment.variant
def kept(x, results={}):
    return results.setdefault(x.shape, torch.softmax(x, -1))
'''


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The Triton template with more variants, measured."""
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("python")
    run_profiler("new", "triton", "rows", cwd=folder)
    file = folder / "rows/rows.py"
    head, main, tail = file.read_text().partition("\n\nif __name__")
    file.write_text(f"{head}{OTHERS}{main}{tail}")
    sizes = ("--set", "problems.matrix.columns=[1024, 4096]", "--set", "collect.blocks=6")
    run_profiler("run", file, "--live", *sizes, cwd=folder)
    return profiler.load("rows", reports=folder / "reports")


def run_profiler(*arguments, cwd):
    done = subprocess.run(
        [sys.executable, "-m", "profiler", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 4), done.stderr


def outcomes(run, function):
    cells = run.findings["cells"]
    return {cell["outcome"] for cell in cells if cell["variant_params"]["function"] == function} - {
        "duplicate"
    }


@pytest.mark.parametrize("function", ["eager", "in_triton", "without_dlpack", "compiled"])
def test_honest_variants_are_measured(run, function):
    assert outcomes(run, function) == {"measured"}


def test_a_result_that_was_kept_is_implausible(run):
    assert outcomes(run, "kept") == {"implausible"}


def test_the_answer_is_explained(run):
    assert run.explain()["tree"]
    assert run.summary.query("metric == 'duration_ns'")["median"].gt(0).any()


COPIES = """
import torch

import profiler

copies = profiler.Experiment("copies", problems={"n": [1 << 22]})


@copies.inputs
def inputs(n):
    return torch.randn(n)


@copies.variant(baseline=True)
def by_kernels(x):
    return x * 1 + 0


@copies.variant
def after_waiting(x):
    return x + int(x[0].item() > 1e30)


@copies.variant
def by_memcpy(x):
    torch.empty(1, device=x.device).fill_(0)
    return x.clone()
"""


@pytest.mark.parametrize("collector", ["ncu", "cupti"])
def test_a_copy_that_is_no_kernel_gives_no_lead(tmp_path, collector):
    """Its duration is that of filling one element; nor does what waits for the device give one."""
    file = tmp_path / "copies.py"
    file.write_text(COPIES)
    settings = ("--set", f"collect.collectors={collector}")
    run_profiler("run", file, "--live", "--no-explain", *settings, cwd=tmp_path)
    copies = profiler.load("copies", reports=tmp_path / "reports")
    assert outcomes(copies, "by_kernels") == {"measured"}
    assert outcomes(copies, "by_memcpy") == {"implausible"}
    waiting = copies.summary.query("variant == 'after_waiting' and metric == 'duration_ns'")
    assert set(waiting["reason"]) == {"waits"}


BY_DEFAULT = """
import torch

import profiler

layers = profiler.Experiment("layers", problems={"layer": ["conv", "lstm"]})


@layers.inputs
def inputs(layer, device):
    if layer == "conv":
        return torch.randn(16, 64, 32, 32, device=device), torch.nn.Conv2d(64, 64, 3).to(device)
    return torch.randn(64, 32, 256, device=device), torch.nn.LSTM(256, 256).to(device)


@layers.variant(baseline=True)
@torch.no_grad()
def eager(x, module):
    return module(x)


@layers.variant
@torch.no_grad()
def exact(x, module):
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return module(x)


@layers.variant
@torch.no_grad()
def scaled(x, module):
    return module(x * 1.02)
"""


def test_a_baseline_in_tf32_by_the_default_of_torch_is_right(tmp_path):
    (tmp_path / "layers.py").write_text(BY_DEFAULT)
    run_profiler("run", "layers.py", "--live", "--fast", "--no-explain", cwd=tmp_path)
    run = profiler.load("layers", reports=tmp_path / "reports")
    assert outcomes(run, "eager") == outcomes(run, "exact") == {"measured"}
    assert outcomes(run, "scaled") == {"wrong_result"}


GRAPHS = """
import torch

import profiler

nets = profiler.Experiment("nets", problems={"rows": [8, 64]})


@nets.inputs
def inputs(rows):
    return torch.randn(rows, 1024), [torch.randn(1024, 1024) / 32 for _ in range(4)]


@nets.variant(baseline=True)
def eager(x, weights):
    for weight in weights:
        x = torch.relu(x @ weight)
    return x


@nets.variant(setup=True)
def graph(x, weights):
    eager(x, weights)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = eager(x, weights)
    return lambda: (graph.replay(), result)[1]


@nets.variant(setup=True)
def reduce_overhead(x, weights):
    compiled = torch.compile(eager, mode="reduce-overhead")
    return lambda: compiled(x, weights)
"""


def test_a_cuda_graph_uses_no_memory_of_one_that_is_gone(tmp_path):
    """torch.compile gives back the workspace that cuBLAS keeps in the first problem's graph."""
    (tmp_path / "nets.py").write_text(GRAPHS)
    run_profiler("run", "nets.py", "--live", "--timer", "--no-explain", cwd=tmp_path)
    run = profiler.load("nets", reports=tmp_path / "reports")
    assert outcomes(run, "graph") == outcomes(run, "reduce_overhead") == {"measured"}
