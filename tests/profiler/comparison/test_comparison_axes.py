"""`profiler bisect driver SPEC`: recorded runs that differ by something else than the sources."""

import json
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.commands import bisect_axes as axes
from profiler.commands.bisect import bisect_command
from profiler.commands.bisect_axes import environments_of
from profiler.commands.history import read_answers
from profiler.commands.requests import BisectRequest
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.history.store import Store
from profiler.model import Verdict
from profiler.sessions.environments import run_in_environment


@pytest.fixture
def asked(pair, monkeypatch, capsys):
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
        (answers,) = read_answers(run, out)
        name = str(run.relative_to(out))
        Store.beside(out).add([replace(answers, run=name)])

    def ask(axis):
        code = bisect_command(BisectRequest(axis, "sums", out=out, quiet=True))
        return code, capsys.readouterr().out

    return ask


def test_the_driver_that_moved_a_cell_is_named_with_what_else_differs(asked):
    code, text = asked("driver")
    assert code is ExitCode.COMPLETE
    first, second = re.split(r"(?m)^(?=590)", text)
    assert first.startswith("580.1 \u2192 590.9: 2 of 12 cells moved.\n  slow..")
    assert first.count(f": {Verdict.SLOWER.word} 1.06") == 2
    assert "Against plain, which itself takes 0.999 to 1.000" in first
    assert "Nothing else that is recorded differs: driver 580.1 \u2192 590.9." in first
    assert second.startswith("590.9 \u2192 590.10: 0 of 12 cells moved.")
    either = "driver 590.9 \u2192 590.10, cuda_driver"
    assert f"Any of these may be it: {either}" in second


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
        (run,) = Path.cwd().glob(f"place/reports/sums/{python.name}")
        shutil.copytree(run, out / "sums" / run.name)

    monkeypatch.setattr(axes, "run_in_environment", copied)
    code, text = asked("old=/x/copy-1,new=/y/copy-2")
    assert text.startswith("old \u2192 new: 0 of 12 cells moved.")
    assert "Any of these may be it: driver 590.9" in text
    assert code is ExitCode.COMPLETE
    for journal in Path.cwd().glob("place/reports/sums/copy-2/raw/*/journal.jsonl"):
        failed = {"event": "failed", "cell": "odd..large", "phase": "check", "time": 9.0}
        with journal.open("a") as stream:
            stream.write(
                json.dumps({**failed, "outcome": "raised", "cause": "no such call"}) + "\n"
            )
    code, text = asked("older=/x/copy-1,newer=/y/copy-2")
    assert text.startswith("older \u2192 newer: 0 of 12 cells moved, 1 NO DATA.")
    assert code is ExitCode.SOME_CELLS_FAILED


def test_what_an_environment_cannot_do_is_said(tmp_path):
    with pytest.raises(EnvironmentUnusable, match="cannot be started"):
        run_in_environment(tmp_path / "python", [])
    with pytest.raises(EnvironmentUnusable, match=f"ended with {ExitCode.BAD_USAGE.value}"):
        run_in_environment(Path(sys.executable), [str(tmp_path / "nothing.yaml")])
