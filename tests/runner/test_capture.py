"""Operator calls of a program: what is recorded of them, and that they run again."""

import ast
import gzip
import inspect
import json
import os
import re
import runpy
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import profiler
from profiler.runner.capture import dispatched_calls, kernel_times, recording
from profiler.runner.capture.distributions import describe, draw
from profiler.runner.capture.experiment_file import families_of, gaps_sentence, ranked_calls
from profiler.runner.capture.folder import CapturedFolderError, read_calls
from profiler.runner.capture.kernel_times import sums
from profiler.runner.capture.replay import CapturedCalls, replay_all
from profiler.runner.capture.traces import experiment_of_trace
from profiler.runner.phases import CellSettings

MODELS = Path(__file__).parents[2] / "benchmarks" / "capture" / "models.py"
PAGE = Path(__file__).parents[2] / "docs" / "capture.md"
SIZE = 2
NO_KERNEL = "views, sizes and allocations"


@pytest.fixture(scope="module")
def models():
    return {make.__name__: make for make in runpy.run_path(str(MODELS))["MODELS"]}


def captured(make, folder, **options):
    """The document of a capture of the last of four steps, of which the third describes it."""
    torch.manual_seed(0)
    step = make(SIZE)
    with profiler.capture(folder, steps=(3, 4), **options) as recording:
        for _ in range(4):
            step()
            if not recording.has_optimizer:
                recording.step()
    return read_calls(folder)


@pytest.mark.parametrize(
    "name",
    [
        "transformer_training",
        "transformer_decoding",
        "resnet_training",
        "experts_training",
        "diffusion_training",
        "recommender_training",
    ],
)
def test_every_call_of_a_model_runs_again_to_the_bit(models, name, tmp_path):
    document = captured(models[name], tmp_path / "values", values=True)
    assert document["complete"]
    assert (document["first_step"], document["steps"]) == (3, 1)
    assert sorted(call["id"] for call in document["calls"]) == [*range(len(document["calls"]))]
    assert set(document["left_out"]) <= {NO_KERNEL}
    assert len(document["calls"]) > 10

    kept = {int(file.stem) for file in (tmp_path / "values" / "values").iterdir()}
    assert kept == {call["id"] for call in document["calls"]}

    replays = replay_all(tmp_path / "values")

    assert [replay for replay in replays if replay.failure] == []
    compared = [replay for replay in replays if replay.same_bits is not None]
    assert [replay for replay in compared if not replay.same_bits] == []
    assert len(compared) == sum(not call["random"] for call in document["calls"])

    again = captured(models[name], tmp_path / "drawn")
    assert [replay for replay in replay_all(tmp_path / "drawn") if replay.failure] == []

    ast.parse((tmp_path / "drawn" / "experiment.py").read_text())
    drawn = CapturedCalls(tmp_path / "drawn")
    for number in [call["id"] for call in again["calls"] if not call["random"]]:
        outputs = drawn.launch(number, drawn.inputs(number))
        assert drawn.check(outputs, drawn.inputs(number), {"call": number}) is None, number

    def without_values(document):
        kept = ("operator", "arguments", "storages", "count", "random")
        return [{key: call[key] for key in kept} for call in document["calls"]]

    assert without_values(again) == without_values(document)


def in_program(function, folder, **options):
    with profiler.capture(folder, **options):
        function()
    return read_calls(folder)


def test_views_of_one_storage_stay_views_of_it(tmp_path):
    whole = torch.arange(64.0).reshape(8, 8)

    def program():
        whole[:, 1:].copy_(whole[:, :-1].clone())
        whole[2:6].add_(whole[1:5, :1].expand(4, 8), alpha=2)
        whole[:, :4].mul_(whole[:, 4:])

    document = in_program(program, tmp_path / "c", values=True)

    assert whole.untyped_storage().resizable()
    calls = {call["operator"]: call for call in document["calls"]}
    add = calls["aten.add_.Tensor"]
    assert add["written"] == ["self"]
    assert len(add["storages"]) == 1
    assert add["arguments"]["other"]["tensor"]["stride"] == [8, 0]
    assert len(calls["aten.mul_.Tensor"]["storages"]) == 1
    replays = replay_all(tmp_path / "c")
    assert [replay.same_bits for replay in replays] == [True] * len(calls)
    again = CapturedCalls(tmp_path / "c").inputs(add["id"])
    assert again["self"].untyped_storage()._cdata == again["other"].untyped_storage()._cdata


@pytest.mark.filterwarnings(
    "ignore:The PyTorch API of nested tensors", "ignore::DeprecationWarning"
)
def test_what_cannot_be_replayed_is_named_and_counted(tmp_path):
    x = torch.randn(4, 4)

    def program():
        for _ in range(3):
            torch.mv(x.to_sparse(), x[0])
        torch.complex(x, x).conj() @ torch.complex(x, x)
        rows = [x[:2, None], x[1:, None]]
        parts = torch.nested.nested_tensor(rows, layout=torch.jagged).transpose(1, 2)
        torch.nn.functional.scaled_dot_product_attention(parts, parts, parts)
        torch.func.hessian(lambda row: row.square().sum())(x[0])

    left_out = in_program(program, tmp_path / "c", values=True)["left_out"]

    assert sum(left_out["sparse tensors"].values()) >= 3
    assert left_out["lazily conjugated tensors"] == {"aten.mm.default": 1}
    assert left_out["nested tensors"]["aten.matmul.default"] == 2
    assert left_out["zeros without memory"]["aten.to.dtype_layout"] == 2
    text = (tmp_path / "c" / "experiment.py").read_text()
    assert "Left out (lazily conjugated tensors): 1 aten.mm.default." in text


def test_operators_are_seen_as_the_program_runs_them(tmp_path):
    layer, x = torch.nn.Linear(4, 4), torch.randn(2, 3, 4)

    def program():
        layer(x).transpose(0, 1).reshape(-1).to(torch.bfloat16)

    found = {}
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            calls = in_program(program, tmp_path / mode.__name__)["calls"]
        found[mode] = [(call["operator"], call["arguments"], call["count"]) for call in calls]

    assert found[torch.inference_mode] == found[torch.no_grad]
    operators = [operator for operator, _, _ in found[torch.no_grad]]
    assert operators == ["aten.addmm.default", "aten.clone.default", "aten._to_copy.default"]
    activation = torch.nn.functional.silu(x.requires_grad_())
    calls = in_program(activation.sum().backward, tmp_path / "backward")["calls"]
    # It could be made of others, too, but has a kernel of its own.
    assert [call["operator"] for call in calls][-1] == "aten.silu_backward.default"


def test_what_a_library_hands_from_call_to_call_is_in_no_experiment(tmp_path):
    layer, x = torch.nn.LSTM(4, 4), torch.randn(3, 2, 4)

    def program():
        with torch.autocast("cpu"):
            layer(x)[0].sum().backward()

    document = in_program(program, tmp_path / "c")

    (call,) = (c for c in document["calls"] if "rnn_layer_backward" in c["operator"])
    assert call["id"] not in {ranked["id"] for ranked in ranked_calls(document)}
    text = (tmp_path / "c" / "experiment.py").read_text()
    assert f"in a form of its library: 1 {call['operator']} (workspace)." in text


@pytest.fixture
def settings_of_its_own():
    with CellSettings().in_force(None):
        yield


def test_calls_are_replayed_in_the_settings_of_the_program(tmp_path, settings_of_its_own):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    in_program(lambda: torch.full((8,), 0.5), tmp_path / "c", values=True)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(2)
    (outcome,) = replay_all(tmp_path / "c")
    assert outcome.same_bits, "the type of what it makes is the program's default"
    torch.set_default_dtype(torch.float16)  # in which 70,000 is infinite
    index = torch.cat([torch.zeros(70_000, dtype=torch.int64), torch.arange(9)])
    in_program(lambda: torch.ones(9).index_select(0, index), tmp_path / "d")
    calls = CapturedCalls(tmp_path / "d")
    (call,) = (n for n, call in calls.calls.items() if "index_select" in call["operator"])
    drawn = calls.inputs(call)["index"]
    assert (
        torch.bincount(drawn).sort().values.tolist() == torch.bincount(index).sort().values.tolist()
    )
    assert torch.get_num_threads() == 1


def test_results_of_tf32_are_compared_as_such(tmp_path, settings_of_its_own):
    x = torch.randn(64, 64)
    torch.set_float32_matmul_precision("high")
    document = in_program(lambda: x @ x, tmp_path / "c")
    torch.set_float32_matmul_precision("highest")
    accepted = {}
    for device in ("cpu", "cuda"):
        document["device"] = device  # that of the numbers below is a CPU in both
        (tmp_path / "c" / "calls.json").write_text(json.dumps(document))
        calls = CapturedCalls(tmp_path / "c")
        assert torch.get_float32_matmul_precision() == "high"
        inputs = calls.inputs(0, torch.device("cpu"))
        near = inputs["self"] @ inputs["mat2"] * (1 + 1e-3)
        accepted[device] = calls.check(near, inputs, {"call": 0}) is None
    assert accepted == {"cpu": False, "cuda": True}


def faults(folder):
    """Why results of the captured operators are wrong by the check of their own experiment."""
    calls = CapturedCalls(folder)
    for call in ranked_calls(calls.document):
        outputs = calls.launch(call["id"], calls.inputs(call["id"]))
        fault = calls.check(outputs, calls.inputs(call["id"]), {"call": call["id"]})
        yield call["operator"], fault


def test_results_of_operators_are_right_by_their_own_check(tmp_path):
    """Complex numbers, and what a library leaves beside its results, whatever lay there."""
    lstm, x = torch.nn.LSTM(4, 4), torch.randn(3, 2, 4)
    symmetric = torch.eye(6) + torch.ones(6, 6)  # any base of a space of five is right

    def program():
        torch.linalg.eigh(symmetric)
        f = torch.fft.rfft(x, dim=0)
        torch.fft.irfft(f * f + f, dim=0)
        lstm(x)

    with torch.no_grad():
        in_program(program, tmp_path / "c", values=True)

    found = dict(faults(tmp_path / "c"))
    assert {"aten._fft_r2c.default", "aten.mul.Tensor", "aten.mkldnn_rnn_layer.default"} < {*found}
    assert set(found.values()) == {None}
    assert [replay for replay in replay_all(tmp_path / "c") if replay.same_bits is False] == []
    calls = CapturedCalls(tmp_path / "c")
    multiply = next(n for n, call in calls.calls.items() if call["operator"] == "aten.mul.Tensor")
    (product, *_) = calls.launch(multiply, calls.inputs(multiply))
    assert "0 results" in calls.check(None, calls.inputs(multiply), {"call": multiply})
    product[0, 0, 0] += 1j
    assert "1 of" in calls.check(product, calls.inputs(multiply), {"call": multiply})


def test_results_beside_those_of_a_mask_are_compared_with_their_own_kind(tmp_path):
    mask = torch.ones(64, 64, dtype=torch.bool).triu(1)
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(64, 64).to(dtype)
        for number, fill in enumerate((-torch.finfo(dtype).max, -1e5)):
            folder = tmp_path / f"{dtype}-{number}"
            in_program(lambda x=x, fill=fill: x.masked_fill(mask, fill), folder, values=True)
            calls = CapturedCalls(folder)
            (right, *_) = calls.launch(0, calls.inputs(0))
            wrong = right.where(mask, right / 2)
            assert calls.check(right, calls.inputs(0), {"call": 0}) is None
            assert "of 4096 elements are wrong; first at [0, 0]: got" in calls.check(
                wrong, calls.inputs(0), {"call": 0}
            )
    assert "torch.int32, where torch.bfloat16" in calls.check(
        right.int(), calls.inputs(0), {"call": 0}
    )


def test_a_result_without_a_finite_number_is_right_for_recorded_inputs_alone(tmp_path):
    for values in (False, True):
        in_program(
            lambda: torch.ones(8, 8) / torch.zeros(8, 8), tmp_path / str(values), values=values
        )
    assert {fault and fault[-8:] for _, fault in faults(tmp_path / "False")} == {None, "--values"}
    assert {fault for _, fault in faults(tmp_path / "True")} == {None}


def test_a_graph_with_few_digits_inside_is_compared_by_them(tmp_path):
    x = torch.randn(64, 64)
    document = in_program(lambda: x @ x, tmp_path / "c")
    drawn = [CapturedCalls(tmp_path / "c").inputs(0, seed=seed)["self"] for seed in (0, 0, 1)]
    assert [tensor.equal(drawn[0]) for tensor in drawn] == [True, True, False]
    (call,) = document["calls"]
    (to_few, to_many) = ({"dtype": name} for name in ("bfloat16", "float32"))
    steps = [
        ("few", "aten._to_copy.default", ["x"], {"dtype": to_few}),
        ("product", "aten.mm.default", ["few", "few"], {}),
        ("sum", "prims.fma.default", ["product", "few", "few"], {}),  # inductor registers it
        ("many", "aten._to_copy.default", ["sum"], {"dtype": to_many}),
    ]
    call |= {
        "operator": "compiled.graph_0.forward",
        "arguments": {"inputs": [call["arguments"]["self"]]},
        "graph": {
            "inputs": ["x"],
            "nodes": [
                {
                    "name": name,
                    "operator": operator,
                    "arguments": [{"node": given} for given in arguments],
                    "named": named,
                }
                for name, operator, arguments, named in steps
            ],
            "outputs": [{"node": "many"}],
            "written": [],
        },
    }
    (tmp_path / "c" / "calls.json").write_text(json.dumps(document))

    assert dict(faults(tmp_path / "c")) == {"compiled.graph_0.forward": None}
    calls = CapturedCalls(tmp_path / "c")
    (right,) = calls.launch(0, calls.inputs(0))
    right[0, 0] += 10
    assert "1 of 4096" in calls.check(right, calls.inputs(0), {"call": 0})


def test_a_number_of_an_optimizer_makes_no_other_signature(tmp_path):
    x = torch.ones(4)

    def program():
        for number in range(5):
            x.mul(0.1 + number)
            x.mul(1.0)
            x.mul(2)
            x[:3].mul(2)

    calls = in_program(program, tmp_path / "c")["calls"]

    assert sorted(call["count"] for call in calls) == [5, 5, 5, 5]


def test_signatures_that_differ_in_one_size_are_one_family(tmp_path):
    weight = torch.ones(16, 16)
    sequences = [torch.ones(2, length, 16) for length in range(3, 13)]
    wider = [torch.ones(2, 5, width) for width in (8, 32)]

    def program():
        for x in sequences:
            x.flatten(0, 1) @ weight
        for x in (*sequences, *wider):
            x.add(1)

    document = in_program(program, tmp_path / "c")

    families = families_of(document["calls"])
    assert [sorted(sizes) for _, sizes in families] == [[*range(6, 25, 2)], [*range(3, 13)]]
    text = (tmp_path / "c" / "experiment.py").read_text()
    assert "10 signatures of aten.mm.default differ in one size alone (6 to 24): the 4" in text
    assert text.count('"call"') == 4 + 4 + 2


def test_what_no_kernel_makes_shorter_is_said():
    document = {
        "device": "cuda",
        "uncaptured_step_ns": 5_500_000,
        "steps": 2,
        "calls": [
            {"operator": "aten.mm.default", "time_ns": 4_000_000, "kernels": 4},
            {"operator": "aten.mm.default", "time_ns": 1_000_000, "kernels": 2},
            {"operator": "aten._foreach_mul_.Scalar", "time_ns": 1_000_000, "kernels": 80},
        ],
        "launches": [{"kind": "CUDA graph", "name": "replay", "time_ns": 2_000_000, "kernels": 14}],
    }
    assert gaps_sentence(document) == (
        "A step took 5.50 ms before it was captured, its 50 kernels, copies and fills 4.00 ms. "
        "What is between them is shorter with fewer of them, not with faster ones (most: 40 by "
        "foreach_mul_-Scalar, 7 by CUDA graph replay, 3 by mm)."
    )
    waits = {"span_ns": 5_000_000, "before_ns": {"mm": 900_000, "add": 100_000}}
    assert gaps_sentence({**document, "waits": waits}).endswith(
        "In a step that was not captured the GPU waited 1.00 ms of 5.00 ms between them (most: "
        "0.90 ms before mm, 0.10 ms before add)."
    )
    assert not gaps_sentence({**document, "device": "cpu"})
    assert not gaps_sentence({**document, "uncaptured_step_ns": None})


def test_what_only_tells_the_host_a_number_is_in_no_experiment(tmp_path):
    x, many = torch.ones(4), [torch.ones(8, 4) for _ in range(120)]

    def program():
        x.sum().item()
        torch.equal(x, x)
        torch._foreach_mul_(many, 2.0)

    calls = in_program(program, tmp_path / "c")["calls"]

    for_host = {call["operator"] for call in calls if call["for_host"]}
    assert for_host == {"aten._local_scalar_dense.default", "aten.equal.default"}
    text = (tmp_path / "c" / "experiment.py").read_text()
    assert re.findall(r'Experiment\(\s*"(.+)"', text) in (
        ["sum", "foreach_mul_-Scalar"],
        ["foreach_mul_-Scalar", "sum"],
    )
    assert '"shapes": "120xf32[3840 in all]"' in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # inductor imports what is old
def test_a_compiled_graph_is_one_call_and_runs_operator_by_operator(tmp_path):
    layer, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
    compiled = torch.compile(lambda x: torch.relu(layer(x)).sum())

    def program():
        for _ in range(2):
            compiled(x).backward()

    document = in_program(program, tmp_path / "c", values=True)

    graphs = {call["operator"]: call for call in document["calls"] if "graph" in call}
    assert [(name, call["count"]) for name, call in graphs.items()] == [
        ("compiled.graph_0.forward", 2),
        ("compiled.graph_1.backward", 2),
    ]
    operators = [node["operator"] for node in graphs["compiled.graph_0.forward"]["graph"]["nodes"]]
    assert {"aten.addmm.default", "aten.relu.default", "aten.sum.default"} <= set(operators)
    assert document["launches"] == []
    others = {call["operator"] for call in document["calls"]} - set(graphs)
    assert others == {"aten.ones_like.default", "aten.add_.Tensor"}
    assert [replay for replay in replay_all(tmp_path / "c") if replay.failure] == []
    calls = CapturedCalls(tmp_path / "c")
    number = graphs["compiled.graph_0.forward"]["id"]
    right = calls.graph(number)(calls.inputs(number)["inputs"])
    with torch.no_grad():
        assert right[0][0].item() == pytest.approx(torch.relu(layer(x)).sum().item(), rel=1e-5)
    assert calls.check(right, calls.inputs(number), {"call": number}) is None
    right[0][0].add_(1)
    assert "elements are wrong" in calls.check(right, calls.inputs(number), {"call": number})
    text = (tmp_path / "c" / "experiment.py").read_text()
    assert "return calls.compiled(calls.graph(call), inputs)" in text


class JITFunction:
    """What `triton.jit` makes of a function, as far as a capture uses it."""

    def __init__(self, fn):
        self.fn, self.arg_names = fn, list(inspect.signature(fn).parameters)

    def __getitem__(self, grid):
        return partial(self.run, grid=grid, warmup=False)

    def run(self, *args, grid, warmup, num_warps=4, **kwargs):
        if not warmup:
            for hook in HOOKS:
                hook(SimpleNamespace(data={"name": self.fn.__name__}))
            self.fn(*args, **kwargs)


class Autotuner:
    """What `triton.autotune` makes of a kernel."""

    def __init__(self, fn):
        self.fn = fn

    def __getitem__(self, grid):
        return partial(self.run, grid=grid)

    def run(self, *args, **kwargs):
        self._bench(*args, **kwargs)
        self.fn.run(*args, warmup=False, BLOCK=64, num_warps=8, **kwargs)

    def _bench(self, *args, **kwargs):
        self.fn.run(*args, warmup=False, BLOCK=32, **kwargs)


HOOKS: list = []


@pytest.fixture
def triton(monkeypatch):
    """A stand-in for Triton, by its documented names; the real one runs on a GPU alone."""
    names = {
        "triton": {},
        "triton.knobs": {
            "runtime": SimpleNamespace(
                launch_enter_hook=SimpleNamespace(add=HOOKS.append, remove=HOOKS.remove)
            )
        },
        "triton.runtime": {},
        "triton.runtime.jit": {"JITFunction": JITFunction},
        "triton.runtime.interpreter": {
            "InterpretedFunction": type("InterpretedFunction", (JITFunction,), {})
        },
        "triton.runtime.autotuner": {"Autotuner": Autotuner},
    }
    for name, members in names.items():
        module = ModuleType(name)
        vars(module).update(members)
        monkeypatch.setitem(sys.modules, name, module)


def scale_kernel(x, n, factor, BLOCK=16):  # noqa: N803 - a constant, as Triton has them
    x[:n] *= factor


def test_launches_of_triton_are_calls_of_their_kernels(tmp_path, triton):
    kernel, x = JITFunction(scale_kernel), torch.ones(100)
    tuned = Autotuner(kernel)
    kernel_of_a_test = JITFunction(lambda x: x.add_(1))

    def program():
        for _ in range(3):
            kernel[lambda given: (100 // given["BLOCK"],)](x, 100, factor=0.5, num_warps=2)
        tuned[2, 3](x, 50, 0.25)
        kernel_of_a_test[1,](x)
        for hook in HOOKS:  # a kernel that was compiled before, which no function launches
            hook(SimpleNamespace(data={"name": "compiled_before"}))

    document = in_program(program, tmp_path / "c", values=True)

    assert HOOKS == []
    shown = [
        (call["count"], call["launch"]["grid"], call["launch"]["options"], call["operator"])
        for call in document["calls"]
    ]
    name = f"{__name__}.scale_kernel"
    assert shown == [(3, [6], {"num_warps": 2}, name), (1, [2, 3], {"num_warps": 8}, name)]
    assert {(row["kind"], row["count"], row["left_out"]) for row in document["launches"]} == {
        (
            "Triton kernel",
            1,
            "kernels of the program itself: a module that can be imported is needed",
        ),
        ("Triton kernel", 1, "launched without its function"),
    }
    calls = CapturedCalls(tmp_path / "c")
    inputs = calls.inputs(1)
    assert (inputs["n"], inputs["BLOCK"], float(inputs["x"][0])) == (50, 64, 0.03125)
    (changed,) = calls.relaunch(tuned, 1, inputs)
    assert changed[49:51].tolist() == [0.0078125, 0.125]
    check = calls.same_as(lambda call, **arguments: calls.relaunch(kernel, call, arguments))
    assert check([changed], calls.inputs(1), {"call": 1}) is None
    assert "50 of 100" in check([calls.inputs(1)["x"]], calls.inputs(1), {"call": 1})
    text = (tmp_path / "c" / "experiment.py").read_text()
    assert "    return calls.relaunch(scale_kernel, call, {" in text
    assert "launched without its function" in text
    ast.parse(text)


def test_replays_of_cuda_graphs_are_named_and_counted(tmp_path, monkeypatch):
    graph = SimpleNamespace(ran=0)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda it: setattr(it, "ran", it.ran + 1))

    def program():
        for _ in range(3):
            torch.cuda.CUDAGraph.replay(graph)

    (row,) = in_program(program, tmp_path / "c")["launches"]

    assert graph.ran == 3
    assert (row["kind"], row["count"], row["left_out"]) == (
        "CUDA graph",
        3,
        "it reads and writes where it was recorded",
    )
    assert row["time_ns"] > 0
    assert torch.cuda.CUDAGraph.replay.__name__ == "<lambda>"


def test_skewed_indices_are_compared_with_uniform_ones(tmp_path):
    experts = torch.arange(8).repeat_interleave(torch.tensor([900, *[10] * 7]))
    routed, table = experts[torch.randperm(970)], torch.randn(8, 4)
    even = torch.arange(8).repeat_interleave(100)
    ends = torch.tensor([900, 910, 920, 930, 940, 950, 960, 970], dtype=torch.int32)

    def program():
        for indices in (routed, even):
            table.index_select(0, indices)
        ends.add(1)

    in_program(program, tmp_path / "c")

    problems = re.findall(
        r'\{"call": (\d).*?"per_step": (\d)(?:, "indices": "(\w+)")?\}',
        (tmp_path / "c" / "experiment.py").read_text(),
    )
    skewed = {("0", "1", "captured"), ("1", "1", "captured"), ("0", "0", "uniform")}
    assert set(problems) == skewed | {("2", "1", "captured"), ("2", "0", "uniform")}
    calls = CapturedCalls(tmp_path / "c")
    counts = {
        indices: calls.inputs(0, indices=indices)["index"].bincount().sort().values.tolist()
        for indices in ("captured", "uniform")
    }
    assert counts["captured"] == [*[10] * 7, 900]
    assert counts["uniform"] == [121] * 6 + [122] * 2
    drawn = calls.inputs(2)["self"]
    assert sorted(drawn.diff(prepend=drawn.new_zeros(1)).tolist()) == [*[10] * 7, 900]
    assert calls.inputs(2, indices="uniform")["self"].tolist() == [
        round(970 / 8 * n) for n in range(1, 9)
    ]


def test_a_trace_gives_the_calls_whose_shapes_and_numbers_are_enough(tmp_path):
    layer, table = torch.nn.Linear(16, 8), torch.nn.Embedding(10, 16)
    x, indices = torch.randn(4, 16), torch.tensor([1, 3])
    turns = torch.polar(x, x)

    def program():
        with torch.no_grad():
            turns.mul(turns)
            layer(x).add_(1).mul(0.5).t().contiguous()
            (x > 0).to(torch.float64)
            torch.nn.functional.layer_norm(x, (16,), eps=1e-3)
            table(indices)
            torch.nn.functional.gelu(x)
            torch.cat([x, x])

    with torch.profiler.profile(record_shapes=True) as recorded:
        program()
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    ranks = experiment_of_trace(tmp_path / "trace.json", tmp_path / "t")
    live = in_program(program, tmp_path / "live")

    def signatures(document):
        return {
            (
                call["operator"],
                *[str(_without_values(value)) for value in call["arguments"].values()],
            )
            for call in document["calls"]
        }

    traced = read_calls(tmp_path / "t")
    assert signatures(traced) <= signatures(live)
    left = {operator for operator, *_ in signatures(live) - signatures(traced)}
    assert left == {"aten.embedding.default", "aten.gelu.default", "aten.cat.default"}
    reasons = {rank.name: rank.reason for rank in ranks if rank.reason}
    assert reasons == {
        "aten::embedding": "needs a live capture: indices, of which the values count",
        "aten::gelu": "needs a live capture: words among the arguments",
        "aten::cat": "needs a live capture: types of lists of tensors",
    }
    assert [replay for replay in replay_all(tmp_path / "t") if replay.failure] == []
    ast.parse((tmp_path / "t" / "experiment.py").read_text())


def _without_values(argument):
    if isinstance(argument, dict) and "tensor" in argument:
        return {**argument["tensor"], "values": {}, "storage": 0}
    return "number" if isinstance(argument, int | float) else argument


def test_kernels_of_a_trace_belong_to_the_outermost_operator(tmp_path):
    shapes = {
        "Input Dims": [[4], [4], []],
        "Input Strides": [[1], [1], []],
        "Input type": ["float", "float", "Scalar"],
        "Concrete Inputs": ["", "", "1"],
    }
    operators = [
        ("aten::add", 10, 50, {"External id": 1, **shapes}),
        ("aten::inner", 20, 10, {"External id": 2}),
        ("mine::op", 70, 10, {"External id": 3}),
    ]
    kernels = [("one", 5, 1), ("two", 30, 2), ("two", 7, 3), ("of nobody", 99, 8)]
    events = [
        {"cat": "cpu_op", "tid": 1, "name": name, "ts": ts, "dur": dur, "args": args}
        for name, ts, dur, args in operators
    ] + [
        {"cat": "kernel", "tid": 7, "name": name, "ts": 0, "dur": dur, "args": {"External id": of}}
        for name, dur, of in kernels
    ]
    file = tmp_path / "trace.json.gz"
    with gzip.open(file, "wt") as stream:
        json.dump({"traceEvents": events}, stream)

    ranks = experiment_of_trace(file, tmp_path / "t")

    assert [(rank.name, rank.ns, rank.calls) for rank in ranks] == [
        ("two", 37_000, 2),
        ("one", 5_000, 1),
    ]
    assert ranks[0].reason == "needs a live capture: its library is not imported"
    (call,) = read_calls(tmp_path / "t")["calls"]
    assert (call["operator"], call["time_ns"]) == ("aten.add.Tensor", 35_000)


def test_a_planted_slow_operator_is_first_of_200(tmp_path, monkeypatch):
    now = [0]
    monkeypatch.setattr(recording.time, "perf_counter_ns", lambda: now[0])
    tensors = [torch.ones(size) for size in range(1, 201)]

    @torch.library.custom_op("capture_tests::slow", mutates_args=())
    def slow(x: torch.Tensor) -> torch.Tensor:
        now[0] += 1000
        return x.clone()

    def program():
        for number, x in enumerate(tensors):
            x.exp()
            if number == 100:
                slow(x)

    ranked = ranked_calls(in_program(program, tmp_path / "c"))

    assert len(ranked) == 201
    assert (ranked[0]["operator"], ranked[0]["time_ns"]) == ("capture_tests.slow.default", 1000)
    text = (tmp_path / "c" / "experiment.py").read_text()
    assert "# import ...  # the module that registers the operators of capture_tests" in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensors_without_memory_and_operators_of_functions_run_as_they_do_without(tmp_path):
    x = torch.ones(2)

    def program():
        with FakeTensorMode():
            torch.empty(2, 3).detach().exp()
        torch.cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (x,))
        x.exp()

    document = in_program(program, tmp_path / "c")

    assert [(call["operator"], call["count"]) for call in document["calls"]] == [
        ("aten.exp.default", 1)
    ]
    assert document["left_out"]["higher-order operators"] == {"cond": 1}


def test_a_class_of_tensors_without_calls_of_its_own_is_plain(tmp_path):
    layer, x = torch.nn.LazyLinear(3), torch.ones(2, 4)
    document = in_program(lambda: layer(x), tmp_path / "c")
    counts = {call["operator"]: call["count"] for call in document["calls"]}
    assert counts["aten.addmm.default"] == 1


def test_steps_end_with_those_of_the_first_optimizer(tmp_path, capsys):
    model = torch.nn.Linear(2, 2)
    first, second = (torch.optim.SGD(model.parameters(), 0.1) for _ in range(2))

    def program(steps):
        for _ in range(steps):
            model(torch.ones(1, 2)).sum().backward()
            first.step()
            second.step()

    documents = {}
    for name, window, steps in [
        ("few", (2, 4), 1),
        ("window", (2, 4), 6),
        ("only_before", (2, 4), 2),
        ("only_described", (3, 5), 3),
        ("not_described", (3, 5), 2),
        ("late", (20, 21), 21),
        ("all", None, 3),
    ]:
        with profiler.capture(tmp_path / name, steps=window):
            program(steps)
        documents[name] = read_calls(tmp_path / name)

    shown = {
        name: (document["first_step"], document["steps"], document["uncaptured_step_ns"] is None)
        for name, document in documents.items()
    }
    assert shown == {
        "few": (0, 1, True),
        "window": (2, 2, False),
        "only_before": (0, 1, False),
        "only_described": (2, 1, False),
        "not_described": (0, 1, False),
        "late": (20, 1, False),
        "all": (0, 3, True),
    }
    said = capsys.readouterr().err
    assert said.count("its step 2 never ended") == said.count("its step 3 never ended") == 2
    for name, count in [("window", 2), ("only_described", 1), ("not_described", 1), ("all", 3)]:
        counts = {call["operator"]: call["count"] for call in documents[name]["calls"]}
        assert counts["aten.addmm.default"] == count, name


@pytest.mark.filterwarnings("ignore")  # torch's, of what it compiles
def test_steps_end_with_those_of_a_compiled_optimizer(tmp_path):
    """Torch sets back whether a mode is on when compiled code returns: it must not be another."""
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, foreach=False)
    step = torch.compile(optimizer.step, backend="eager")
    with profiler.capture(tmp_path / "c", steps=(3, 5)):
        for _ in range(6):
            model(torch.ones(1, 2)).sum().backward()
            step()
            optimizer.zero_grad()

    document = read_calls(tmp_path / "c")

    assert (document["first_step"], document["steps"]) == (3, 2)
    assert document["uncaptured_step_ns"] is None
    counts = {call["operator"]: call["count"] for call in document["calls"]}
    assert counts["aten.addmm.default"] == 2
    assert torch.ones(2).add(1).tolist() == [2, 2]


def test_signatures_are_described_in_the_step_before(tmp_path, monkeypatch):
    x, n, described = torch.arange(4.0), torch.arange(4), Counter()
    original = dispatched_calls.CallDescription

    def counted(*args, **kwargs):
        described[step] += 1
        return original(*args, **kwargs)

    monkeypatch.setattr(dispatched_calls, "CallDescription", counted)
    with profiler.capture(tmp_path / "c", steps=(4, 6)) as captured:
        for step in range(7):
            x.exp()
            x[: 1 + step % 4].mul(n[: 1 + step % 4])
            if step == 3:
                x.cos()
            captured.step()

    assert described == {0: 2, 3: 3, 4: 1, 5: 1}
    calls = read_calls(tmp_path / "c")["calls"]
    assert [(call["id"], call["operator"], call["count"]) for call in calls] == [
        (0, "aten.exp.default", 2),
        (1, "aten.mul.Tensor", 1),
        (2, "aten.mul.Tensor", 1),
    ]
    for size, call in enumerate(calls[1:], 1):  # looked at are only integers there
        numbers, integers = (call["arguments"][name]["tensor"] for name in ("self", "other"))
        assert numbers["shape"] == integers["shape"] == [size]
        assert (numbers["values"]["mean"], integers["values"]["max"]) == (1.5, size - 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_dynamo_leaves_eager_is_not_compiled_for_the_capture(tmp_path):
    x = torch.ones(4)

    @torch.compile(backend="eager")
    def broken(x):
        y = x.exp()
        torch._dynamo.graph_break()
        return y[y.nonzero()]

    def frames():
        torch._dynamo.reset()  # forgets callbacks, too
        torch._dynamo.utils.counters.clear()
        broken(x)
        return dict(torch._dynamo.utils.counters["frames"])

    without, found = frames(), {}
    document = in_program(lambda: found.update(frames()), tmp_path / "c")

    assert found == without
    counts = {call["operator"]: call["count"] for call in document["calls"]}
    assert counts == {
        f"aten.{name}": 1 for name in ("exp.default", "nonzero.default", "index.Tensor")
    }


def test_the_example_of_the_docs_captures_three_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "example.py").write_text(example)
    runpy.run_path("example.py")

    document = read_calls(tmp_path / "slow")

    assert document["steps"] == 3
    assert {call["operator"]: call["count"] for call in document["calls"]} == {
        "aten.addmm.default": 3,
        "aten.gelu.default": 3,
    }


def test_kernels_are_summed_by_the_call_that_launched_them():
    host, gpu = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA
    events = [
        *(("call 3", host, 2.0), ("call 3", host, 0.5), ("aten::mm", host, 2.0)),
        *(("call 3", gpu, 9.0), ("call 7", host, 1.0)),
    ]
    records = [
        SimpleNamespace(
            name=name, device_type=device, device_time_total=micro, kernels=["one", "two"]
        )
        for name, device, micro in events
    ]
    assert sums(records, "call ") == ({3: 2500, 7: 1000}, {3: 4, 7: 2})


def test_waits_of_a_gpu_are_told_by_what_ends_them():
    host, gpu = torch.autograd.DeviceType.CPU, torch.autograd.DeviceType.CUDA

    def event(name, device, start, end, kernels=()):
        return SimpleNamespace(
            name=name,
            device_type=device,
            time_range=SimpleNamespace(start=start, end=end),
            kernels=[SimpleNamespace(name=kernel) for kernel in kernels],
            is_user_annotation=False,
        )

    captured = [
        event("call 2", host, 5, 6, ["gemm", "add"]),
        event("call 1", host, 1, 2, ["gemm"]),
        event("call 9", host, 0, 1, ["gemm"]),  # of a step before
    ]
    order = {}
    for number, kernel in kernel_times.launched_kernels(captured, "call "):
        order.setdefault(kernel, []).append(number)
    assert order == {"gemm": [9, 1, 2], "add": [2]}
    uncaptured = [
        event("fill", gpu, 0, 1),
        event("cudaLaunchKernel", host, 0, 9),
        event("gemm", gpu, 10, 20),
        event("copy", gpu, 15, 16),
        event("gemm", gpu, 23, 30),
        event("add", gpu, 30, 31),
        event("other", gpu, 31.5, 33),
        event("gemm", gpu, 34, 35),
    ]
    waits = kernel_times.waits_between(uncaptured)
    assert waits.span_ns == 25_000
    by_call = waits.by_call(order, {1: "mm", 2: "addmm"})
    assert +by_call == {"addmm": 3000 + 1000, "what is not captured": 500}
    assert kernel_times.waits_between(uncaptured[:2]) is None


def test_calls_are_marked_while_kernels_are_timed(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kernel_times, "_MARKED", kernel_times._MARKED[:1])
    marked = []
    monkeypatch.setattr(
        kernel_times, "sums", lambda events, _mark: marked.extend(events) or (Counter(),) * 2
    )
    x = torch.ones(4, requires_grad=True)

    calls = in_program(lambda: x.exp().sum().backward(), tmp_path / "c")["calls"]

    names = [event.name for event in marked if event.name.startswith("captured call")]
    assert sum(call["count"] for call in calls) <= len(names)
    assert all(call["time_ns"] > 0 for call in calls)


def test_a_profile_that_ends_inside_a_range_has_not_seen_it_begin(tmp_path, monkeypatch):
    """An optimizer has one around its hooks; torch writes into freed memory where it outlives."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for activities in ("_MARKED", "_ON_GPU"):
        monkeypatch.setattr(kernel_times, activities, kernel_times._MARKED[:1])
    profiles, events_of = [], kernel_times._events_of
    monkeypatch.setattr(
        kernel_times, "_events_of", lambda begun: profiles.append(events_of(begun)) or profiles[-1]
    )
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with profiler.capture(tmp_path / "c", steps=(4, 5)):
        for _ in range(6):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    document = json.loads((tmp_path / "c/calls.json").read_text())
    assert (document["complete"], document["waits"]) == (True, None)
    first, uncaptured, last = profiles
    assert {event.name.rpartition(" ")[0] for event in (*first, *last)} == {"captured call"}
    assert list(uncaptured) == []
    with torch.profiler.profile() as own:
        model(torch.ones(2, 4))
    assert "aten::addmm" in [event.name for event in own.events()]


def test_a_program_that_lets_others_compute_is_told_so(tmp_path, capsys):
    with profiler.capture(tmp_path / "c", values=True):
        pass
    assert "what other threads and processes call is not captured" in capsys.readouterr().err
    assert not (tmp_path / "c").exists()


def test_integers_in_a_long_list_of_numbers_are_described_in_a_recorded_step(tmp_path):
    """Its other tensors are like those of the step before, which has other sizes."""
    with profiler.capture(tmp_path / "c", steps=(3, 4)) as recording:
        for step in range(4):
            numbers = [torch.ones(3 + step) for _ in range(20)]
            torch._foreach_add([*numbers, torch.tensor([step, 7])], 1)
            recording.step()
    (call,) = (
        call
        for call in CapturedCalls(tmp_path / "c").calls.values()
        if call["operator"] == "aten._foreach_add.Scalar"
    )
    *_, last = CapturedCalls(tmp_path / "c").inputs(call["id"])["self"]
    assert set(last.tolist()) <= {*range(3, 8)}


def test_inputs_of_an_operator_that_nothing_registers_say_what_to_import(tmp_path):
    document = in_program(lambda: torch.ones(3).exp(), tmp_path / "c")
    document["calls"][0]["operator"] = "nolib.twice.default"
    (tmp_path / "c" / "calls.json").write_text(json.dumps(document))
    with pytest.raises(CapturedFolderError, match=r"nolib\.twice\.default: import"):
        CapturedCalls(tmp_path / "c").inputs(0)


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="not empty"):
        profiler.capture(tmp_path)
    with pytest.raises(CapturedFolderError):
        CapturedCalls(tmp_path)


def test_nothing_private_is_kept_without_values(tmp_path, monkeypatch):
    monkeypatch.setenv("A_TOKEN", "hunter2hunter2")
    secret = torch.tensor([7, 271828, 31415, 299792, 31415, 300_000])
    weights = torch.tensor([0.123456789, 0.987654321, 0.5])

    @torch.library.custom_op("capture_tests::say", mutates_args=())
    def say(x: torch.Tensor, text: str) -> torch.Tensor:
        return x.clone()

    def program():
        torch.bincount(secret)
        weights.exp()
        say(weights, "once upon a time")

    in_program(program, tmp_path / "c")
    kept = "".join(path.read_text() for path in (tmp_path / "c").iterdir())

    assert "text among the arguments" in kept
    for private in (
        "hunter2",
        "upon a time",
        "0.98765",
        str(tmp_path),
        os.environ["HOME"],
        "test_",
    ):
        assert private not in kept
    numbers = {
        each
        for call in json.loads((tmp_path / "c/calls.json").read_text())["calls"]
        for each in _numbers(call)
    }
    assert numbers.isdisjoint({271828, 31415, 299792})


def _numbers(value):
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _numbers(item)
    else:
        yield value


def of(tensor, seed=0):
    """Elements like those of a tensor, which are drawn from what is kept of it."""
    like = json.loads(json.dumps(describe(tensor)))
    return draw(like, tensor.numel(), tensor.dtype, torch.Generator().manual_seed(seed))


def test_drawn_integers_are_as_unequally_frequent():
    counts = torch.tensor([900, 60, 30, 10])
    routed = torch.arange(4).mul(5).repeat_interleave(counts)[torch.randperm(1000)]
    many = (torch.rand(20_000) ** 8 * 5000).long()
    offsets = torch.tensor([0, 0, 3, 7, 7, 30], dtype=torch.int32)
    order = torch.randperm(100)

    drawn = of(routed).unique(return_counts=True)[1].sort(descending=True).values
    assert drawn.tolist() == counts.tolist()
    for seed in range(3):
        head = of(many, seed).bincount().sort(descending=True).values[:64]
        assert head.tolist() == many.bincount().sort(descending=True).values[:64].tolist()
        again = of(offsets, seed)
        assert again.tolist() == sorted(again.tolist())
        assert (again[0], again[-1], again.dtype) == (0, 30, torch.int32)
        assert of(order, seed).unique().numel() == 100
    assert of(many).max() <= many.max()
    ignored = torch.where(torch.rand(500) < 0.5, -100, torch.randint(3, 50, (500,)))
    drawn = of(ignored)
    assert drawn.min() == -100
    assert drawn[drawn != -100].min() >= 3
    assert of(torch.tensor([True, False, True, True])).sum() == 3
    lengths = torch.tensor([10**12, 5, 0])  # of packed sequences
    assert of(lengths).tolist() == sorted(of(lengths).tolist(), reverse=True)
    assert (of(lengths)[0], of(lengths)[-1]) == (10**12, 0)


def test_drawn_numbers_keep_what_is_no_number():
    masked = torch.randn(4000).mul(3).add(5)
    masked[::2] = -torch.inf
    masked[1::4] = 0

    drawn = of(masked)

    assert drawn.isneginf().float().mean() == pytest.approx(0.5, abs=0.05)
    assert (drawn == 0).float().mean() == pytest.approx(0.25, abs=0.05)
    assert of(torch.full((3,), torch.nan)).isnan().all()
    assert of(torch.empty(0)).numel() == 0
    assert of(torch.ones(5, dtype=torch.float8_e4m3fn)).float().tolist() == [1.0] * 5
    assert of(torch.complex(torch.ones(8), torch.zeros(8))).dtype == torch.complex64
