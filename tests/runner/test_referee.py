"""The referee: what candidates may try is caught or gains nothing, and honest ones are left alone.

The exploits are those of `benchmarks/referee`, which plays each in a process of its own; here those
that leave their process usable share one.
"""

import ctypes
import json
import os
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from types import MappingProxyType

import psutil
import pytest
import torch
from whole_runs import EVERYTHING

from profiler.runner.checks.check import WrongResultError
from profiler.runner.checks.renewal import NotRenewableError
from profiler.runner.checks.rounding import rounding_of
from profiler.runner.experiment import experiment_of
from profiler.runner.failures import ForeignError, diagnose
from profiler.runner.import_path import import_file
from profiler.runner.referee.confine import landlock_version
from profiler.runner.referee.exchange import SharedMemory, as_message, of_message, places_for
from profiler.runner.referee.party import Party
from profiler.runner.referee.workload import RefereedWorkload
from profiler.runner.seal import ImplausibleError

FOLDER = Path(__file__).parents[2] / "benchmarks/referee"
sys.path.append(str(FOLDER))

from run_exploits import EXPLOITS, KINDS, Match, can_play  # noqa: E402
from run_honest import kernels, objections, problems  # noqa: E402

CPU = torch.device("cpu")
SHARED = [kind for kind in KINDS if not kind.spoils and can_play(kind, CPU)]
OF_ITS_OWN = ("answers_early", "replaces_the_guest", "leaves_a_daemon")
"""Of those that spoil their process: one forges answers, one replaces code, one stays."""
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Guests have one thread: two on busy cores wait for each other."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    os.environ.pop("OMP_NUM_THREADS")
    if before is not None:
        os.environ["OMP_NUM_THREADS"] = before


@pytest.fixture(scope="module", autouse=True)
def adopts_orphans_only_here():
    """A judge adopts orphans of its guests; later tests of this worker wait for none of theirs."""
    yield
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 0, 0, 0, 0)


@pytest.fixture(autouse=True)
def forked_guests(request):
    """Honest guests are forks. Exploits are not: they look for what the judge left.

    Nor is a guest on a GPU: CUDA is not to be used in a fork of a process that uses it.
    """
    plays_exploits = {"match", "match_on_gpu"} & set(request.fixturenames)
    if not (plays_exploits or request.node.get_closest_marker("gpu")):
        request.getfixturevalue("forked_interpreters")


@pytest.fixture(scope="module")
def match(one_thread):
    match = Match(CPU)
    yield match
    match.close()


@pytest.mark.parametrize("kind", SHARED, ids=lambda kind: kind.name)
def test_an_exploit_gains_nothing(match, kind):
    assert kind.gains_nothing_by(match.play(kind.name, launches=4).result)


@pytest.mark.parametrize("name", OF_ITS_OWN)
def test_an_exploit_that_spoils_its_process_gains_nothing(match, name):
    (kind,) = (kind for kind in KINDS if kind.name == name)
    before = _dead_children()  # a judge is given what other tests of this process leave behind
    played = match.play(name, launches=4)
    match.restart()
    assert kind.gains_nothing_by(played.result)
    assert not _dead_children() - before


def _dead_children():
    """Ids of children that have ended and that nobody has waited for."""
    children = psutil.Process().children()
    return {child.pid for child in children if child.status() == psutil.STATUS_ZOMBIE}


def test_every_exploit_is_one_kind():
    names = [kind.name for kind in KINDS]
    module = import_file(EXPLOITS)
    functions = {
        name
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
        and callable(value)
        and not name.startswith("_")
    }
    assert set(names) == functions
    assert len(names) == len(functions)


TASK = """
import torch
import profiler

e = profiler.Experiment("sums", problems={"n": [32]})


@e.inputs
def inputs(n, device):
    return {"x": torch.randn(n, 2 * n).t(), "scale": 2.0, "pair": [torch.arange(n), None]}


@e.variant(baseline=True)
def plain(x, scale):
    return x.sum(0) * scale


@e.variant(setup=True)
def prepared(x, scale, pair):
    return lambda: (x * scale).sum(0)


@e.variant(in_place=True)
def in_place(x, scale):
    return x.mul_(scale).sum(0)


@e.variant
def writes(x, scale):
    result = x.sum(0) * scale
    x.zero_()
    return result
"""
CANDIDATE = """
def honest(x, scale, pair, n):
    assert pair[1] is None and x.stride() == (1, 2 * n) and len(pair[0]) == n
    return sum(x[row] for row in range(len(x))) * scale


def raises(x):
    raise ValueError("no space left on device")


def crashes(x):
    import os

    os.write(2, b"it said something\\n")
    os.abort()


def yields(x, scale):
    import os

    os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))
    return x.sum(0) * scale


def less_exact(x, scale):
    return (x.bfloat16() * scale).sum(0).float()
"""


@pytest.fixture(scope="module")
def refereed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    task, candidate = folder / "sums.py", folder / "candidate.py"
    task.write_text(TASK)
    candidate.write_text(CANDIDATE)
    workload = RefereedWorkload(experiment_of(import_file(task)), task, candidate, {})
    yield workload
    workload.close()


@contextmanager
def judged(folder, task_text, answer_text):
    """A workload of a task and an answer to it."""
    task, answer = folder / "task.py", folder / "answer.py"
    task.write_text(task_text)
    answer.write_text(answer_text)
    workload = RefereedWorkload(experiment_of(import_file(task)), task, answer, {})
    with closing(workload):
        yield workload


def play(workload, name, times=3, problem=MappingProxyType({"n": 32})):
    rounds = workload.make_inputs(problem, CPU, 0)
    launch = workload.prepare({"function": name}, problem, rounds, None)
    for _ in range(times):
        launch.restore()
        launch()
    return launch.judge()


@pytest.mark.parametrize("name", ["plain", "prepared", "in_place", "honest"])
def test_honest_functions_of_either_side_are_right(refereed, name):
    assert play(refereed, name).max_abs < 1e-4


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
def test_a_candidate_is_confined_and_the_incumbent_is_not(refereed):
    confined = {file.name: refereed.party_of(file).is_confined for file in refereed.files}
    assert confined == {"sums.py": False, "candidate.py": True}


@pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("/opt/tasks/task.py", "task.py lies in /opt, which every process may read"),
        ("/home/task.py", ""),
    ],
)
def test_a_task_that_every_process_may_read_is_named(tmp_path, task, why):
    (tmp_path / "candidate.py").write_text("")
    party = Party(tmp_path / "candidate.py", is_trusted=False, hidden=Path(task))
    assert party.unconfined == why
    party.close()


def test_a_candidate_finds_packages_where_only_a_variable_says(tmp_path, monkeypatch):
    packages, candidate = tmp_path / "lib/site-packages", tmp_path / "candidate.py"
    packages.mkdir(parents=True)
    (packages / "own_package.py").write_text("NUMBER = 2")
    candidate.write_text("from own_package import NUMBER\n")
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.syspath_prepend(packages)
    party = Party(candidate, is_trusted=False, hidden=tmp_path / "task.py")
    assert party.is_alive, "torch may be installed there"
    party.close()


def test_what_a_candidate_raises_is_its_own_fault_and_has_its_line(refereed, tmp_path):
    with pytest.raises(ForeignError, match=r"candidate.py:8: ValueError: no space left") as error:
        play(refereed, "raises")
    failure = diagnose(error.value, tmp_path)
    assert (failure.outcome, failure.of_host) == ("raised", False)


def test_a_crash_costs_one_function_of_a_file_and_its_next_process_sees_nothing_again(refereed):
    problem = {"n": 32}
    candidate = next(file for file in refereed.files if file.name == "candidate.py")
    rounds = refereed.make_inputs(problem, CPU, 0)
    honest, crashing = (
        refereed.prepare({"function": name}, problem, rounds, None)
        for name in ("honest", "crashes")
    )
    play(refereed, "honest")  # so that there is a round to be seen again
    crashing.restore()
    gone = refereed.party_of(candidate)
    with pytest.raises(
        ForeignError, match=r"signal 6: it said something .candidate.py:\d+ in crashes"
    ):
        crashing()
    assert crashing.judge() is None
    seen = gone.last_round
    assert refereed.party_of(candidate) is not gone
    assert refereed.party_of(candidate).last_round == seen > 0, "it sees no inputs again"
    honest.restore()
    honest()
    assert honest.judge().max_abs < 1e-4


def test_a_candidate_that_changes_how_the_judge_is_scheduled_is_refused(refereed):
    policy = os.sched_getscheduler(0)
    with pytest.raises(ImplausibleError, match="changed priorities or cores"):
        play(refereed, "yields", times=1)
    assert os.sched_getscheduler(0) == policy


@pytest.mark.parametrize(
    ("name", "words"), [("writes", "writes into an input"), ("less_exact", "elements are wrong")]
)
def test_a_wrong_function_is_refused(refereed, name, words):
    with pytest.raises(WrongResultError, match=words):
        play(refereed, name)


@pytest.mark.parametrize(
    ("inputs", "result", "words"),
    [
        ("torch.ones(n)", "x + 1", "inputs of another seed are the same"),
        ("torch.randn(n)", "torch.softmax(x, 0).sum()", "the right result is the same"),
        ("torch.randn(n)", "torch.relu(x - 1000)", "the right result is the same"),
        ("torch.randn(n)", "(x < 1000).sum()", "the right result is the same"),
        ("torch.randn(n)", "x * float('nan')", "the right result is the same"),
    ],
)
def test_a_task_that_tells_nobody_s_work_is_refused(tmp_path, inputs, result, words):
    task = tmp_path / "task.py"
    task.write_text(
        f"import torch\n\ndef inputs(n=[4]):\n    return {inputs}\n\n"
        f"def baseline(x):\n    return {result}\n"
    )
    workload = RefereedWorkload(experiment_of(import_file(task)), task, task, {})
    with pytest.raises(NotRenewableError, match=words):
        workload.make_inputs({"n": 4}, CPU, 0)


KERNELBENCH_TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self, columns, scale):
        super().__init__()
        self.linear, self.scale = torch.nn.Linear(16, columns), scale

    def forward(self, x, rows):
        return self.linear(x)[rows] * self.scale

def get_inputs():
    return [torch.randn(8, 16), torch.randperm(8)]

def get_init_inputs():
    return [4, 2.0]
"""
KERNELBENCH_ANSWER = """
import torch

class ModelNew(torch.nn.Module):
    def __init__(self, columns, scale):
        super().__init__()
        self.linear, self.scale = torch.nn.Linear(16, columns), scale

    def forward(self, x, rows):
        return self.result(x, rows)

    def result(self, x, rows):
        return torch.addmm(self.linear.bias, x[rows], self.linear.weight.t()) * self.scale

class ModelNewKept(ModelNew):
    first_result = None

    def forward(self, x, rows):
        if self.first_result is None:
            self.first_result = self.result(x, rows)
        return self.first_result

class ModelNewLarger(ModelNew):
    def __init__(self, columns, scale):
        super().__init__(columns, 1.01 * scale)
"""


@torch.no_grad()
def test_modules_of_kernelbench_have_the_same_weights_in_every_process(tmp_path):
    with judged(tmp_path, KERNELBENCH_TASK, KERNELBENCH_ANSWER) as workload:
        for name in ("Model", "ModelNew"):
            assert play(workload, name, problem={}).max_abs < 1e-5
        with pytest.raises(WrongResultError, match="32 of 32 elements are wrong"):
            play(workload, "ModelNewLarger", problem={})
        with pytest.raises(ImplausibleError, match="right before, and wrong on inputs"):
            play(workload, "ModelNewKept", problem={})


IN_PLACE_TASK = """
import torch
import profiler

bench = profiler.Experiment("sums", problems={"size": [32]})

@bench.inputs
def data(size):
    return ((torch.randn(size, size), torch.empty(size)),)

@bench.variant(baseline=True, in_place=True)
def ref_kernel(data):
    x, output = data
    output[...] = x.sum(1)
    return output
"""
IN_PLACE_ANSWER = """
def custom_kernel(data):
    x, output = data
    output.copy_(x.t().sum(0))
    return output

def unwritten(data):
    return data[1]
"""


ROUNDED_TASK = """
import torch

def inputs(n=[256]):
    return 3 * torch.randn(n, 1024).bfloat16(), torch.tensor([0.05])

def baseline(x, scale):
    quantized = (x.float() / scale).round().clamp(-128, 127).to(torch.int8)
    return quantized, torch.softmax(x / 3, 1)
"""
ROUNDED_ANSWER = """
import torch

def right(x, scale):
    quantized = (x.float() * (1 / scale)).round().clamp(-128, 127).to(torch.int8)
    return quantized, torch.softmax((x / 3).float(), 1).bfloat16()

def truncated(x, scale):
    return (x.float() / scale).clamp(-128, 127).to(torch.int8), right(x, scale)[1]

def of_large_ones(x, scale):
    quantized, shares = right(x, scale)
    last = shares[-1]
    last[last < last.float().median()] = 0
    return quantized, shares
"""


def test_whole_numbers_and_bfloat16_are_judged_by_element(tmp_path):
    """Halfway between two, both are right; two roundings of the largest are not right for all."""
    with judged(tmp_path, ROUNDED_TASK, ROUNDED_ANSWER) as workload:
        for name in ("baseline", "right"):
            assert play(workload, name, problem={"n": 256}).max_abs == 1
        for name, words in (("truncated", "output 0"), ("of_large_ones", "output 1")):
            with pytest.raises(WrongResultError, match=f"{words}: .* elements are wrong"):
                play(workload, name, problem={"n": 256}, times=1)


def test_a_candidate_writes_into_inputs_where_the_baseline_does(tmp_path):
    with judged(tmp_path, IN_PLACE_TASK, IN_PLACE_ANSWER) as workload:
        assert play(workload, "custom_kernel", problem={"size": 32}).max_abs < 1e-4
        with pytest.raises(WrongResultError, match="32 of 32 elements are wrong"):
            play(workload, "unwritten", problem={"size": 32})


def test_the_check_of_a_task_reads_results_in_the_containers_of_its_baseline(tmp_path):
    task = tmp_path / "task.py"
    task.write_text(
        "import torch\n\ndef inputs(n=[4]):\n    return torch.rand(n) + 1\n\n"
        "def baseline(x):\n    return {'sum': x.sum(), 'each': [2 * x]}\n\n"
        "def zero(x):\n    return {'each': [2 * x], 'sum': 0 * x.sum()}\n\n"
        "def check(outputs, inputs):\n    assert outputs['each'][0].shape == inputs.shape\n"
        "    return None if outputs['sum'] else 'it is zero'\n"
    )
    workload = RefereedWorkload(experiment_of(import_file(task)), task, task, {})
    try:
        for name, right in (("baseline", True), ("zero", False)):
            rounds = workload.make_inputs({"n": 4}, CPU, 0)
            variant, problem = {"function": name}, {"n": 4}
            launch = workload.prepare(variant, problem, rounds, None)
            launch.restore()
            result, check = launch(), workload.own_check(variant, problem, rounds)
            if right:
                assert check(result) is None
            for wrong in [[torch.zeros_like(part) for part in result], *[result] * (not right)]:
                with pytest.raises(WrongResultError):
                    check(wrong)
    finally:
        workload.close()


def test_results_are_those_of_when_the_clock_stopped(refereed):
    problem = {"n": 32}
    rounds = refereed.make_inputs(problem, CPU, 0)
    launch = refereed.prepare({"function": "honest"}, problem, rounds, None)
    launch.restore()
    (result,) = launch()
    result.zero_()
    assert launch.judge().max_abs < 1e-4


def test_rounding_explains_no_more_than_a_type_can():
    expected = torch.tensor([100.0, -3.0], dtype=torch.float64)
    near, far = expected.float() + 1e-5, expected.float() + 50
    assert 1e-4 < rounding_of(near, expected) < 3e-4
    assert rounding_of(far, expected) < 0.01, "a baseline that is wrong allows no other to be"
    assert rounding_of(torch.tensor([1, 2]), torch.tensor([1, 2])) == 0


def test_tensors_of_any_layout_share_memory():
    tensors = (
        torch.randn(3, 5).t(),
        torch.randn(4).expand(2, 4),
        torch.ones(0, 3),
        torch.tensor(True),
        torch.arange(3, dtype=torch.int8),
    )
    places = places_for(tensors)
    made = SharedMemory.create(places, CPU)
    opened = SharedMemory.attach(json.loads(json.dumps(made.handle)), [os.dup(made.file)])
    for place, tensor in zip(places, tensors, strict=True):
        made.tensor(place).copy_(tensor)
        assert torch.equal(opened.tensor(place), tensor)
    assert opened.tensor(places[0]).stride() == tensors[0].stride()
    with pytest.raises(OSError, match="not permitted"):
        os.ftruncate(opened.file, 0)
    for memory in (made, opened):
        memory.close()


def test_values_travel_as_json():
    tensors = []

    def number_of(tensor):
        tensors.append(tensor)
        return len(tensors) - 1

    value = (torch.ones(2), [1, 2.5, None, "text"], {"a": (True,)}, torch.float16, CPU)
    message = json.loads(json.dumps(as_message(value, number_of)))
    back = of_message(message, tensors.__getitem__)
    assert back[1:] == value[1:]
    assert back[0] is tensors[0]
    for refused in (object(), {1: 2}, torch.ones(1, requires_grad=True)):
        with pytest.raises(TypeError, match="the referee passes"):
            as_message(refused, number_of)


def test_honest_kernels_are_not_objected_to():
    tried = problems()[: 2 if EVERYTHING else 1]
    judged = list(objections(CPU, tried, launches=3))
    assert len(judged) == len(tried) * (1 + len(kernels())) >= 10
    assert not [row for row in judged if row[2]]


@pytest.fixture(scope="module")
def match_on_gpu():
    match = Match(torch.device("cuda"))
    yield match
    match.close()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_an_exploit_gains_nothing_on_a_gpu(match_on_gpu, kind):
    if not can_play(kind, torch.device("cuda")):
        pytest.skip(f"needs {kind.needs}")
    played = match_on_gpu.play(kind.name, launches=4)
    match_on_gpu.restart()
    assert kind.gains_nothing_by(played.result), played.words


@pytest.mark.gpu
def test_honest_kernels_are_not_objected_to_on_a_gpu():
    judged = list(objections(torch.device("cuda"), problems()[:10], launches=5))
    assert not [row for row in judged if row[2]]
