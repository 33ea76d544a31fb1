"""Git revisions of an experiment: compared in one session, and bisected, in real repositories."""

import json
import os
import subprocess

import pytest
from whole_runs import TESTS

from profiler.model import slug

EXPERIMENT = """
import torch
import profiler
import passes

e = profiler.Experiment(
    "sums",
    problems={"rows": [64]},
    collect={"device": "cpu", "blocks": 8, "explain": False, "metrics": ["duration_ns"]},
)


@e.inputs
def inputs(rows, device, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randn(rows, 4096, device=device, generator=generator)


@e.variant(baseline=True)
def plain(x):
    return x.sum(1)


@e.variant
def mine(x):
    for _ in range(passes.COUNT):
        result = x.sum(1)
    return result
"""


class Repository:
    """A git repository of an experiment, whose commits are written one by one."""

    def __init__(self, folder):
        self.folder = folder
        self.git("init", "--quiet")

    def git(self, *arguments):
        identity = ("-c", "user.name=someone", "-c", "user.email=someone@localhost")
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, subject, **files):
        """Write files, by name (of Python without its ending), and commit them; the short hash."""
        for name, text in files.items():
            file = self.folder / (name if "." in name else f"{name}.py")
            file.write_text(text)
            self.git("add", "--", file.name)
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)
        return self.git("rev-parse", "HEAD")[:10]


@pytest.fixture(scope="module")
def history(tmp_path_factory, command_line):
    """A history with a commit that does not import, one that is slow, and some that do nothing."""
    profiler = command_line(tmp_path_factory.mktemp("history"))
    repository = Repository(profiler.folder)
    commits = [
        repository.commit("begins", mine=EXPERIMENT, passes="COUNT = 2\n"),
        repository.commit("half done", passes="COUNT = 2 +\n"),
        repository.commit("sums four times as often", passes="COUNT = 8\n"),
        repository.commit("says even more", notes="# nothing at all\n"),
    ]
    slow = commits[2:]
    profiler.environment |= {
        "FAKE_NCU_TIMES": ",".join(f"{c}={9000 if c in slow else 4000}" for c in commits),
        "FAKE_NCU_NOISE": "0.001",
    }
    return profiler, repository, commits


def sessions(journal):
    questions = [json.loads(line)["question"] for line in journal.read_text().splitlines()]
    return [question for question in questions if question.startswith("survey")]


@pytest.fixture(scope="module")
def bisected(history):
    profiler, _, commits = history
    asked = ("bisect", f"{commits[0]}..{commits[-1]}", "mine.py", "--cell", "function=mine")
    return asked, profiler(*asked, "--json", "-")


def test_a_bisection_names_the_commit(history, bisected):
    profiler, _, commits = history
    _, done = bisected
    assert done.code == 0, done.err
    (step,) = done.json["steps"]
    assert step["commit"].startswith(commits[2])
    assert step["parent"].startswith(commits[0]), "the one between does not import"
    assert (step["state"], step["verdict"]) == ("found", "slower")
    assert step["low"] > 2
    assert step["files"] == ["passes.py"]
    assert step["cause"] == "code: the sources of the variant differ"
    (skipped,) = done.json["skipped"]
    assert skipped["commit"].startswith(commits[1])
    assert "passes.py" in skipped["reason"] or "invalid syntax" in skipped["reason"]
    assert str(profiler.folder) not in json.dumps(done.json["skipped"])


def test_equal_sources_are_not_measured(history, bisected):
    """The last commit is the program of the culprit: no session holds it."""
    profiler, _, commits = history
    (journal,) = profiler.folder.glob("reports/.revisions/bisect-*/journal.jsonl")
    measured = {commit[:10] for survey in sessions(journal) for commit in survey.split()[1:-1]}
    assert measured == {commits[0], commits[2]}
    assert "Skipped" in bisected[1].err


def test_what_was_answered_is_not_measured_again(history, bisected):
    """As after `kill -9`: the journal ends in the middle of a line."""
    profiler, _, _ = history
    asked, first = bisected
    (journal,) = profiler.folder.glob("reports/.revisions/bisect-*/journal.jsonl")
    whole = journal.read_text()
    lines = whole.splitlines(keepends=True)
    journal.write_text("".join(lines[:-1]) + lines[-1][:20])
    again = profiler(*asked, "--json", "-")
    assert again.code == 0, again.err
    assert again.err.count("Session of") == 1
    assert [step["commit"] for step in again.json["steps"]] == [
        step["commit"] for step in first.json["steps"]
    ]
    assert (again.json["sessions"], again.json["answer"][-1]) == (
        first.json["sessions"],
        f"Sessions: {first.json['sessions']}, {first.json['sessions'] - 1} of them by earlier "
        "commands.",
    )
    assert profiler(*asked).err.count("Session of") == 0


def test_ends_without_a_right_result_are_not_called_the_same(history):
    """Without --cell nothing was followed, and a failing end was `the same`; names of both ends
    are those of the commits that were measured."""
    profiler, repository, _ = history
    branch = repository.git("branch", "--show-current")
    repository.git("checkout", "--quiet", "-b", "ends")
    two = EXPERIMENT.replace('"rows": [64]', '"rows": [64, 128], "kind": "a"')
    broken, fast, still, slow = (
        repository.commit(f"{count} times", mine=two, passes=f"COUNT = {count}\n")
        for count in (None, 2, "1 + 1", 8)
    )
    environment = {"FAKE_NCU_TIMES": f"{fast}=4000,{still}=4000,{slow}=9000"}
    cell = ("--cell", "function=mine,rows=128")
    unnamed = profiler("bisect", f"{broken}..{slow}", "mine.py", **environment)
    named = profiler("bisect", f"{broken}..{slow}", "mine.py", *cell, **environment)
    same = profiler("bisect", f"{broken}..{still}", "mine.py", *cell, **environment)
    bisected = profiler("bisect", f"{fast}..{slow}", "mine.py", "--json", "-", **environment)
    repository.git("checkout", "--quiet", branch)
    assert (unnamed.code, "no right result at both ends" in unnamed.err) == (2, True), unnamed.err
    assert (named.code, f"{slow} against {fast}," in named.out) == (0, True), named.err
    assert (same.code, "which were skipped" in same.out) == (4, True), same.err
    assert [step["commit"][:10] for step in bisected.json["steps"]] == [slow], bisected.err


def test_compare_measures_revisions_in_one_session(history):
    profiler, repository, commits = history
    flags = ("--fail-on", "regression:2", "--out", "here.html")
    done = profiler("compare", *flags, commits[0], commits[2], "mine.py")
    assert done.code == 5, done.err
    assert "Not measured, the same sources at these revisions: plain" in done.err
    run = profiler.runs(f"sums-{commits[0]}-{commits[2]}")[-1]
    page = (run / "index.html").read_text()
    assert "+COUNT = 8" in page
    assert (profiler.folder / "here.html").read_text() == page
    assert {record["revision"] for record in variants_of(run)} == {commits[0], commits[2]}
    assert not repository.git("worktree", "list").count("\n"), "the repository is left as it was"


def variants_of(run):
    cells = json.loads((run / "plan.json").read_text())["cells"]
    return [cell["variant"]["params"] for cell in cells]


def test_one_revision_is_compared_with_the_files_as_they_lie_there(history):
    profiler, repository, _ = history
    unchanged = profiler("compare", "--json", "-", "HEAD", "--", "mine.py")
    assert (unchanged.code, unchanged.out) == (0, ""), "no JSON, and nothing else in its place"
    assert "nothing was measured" in unchanged.err
    (profiler.folder / "passes.py").write_text("COUNT = 9\n")
    try:
        changed = profiler("compare", "HEAD", "--", "mine.py", "--quiet")
        assert repository.git("stash", "list") == ""
    finally:
        repository.git("checkout", "passes.py")
    assert "no run" not in changed.err


def test_the_base_of_a_gate_is_a_run_of_the_history(history):
    """And the next gate says whether the machine is as it was: its baseline is measured, too."""
    profiler, _, commits = history
    asked = ("gate", "mine.py", "--base", commits[0], "--head", commits[2])
    slow = slug(f"mine {commits[2]}")
    times = {slug(f"{name} {commit}"): 4000 for name in ("plain", "mine") for commit in commits}
    times = ",".join(f"{name}={9000 if name == slow else ns}" for name, ns in times.items())
    first = profiler(*asked, FAKE_NCU_TIMES=times)
    assert first.code == 5, first.err
    assert "1 of 1 cell slower beyond its margin" in first.out
    assert "the machine is as it was" in profiler(*asked).out
    document = profiler("history", "sums", "--json", "-", "--no-report").json
    (point,) = document["runs"]
    assert (point["source"], point["commit"]) == ("gate", commits[0][:8])
    cells = {cell["variant"]: cell for cell in document["cells"]}
    assert cells["plain"]["followed_by"] == "value"
    assert cells["mine"]["followed_by"] == "ratio"
    assert cells["mine"]["cell"] == "mine..rows=64"
    assert cells["mine"]["answers"][0]["value"] == pytest.approx(4000, rel=0.01)


def test_a_revision_without_the_experiment_is_named(history):
    """It was measured by today's file, against itself, and the answer was that nothing differs."""
    profiler, repository, _ = history
    base = repository.git("rev-parse", "HEAD")[:10]
    branch = repository.git("branch", "--show-current")
    repository.git("checkout", "--quiet", "-b", "new")
    head = repository.commit("a new one", **{"new one": EXPERIMENT.replace("sums", "new")})
    asked = ("new one.py", "--base", base, "--markdown", "gate.md")
    gate = profiler("gate", *asked)
    comment = (profiler.folder / "gate.md").read_text()
    compared = profiler("compare", base, head, "new one.py")
    bisected = profiler("bisect", f"{base}..{head}", "new one.py", "--cell", "function=mine")
    repository.git("checkout", "--quiet", branch)
    lacks = f"{base} has no 'new one.py'"
    assert (gate.code, lacks in gate.out, "nothing differs" in gate.out) == (0, True, False)
    assert "\N{WARNING SIGN}" in comment.splitlines()[0]
    assert "nothing was compared" in comment.splitlines()[0]
    assert (compared.code, lacks in compared.err) == (0, True), compared.err
    assert (bisected.code, lacks in bisected.err) == (0, True), bisected.err


@pytest.mark.parametrize("arguments", [("gate", "--base", "HEAD~1"), ("compare", "HEAD~1", "HEAD")])
def test_an_experiment_of_no_revision_compares_nothing(history, arguments):
    profiler, _, _ = history
    (profiler.folder / "untracked.py").write_text(EXPERIMENT)
    done = profiler(*arguments, "untracked.py")
    assert done.code == 2, done.err
    assert "untracked.py: is in none of these revisions" in done.err
    assert "git add" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "HEAD~1", "HEAD"), "compare 'HEAD~1' HEAD EXPERIMENT.py"),
        (("compare", "HEAD~1"), "compare 'HEAD~1' EXPERIMENT.py"),
        (("compare", "HEAD~1", "HEAD", "mine"), "compare 'HEAD~1' HEAD EXPERIMENT.py"),
        (("gate", "mien.py", "--base", "HEAD~1"), "mien.py: there is no such file; did you mean"),
        (("gate", "mien.py"), "mien.py: there is no such file; did you mean"),
        (("gate", "HEAD"), "HEAD: there is no such file"),
        (("gate", "mine.py", "--base", "HEAD~1", "--out", "mine.py"), "--out mine.py: "),
        (("compare", "HEAD~1", "HEAD", "mine.py", "--reports", "mine.py"), "--reports mine.py: "),
        (("gate", ".", "--base", "HEAD~1"), ".: is a folder, and no experiment"),
        (("bisect", "HEAD~1..HEAD", "."), ".: is a folder, and no experiment"),
        (("gate", "mine.py", "--base", "HEAD~99"), "fetch-depth"),
        (("bisect", "HEAD", "mine.py"), "GOOD..BAD"),
        (("bisect", "HEAD..HEAD", "mine.py"), "is one commit"),
        (("bisect", "HEAD..HEAD~1", "mine.py"), "no ancestor"),
        (("compare", "nowhere..HEAD", "mine.py"), "nowhere: no commit"),
        (("compare", "HEAD~1", "HEAD", "mien.py"), "mien.py: there is no such file; did you mean"),
        (("bisect", "HEAD~1..HEAD", "mien.py"), "mien.py: there is no such file; did you mean"),
    ],
)
def test_what_does_not_exist_is_said(history, arguments, message):
    profiler, _, _ = history
    done = profiler(*arguments)
    assert (done.code, message in done.err) == (2, True), done.err


STAMPED = TESTS / "workloads/stamped"
SPEC = """
name: doubles
workload: {module: ./workload.py, space: ./space.py}
variants: {list: [{name: plain, params: {source: plain}}]}
problems: {list: [{name: n=64, params: {n: 64}}, {name: n=128, params: {n: 128}}]}
build: {arch: sm_90}
collect: {device: cpu, blocks: 8, warmups: 0, metrics: [duration_ns, cycles]}
"""
KERNEL = (STAMPED / "plain.cu").read_text()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, command_line):
    """A bisection of a kernel that is compiled, with two culprits, on the stand-in for ncu."""
    profiler = command_line(tmp_path_factory.mktemp("compiled"))
    repository = Repository(profiler.folder)
    python = {name: (STAMPED / f"{name}.py").read_text() for name in ("workload", "space")}
    commits = [
        repository.commit("begins", **python, **{"plain.cu": KERNEL, "doubles.yaml": SPEC}),
        repository.commit("says more", **{"plain.cu": f"/* Doubles. */{KERNEL}"}),
        repository.commit("half done", **{"plain.cu": KERNEL.replace(";", "")}),
        repository.commit("slower", **{"plain.cu": KERNEL + "int other(void) { return 1; }"}),
        repository.commit("launches", workload=python["workload"].replace("call", "launched")),
        repository.commit("slower again", **{"plain.cu": KERNEL + "int other(void) { return 2; }"}),
        repository.commit("says", **{"plain.cu": KERNEL + "int other(void) { return 2; } /* */"}),
    ]
    times = dict(zip(commits, (7000, 7000, 7000, 7200, 7200, 7600, 7600), strict=True))
    done = profiler(
        *("bisect", f"{commits[0]}..{commits[-1]}", "doubles.yaml", "--json", "-"),
        PATH=f"{TESTS / 'fake_nvcc'}{os.pathsep}{os.environ['PATH']}",
        FAKE_NCU_TIMES=",".join(f"{commit}={ns}" for commit, ns in times.items()),
        FAKE_NCU_NOISE="0.001",
    )
    return profiler, commits, done


def test_both_culprits_of_a_compiled_kernel_are_found(compiled):
    _, commits, done = compiled
    assert done.code == 0, done.err
    steps = [(step["commit"][:10], step["parent"][:10]) for step in done.json["steps"]]
    # The commit before the first culprit does not build: its own parent stands for it.
    assert [commit for commit, _ in steps] == [commits[3], commits[5]]
    assert steps[1][1] == commits[4]
    assert {step["cause"] for step in done.json["steps"]} == {"code: the machine code differs"}
    ratios = [step["ratio"] for step in done.json["steps"]]
    assert ratios == pytest.approx([7200 / 7000, 7600 / 7200], rel=0.005)
    assert [skipped["commit"][:10] for skipped in done.json["skipped"]] == [commits[2]]
    assert any("A further culprit" in line for line in done.json["answer"])
    # The first of them measured both cells, and chose one.
    assert done.json["sessions"] == done.err.count("Session of")


def test_equal_machine_code_is_not_measured(compiled):
    """Of neighbours with the same program the first stands for both."""
    profiler, commits, _ = compiled
    (journal,) = profiler.folder.glob("reports/.revisions/bisect-*/journal.jsonl")
    measured = {commit[:10] for survey in sessions(journal) for commit in survey.split()[1:-1]}
    assert measured == {*commits} - {commits[2], commits[6]}
