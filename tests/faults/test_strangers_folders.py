"""What lies in a stranger's folder writes nowhere else, keeps nobody waiting and runs nothing."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from profiler.commands import gallery, output
from profiler.commands.index import list_runs
from profiler.commands.output import csv_parts, write_results
from profiler.commands.requests import GalleryRequest, ListRequest
from profiler.errors import ParseError, ProfilerError, UsageError
from profiler.findings.find import find
from profiler.kernels.arithmetic import parse
from profiler.machine import locks as lock_files
from profiler.outside_text import MAX_MATCHED, bounded_pattern, matches
from profiler.parse.bounded_files import replacing
from profiler.parse.stamps import read_stamps
from profiler.run_folder.folder import compress
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.redact import without_names, without_names_in_errors
from profiler.run_folder.runs import resumable
from profiler.search.space import Parameter, constrained_space

REPO = Path(__file__).parents[2]


# ---- links and other folders ---------------------------------------------------------------------


def every_name(folder):
    """Names that earlier versions wrote beside the files of a run before they took their place."""
    for name in ("summary.parquet", "summary.csv", "index.html", "run.json", "ncu.csv.gz"):
        yield folder / f".{name}"
        yield folder / f".{name}.part"
        yield (folder / name).with_suffix(".partial")


def test_a_report_writes_through_no_link(place, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "find_spec", lambda _: True)  # as if pyarrow were installed
    monkeypatch.setattr(pd.DataFrame, "to_parquet", lambda _, stream, **__: stream.write(b"PAR1"))
    place.measure_all()
    victim = tmp_path / "victim"
    victim.write_text("a thesis")
    targets = [place.run.path / name for name in ("summary.json", "summary.parquet", "index.html")]
    for name in {*targets, *every_name(place.run.path)}:
        name.symlink_to(victim)
    report = assemble(place.run, place.loaded, place.plan)
    write_results(find(report), place.run.path)
    assert victim.read_text() == "a thesis"
    assert not any(target.is_symlink() for target in targets)


@pytest.mark.parametrize("name", ["raw", "private", "search", "compiled", "search/journal.jsonl"])
def test_no_run_goes_on_through_a_link(place, tmp_path, name):
    (tmp_path / "elsewhere").mkdir()
    out, odd = place.run.path.parent.parent, []
    assert resumable(out, "sums", place.keys, odd.append) == place.run
    path = place.run.path / name
    if path.exists():
        path.rename(tmp_path / "moved")
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "elsewhere")
    assert resumable(out, "sums", place.keys, odd.append) is None
    assert "is a link" in odd[0]


def test_what_is_packed_goes_through_no_link(tmp_path):
    victim, packed = tmp_path / "victim", tmp_path / "a.csv"
    victim.write_text("a thesis")
    packed.write_text("content")
    (tmp_path / ".a.csv.gz").symlink_to(victim)
    (tmp_path / "a.csv.gz").symlink_to(victim)
    compress(packed)
    assert victim.read_text() == "a thesis"
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == b"content"


@pytest.mark.parametrize("name", ["/srv/elsewhere", "../../elsewhere", "", ".", "a/b", "x" * 65])
def test_an_experiment_whose_name_is_a_path_is_none(place, name):
    file = place.run.path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "experiment": name}))
    with pytest.raises(UsageError, match="experiment"):
        place.run.record()


@pytest.fixture
def contents(tmp_path):
    def read(text):
        (tmp_path / "gallery.yaml").write_text(text)
        return gallery.read_contents(tmp_path / "gallery.yaml")

    return read


@pytest.mark.parametrize("name", ["../outside", "/srv/outside", "a/b", "..", ""])
def test_a_page_whose_name_is_a_path_is_refused(contents, name):
    with pytest.raises(UsageError, match="comparisons"):
        contents(json.dumps({"comparisons": {name: {"title": "x", "runs": ["a", "b"]}}}))


def test_a_gallery_replaces_its_own_pages_alone(tmp_path):
    with pytest.raises(UsageError, match="no recordings"):
        gallery.make_gallery(GalleryRequest(recordings=tmp_path, out=tmp_path))
    (tmp_path / "index.html").write_text("<p>a thesis")
    with pytest.raises(UsageError, match="is not replaced"):
        gallery._own_target(tmp_path / "index.html")


# ---- small files that take long ------------------------------------------------------------------


def test_contents_of_a_gallery_that_grow_without_end_are_refused(contents):
    levels = [
        "a0: &a0 [x]",
        *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)),
    ]
    with pytest.raises(UsageError, match="comparisons: Input should be") as raised:
        contents("\n".join([*levels, "comparisons: *a8", ""]))
    assert len(str(raised.value)) < 1000


def test_contents_of_a_gallery_out_of_a_fifo_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "gallery.yaml")
    with pytest.raises(ProfilerError, match="FIFO"):
        gallery.read_contents(tmp_path / "gallery.yaml")


SLOW = [
    "(a+)+b", "(a|a)*b", "(a|ab)*c", "(.*)*", "(a?){40}a{40}", ".*.*.*.*x", r"(.*)\1", "(a*)*b",
    "((a{1,9}){1,9}){1,9}b", "(?:a|b|ab){30}c",
]  # fmt: skip
QUICK = ["size=.*", r"layer_\d+/.*", ".*", "a+b+", "(size|n)=\\d+", "(?i:x)?y{3}", "^step \\d+$"]


@pytest.mark.parametrize("pattern", SLOW)
def test_patterns_that_may_take_for_ever_are_refused(pattern):
    with pytest.raises(ValueError, match="may take too long"):
        bounded_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "a{2", "*", "[z-a]", "(?P<1>a)", "(" * 5000])
def test_what_is_no_pattern_is_said(pattern):
    if pattern != "a{2":
        with pytest.raises(ValueError, match="is not a regular expression"):
            bounded_pattern(pattern)


@pytest.mark.parametrize("pattern", QUICK)
def test_patterns_that_people_write_are_taken(pattern):
    assert bounded_pattern(pattern)


def test_the_slowest_pattern_that_is_taken_ends():
    assert not matches(".*.*=x", "a" * MAX_MATCHED)
    assert not matches(".*", "a" * (MAX_MATCHED + 1))


@pytest.mark.parametrize("pattern", ["(a+)+b", "("])
def test_an_attempt_with_such_a_pattern_is_damaged(place, pattern):
    place.measure_all()
    file = place.run.attempts()[0].folder / "session.json"
    parts = {"pattern": pattern, "kernels": None, "skip": 0, "take": None}
    file.write_text(json.dumps({**json.loads(file.read_text()), "parts": parts}))
    assert place.run.list_attempts().damaged == (file.parent.name,)


@pytest.mark.parametrize(
    "changes",
    [{"head": 2 * 10**9}, {"head": -1}, {"words": 10**30}, {"code_bits": -3 * 10**9},
     {"code_bits": 64}, {"head": 10**400}, {"block": 10**400}],
)  # fmt: skip
def test_stamps_of_no_layout_are_damaged(tmp_path, changes):
    line = {"cell": "a", "block": 0, "arm": 0, "activities": "load", "head": 8, "words": 64}
    line |= {"code_bits": 8, "written": [[0, 0, [1, 0, 0, 0, 0, 5, 0, 9, 257]]]} | changes
    (tmp_path / "stamps.jsonl.gz").write_bytes(gzip.compress(json.dumps(line).encode()))
    with pytest.raises(ParseError, match=r"damaged: .*(bits of a code|a visit without a number)"):
        read_stamps(tmp_path)


def test_many_conditions_on_many_configurations_are_refused(monkeypatch):
    from profiler.search import space

    monkeypatch.setattr(space, "MAX_ALL_EVALUATIONS", 1000)
    parameters = [Parameter.of(name, range(10)) for name in "ab"]
    terms = [parse(f"a + b >= {-n}") for n in range(100)]
    with pytest.raises(ParseError, match="MAX_ALL_EVALUATIONS"):
        constrained_space(parameters, terms)


# ---- texts, names, rights ------------------------------------------------------------------------


def test_a_list_obeys_no_folder(tmp_path, capsys):
    for experiment in ("a\x1b[31mred", "b"):
        folder = tmp_path / experiment / "20260101-000000\x1b]0;owned\x07"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("{}")
    list_runs(ListRequest(out=tmp_path))
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    assert "\\x1b[31mred" in err


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1"])
def test_no_cell_of_a_csv_is_a_formula(text):
    frame = pd.DataFrame({"variant": [text, "plain"], "value": [-1.5, 2.0]})
    assert "".join(csv_parts(frame)) == f"variant,value\n'{text},-1.5\nplain,2.0\n"


@pytest.mark.parametrize("words", ["ada_tmp", "/srv/ADA", "of-ada", "Ada's", "x_ada_y"])
def test_a_name_is_found_beside_whatever_is_no_letter(words):
    assert "ada" not in without_names(words, [("ada", "USER")]).lower()
    text = json.dumps({"cause": words})
    assert "ada" not in without_names_in_errors("result.json", text, [("ada", "USER")]).lower()
    assert without_names("adamant granada", [("ada", "USER")]) == "adamant granada"


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o027, 0o640)])
def test_files_have_the_rights_that_the_user_gives(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "a") as stream:
            stream.write(b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("what", ["nothing", "a link", "open to all", "a file"])
def test_without_a_home_no_folder_of_another_is_used(tmp_path, monkeypatch, what):
    folder = tmp_path / f"kernel-profiler-{os.getuid()}"
    monkeypatch.setattr(lock_files, "_SHARED_FOLDERS", (tmp_path,))
    lock_files._own_folder_in_shared_one.cache_clear()
    if what == "a link":
        folder.symlink_to(tmp_path)
    elif what == "open to all":
        folder.mkdir()
        folder.chmod(0o777)
    elif what == "a file":
        folder.touch()
    own = lock_files.own_cache_folder({}).parent
    lock_files._own_folder_in_shared_one.cache_clear()
    assert (own == folder) == (what == "nothing")
    assert own.stat().st_mode & 0o777 == 0o700


def test_modules_of_the_current_folder_are_not_ours(tmp_path):
    for name in ("numpy", "yaml", "rich", "pydantic", "typing", "json", "pathlib"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the current folder')")
    command = [sys.executable, "-m", "profiler", "list"]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
