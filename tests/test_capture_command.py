"""`profiler capture`: a program as a person starts it, killed in between, and its experiment."""

import json
import re
import shlex
import sys

import pytest

TRAIN = """
import os
import signal
import sys

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, foreach=False)
for step in range(int(sys.argv[1])):
    model(torch.ones(16, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if sys.argv[2:] == [str(step)]:
        os.kill(os.getpid(), signal.SIGKILL)
print("trained in", __name__)
"""


@pytest.fixture
def train(profiler):
    (profiler.folder / "train.py").write_text(TRAIN)
    return profiler


def calls_in(folder):
    return json.loads((folder / "calls.json").read_text())


def test_a_program_is_captured_and_its_experiment_measured(train):
    """Where the program called nothing before, nothing stands in the way."""
    command = ("capture", "-o", "slow ones", "--", sys.executable, "train.py", "6")
    (train.folder / "train.py").write_text("raise SystemExit('no data')")
    done = train(*command)
    assert done.code == 1
    assert "captured nothing" in done.err
    assert "other threads and processes" in done.err
    (train.folder / "train.py").write_text(TRAIN)
    done = train.interpret(*command)
    assert done.code == 0, done.err
    assert done.out == "trained in __main__\n"
    assert "signatures into slow ones" in done.err
    document = calls_in(train.folder / "slow ones")
    assert (document["complete"], document["first_step"], document["steps"]) == (True, 4, 2)
    counts = {(c["operator"], *_shapes(c)): c["count"] for c in document["calls"]}
    assert counts["aten.addmm.default", (32,), (16, 32), (32, 32)] == 2
    assert counts["aten.add_.Tensor", (32, 32), (32, 32)] == 2

    assert re.search(r"^ +\d+ % of the time: ", done.err, re.MULTILINE)
    following = shlex.split(re.search(r"next: profiler run (.+)", done.err)[1])
    measured = train(
        *(*following, "--blocks", "2", "--only", "function=eager"),
        *("--set", "collect.device=cpu", "--set", "collect.repeats=2", "--json", "-"),
    )
    assert measured.code == 0, measured.err
    assert {cell["outcome"] for cell in measured.json["cells"]} == {"measured"}


def _shapes(call):
    given = [value for value in call["arguments"].values() if isinstance(value, dict)]
    return [tuple(value["tensor"]["shape"]) for value in given if "tensor" in value]


def test_a_program_that_is_killed_leaves_a_capture_that_can_be_read(train):
    done = train(
        *("capture", "--steps", "0:9", "-o", "slow", "--", sys.executable, "train.py", "9", "3")
    )
    assert done.code != 0
    document = calls_in(train.folder / "slow")
    assert document["complete"] is False
    compile((train.folder / "slow" / "experiment.py").read_text(), "experiment.py", "exec")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "full", "--", "python", "train.py"], "full exists and is not empty"),
        (["-o", "c", "--steps", "4:2", "--", "python", "train.py"], "--steps 4:2"),
        (["-o", "c", "--", "python", "-c", "1"], "a file or a module"),
        (["-o", "c", "--", "cat"], "cat is no program of Python"),
        (["-o", "c", "--", "python", "-u", "trian.py"], "There is no file trian.py"),
        (["train.py"], "profiler capture -o FOLDER -- python train.py"),
    ],
)
def test_what_cannot_be_captured_is_refused(train, arguments, words):
    (train.folder / "full").mkdir()
    (train.folder / "full" / "mine").touch()
    done = train("capture", *arguments)
    assert done.code == 2
    assert words in done.err
    assert not (train.folder / "c").exists()


def test_a_python_without_torch_is_named(train):
    python = train.folder / "python3"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    train.environment["PYTHONPATH"] = ""
    done = train("capture", "-o", "slow", "--", str(python), "train.py", "1")
    assert done.code == 3
    assert "has no torch to capture: No module named 'torch'" in done.err
    assert not (train.folder / "slow").exists()


ELSEWHERE = """
import os
import tempfile
import threading

import torch


def train():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], 0.1)
    for _ in range(8):
        optimizer.step()


thread = threading.Thread(target=train)
thread.start()
thread.join()
os.chdir(tempfile.mkdtemp(dir="."))
(torch.ones(3) * 2).sum()
if os.fork() == 0:
    torch.ones(4).cumsum(0)
    raise SystemExit
os.wait()
print((torch.ones(3) * 3).tolist())
"""


def test_a_program_that_changes_its_folder_forks_and_trains_in_a_thread(train):
    (train.folder / "elsewhere.py").write_text(ELSEWHERE)
    command = ("capture", "--values", "-o", "slow", "--", sys.executable, "elsewhere.py")
    done = train(*command)
    assert (done.code, done.out) == (0, "[3.0, 3.0, 3.0]\n"), done.err
    assert "Traceback" not in done.err
    assert done.err.count("signatures into slow") == 1, "the forked process wrote nothing"
    document = calls_in(train.folder / "slow")
    assert {c["operator"] for c in document["calls"]} == {
        *("aten.ones.default", "aten.mul.Tensor", "aten.sum.default"),
    }
    assert len([*(train.folder / "slow" / "values").iterdir()]) == len(document["calls"])
