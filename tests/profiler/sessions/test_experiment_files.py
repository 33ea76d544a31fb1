"""Experiments in Python files, as the orchestrator reads them: without importing them."""

import os
import sys
import textwrap
from functools import partial
from pathlib import Path

import pytest
import yaml
from whole_runs import wait_for

from profiler.errors import SpecError
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.runner.describe import main
from profiler.sessions import experiment_files
from profiler.sessions.experiment_files import load_experiment
from profiler.sessions.process import run_session

pytestmark = pytest.mark.usefixtures("forked_interpreters")

HEAD = """\
import profiler
e = profiler.Experiment(
    "mine", problems={problems}, {fields}
)
@e.inputs
def inputs(rows):
    return None
@e.variant
def first(x):
    "What there was."
@e.variant(baseline=True)
def second(x): ...
@e.variant(block=[128, 256], fast=True)
def third(x, block, fast): ...
"""


@pytest.fixture
def write(tmp_path):
    def written(text=HEAD, problems="{'rows': [1, 2]}", fields=""):
        path = tmp_path / "mine.py"
        text = text.replace("{problems}", problems).replace("{fields}", fields)
        path.write_text(textwrap.dedent(text))
        return path

    return written


def test_a_file_becomes_the_experiment_that_yaml_would_give(write, tmp_path):
    sys.modules.pop("workload_file_mine", None)  # of other tests in this process
    loaded = load_experiment(write(fields="collect={'blocks': (2, 4)}, margin_pct=2.0"))
    assert yaml.safe_load(loaded.text) == {
        "name": "mine",
        "workload": "./mine.py",
        "variants": {
            "list": [
                {"name": "first", "params": {"function": "first"}, "note": "What there was."},
                {"name": "second", "params": {"function": "second"}},
                *(
                    {
                        "name": f"third block={block} fast=True",
                        "params": {"function": "third", "block": block, "fast": True},
                    }
                    for block in (128, 256)
                ),
            ]
        },
        "problems": {"matrix": {"rows": [1, 2]}},
        "baseline": "second",
        "collect": {"blocks": [2, 4]},
        "margin_pct": 2.0,
    }
    plan = make_plan(loaded, space_of(loaded))
    assert len(plan.cells) == 8
    assert "workload_file_mine" not in sys.modules
    # What lies in a run folder is read as any spec, without the file.
    spec = tmp_path / "spec.yaml"
    spec.write_text(loaded.text)
    loaded.path.unlink()
    assert load_spec(spec).experiment == loaded.experiment


@pytest.mark.usefixtures("in_this_process")
def test_overrides_are_laid_over_it(write):
    loaded = load_experiment(write(), overrides=["problems.matrix.rows=[7]", "margin_pct=3.0"])
    assert loaded.experiment.margin_pct == 3
    assert {problem.params["rows"] for problem in make_plan(loaded, space_of(loaded)).problems} == {
        7
    }


@pytest.mark.usefixtures("in_this_process")
def test_problems_may_stand_one_by_one(write):
    loaded = load_experiment(write(problems="[{'rows': 1}, {'rows': 3, 'name': 5}]"))
    problems = make_plan(loaded, space_of(loaded)).problems
    assert [dict(problem.params) for problem in problems] == [{"rows": 1}, {"rows": 3, "name": 5}]


@pytest.fixture
def in_this_process(monkeypatch):
    """Import the files here: a process for each would take most of the time."""

    def run(script, errors):
        errors.touch()
        main(*map(Path, script[1:]))
        return ""

    monkeypatch.setattr(experiment_files, "_run", run)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def get_inputs():\n    return 1\n", "inputs of plain functions .get_inputs is none"),
        ("x = 1\n", "mine.py: defines no profiler.Experiment, and no function `inputs`"),
        (f"{HEAD}same = profiler.Experiment('mine')\n", "mine.py: two experiments are called mine"),
        (HEAD.replace("[128, 256]", "range(10**6)"), "third: 1000000 combinations are more than"),
        (f"{HEAD}\n@e.variant(basline=1)\ndef f(x): ...\n", "f takes no argument basline; did"),
        ("import profiler\nx = (\n", r"mine.py:2: SyntaxError: '\(' was never closed"),
        (
            "import os\n\nraise SystemExit(3)\n",
            '(?s)mine.py:3: SystemExit: 3.*`if __name__ == "__ma',
        ),
        (
            "open('nowhere.yaml')\n",
            "(?s)mine.py:1: FileNotFoundError: .*Path.__file__.*that of the",
        ),
        ("\nraise RuntimeError('no CUDA device')\n", "(?s)mine.py:2: .*needs a GPU belongs into"),
        ("import nowhere_at_all\n", "(?s)mine.py:1: ModuleNotFoundError: .*Install it in the"),
        (f"{HEAD}f = profiler.Experiment('two')\n", r"2 experiments in one file \(mine, two\)"),
        (f"{HEAD}\n@e.variant(bloc=3)\ndef f(x, block): ...\n", "mine.py:16: f takes no argument"),
        (f"{HEAD}\ne.run()\n", r"mine.py:16: mine.run\(\) is called while its file is imported"),
        (HEAD.replace("[128, 256]", "[1, b'x']"), r"mine.py:2: third: block: b'x' is no text"),
        (HEAD.replace("[128, 256]", "['a\\n', 2]"), r"mine.py:13: variants.list\[2\].*control"),
        (HEAD.replace("{fields}", "colect={}"), "mine.py:2: colect: unknown key; did you mean"),
        (
            HEAD.replace("problems=", "problms="),
            "mine.py:2: problms: unknown key; did you mean 'prob",
        ),
    ],
)
def test_errors_name_the_line_of_the_file(write, text, message):
    with pytest.raises(SpecError, match=message) as caught:
        load_experiment(write(text))
    assert "Traceback" not in str(caught.value)


def test_a_file_that_hides_an_installed_module_is_named(write, tmp_path, monkeypatch):
    monkeypatch.undo()  # a fork has imported numpy already
    (tmp_path / "numpy.py").write_text("")
    with pytest.raises(
        SpecError, match=r"(?s)mine.py:.: .*'numpy'.*numpy.py hides the installed numpy: ren"
    ):
        load_experiment(write("import numpy\nnumpy.ndarray\n"))


def test_the_words_of_the_file_go_to_the_error_and_never_to_stdout(write, capfd):
    with pytest.raises(SpecError, match=r"(?s)ended with exit code 7.*said before the end"):
        load_experiment(
            write("import os, sys\nprint('out')\nprint('said before the end', file=sys.stderr)\n"
                  "sys.stderr.flush()\nos._exit(7)\n")
        )  # fmt: skip
    assert capfd.readouterr().out == ""


def test_a_file_that_hangs_is_ended_as_by_an_exception(write, monkeypatch, capsys):
    path = write("""
import os, pathlib, time
open("pid", "w").write(str(os.getpid()))
pathlib.Path("lock").touch()
try:
    time.sleep(600)  # as torch/utils/file_baton.py
finally:
    os.remove("lock")
""")
    pid = path.parent / "pid"
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr(experiment_files, "SILENT_S", 0.1)
    monkeypatch.setattr(experiment_files, "DESCRIBE_LIMIT_S", 1.0)
    hangs = partial(wait_for, lambda: pid.exists() and pid.read_text())
    monkeypatch.setattr(experiment_files, "run_session", partial(run_session, on_start=hangs))
    with pytest.raises(SpecError, match="took longer than 1 s") as caught:
        load_experiment(path)
    assert "delete the file `lock`" in caught.value.remedy
    assert 'mine.py", line 6, in <module>' in caught.value.remedy
    assert not (path.parent / "lock").exists()
    assert "mine.py takes long" in capsys.readouterr().err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_thread_that_a_file_starts_holds_nothing_up(write, monkeypatch, capsys):
    monkeypatch.undo()  # a fork ends in its own way
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=[40]).start()\n"
    assert load_experiment(write(f"{HEAD}{thread}")).experiment.name == "mine"
    assert "takes long" not in capsys.readouterr().err


@pytest.mark.usefixtures("in_this_process")
def test_an_edited_file_is_read_again(write):
    assert load_experiment(write()).experiment.margin_pct == 1
    assert load_experiment(write(fields="margin_pct=4.0")).experiment.margin_pct == 4


def test_a_file_of_functions_may_have_any_name(tmp_path):
    path = tmp_path / "_zwei W\u00f6rter+.py"
    path.write_text("def inputs(n=[1]): ...\ndef own(x): ...\n")
    assert load_experiment(path).experiment.name == "zwei-Worter"
    assert load_experiment(Path(f"{path}:zwei-Worter")).experiment.name == "zwei-Worter"
    with pytest.raises(SpecError, match="no experiment three; there are: zwei-Worter"):
        load_experiment(Path(f"{path}:three"))
