"""`profiler gate`: what it measures against, what trips it, and what becomes of the token."""

import os
import re
import subprocess
from dataclasses import replace
from inspect import signature
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from profiler.commands import compare
from profiler.commands import gate as command
from profiler.commands.compare import MeasuredRevisions
from profiler.commands.gate import gate
from profiler.commands.requests import GateRequest
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError
from profiler.findings.gates import RevisionComparison
from profiler.findings.verdicts import NO_DATA, PairVerdict, Resolution
from profiler.history.answers import Answer, HistoryRun
from profiler.history.store import Store
from profiler.model import Cell, Environment, Problem, Variant, Verdict
from profiler.revisions.repository import Repository

SPEC = """\
name: tiles
workload: {command: "true {n}"}
variants: {list: [{name: a}]}
problems: {list: [{name: p, params: {n: 1}}]}
baseline: a
"""


def git(folder, *words):
    identity = ("-c", "user.name=n", "-c", "user.email=n@localhost")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A branch `topic` with one commit beside `main`."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "-q", "-b", "main")
    (folder / "tiles.yaml").write_text(SPEC)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    git(folder, "checkout", "-q", "-b", "topic")
    git(folder, "commit", "-q", "--allow-empty", "-m", "topic")
    return folder


def cell(name):
    return Cell(name, Variant(name, name, {}), Problem("p", "p", {}))


def pair(verdict, ratio=1.05, low=1.03):
    ends = {"low": low, "high": ratio + 0.02, "median": 1e5 * ratio, "against_median": 1e5}
    judged = PairVerdict(verdict, ratio=ratio, resolution=Resolution(noise_floor=0.004), **ends)
    return RevisionComparison("a", "p", cell("a old"), cell(f"a {verdict}"), judged, "", "")


@pytest.fixture
def gated(repository, monkeypatch, tmp_path):
    """Runs the gate on comparisons that it would have measured; says what it asked for."""
    asked = []
    for variable in ("GITHUB_BASE_REF", command._GITLAB_TARGET):
        monkeypatch.delenv(variable, raising=False)

    def run(*comparisons, **fields):
        report = SimpleNamespace(environment=Environment(gpu="NVIDIA H100"))
        findings = SimpleNamespace(report=report)
        written = SimpleNamespace(
            findings=findings, folder=tmp_path, document={}, left_out=("looks",)
        )

        def measure(request, names, reporter, *, with_baseline):
            assert with_baseline, "the next gate finds the base in the history"
            asked.append((request, tuple(names), dict(os.environ)))
            commits = tuple(map(Repository.of(request.spec).commit, names))
            return MeasuredRevisions(
                experiment="tiles",
                baseline="a",
                base_cells={},
                commits=commits,
                run=written,
                unchanged=(),
                unmatched=(),
                comparisons=comparisons,
            )

        monkeypatch.setattr(compare, "measure_revisions", measure)
        given = {"spec": repository / "tiles.yaml", "out": tmp_path, "quiet": True, **fields}
        return gate(GateRequest(**given)), asked

    return run


def test_slower_trips_and_unclear_and_no_data_never_do(gated, tmp_path, capsys):
    undecided = pair(Verdict.UNCLEAR), replace(pair(Verdict.SAME), pair=NO_DATA)
    lost = replace(undecided[1], failure="raised: it broke")
    assert gated(lost)[0] is ExitCode.SOME_CELLS_FAILED, "the base has a right result of it"
    assert gated(lost, pair(Verdict.SLOWER))[0] is ExitCode.GATE_TRIPPED
    capsys.readouterr()
    assert gated(*undecided)[0] is ExitCode.COMPLETE
    assert "none of 2 cells slower beyond its margin, 2 undecided" in capsys.readouterr().out
    few_blocks = pair(Verdict.UNCLEAR, low=float("nan"))
    lines = [compare._comparison_line(item) for item in (*undecided, few_blocks)]
    interval = " [1.030, 1.070]"  # two blocks have none
    assert lines == [
        f"a, p: UNCLEAR 1.050\u00d7{interval}",
        "a, p: NO DATA",
        "a, p: UNCLEAR 1.050\u00d7",
    ]
    target = tmp_path / "gate.md"
    slower = (*undecided, pair(Verdict.SLOWER))
    code, asked = gated(*slower, budget_s=60.0, markdown_target=str(target))
    assert code is ExitCode.GATE_TRIPPED
    text = target.read_text()
    assert "1 of 3 cells slower" in text
    assert "The budget: left out: looks." in text
    assert "A/A: the base varies by 0.40" in text
    request, (base, head), _ = asked[-1]
    assert (request.budget_s, head) == (60.0, "HEAD")
    assert base == Repository.of(request.spec).commit("main").hash
    # Beyond the percent with the whole interval, as every gate.
    assert gated(pair(Verdict.SLOWER), fail_on="regression:4")[0] is ExitCode.COMPLETE
    assert gated(pair(Verdict.SLOWER), fail_on="regression:2")[0] is ExitCode.GATE_TRIPPED


def test_a_gate_that_compared_nothing_is_not_green(gated, tmp_path, capsys):
    nothing = replace(pair(Verdict.SAME), pair=NO_DATA, old_failure="wrong_result: off by 2")
    target = tmp_path / "gate.md"
    assert gated(nothing, markdown_target=str(target))[0] is ExitCode.SOME_CELLS_FAILED
    assert "none of 1 cell was compared" in capsys.readouterr().out
    assert "\N{CROSS MARK}" in target.read_text()
    assert gated(nothing, pair(Verdict.SAME))[0] is ExitCode.COMPLETE
    assert gated()[0] is ExitCode.COMPLETE, "the same sources need no measurement"


def test_the_machine_of_today_is_held_against_earlier_runs_but_those_of_this_commit(
    gated, repository, tmp_path, monkeypatch, capsys
):
    def run(commit, value, day):
        answer = Answer("a..p", "a", "p", "duration_ns", value, None, None, 8, *(None,) * 5)
        created = f"2026-11-{day:02d}T00:00:00+00:00"
        told = ("r", "tiles", created, "run", "H100", "", commit, None, "duration_ns", {})
        return HistoryRun(*told, answers=(answer,))

    head = Repository.of(repository).commit("HEAD").hash[:8]
    runs = [run("0123abcd", 5e4, 1), run("", 5e4, 2), run(head, 1e5, 3), run(f"{head}+", 1e5, 4)]
    Store.beside(tmp_path).add(runs)
    here = runs[0]
    monkeypatch.setattr(command, "_answers_of_base", lambda *_: here)
    gated(pair(Verdict.SAME))
    words = "The base takes 2.000\u00d7 the time that it usually took (runs: 2)"
    assert words in capsys.readouterr().out


def test_without_another_branch_the_base_has_to_be_named(gated, repository, monkeypatch):
    with monkeypatch.context() as request:
        request.setenv("GITHUB_BASE_REF", "release")
        with pytest.raises(UsageError, match="older commit in common with origin/release"):
            gated(pair(Verdict.SAME))
    with pytest.raises(UsageError, match="with --base, such as HEAD~1"):
        gated(pair(Verdict.SAME), head="main")
    assert gated(pair(Verdict.SAME), head="topic", base="topic~1")[0] is ExitCode.COMPLETE


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_measured_has_no_token_and_a_refused_comment_changes_nothing(
    gated, monkeypatch, capsys, fails
):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    monkeypatch.setenv("GITHUB_REF", "refs/pull/7/merge")
    put = []

    def keep(site, marker, text):
        put.append((site, marker, text))
        if fails:
            raise EnvironmentUnusable("POST x: HTTP status 403.")
        return "https://github.com/o/r/pull/7"

    monkeypatch.setattr(command.CommentSite, "put", keep)
    code, asked = gated(pair(Verdict.SLOWER), comment="github", quiet=False)
    assert code is ExitCode.GATE_TRIPPED
    ((_, _, environment),) = asked
    assert "secret" not in environment.values()
    ((site, marker, text),) = put
    assert marker == "<!-- kernel-profiler gate: tiles -->"
    printed = capsys.readouterr()
    assert "secret" not in f"{printed.out}{printed.err}{text}{site}"
    assert ("No comment was written" if fails else "Comment: https://") in printed.err


@pytest.mark.parametrize("name", ["gate-github.yml", "gate-gitlab.yml"])
def test_the_jobs_of_the_docs_give_flags_that_there_are(name):
    text = (Path(__file__).parents[2] / "docs" / name).read_text()
    assert yaml.safe_load(text)
    (line,) = re.findall(r"python -m profiler gate (.*)", text)
    fields = signature(GateRequest, eval_str=True).parameters.values()
    options = [field.annotation.__metadata__[0] for field in fields]
    known = {option.default for option in options}
    assert set(re.findall(r"--[a-z-]+", line)) <= known
