"""`profiler bisect driver SPEC`: recorded runs that differ by something else than the sources."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.commands.bisect import bisect_command
from profiler.commands.over_time import axes
from profiler.commands.over_time.answers import read_answers
from profiler.commands.over_time.axes import environments_of
from profiler.commands.requests import BisectRequest
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.history.store import Store
from profiler.sessions.environments import run_in_environment


@pytest.fixture
def asked(pair, monkeypatch):
    """Runs under three drivers in the store; the middle one made `slow` slower."""
    monkeypatch.chdir(pair.folder)
    out = pair.older.parents[1]
    slower = {"slow..": 1.06}
    later = "2026-12-{:02d}T08:00:00+00:00"
    runs = [
        pair.older,
        pair.copy(slower, created=later.format(2), environment={"driver": "590.9"}),
        pair.copy(
            slower, created=later.format(3), environment={"driver": "590.10", "cuda_driver": "13.2"}
        ),
    ]
    for run in runs:
        (answers,) = read_answers(run)
        name = str(run.relative_to(out))
        Store.beside(out).add([replace(answers, run=replace(answers.run, run=name))])
    target = pair.folder / "found.json"

    def ask(axis):
        code = bisect_command(BisectRequest(axis, "sums", out=out, json_target=str(target)))
        return code, json.loads(target.read_text())

    return ask


def test_the_driver_that_moved_a_cell_is_named_with_what_else_differs(asked):
    _, found = asked("driver")
    first, second = found["steps"]
    assert (first["newer"], second["older"], second["newer"]) == ("590.9", "590.9", "590.10")
    assert {moved["cell"] for moved in first["moved"]} == {"slow..small", "slow..large"}
    assert {moved["verdict"] for moved in first["moved"]} == {"slower"}
    assert first["differs"] == [f"driver {first['older']} \u2192 590.9"]
    assert second["moved"] == []
    assert [text.partition(" ")[0] for text in second["differs"]] == ["driver", "cuda_driver"]
    assert "  Nothing else that is recorded differs: driver" in "\n".join(found["answer"])
    assert any("Any of these may be it: driver 590.9" in line for line in found["answer"])


def test_an_axis_along_which_nothing_differs_has_no_answer(asked):
    with pytest.raises(UsageError, match=r"nvcc: there are runs of .* alone"):
        asked("nvcc")


def test_environments_are_named_with_their_interpreters():
    assert environments_of("a=/x/python,b=/y/python") == {
        "a": Path("/x/python"),
        "b": Path("/y/python"),
    }
    assert environments_of("v1.0..HEAD") is None
    assert environments_of("driver") is None


def test_each_environment_is_measured_by_its_interpreter_and_all_are_compared(asked, monkeypatch):
    def copied(python, arguments):
        out = Path(arguments[arguments.index("--out") + 1])
        (run,) = Path.cwd().glob(f"**/sums/{python.name}")
        shutil.copytree(run, out / "sums" / run.name)

    monkeypatch.setattr(axes, "run_in_environment", copied)
    _, found = asked("old=/x/copy-1,new=/y/copy-2")
    (step,) = found["steps"]
    assert (step["older"], step["newer"], step["control"]) == ("old", "new", "plain")
    assert (step["refused"], step["moved"]) == ("", [])
    assert [text.partition(" ")[0] for text in step["differs"]] == ["driver", "cuda_driver"]


def test_what_an_environment_cannot_do_is_said(tmp_path):
    with pytest.raises(EnvironmentUnusable, match="cannot be started"):
        run_in_environment(tmp_path / "python", [])
    with pytest.raises(EnvironmentUnusable, match=f"ended with {ExitCode.BAD_USAGE.value}"):
        run_in_environment(Path(sys.executable), [str(tmp_path / "nothing.yaml")])
