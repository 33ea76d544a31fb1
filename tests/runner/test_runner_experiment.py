"""Experiments in Python files: what the decorators take, and how the runner calls the functions."""

import subprocess
import sys
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from profiler.kernels.references import ALL_SIGNS, WithoutNarrowTypes, move, nudge, scaled_product
from profiler.runner.arguments import Arguments
from profiler.runner.checks.check import WrongResultError, as_tensors, compare, count_wrong
from profiler.runner.checks.rounding import rounding_in
from profiler.runner.experiment import Experiment, experiment_of, importing
from profiler.runner.functions import FunctionWorkload
from profiler.runner.import_path import import_file
from profiler.runner.protocol import JobCell, JobVisit, Tolerance
from profiler.runner.unused import unused_parts
from profiler.runner.variant_options import ExperimentError

CPU = torch.device("cpu")


def make(**fields):
    experiment = Experiment("sums", problems={"rows": [3, 5]}, **fields)
    experiment.inputs(lambda rows: torch.ones(rows, 4))
    return experiment


def plus(x, k=0):
    """Sum of each row.

    And more.
    """
    return x.sum(1) + k - k


# ---- what the decorators take --------------------------------------------------------------------


def test_a_variant_stands_for_each_combination_of_its_parameters():
    experiment = make()
    experiment.variant(plus)
    experiment.variant(name="shifted", k=[1, 2])(plus)
    variants = experiment.description()["variants"]
    assert [variant["name"] for variant in variants] == ["plus", "shifted k=1", "shifted k=2"]
    assert [variant["params"] for variant in variants] == [
        {"function": "plus"},
        {"function": "shifted", "k": 1},
        {"function": "shifted", "k": 2},
    ]
    assert [variant["note"] for variant in variants] == ["Sum of each row."] * 3
    assert experiment.description()["problems"] == {"rows": [3, 5]}


def test_a_function_may_have_several_grids():
    experiment = make()
    for k, warps in ((1, 4), (2, 8)):
        experiment.variant(name="f", k=k, warps=warps)(plus_of_warps)
    assert [variant["params"] for variant in experiment.description()["variants"]] == [
        {"function": "f", "k": 1, "warps": 4},
        {"function": "f", "k": 2, "warps": 8},
    ]


def test_numbers_of_numpy_are_numbers():
    experiment = make(margin_pct=np.float32(0.5), collect={"blocks": (np.int64(2), 4)})
    experiment.variant(k=[np.int32(1)])(plus)
    description = experiment.description()
    assert description["fields"] == {"margin_pct": 0.5, "collect": {"blocks": [2, 4]}}
    assert type(description["variants"][0]["params"]["k"]) is int


def plus_of_warps(x, k, warps):
    return plus(x, k) + 0 * warps


def twice_the_baseline():
    experiment = make()
    experiment.variant(baseline=True)(plus)
    experiment.variant(name="other", baseline=True)(plus)


def two_of_one_name():
    experiment = make()
    experiment.variant(plus)
    experiment.variant(name="plus")(lambda x: x)


def without_inputs():
    experiment = Experiment("sums")
    experiment.variant(plus)
    experiment.description()


def baseline_of_several_variants():
    experiment = make()
    experiment.variant(baseline=True, k=[1, 2])(plus)
    experiment.description()


def with_a_dtype():
    experiment = make(collect={"seed": torch.float16})
    experiment.variant(plus)
    experiment.description()


def of_no_problem(role):
    def describe():
        experiment = Experiment("sums", problems=[{"rows": 1}, {"columns": 2}])
        getattr(experiment, role)(lambda rows, column, device, seed=3, more=4: None)
        if role != "inputs":
            experiment.inputs(lambda rows: None)
        experiment.variant(plus)
        experiment.description()

    return describe


def two_values_of_one_name(*values):
    def describe():
        experiment = make()
        for number, value in enumerate(values):
            experiment.variant(k=value, name=f"plus{number}")(plus)
        experiment.description()

    return describe


def started_while_it_is_imported():
    with importing():
        make().run()


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (twice_the_baseline, "plus and other are both called the baseline"),
        (two_of_one_name, "two functions are called plus"),
        (without_inputs, "sums has no inputs"),
        (lambda: make().description(), "sums has no variants"),
        (lambda: make().variant(block=3)(plus), "plus takes no argument block"),
        (lambda: make().variant(k=[])(plus), "plus: k has no values"),
        (lambda: make().variant(variant=[1])(plus), "a parameter cannot be called variant"),
        (lambda: make().variant(partial(plus, k=1)), "has no name"),
        (lambda: make().inputs(plus), "sums has two functions for inputs"),
        (lambda: make(variants=[]), "variants: sums has it from its functions"),
        (baseline_of_several_variants, "plus is the baseline and stands for 2 variants"),
        (with_a_dtype, "collect: seed: torch.float16 is no text"),
        *(
            (
                of_no_problem(role),
                f"{role} take column, which no problem has; did you mean columns?",
            )
            for role in ("inputs", "outputs", "flops", "bytes")
        ),
        (two_values_of_one_name(torch.relu, torch.nn.functional.relu), "two values called relu"),
        (two_values_of_one_name([torch.float16, "float16"]), "k has two values called float16"),
        (started_while_it_is_imported, 'put it under `if __name__ == "__main__":`'),
    ],
)
def test_mistakes_are_said(mistake, message):
    with pytest.raises(ExperimentError) as caught:
        mistake()
    assert message in str(caught.value)


def test_a_value_may_be_given_twice():
    two_values_of_one_name(torch.relu, torch.relu)()
    two_values_of_one_name((1, 2), [[1, 2]], "relu")()


ANSWERS = {
    "right": [None, True, np.bool_(True), torch.tensor([True])],
    "wrong": ["a reason", False, np.bool_(False), torch.tensor(False)],
    "unclear": [0.0, 1, torch.tensor(0.0), np.ones(3, bool), "", []],
}


@pytest.mark.parametrize(
    ("outcome", "answer"), [(key, answer) for key, answers in ANSWERS.items() for answer in answers]
)
def test_a_check_answers_by_a_truth_value_or_a_reason(outcome, answer):
    experiment = make()
    experiment.variant(plus)
    experiment.check(lambda outputs, _, bound=1.0: answer if bound == 1.0 else "no bound")
    arguments = Arguments((), {}, ())
    check = FunctionWorkload(experiment).own_check({"function": "plus"}, {}, arguments)
    errors = {"wrong": WrongResultError, "unclear": TypeError}
    with pytest.raises(errors[outcome]) if outcome in errors else nullcontext():
        check(torch.ones(1))


LOOP = """
for number, name in ((1, "one"), (2, "two")):
    @sums.variant(name=name)
    def run(x{argument}):
        return x + number
"""
CHECKS = """
for k in (1, 2):
    @sums.variant(name=f"times{{k}}", check=lambda outputs, x{argument}: (outputs == k * x).all())
    def run(x, k=k): return k * x
"""
KERNELS = """
def kernel(x): return x + 1
@sums.variant
def first(x): return kernel(x)
def kernel(x): return x + 2
@sums.variant
def second(x): return kernel(x)
"""


def test_a_file_of_functions_has_each_name_once(tmp_path):
    file = tmp_path / "sums.py"
    file.write_text("def inputs(): return 1\ndef run(x): return x\ndef run(x): return x + 1\n")
    with pytest.raises(
        ExperimentError, match="two functions are called run: give one another name"
    ):
        experiment_of(import_file(file))


NO_FUNCTIONS = """
import functools
class Jitted:
    def __init__(self, function): self.function = function
    def __call__(self, x): return self.function(x)
class Kernel(Jitted):
    def __getitem__(self, grid): return self
def inputs(): return 1
def run(x): return x
@Jitted
def fast(x): return x
@Jitted
def _helper(x): return x
@Jitted
def used(x): return x
@Kernel
def kernel(x): return x
@functools.cache
def table(): return 1
def twice(function): return function
def times(n): return twice
@twice
def Flop(n): return n
def load(): return used(2)
@times(n=3)
def half(x): return x / load()
def quarter(x): return half(half(x))
def by_parts(x, parts, *, scale=1): return sum(x / parts for _ in range(parts))
def in_two(x): return by_parts(x, 2)
def test_run(): assert run(1) == 1
def main(): print(half(inputs()))
again = functools.partial(run)
eighth = functools.partial(half)
for step in (1, 2):
    def stepped(x): return eighth(x) + step
if __name__ == "__main__":
    main()
"""


def test_what_of_a_file_of_functions_is_not_measured_is_noted(tmp_path):
    file = tmp_path / "sums.py"
    file.write_text(NO_FUNCTIONS)
    experiment = experiment_of(import_file(file))
    assert list(experiment.variants) == ["run", "Flop", "half", "quarter", "in_two", "stepped"]
    not_a_function, assigned, in_a_loop, *of_helpers, misspelled = experiment.notes
    assert not_a_function.startswith("fast is no variant: ")
    assert misspelled == "Flop is measured as a variant; did you mean flops?"
    assert in_a_loop.startswith("stepped is defined in a loop: ")
    assert assigned.startswith("again is no variant: only functions that the file defines are.")
    assert of_helpers == [
        "half is measured as a variant, and quarter calls it: the name of a helper begins with an "
        "underscore.",
        "by_parts is no variant: in_two calls it, and it takes another number of inputs.",
        "table is no variant: it takes no inputs.",
        "test_run is no variant: it takes no inputs.",
    ]


def test_a_file_whose_comments_are_no_text_is_refused_for_that(tmp_path):
    """Python compiles it, and gives no source of its functions."""
    file = tmp_path / "sums.py"
    file.write_bytes(b"def inputs(n=1): return n\ndef run(x): return x  # \xe9\n")
    with pytest.raises(UnicodeDecodeError, match="'utf-8' codec can't decode byte 0xe9"):
        experiment_of(import_file(file))


def read_in_a_closure(x, k):
    def add():
        return x + k

    return add()


def read_by_name(x, **others):
    return x + others["k"]


def unread(x, k):
    return x


def unread_by_name(x, **_):
    return x


@pytest.mark.parametrize("values", [[1, 2], [1]])
@pytest.mark.parametrize(
    ("function", "is_noted"),
    [
        (plus, False),
        (read_in_a_closure, False),
        (read_by_name, False),
        (torch.no_grad()(unread), False),  # a wrapper may read what it is given
        (partial(plus, k=0), False),
        (unread, True),
        (unread_by_name, True),
    ],
)
def test_parameters_that_nothing_reads_are_noted(function, is_noted, values):
    is_noted = is_noted and len(values) > 1
    experiment = Experiment("sums", problems={})
    experiment.inputs(lambda: torch.ones(3))
    experiment.variant(k=values, name="f")(function)
    sentence = "The parameter 'k' changes no launch: f does not read it"
    assert [note[: len(sentence)] for note in unused_parts(experiment)] == (
        [sentence] if is_noted else []
    )


def test_two_names_that_one_instruction_loads_are_read(monkeypatch):
    loads_both = SimpleNamespace(opname="LOAD_FAST_LOAD_FAST", argval=("x", "k"))
    monkeypatch.setattr("dis.get_instructions", lambda _: [loads_both])  # as since Python 3.13
    experiment = Experiment("sums", problems={})
    experiment.variant(k=[1, 2])(plus)
    assert not unused_parts(experiment)


@pytest.mark.parametrize(
    ("problems", "names"),
    [
        ({"rows": [1, 2], "k": [1, 2], "label": "a"}, []),
        ({"rows": [1, 2], "k": 1, "label": ["a", "b"]}, ["label"]),
        ([{"rows": 1, "label": "a"}, {"rows": 2, "label": "b"}], []),
        ([{"rows": 1, "label": "a"}, {"rows": 1, "label": "b"}, {"rows": 2}], ["label"]),
        (None, []),
    ],
)
def test_problems_that_no_function_tells_apart_are_noted(problems, names):
    experiment = Experiment("sums", problems=problems)
    experiment.inputs(lambda rows=3: torch.ones(rows))
    experiment.variant(plus)
    notes = unused_parts(experiment)
    assert [note.split("'")[1] for note in notes] == names


def test_an_argument_that_is_almost_a_parameter_is_noted():
    experiment = Experiment("sums", problems=[{"rows": 1, "dtype": "float16"}])
    experiment.inputs(lambda rows, dtyp=None, row=2, seed=0: torch.ones(rows, dtype=dtyp))
    experiment.variant(name="f")(lambda x, dtype: x)
    (note,) = unused_parts(experiment)
    assert note == "Nothing gives inputs its argument 'dtyp'; did you mean 'dtype'?"


def test_options_that_are_not_used_are_noted():
    experiment = make()
    experiment.variant(k=[1, 2])(plus)
    experiment.variant(k=[2, 3])(plus)
    assert not unused_parts(experiment)
    experiment.variant(k=[3, 4], in_place=True)(plus)
    (note,) = unused_parts(experiment)
    assert note.startswith("plus is marked twice with the same parameters: ")


def test_what_a_check_stands_in_for_is_noted():
    experiment = make(tolerance={"absolute": 1})
    experiment.variant(name="own", check=print, tolerance={"relative": 1})(plus)
    experiment.reference(plus)
    (note,) = unused_parts(experiment)
    assert note.startswith("The tolerance of own is not used: ")
    experiment.check(print)
    unused_names = [note.partition(" is not used: ")[0] for note in unused_parts(experiment)]
    assert unused_names == ["The reference", "The tolerance", "The tolerance of own"]


def test_a_condition_has_the_values_of_the_loop_that_it_is_given_in():
    experiment = make()
    for block in (32, 64):
        experiment.variant(name=f"b{block}", when=lambda rows: rows % block == 0)(plus)  # noqa: B023
    described = experiment.description()["variants"]
    assert [variant["when"] for variant in described] == ["rows % 32 == 0", "rows % 64 == 0"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOOP.format(argument=""), "one would run with a later number: "),
        (LOOP.format(argument=", number=number"), None),
        (CHECKS.format(argument=""), "times1 would be checked with a later k: .*lambda …, k=k"),
        (CHECKS.format(argument=", k=k"), None),
        (KERNELS, r"or bind it: def first\(…, kernel=kernel\)"),
    ],
)
def test_a_function_that_would_run_with_a_later_value_of_a_name_is_refused(tmp_path, text, message):
    file = tmp_path / "sums.py"
    file.write_text(f"import profiler\nsums = profiler.Experiment('sums', problems={{}})\n{text}")
    with nullcontext() if message is None else pytest.raises(ExperimentError, match=message):
        import_file(file)


# ---- arguments -----------------------------------------------------------------------------------


def prepared(experiment, variant, problem=None, seed=0):
    """Workload, inputs and launch of a variant at a problem."""
    workload = FunctionWorkload(experiment)
    problem = {"rows": 3} if problem is None else problem
    inputs = workload.make_inputs(problem, CPU, seed)
    return workload, inputs, workload.prepare(variant, problem, inputs, None)


def test_arguments_go_by_position_then_by_name():
    experiment = Experiment("e")
    experiment.inputs(lambda rows, device, seed: (torch.ones(rows), torch.tensor(float(seed))))
    calls = []

    @experiment.variant(k=[7])
    def f(x, y, k, rows, *, other=None):
        calls.append((x.tolist(), y.item(), k, rows, other))
        return x + y

    *_, launch = prepared(experiment, {"function": "f", "k": 7}, {"rows": 2, "unused": 1}, seed=5)
    launch()
    assert calls == [([1.0, 1.0], 5.0, 7, 2, None)]


def test_inputs_by_name_and_problem_parameters_that_inputs_stand_for():
    experiment = Experiment("e")
    experiment.inputs(lambda rows: {"x": torch.ones(rows), "w": 3})
    experiment.variant(name="f")(lambda w, x: w * x)
    *_, launch = prepared(experiment, {"function": "f"})
    assert launch().tolist() == [3.0] * 3

    experiment = Experiment("e")
    experiment.inputs(lambda rows: (torch.ones(rows), rows))
    experiment.variant(name="f")(lambda x, rows: x * rows)
    *_, launch = prepared(experiment, {"function": "f"})
    assert launch().tolist() == [3.0] * 3


@pytest.mark.parametrize("problems", [None, {}, [{}]])
def test_without_parameters_there_is_one_problem(problems):
    experiment = Experiment("e", problems=problems)
    experiment.inputs(lambda: torch.ones(3))
    experiment.variant(name="f")(lambda x: x + 1)
    assert experiment.description()["problems"] is None


@pytest.mark.parametrize(
    "function",
    [
        lambda *inputs, rows: sum(inputs) * rows,
        lambda x, *others, rows: (x + others[0]) * rows,
        lambda x, y, **named: (x + y) * named["rows"],
        lambda x, rows, **named: (x + rows) * 3,  # the second input stands for it
    ],
)
def test_names_after_any_number_of_inputs_are_given(function):
    experiment = Experiment("e")
    experiment.inputs(lambda rows: (torch.ones(rows), 2 * torch.ones(rows)))
    experiment.variant(name="f")(function)
    *_, launch = prepared(experiment, {"function": "f"})
    assert launch().tolist() == [9.0] * 3


class Scaled(torch.nn.Module):
    def forward(self, x, y):
        return x * y


def positional_alone(x, y, /):
    return x * y


def scaled(x, y):
    return x * y


CALLED = {
    "module": Scaled,
    "method": lambda: Scaled().forward,
    "script": lambda: torch.jit.script(Scaled()),
    "script_function": lambda: torch.jit.script(scaled),
    "trace": lambda: torch.jit.trace(Scaled(), (torch.ones(1), torch.ones(1))),
    "positional_alone": lambda: positional_alone,
}


class Product(torch.autograd.Function):
    @staticmethod
    def forward(context, x, y):
        return x * y


@pytest.mark.parametrize("function", [torch.ops.aten.mul.Tensor, torch.ops.aten.mul, Product.apply])
def test_operators_of_torch_get_no_parameters_of_the_problem(function):
    experiment = Experiment("e")
    experiment.inputs(lambda rows: (torch.ones(rows), torch.ones(rows)))
    experiment.variant(name="f")(function)
    *_, launch = prepared(experiment, {"function": "f"})
    assert launch().tolist() == [1.0] * 3


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("name", CALLED)
def test_whatever_is_called_gets_its_inputs_and_no_parameters_of_the_problem(name, named):
    experiment = Experiment("e")

    @experiment.inputs
    def inputs(rows):
        x, y = torch.ones(rows), torch.full((rows,), 2.0)
        return {"y": y, "x": x} if named else (part for part in (x, y))

    experiment.variant(name=name)(CALLED[name]())
    *_, launch = prepared(experiment, {"function": name})
    assert launch().tolist() == [2.0] * 3


def made_of_weights():
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 4)
    weights = {"weight": module.weight.detach(), "bias": module.bias.detach()}
    return [module, module.forward, partial(torch.nn.functional.linear, **weights)]


@pytest.mark.parametrize("kind", range(3), ids=["module", "method", "partial"])
def test_a_baseline_that_is_made_of_weights_is_its_own_reference(kind):
    experiment = make()
    experiment.variant(name="f")(made_of_weights()[kind])
    workload, inputs, launch = prepared(experiment, {"function": "f"})
    reference = workload.reference({"rows": 3}, inputs).result
    assert reference.dtype == torch.float64
    assert torch.allclose(reference, launch().double())
    assert launch().dtype == torch.float32


@pytest.mark.parametrize("setup", [False, True], ids=["function", "launch of a setup"])
def test_gradients_of_inputs_do_not_add_up_from_launch_to_launch(setup):
    experiment = Experiment("e")
    experiment.inputs(lambda rows: torch.ones(rows, requires_grad=True))

    @experiment.variant(setup=setup)
    def backward(x):
        def forward_and_backward():
            (3 * x).sum().backward()
            return x.grad

        return forward_and_backward if setup else forward_and_backward()

    with torch.no_grad():  # as in the runner
        *_, launch = prepared(experiment, {"function": "backward"})
        assert [launch().tolist() for _ in range(3)] == [[3.0] * 3] * 3


async def awaited(x):
    return x * 2


def items(x):
    yield x * 2


@pytest.mark.parametrize(("function", "message"), [(awaited, "asyncio.run"), (items, "as a tuple")])
def test_a_result_that_is_yet_to_be_computed_says_what_to_do(function, message):
    result = function(torch.ones(3))
    with pytest.raises(TypeError, match=message):
        as_tensors(result, "the result")
    result.close()


def test_setup_is_done_once():
    experiment = make()
    made = []

    @experiment.variant(setup=True, k=[2])
    def compiled(x, k):
        made.append(k)
        return lambda: x.sum(1)

    workload, inputs, launch = prepared(experiment, {"function": "compiled", "k": 2})
    assert [launch().tolist() for _ in range(3)] == [[4.0] * 3] * 3
    assert made == [2]
    assert workload.reference({"rows": 3}, inputs).result.dtype == torch.float64


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda: 1, {}, r"\(too many positional arguments\): the inputs in their order, here 1"),
        (lambda x, y: x, {}, r"\(missing a required argument: 'y'\).* parameters for, of rows"),
        (lambda x: abs, {"setup": True}, "called without arguments: missing a required"),
        (lambda x: x, {"setup": True}, "must return a function"),
    ],
    ids=["too few", "too many", "setup with arguments", "setup without a function"],
)
def test_what_cannot_be_called_is_refused_with_what_it_would_get(function, options, message):
    experiment = make()
    experiment.variant(name="f", **options)(function)
    with pytest.raises(TypeError, match=message):
        prepared(experiment, {"function": "f"})


def test_what_variants_write_into_is_among_their_arguments():
    experiment = make()
    experiment.outputs(lambda rows: torch.zeros(rows) + 1)
    experiment.variant(name="f")(lambda x, y: None)
    _, inputs, launch = prepared(experiment, {"function": "f"})
    assert launch() is None
    assert launch.outputs[0] is inputs.outputs[0]


def test_the_same_seed_gives_numpy_the_same_numbers():
    experiment = Experiment("e")
    experiment.inputs(lambda: np.random.random(4))
    workload = FunctionWorkload(experiment)
    first, again, other = (
        workload.make_inputs({}, CPU, seed).positional[0].tolist() for seed in (1, 1, 2)
    )
    assert first == again != other


# ---- the reference -------------------------------------------------------------------------------


def test_the_reference_is_the_baseline_in_float64():
    experiment = Experiment("e")
    experiment.inputs(lambda: (torch.rand(4, dtype=torch.float16), torch.arange(4)))
    seen = []

    @experiment.variant(name="f", k=[2])
    def f(x, order, k):
        seen.append((x.dtype, order.dtype, k))
        return x[order] / 3

    workload, inputs, launch = prepared(experiment, {"function": "f", "k": 2})
    assert workload.reference({}, inputs).result.dtype == torch.float64
    assert launch().dtype == torch.float16
    own = (torch.float16, torch.int64, 2)
    assert seen == [(torch.float64, torch.int64, 2), own, own], "alike in its own types"


IN_FLOAT64 = """
import sys
import torch
from profiler.kernels.references import WithoutNarrowTypes
x = torch.randn(8, 64, dtype=torch.float64)
with WithoutNarrowTypes() as mode:
    assert (x + 1).to(torch.bfloat16).dtype == torch.float64
assert mode.largest_step == torch.finfo(torch.bfloat16).eps
assert "torch._dynamo" not in sys.modules  # 1 s
"""
COMPILES_LATE = """
import torch
from profiler.kernels.references import WithoutNarrowTypes
x = torch.randn(8, 64, dtype=torch.float64)
with WithoutNarrowTypes() as mode:
    compiled = torch.compile(lambda x: (x * 2).relu().to(torch.float16), backend="aot_eager")
    assert compiled(x).dtype == torch.float64
    assert compiled(x).sum().to(torch.float16).dtype == torch.float64
assert mode.largest_step == torch.finfo(torch.float16).eps
"""


def test_a_reference_in_float64_imports_no_compiler_and_may_compile(fork_server, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", IN_FLOAT64], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "compiles.py").write_text(COMPILES_LATE)
    code, _, err = fork_server.run(
        *("compiles", []),
        cwd=tmp_path,
        environment=fork_server.environment,
        patience_s=60,
    )
    assert code == 0, err


def test_a_baseline_beside_its_own_result_in_float64_is_told_its_tolerance():
    experiment = Experiment("e")
    experiment.inputs(lambda: torch.linspace(1, 2, 512, dtype=torch.bfloat16))

    @experiment.variant(name="f", k=[30])
    def f(x, k):
        return x * k - x * (k - 1)

    workload, inputs, launch = prepared(experiment, {"function": "f", "k": 30})
    assert workload.is_own_reference({"function": "f", "k": 30})
    assert not workload.is_own_reference({"function": "f", "k": 4})
    expected = as_tensors(workload.reference({}, inputs).result, "the reference")
    got = as_tensors(launch(), "the result")
    with pytest.raises(
        WrongResultError, match=r"tolerance that would pass: {absolute: .*beside its"
    ):
        compare(got, expected, own_reference=True)
    with pytest.raises(WrongResultError) as other:
        compare(got, expected)
    assert "would pass" not in str(other.value)


def test_where_the_baseline_misses_the_default_rounding_allows_others_some_times_as_much():
    experiment = Experiment("e")
    experiment.inputs(lambda: torch.rand(4096, 4, generator=torch.Generator().manual_seed(0)))

    @experiment.variant(name="one_by_one")
    def one_by_one(x):
        total = torch.zeros(4, dtype=x.dtype)
        for row in x:
            total += row
        return total, x[0] * 2

    workload, inputs, launch = prepared(experiment, {"function": "one_by_one"}, {})
    reference = workload.reference({}, inputs)
    rounding = rounding_in(reference)
    got, expected = (as_tensors(value, "it") for value in (launch(), reference.result))
    assert 1e-2 < rounding(0, torch.float64, expected[0]) < 1
    assert rounding(1, torch.float64, expected[1]) == 0
    with pytest.raises(WrongResultError):
        compare(got, expected)
    compare(got, expected, rounding=rounding)
    with pytest.raises(WrongResultError):
        compare(got, expected, {"float32": Tolerance(0, 1e-6)}, rounding=rounding)


def sums(dtype, reference=None):
    """A baseline that adds exactly up to its end, and sums of each row by another order or type."""
    experiment = Experiment("e")
    if reference is not None:
        experiment.reference(reference)
    experiment.inputs(lambda: torch.randn(512, 4096, generator=torch.Generator().manual_seed(0)))
    experiment.variant(name="exact")(lambda x: x.double().sum(1).to(x.dtype))
    _, inputs, _ = made = prepared(experiment, {"function": "exact"}, {})
    total = torch.zeros(512, dtype=torch.float32)
    for column in inputs.positional[0].to(dtype).float().t():
        total = (total + column).to(dtype).float()
    return made, total


def test_sums_in_another_order_are_right_and_those_in_half_precision_are_not():
    (workload, inputs, launch), total = sums(torch.float32)
    reference = workload.reference({}, inputs)
    expected = as_tensors(reference.result, "the reference")
    compare((launch(),), expected)
    with pytest.raises(WrongResultError, match="of 512 elements are wrong"):
        compare((total,), expected)
    rounding = rounding_in(reference)
    errors = compare((total,), expected, rounding=rounding)
    assert 5e-5 < errors.max_abs < errors.rounding < 1e-2
    (largest,) = {rounding.largest_errors()(0, torch.float32, expected[0])}
    assert largest == pytest.approx(errors.rounding)
    for dtype in (torch.float16, torch.bfloat16):
        with pytest.raises(WrongResultError, match="of 512 elements are wrong"):
            compare((sums(dtype)[1],), expected, rounding=rounding)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("fill", [-1e4, -6e4])
def test_small_elements_beside_those_of_a_mask_are_compared_with_their_own_kind(dtype, fill):
    experiment = Experiment("e")
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 64, 64, generator=generator).to(dtype)
    mask = torch.full((64, 64), fill).triu(1).to(dtype)
    experiment.inputs(lambda: (x, y, mask))
    experiment.variant(name="scores")(lambda x, y, mask: x @ y / 8 + mask)
    workload, inputs, launch = prepared(experiment, {"function": "scores"}, {})
    reference = workload.reference({}, inputs)
    expected, rounding = as_tensors(reference.result, "it"), rounding_in(reference)
    added = torch.zeros_like(x)
    for k in range(64):
        added = added + x[:, k, None] * y[k]
    held = rounding.largest_errors()
    for allowed, slack in ((rounding, 1), (held, 4)):
        compare((launch(),), expected, rounding=allowed)
        compare((added / 8 + mask,), expected, rounding=allowed)
        with pytest.raises(WrongResultError):
            compare((mask,), expected, rounding=allowed)
        assert count_wrong(x / 2 + mask, *expected, slack, rounding=partial(allowed, 0)) > 500


def test_what_explains_rounding_asks_a_reference_of_ones_own_too():
    (workload, inputs, _), total = sums(torch.float32, lambda x: x.sum(1))
    given = inputs.positional[0].clone()
    reference = workload.reference({}, inputs)
    expected = as_tensors(reference.result, "the reference")
    assert compare((total,), expected, rounding=rounding_in(reference)).rounding < 1e-2
    assert torch.equal(given, inputs.positional[0])

    def picky(x):
        assert torch.equal(x, given)
        return x.sum(1)

    (workload, inputs, _), _ = sums(torch.float32, picky)
    with pytest.raises(WrongResultError, match="of 512 elements are wrong"):
        compare((total,), expected, rounding=rounding_in(workload.reference({}, inputs)))


def losses(logits, seed):
    """Mean cross entropy by a baseline with such logits, prepared at inputs in bfloat16."""
    experiment = Experiment("e")
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(256, 64, generator=generator), torch.randn(32, 64, generator=generator)
    experiment.inputs(lambda: tuple(part.bfloat16() for part in scores))
    experiment.variant(name="loss")(lambda x, w: loss_of(logits(x, w)))
    workload, inputs, launch = prepared(experiment, {"function": "loss"}, {})
    return workload.reference({}, inputs), launch(), inputs.positional


def loss_of(logits):
    return torch.nn.functional.cross_entropy(logits.to(float_of(logits)), torch.arange(256) % 32)


def float_of(logits):
    return torch.promote_types(logits.dtype, torch.float32)


def test_a_loss_that_a_rounding_baseline_has_right_by_chance_is_no_yardstick():
    for seed in range(400):
        reference, by_chance, (x, w) = losses(lambda x, w: x @ w.t(), seed)
        halves = x[:, :32] @ w[:, :32].t() + x[:, 32:] @ w[:, 32:].t()  # rounded three times
        other, expected = loss_of(halves), as_tensors(reference.result, "the reference")
        if abs(by_chance - expected[0]) < 8e-6 and 5e-5 < abs(other - expected[0]) < 2e-3:
            break
    compare((by_chance,), expected)
    with pytest.raises(WrongResultError):
        compare((other,), expected)
    compare((other,), expected, rounding=rounding_in(reference))
    with pytest.raises(WrongResultError):
        compare((other * 1.01,), expected, rounding=rounding_in(reference))
    exact, _, _ = losses(lambda x, w: x.to(float_of(x)) @ w.to(float_of(x)).t(), seed)
    with pytest.raises(WrongResultError):
        compare((other,), expected, rounding=rounding_in(exact))


def test_inputs_are_nudged_apart():
    first, second = torch.ones(2, 8, dtype=torch.float64).unbind()
    whole, half = torch.arange(3), torch.ones(3, dtype=torch.float16)
    nudge([first, second, whole, half], 1)
    assert 0 < (first - second).abs().max() < 2e-6
    assert 0 < (first - 1).abs().max() < 1e-6
    assert (whole.tolist(), half.tolist()) == ([0, 1, 2], [1, 1, 1])
    directions = set()
    for seed in ALL_SIGNS:
        first, second = torch.ones(2, 8, dtype=torch.float64).unbind()
        nudge([whole, first, second], seed)
        assert len(set(first.tolist())) == len(set(second.tolist())) == 1
        directions.add((bool(first[0] > 1), bool(second[0] > 1)))
    assert len(directions) == 4
    first, second = torch.ones(2, 64, dtype=torch.bfloat16).unbind()
    move([first, second, whole], 1)
    assert 0 < (first - second).abs().max() <= 2 * torch.finfo(torch.bfloat16).eps
    assert whole.tolist() == [0, 1, 2]


def with_reference(baseline, x):
    """Results of a baseline, those in float64, and what rounding explains of their difference."""
    experiment = Experiment("e")
    experiment.inputs(lambda: x)
    experiment.variant(name="f")(baseline)
    workload, inputs, launch = prepared(experiment, {"function": "f"}, {})
    reference = workload.reference({}, inputs)
    return as_tensors(launch(), "it"), as_tensors(reference.result, "it"), rounding_in(reference)


def test_a_small_element_may_not_be_off_by_what_large_ones_may_be():
    x = torch.linspace(0, 12, 4096)
    (right, whole), expected, rounding = with_reference(lambda x: (x.exp(), x.floor()), x)
    compare((right * (1 + 3e-6), whole), expected, rounding=rounding)
    for wrong in ((right + 1e-3, whole), (right, whole + 1e-2 * (whole == 3))):
        with pytest.raises(WrongResultError):
            compare(wrong, expected, rounding=rounding)


def test_modules_and_arrays_in_containers_are_in_float64_too():
    experiment = Experiment("e")
    experiment.inputs(lambda: (torch.nn.Linear(4, 2), [torch.ones(3, 4)], {"x": np.float32([1])}))
    experiment.variant(name="f")(lambda module, parts, named: module(parts[0]) + named["x"].item())
    workload, inputs, launch = prepared(experiment, {"function": "f"}, {})
    right = workload.reference({}, inputs).result
    assert right.dtype == torch.float64
    assert torch.allclose(right, launch().double(), atol=1e-5), "of float32"


def test_a_reference_that_is_written_is_used():
    experiment = make()
    experiment.outputs(lambda rows: torch.zeros(rows) - 1)  # no argument of the reference
    experiment.variant(plus)
    experiment.reference(lambda x, rows: x.sum(1) + rows)
    workload, inputs, _ = prepared(experiment, {"function": "plus"})
    assert workload.reference({"rows": 3}, inputs).result.tolist() == [7.0] * 3


@pytest.mark.parametrize(
    "baseline",
    [lambda x: (x * 3).to(torch.bfloat16), lambda x: x.half().sum(1), lambda x: x @ torch.ones(4)],
)
def test_a_baseline_of_narrow_types_is_computed_without_them(baseline):
    experiment = make()
    experiment.variant(name="f")(baseline)
    workload, inputs, launch = prepared(experiment, {"function": "f"})
    reference = workload.reference({"rows": 3}, inputs)
    assert reference.result.dtype == torch.float64
    assert not reference.doubt
    compare(as_tensors(launch(), "it"), as_tensors(reference.result, "it"))


def test_a_baseline_is_right_where_half_precision_on_its_way_explains_its_errors():
    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    (result,), expected, rounding = with_reference(lambda x: (x.half() / 7).float().sum(1), x)
    for right in (result, x.sum(1) / 7):
        compare((right,), expected, rounding=rounding)
    with pytest.raises(WrongResultError):
        compare((result + 0.1,), expected, rounding=rounding)


def test_where_terms_cancel_the_reference_is_in_float64_and_other_roundings_are_right():
    """The gradient of a bias before a normalisation is such a result: 0 but for rounding."""
    x = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0))
    results, expected, rounding = with_reference(
        lambda x: ((x - x.mean(1)[:, None]).mean(1), 1e-6 * x.sum(1)), x
    )
    assert 0 < results[0].abs().max() < 1e-7
    assert expected[1].dtype == torch.float64
    compare((results[0].flip(0), results[1]), expected, rounding=rounding)
    for wrong in ((results[0] + 1e-4, results[1]), (results[0], 0.99 * results[1])):
        with pytest.raises(WrongResultError):
            compare(wrong, expected, rounding=rounding)
    nothing_in_float64 = lambda x: x.sum(1) if x.dtype == torch.float32 else x[:, 0] * 0  # noqa: E731
    _, own, _ = with_reference(nothing_in_float64, x)
    assert own[0].dtype == torch.float32


@pytest.mark.parametrize("is_as_set", [True, False])
def test_a_baseline_in_tf32_is_right_where_it_is_without_tf32(is_as_set):
    """torch's convolutions and RNNs are so by default, and no type on the way shows it."""

    def product(x):
        as_tf32 = not is_as_set or torch.backends.cudnn.conv.fp32_precision == "tf32"
        if x.dtype == torch.float32 and as_tf32:
            x = ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
        return x @ x.T

    x = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    before = torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()
    (result,), expected, rounding = with_reference(product, x)
    assert (torch.backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()) == before
    for right in (result, x @ x.T) if is_as_set else ():
        compare((right,), expected, rounding=rounding)
    for wrong in (result + 0.3,) if is_as_set else (result, result + 0.3):
        with pytest.raises(WrongResultError):
            compare((wrong,), expected, rounding=rounding)


@pytest.mark.parametrize(
    ("error", "doubt", "tries"),
    [
        (
            RuntimeError("expected scalar type Float but found Double\nException raised from …"),
            "f takes no inputs in float64"
            " (RuntimeError: expected scalar type Float but found Double)",
            2,  # as it is, and without narrow types
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 89.41 GiB."),
            "f needs more memory in float64 than the GPU has",
            2,  # once for each of the inputs: others may need less
        ),
    ],
)
def test_a_baseline_that_fails_in_float64_is_compared_with_and_doubted(error, doubt, tries):
    experiment, refused = make(), []

    @experiment.variant(name="f")
    def of_floats(x):
        if x.dtype != torch.float32:
            refused.append(x)
            raise error
        return x.sum(1)

    workload, inputs, launch = prepared(experiment, {"function": "f"})
    for _ in range(2):
        reference = workload.reference({"rows": 3}, inputs)
        assert torch.equal(reference.result, launch())
        assert reference.doubt == doubt
    assert len(refused) == tries


def scaled_mm(x, y, x_scale, y_scale, bias=None):
    return torch._scaled_mm(x, y, x_scale, y_scale, bias=bias, out_dtype=torch.float16)


def scaled_mm_by_recipe(x, y, x_scale, y_scale):
    kind = torch.nn.functional.ScalingType.TensorWise
    return torch.nn.functional.scaled_mm(
        *(x, y, x_scale, kind, y_scale, kind), output_dtype=torch.float16
    )


def quantizing(x, y, x_scale, y_scale):
    x, y = ((m / (m.abs().amax() / 448)).to(torch.float8_e4m3fn) for m in (x, y))
    return torch._scaled_mm(x, y, x_scale, y_scale, out_dtype=torch.float16)


def into_a_buffer(x, y, x_scale, y_scale):
    out = torch.empty(x.shape[0], y.shape[1], dtype=torch.float16)
    if x.dtype == torch.float64:
        out = out.double()
    return torch._scaled_mm(x, y, x_scale, y_scale, out_dtype=torch.float16, out=out)


ROW_SCALES = torch.linspace(0.01, 0.1, 48).reshape(48, 1), torch.linspace(0.01, 0.1, 32)[None]
ONE_SCALE = (torch.tensor(0.03),) * 2
ON_NEW_CPUS = pytest.mark.skipif(torch.__version__ < (2, 13), reason="2.11: on no CPU")


@pytest.mark.parametrize(
    ("baseline", "scales"),
    [
        (scaled_mm, ONE_SCALE),
        pytest.param(scaled_mm, ROW_SCALES, marks=ON_NEW_CPUS),
        (partial(scaled_mm, bias=torch.linspace(-1, 1, 32, dtype=torch.float16)), ONE_SCALE),
        (into_a_buffer, ONE_SCALE),
        pytest.param(scaled_mm_by_recipe, ONE_SCALE, marks=ON_NEW_CPUS),
    ],
)
def test_a_product_of_quantized_matrices_is_right_in_float64(baseline, scales):
    x, y = (torch.randn(rows, 256).to(torch.float8_e4m3fn) for rows in (48, 32))
    experiment = Experiment("e")
    experiment.inputs(lambda: (x, y.t(), *scales))
    experiment.variant(name="f")(baseline)
    workload, inputs, launch = prepared(experiment, {"function": "f"}, {})
    reference = workload.reference({}, inputs)
    exact = (x.double() * scales[0]) @ (y.double().t() * scales[1])
    if isinstance(baseline, partial):
        exact += baseline.keywords["bias"]
    assert not reference.doubt
    torch.testing.assert_close(reference.result, exact, rtol=1e-12, atol=1e-12)
    rounding, expected = rounding_in(reference), (reference.result,)
    for right in (launch(), exact, exact.float()):
        compare((right,), expected, rounding=rounding)
    with pytest.raises(WrongResultError):
        compare((exact * 1.1,), expected, rounding=rounding)


def test_a_baseline_that_quantizes_is_compared_with():
    """In float64 its scale is not rounded, and elements are quantized to others."""
    x, y = torch.randn(48, 256).half(), torch.randn(32, 256).half()
    experiment = Experiment("e")
    experiment.inputs(lambda: (x, y.t(), *ONE_SCALE))
    experiment.variant(name="f")(quantizing)
    workload, inputs, launch = prepared(experiment, {"function": "f"}, {})
    reference = workload.reference({}, inputs)
    assert torch.equal(reference.result, launch())


def test_scales_that_are_not_of_all_or_of_rows_are_left_to_torch():
    x, y = (torch.randn(rows, 320).to(torch.float8_e4m3fn) for rows in (160, 32))
    scale = torch.tensor(1.0)
    in_float64 = {"self": x, "mat2": y.t(), "scale_a": [scale], "scale_b": [scale]}
    assert scaled_product(in_float64) is not None
    for unclear in (
        {"scale_a": [scale, scale]},
        {"scale_a": torch.rand(160 * 3)},
        {"scale_a": torch.rand(160, 7)},
        {"scale_a": torch.rand(160, 3).to(torch.float8_e8m0fnu)},
        {"scale_result": scale},
        {"self": torch.zeros(160, 320, dtype=torch.int8)},
    ):
        assert scaled_product(in_float64 | unclear) is None


def test_types_that_operators_take_by_position_are_wide_in_float64():
    x = torch.rand(4, dtype=torch.float64)
    with WithoutNarrowTypes() as mode:
        assert torch.ops.prims.convert_element_type(x, torch.float16).dtype == torch.float64
    assert mode.largest_step == torch.finfo(torch.float16).eps


def test_a_way_that_fails_in_float64_is_tried_once_for_all_inputs():
    experiment, calls = make(), []

    @experiment.variant(name="f")
    def rounded(x):
        calls.append(x.dtype)
        return x.half()

    workload, inputs, _ = prepared(experiment, {"function": "f"})
    for _ in range(3):
        assert workload.reference({"rows": 3}, inputs).result.dtype == torch.float64
    assert calls.count(torch.float64) == 1 + 3, "once as it is, then without narrow types"


def test_a_baseline_whose_random_numbers_show_is_refused():
    """Those that do not show in its result are no matter."""
    x = torch.ones(2, 64)
    with_reference(lambda x: torch.dropout(x, 0.5, train=True) * 0, x)
    for share in (1.0, 1e-3):
        with pytest.raises(ExperimentError, match="the baseline f draws random numbers, and gives"):
            with_reference(lambda x, share=share: x + share * torch.randn_like(x), x)


def quantized(x, scale):
    return (x * scale).round().clamp(-128, 127).to(torch.int8)


@pytest.mark.parametrize(
    ("baseline", "wrong"),
    [
        (torch.fft.fft, lambda x: torch.fft.fft(x) * 1.001),
        (lambda x: quantized(x, 1 / (x.abs().amax() / 127)), lambda x: quantized(x, 20.0) + 1),
        (lambda x: (x / 0.01).floor().int(), lambda x: (x / 0.01).ceil().int()),
        (lambda x: x.histc(100, 0, 1), lambda x: x.histc(100, 0.001, 1)),
        (
            lambda x: ((x / 300).to(torch.float8_e4m3fn), x.amax()),
            lambda x: ((x / 400).to(torch.float8_e4m3fn), x.amax()),
        ),
    ],
)
def test_what_is_transformed_rounded_or_counted_is_right_where_the_baseline_is(baseline, wrong):
    x = torch.randn(1 << 18, generator=torch.Generator().manual_seed(0))
    result, expected, rounding = with_reference(baseline, x)
    compare(result, expected, rounding=rounding)
    with pytest.raises(WrongResultError):
        compare(as_tensors(wrong(x), "it"), expected, rounding=rounding)


def test_whole_numbers_are_not_off_by_one_because_all_of_them_may_be():
    (result,), expected, rounding = with_reference(lambda x: x.floor().int(), torch.arange(500.0))
    with pytest.raises(WrongResultError, match="500 of 500 elements are wrong"):
        compare((result - 1,), expected, rounding=rounding)


def test_halfway_between_two_whole_numbers_both_are_right():
    """At 3 % of bfloat16 numbers float32 and float64 round to another of the two."""

    def rounded(x, scale, shift=0.0):
        return (x.float() / scale + shift).round().clamp(-128, 127).to(torch.int8)

    x = 3 * torch.randn(1 << 18, generator=torch.Generator().manual_seed(0)).bfloat16()
    scale = torch.tensor([0.05])
    result, expected, rounding = with_reference(rounded, (x, scale))
    assert count_wrong(result[0], expected[0], 1.0) > len(x) / 50
    compare(result, expected, rounding=rounding)
    with pytest.raises(WrongResultError):
        compare((rounded(x, scale, -0.1),), expected, rounding=rounding)


# ---- arrays of other libraries -------------------------------------------------------------------


def test_arrays_of_other_libraries_are_checked_like_tensors():
    (tensor,) = as_tensors(np.arange(3.0), "the result")
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(TypeError, match="must be an array"):
        as_tensors([["1.0"]], "the result")
    parts = as_tensors({"b": np.float32(1), "a": ([torch.ones(2)], None, 3)}, "the result")
    assert [(part.dtype, part.shape) for part in parts] == [
        (torch.float32, (2,)),
        (torch.int64, ()),
        (torch.float32, ()),
    ]


@pytest.mark.parametrize(
    ("variant", "words"),
    [
        (lambda x: x.t(), r"f returns memory of an input as output 0: leave out .*@….outputs"),
        (lambda x: None, r"f returns nothing: return the result, or .*@….outputs"),
    ],
)
def test_a_result_of_nothing_or_in_the_memory_of_an_input_is_refused(variant, words):
    experiment = make()
    experiment.variant(name="f")(variant)
    *_, launch = prepared(experiment, {"function": "f"})
    with pytest.raises(TypeError, match=words):
        launch()


def test_a_variant_in_place_that_returns_nothing_is_told_to_return_what_it_writes():
    experiment = make()
    experiment.variant(name="f", in_place=True)(lambda x: None)
    *_, launch = prepared(experiment, {"function": "f"})
    with pytest.raises(TypeError, match="f returns nothing: return the inputs that it writes"):
        launch()


def test_inputs_that_are_nothing_are_refused():
    experiment = Experiment("sums")
    experiment.inputs(lambda: None)
    with pytest.raises(TypeError, match="<lambda> returns nothing: return the inputs as an array"):
        FunctionWorkload(experiment).make_inputs({}, CPU, 1)
    experiment.functions["inputs"] = partial(awaited, torch.ones(3))
    with pytest.raises(TypeError, match="inputs is `async def`, and not awaited"):
        FunctionWorkload(experiment).make_inputs({}, CPU, 1)


@pytest.mark.parametrize("count", [-1, float("nan"), float("inf")])
def test_flops_that_are_no_count_are_refused(count):
    experiment = make()
    experiment.flops(lambda rows: count * rows)
    with pytest.raises(ValueError, match=r"function of flops returns .* no count"):
        FunctionWorkload(experiment).flops({"rows": 3})
    experiment = make()
    experiment.bytes(lambda rows: np.int64(4 * rows))
    assert FunctionWorkload(experiment).bytes({"rows": 3}) == 12.0


def test_arrays_without_elements_share_no_memory():
    experiment = Experiment("e")
    experiment.inputs(lambda: torch.empty(0))
    experiment.variant(name="f")(lambda x: x * 2)
    *_, launch = prepared(experiment, {"function": "f"}, {})
    assert launch().numel() == 0


class Late:
    """An array of a library that launches on streams of its own."""

    def __init__(self, values):
        self.values, self.waits = values, 0

    def block_until_ready(self):
        self.waits += 1


def test_launches_of_jax_are_waited_for():
    experiment = make()
    late = Late(None)
    experiment.variant(name="f")(lambda x: late)
    *_, launch = prepared(experiment, {"function": "f"})
    assert not launch.on_own_streams
    launch()
    assert launch.on_own_streams
    before = late.waits
    launch()
    assert late.waits == before + 1


# ---- a session -----------------------------------------------------------------------------------

FILE = """
from dataclasses import dataclass

import numpy as np
import profiler

sums = profiler.Experiment("sums")

@sums.inputs
def inputs(rows):
    return np.random.random((rows, 4)).astype("float32")

@sums.variant
def with_numpy(x):
    return x.sum(1)

@sums.variant
def kept(x, cache={}):
    return cache.setdefault("result", x.sum(1))

@sums.variant
def wrong(x):
    return x.sum(1) + 1

@dataclass(frozen=True)
class Sums:
    of_rows: np.ndarray
    nothing: None = None

@sums.variant
def in_dataclass(x):
    return Sums(x.sum(1))

@sums.variant
def wrong_by_name(x):
    return {"sums": x.sum(1) + 1, "nothing": None}

@sums.flops
def flops(rows):
    return 3 * rows
"""


def test_a_session_checks_measures_and_checks_again(bench, tmp_path, select):
    """NumPy arrays, too, are overwritten in place after the last visit."""
    file = tmp_path / "mine.py"
    file.write_text(FILE)
    names = ("with_numpy", "in_dataclass", "kept", "wrong", "wrong_by_name")
    cells = tuple(JobCell(name, name, {"function": name}, "p", {"rows": 6}) for name in names)
    visits = tuple(JobVisit(cell.id, 0) for cell in cells)
    records = bench.run(bench.job([], workload=str(file), cells=cells, visits=visits))
    measured = [record["cell"] for record in select(records, event="finished", phase="measure")]
    assert measured == ["with_numpy", "in_dataclass", "kept"]
    failed = {record["cell"]: record for record in select(records, event="failed")}
    assert failed["wrong"]["outcome"] == failed["wrong_by_name"]["outcome"] == "wrong_result"
    order = "outputs of a mapping are compared in the order of their keys: nothing, sums"
    assert [name for name in failed if order in failed[name]["cause"]] == ["wrong_by_name"]
    assert failed["kept"]["outcome"] == "implausible"
    assert set(failed) == {"wrong", "wrong_by_name", "kept"}
    assert select(records, event="finished", phase="recheck", cell="with_numpy")
    assert select(records, phase="describe", cell="with_numpy")[-1]["flops"] == 18


MADE_OF_TENSORS = """
import profiler, torch

class Quantized(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype)

    def __init__(self, data, scale):
        self.data_of, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_of", "scale"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Quantized(parts["data_of"], parts["scale"])

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        raise NotImplementedError(str(operator))

    def whole(self):
        return self.data_of * self.scale

product = profiler.Experiment("product")

@product.inputs
def inputs(n):
    weights = torch.randint(-8, 8, (n, n), dtype=torch.int8)
    return torch.randn(2, n), Quantized(weights, torch.rand(n))

@product.variant
def whole(x, w):
    return x @ w.whole()

@product.variant
def scaled_later(x, w):
    return (x @ w.data_of.float()) * w.scale

@product.variant
def unscaled(x, w):
    return x @ w.data_of.float()

@product.variant
def rescaled(x, w):
    return x @ Quantized(w.data_of, w.scale.mul_(2)).whole() / 2
"""


REBUILT = 'return Quantized(parts["data_of"], parts["scale"])'


@pytest.mark.parametrize("rebuilt", [REBUILT, 'raise ValueError("malformed")'])
def test_an_input_that_is_made_of_tensors_is_checked_by_them(bench, tmp_path, select, rebuilt):
    """Also where its class cannot make another tensor of other parts."""
    file = tmp_path / "mine.py"
    file.write_text(MADE_OF_TENSORS.replace(REBUILT, rebuilt))
    names = ("whole", "scaled_later", "unscaled", "rescaled")
    cells = tuple(JobCell(name, name, {"function": name}, "p", {"n": 64}) for name in names)
    visits = tuple(JobVisit(cell.id, 0) for cell in cells)
    records = bench.run(bench.job([], workload=str(file), cells=cells, visits=visits))
    causes = {record["cell"]: record["cause"] for record in select(records, event="failed")}
    assert causes.keys() == {"unscaled", "rescaled"}
    assert "it writes into an input (w.scale)" in causes["rescaled"]
    rechecked = select(records, event="finished", phase="recheck")
    assert {record["cell"] for record in rechecked} == {"whole", "scaled_later"}


SETTINGS = """
import profiler, torch

sums = profiler.Experiment("sums", problems={"n": [3]})

@sums.inputs
def inputs(n):
    return torch.ones(n, n)

@sums.variant
def changes(x):
    torch.set_default_dtype(torch.float64)
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    return x @ x + 0

@sums.variant(setup=True)
def allows(x):
    torch.backends.cudnn.benchmark = True
    def launch():
        assert torch.backends.cudnn.benchmark
        return x @ x + 0
    return launch

@sums.variant
def looks(x):
    assert torch.get_default_dtype() == torch.float32
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"
    assert not torch.backends.cudnn.benchmark
    return x @ x + 0
"""


def test_what_a_variant_sets_of_torch_holds_for_it_alone(bench, tmp_path, select):
    """A variant that allowed TF32, or took one thread, once changed all that came after it."""
    file = tmp_path / "mine.py"
    file.write_text(SETTINGS)
    names = ("changes", "allows", "looks")
    cells = tuple(JobCell(name, name, {"function": name}, "p", {"n": 3}) for name in names)
    visits = tuple(JobVisit(cell.id, block) for block in range(2) for cell in cells)
    records = bench.run(bench.job([], workload=str(file), cells=cells, visits=visits))
    assert not select(records, event="failed")
    assert torch.get_default_dtype() == torch.float32
    assert not torch.backends.cudnn.benchmark
