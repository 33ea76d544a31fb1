"""One experiment of several revisions, as it is written from real repositories."""

import re
import shutil
import subprocess
from types import SimpleNamespace

import pytest
import yaml

from profiler.commands import bisect
from profiler.commands.compare import measure_versions
from profiler.commands.requests import BisectRequest
from profiler.errors import EnvironmentUnusable, SpecError, UsageError
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.revisions.experiment import write_experiment
from profiler.revisions.repository import Repository
from profiler.revisions.versions import (
    read_version,
    same_sources,
    shared_variants,
    source_changes,
)

pytestmark = pytest.mark.usefixtures("forked_interpreters")

CUDA = {
    "name": "sums",
    "workload": {
        "source": "sums.cu",
        "kernel": "sum_rows",
        "arguments": {
            "x": {"shape": ["rows", "columns"]},
            "out": {"shape": ["rows"], "output": True},
            "columns": None,
        },
        "grid": "rows",
        "block": 256,
        "reference": "right.py:sums",
    },
    "variants": {"list": [{"name": "trees", "params": {"kernel": "sum_rows"}}, "library"]},
    "problems": {"matrix": {"rows": [64, 128], "columns": 1024}},
}
CUDA["variants"]["list"][1] = {"name": "library", "params": {"torch": "x.sum(dim=1)"}}
KERNEL = "__global__ void sum_rows(const float* x, float* out, int columns) {}\n"


class History:
    """A repository in a folder, with a commit for each experiment file."""

    def __init__(self, folder):
        self.folder = folder
        self.git("init", "--quiet")
        (folder / "sums.cu").write_text(KERNEL)

    def git(self, *arguments):
        identity = ("-c", "user.name=someone", "-c", "user.email=someone@localhost")
        subprocess.run(["git", *identity, *arguments], cwd=self.folder, check=True)

    def commit(self, spec):
        (self.folder / "sums.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "another")

    def versions(self, *revisions, only=None, spec="sums.yaml"):
        repository = Repository.of(self.folder)
        spec, out = self.folder / spec, self.folder / "reports"
        commits = map(repository.commit, revisions)
        return [read_version(repository, commit, spec, out, only=only) for commit in commits]

    def written(self, versions):
        file = write_experiment(versions, shared_variants(versions), self.folder / "reports")
        loaded = load_spec(file)
        return loaded, make_plan(loaded, space_of(loaded))


@pytest.fixture
def history(tmp_path):
    return History(tmp_path)


def changed(**workload):
    return {**CUDA, "workload": {**CUDA["workload"], **workload}}


def test_variants_of_a_cuda_file_keep_the_launch_of_their_revision(history):
    history.commit(CUDA)
    (history.folder / "sums.cu").write_text(f"// Sums.\n{KERNEL}")
    history.commit(changed(block=128, shared=512))
    old, new = history.versions("HEAD~1", "HEAD")
    loaded, plan = history.written([old, new])
    variants = {variant.name: variant.params for variant in plan.variants}
    before, after = (variants[f"trees {version.commit.short}"] for version in (old, new))
    assert before["block"] == "256"
    assert "block" not in after, "it is that of the workload, which is the newest's"
    assert before["source"] != after["source"]
    assert (loaded.base / str(before["source"])).read_text() == KERNEL
    assert loaded.experiment.workload.reference.endswith(f"{new.commit.hash}/right.py:sums")
    assert plan.baseline == next(v.id for v in plan.variants if v.params == before)
    assert {problem.params["rows"] for problem in plan.problems} == {64, 128}
    repository = Repository.of(history.folder)
    assert "+// Sums." in source_changes(repository, [old, new])


def test_problems_that_a_revision_does_not_have_are_left_out_for_both(history):
    history.commit({**CUDA, "problems": {"matrix": {"rows": [64], "columns": 1024}}})
    history.commit(CUDA)
    _, plan = history.written(history.versions("HEAD~1", "HEAD", only="variant=trees"))
    assert [cell.problem.params["rows"] for cell in plan.cells] == [64, 64]
    assert len({cell.variant.name for cell in plan.cells}) == 2


def test_other_arguments_cannot_share_inputs(history):
    history.commit(CUDA)
    arguments = {**CUDA["workload"]["arguments"], "x": {"shape": ["rows", "columns"], "fill": 0}}
    history.commit(changed(arguments=arguments))
    with pytest.raises(UsageError, match="the argument 'x' of the kernel is described otherwise"):
        history.written(history.versions("HEAD~1", "HEAD"))


def test_fewer_arguments_are_given_by_name(history):
    history.commit(CUDA)
    history.commit(changed(arguments={**CUDA["workload"]["arguments"], "rows": None}))
    old, new = history.versions("HEAD~1", "HEAD")
    _, plan = history.written([old, new])
    variants = {variant.name: variant.params for variant in plan.variants}
    assert variants[f"trees {old.commit.short}"]["arguments"] == "x, out, columns"


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        (
            {**CUDA, "workload": {"command": "./sums {variant}"}},
            UsageError,
            "its workload is a pro",
        ),
        ({**CUDA, "problem": []}, SpecError, r"at \w{10}: sums.yaml:\d+: problem: "),
    ],
)
def test_what_cannot_be_measured_side_by_side_is_said(history, spec, error, message):
    history.commit(CUDA)
    history.commit(spec)
    with pytest.raises(error, match=message):
        history.written(history.versions("HEAD~1", "HEAD"))


def test_a_commit_without_the_experiment_gets_the_one_that_lies_there(history):
    history.git("add", "sums.cu")
    history.git("commit", "--quiet", "--message", "a kernel")
    (history.folder / "sums.yaml").write_text(yaml.safe_dump(CUDA))
    (version,) = history.versions("HEAD")
    assert {*version.variants} == {"trees", "library"}
    (history.folder / "sums.yaml").write_text(yaml.safe_dump({**CUDA, "variants": {"list": []}}))
    with pytest.raises(SpecError):
        history.versions("HEAD")


PYTHON = """
import profiler

e = profiler.Experiment("sums", problems={"rows": 4}, collect={"device": "cpu"})


@e.inputs
def inputs(rows):
    return rows


@e.variant
def mine(x):
    import tiles

    return tiles.total(x, open("sums.cu").read())
"""


@pytest.mark.parametrize(
    ("file", "is_same"),
    [
        ("README.md", True),
        ("other.py", True),
        ("sums.cu", False),
        ("src/tiles/__init__.py", False),
        ("lib/tiles.py", False),
    ],
)
def test_python_that_may_read_what_was_edited_is_not_the_same(history, monkeypatch, file, is_same):
    """A kernel that torch compiles from a `.cu` file was `not measured`, and passed each gate."""
    (history.folder / "sums.py").write_text(PYTHON)
    monkeypatch.syspath_prepend(history.folder / "src")
    for text in ("", "# edited\n"):
        (history.folder / file).parent.mkdir(parents=True, exist_ok=True)
        (history.folder / file).write_text(text)
        history.commit(CUDA)
    versions = history.versions("HEAD~1", "HEAD", spec="sums.py")
    assert same_sources(versions) == (("mine",) if is_same else ())
    if "tiles" in file:
        with pytest.raises(UsageError, match="tiles differs between these revisions"):
            measure_versions(None, None, versions, None)


def test_a_repository_is_left_as_it_is(history):
    history.commit(CUDA)
    (history.folder / "sums.cu").write_text("// Not finished.\n")
    repository = Repository.of(history.folder / "sums.yaml")
    edited = repository.commit(".")
    tree = repository.tree(edited, history.folder / "trees")
    assert (tree / "sums.cu").read_text() == "// Not finished.\n"
    assert repository.tree(edited, history.folder / "trees") == tree
    listed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=history.folder, capture_output=True, check=True
    )
    assert listed.stdout.decode().splitlines() == [" M sums.cu", "?? trees/"]
    assert repository.merge_base("HEAD", edited.hash) == repository.commit("HEAD")


def test_a_bisection_of_another_gpu_has_a_journal_of_its_own(history, monkeypatch):
    """In a folder that two machines share, the answers of one were those of the other."""
    for _ in range(2):
        history.commit(CUDA)
    spec, out = history.folder / "sums.yaml", history.folder / "reports"
    request = BisectRequest("HEAD~1..HEAD", spec, out=out)
    journals = set()
    for name in ("NVIDIA H100", "NVIDIA A100", "NVIDIA H100"):
        monkeypatch.setattr(bisect, "visible_gpus", lambda name=name: [SimpleNamespace(name=name)])
        journals.add(bisect._commit_sessions(request, None).journal.path)
    assert len(journals) == 2


def test_any_subject_and_name_and_signed_commits_are_read(history, tmp_path):
    key, keygen = tmp_path / "key", shutil.which("ssh-keygen")
    if keygen is not None:
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", key), ("log.showSignature", 1)):
        history.git("config", name, str(value))
    history.commit(CUDA)
    (history.folder / "gr\u00f6\u00dfe.cu").touch()
    history.git("add", ".")
    history.git(
        "commit", "--quiet", *(["-S"] if keygen else []), "--message", "a\x0cb\x1b[31m\u2028c"
    )
    repository = Repository.of(history.folder)
    older, newer = map(repository.commit, ("HEAD~1", "HEAD"))
    assert "\x1b" not in newer.subject
    assert repository.changed_files(older, newer) == ("gr\u00f6\u00dfe.cu",)


@pytest.mark.parametrize("revision", ["HEAD..HEAD", "HEAD~1...HEAD", "^HEAD", "HEAD^{tree}"])
def test_what_git_reads_as_other_than_one_commit_is_no_revision(history, revision):
    history.commit(CUDA)
    history.commit(CUDA)
    with pytest.raises(UsageError, match=rf"{re.escape(revision)}: no commit of the repository"):
        Repository.of(history.folder).commit(revision)


def test_the_working_tree_of_a_repository_without_commits_is_no_revision(tmp_path):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    with pytest.raises(EnvironmentUnusable, match=r"git stash: .*initial commit"):
        Repository.of(tmp_path).commit(".")
