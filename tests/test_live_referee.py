"""`profiler check --referee`: candidates that are honest and that cheat, from file to answer."""

import json
from pathlib import Path

import pytest
from test_serve import asked

from profiler.commands.check import checked_by
from profiler.commands.requests import CheckRequest
from profiler.errors import SpecError, UsageError
from profiler.findings.brief import BriefDocument
from profiler.planning.python_files import public_functions
from profiler.sessions.experiment_files import load_experiment

TASK = """
import torch


def inputs(rows=[8], columns=256, mask="off"):
    assert mask == "off", "a text, which YAML reads as false"
    return torch.randn(rows, columns)


def baseline(x):
    return x.sum(1)
"""
CANDIDATE = """
import functools

import torch

KEPT = {}


def in_pieces(x, pieces=[2, 4], *, scale=1.0):
    \"\"\"Sums of columns, piece by piece.\"\"\"
    return sum(part.sum(1) for part in x.chunk(pieces, 1)) * scale


def kept(x):
    if x.shape not in KEPT:
        KEPT[x.shape] = x.sum(1)
    return KEPT[x.shape]


@functools.cache
def helper(x):
    return x


def _own(x):
    return x


def check(x):
    return x
"""


EVALUATES = """
import json
import sys
import profiler

task, candidate, out = sys.argv[1:]
document = profiler.evaluate(
    candidate,
    task,
    [{"rows": 12, "columns": 64, "mask": "off"}],
    budget=0,
    blocks=6,
    device="cpu",
    out=out,
)
print(json.dumps(document))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task, which is described once, and beside it the folder of a candidate."""
    folder = tmp_path_factory.mktemp("referee")
    for name, text in (("task/sums.py", TASK), ("mine/fast.py", CANDIDATE)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def files(folder, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    candidate = folder / "mine/fast.py"
    candidate.write_text(CANDIDATE)
    return folder / "task/sums.py", candidate


def test_a_candidate_is_judged_beside_the_incumbent(files, tmp_path, profiler):
    (tmp_path / "evaluates.py").write_text(EVALUATES)
    code, out, err = profiler.fork_server.run(
        *("evaluates", [*map(str, files), str(tmp_path / "reports")]),
        cwd=tmp_path,
        environment=profiler.environment,
        patience_s=profiler.patience_s,
    )
    assert code == 0, err
    document = json.loads(out)
    BriefDocument.model().model_validate(document)
    assert document["exit_code"] == 4
    assert document["experiment"] == "sums-referee"
    assert {row["variant"] for row in document["verdicts"]} == {
        *("in_pieces pieces=2", "in_pieces pieces=4")
    }
    assert not [text for text in document["warnings"] if "may have passed" in text]
    (failure,) = document["failures"]
    assert (failure["variant"], failure["outcome"]) == ("kept", "implausible")
    assert failure["cause"].startswith("right before, and wrong on inputs that it had not seen")
    (run,) = (tmp_path / "reports/sums-referee").iterdir()
    assert "candidate: ../mine/fast.py" in (run / "spec.yaml").read_text()
    assert {"sums.py", "fast.py"} <= json.loads((run / "sources.json").read_text())["files"].keys()
    samples = (run / "samples.csv").read_text().splitlines()
    assert all("wall-clock" in line for line in samples[1:])


def test_the_functions_of_a_candidate_are_read_and_not_run(files):
    task, candidate = files
    helpers = "\ndef _all(x):\n    return load(), kept(x)\n\ndef load():\n    return 1\n"
    candidate.write_text(f"{CANDIDATE}{helpers}\nraise SystemExit\n")
    functions = public_functions(candidate)
    assert [function.name for function in functions] == ["in_pieces", "kept"]
    assert functions[0].note == "Sums of columns, piece by piece."
    assert [name for name, _ in functions[0].variants()] == [
        *("in_pieces pieces=2", "in_pieces pieces=4")
    ]
    assert load_experiment(task, candidate=candidate).notes == (
        "kept is measured as a variant, and _all calls it: the name of a helper begins with an "
        "underscore.",
        "fast.py:21: helper is not judged: it has a decorator.",
    )
    loaded = load_experiment(task, candidate=candidate.with_name("fast.py:kept"))
    assert [item.name for item in loaded.experiment.variants.list] == ["baseline", "kept"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def baseline(x):\n    return x\n", "fast.py:1: baseline is a variant of sums.py, too"),
        ("x = 1\n", "has no function that stands by itself"),
        ("def f(:\n", "fast.py:1: not valid Python"),
    ],
)
def test_what_is_wrong_with_a_candidate_is_said_with_its_line(files, text, message):
    task, candidate = files
    candidate.write_text(text)
    with pytest.raises(SpecError, match=message):
        load_experiment(task, candidate=candidate)


def test_an_answer_to_a_task_of_kernelbench_is_a_class(tmp_path):
    task, candidate = tmp_path / "task.py", tmp_path / "answer.py"
    task.write_text("class Model:\n    pass\n\ndef get_inputs():\n    return []\n")
    candidate.write_text(CANDIDATE)
    with pytest.raises(SpecError, match="has no class ModelNew") as error:
        load_experiment(task, candidate=candidate)
    assert "task.py is a task of KernelBench" in error.value.remedy
    candidate.write_text(f"{CANDIDATE}\n\nclass ModelNew:\n    pass\n")
    loaded = load_experiment(task, candidate=candidate)
    assert [item.name for item in loaded.experiment.variants.list] == ["Model", "ModelNew"]


def test_a_referee_needs_functions_and_a_clock_of_its_own(files, tmp_path):
    task, candidate = files
    with pytest.raises(UsageError, match="Python file"):
        load_experiment(tmp_path / "a.yaml", candidate=candidate)
    with pytest.raises(SpecError, match="judged by wall_clock alone"):
        load_experiment(task, candidate=candidate, overrides=["collect.collectors=timer"])
    with pytest.raises(UsageError, match="a run has no candidate"):
        checked_by(CheckRequest(Path("softmax"), referee=candidate))


def test_a_candidate_outside_of_the_served_folder_is_refused(tmp_path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root/sums.py").write_text(TASK)
    call = ("check", {"target": "sums.py", "referee": "../fast.py"})
    ((failed, text),) = asked(tmp_path / "root", call)
    assert failed
    assert "outside" in text
