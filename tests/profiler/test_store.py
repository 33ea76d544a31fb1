"""The run folder: atomic writes, names, resume, recordings."""

import errno
import gzip
import json
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from run_folders import CREATED, H200, failed, ncu_csv

from profiler.commands.report import RecordRequest, make_recording
from profiler.errors import UsageError
from profiler.model import BuildResult, KernelFacts
from profiler.run_folder.archive import open_run
from profiler.run_folder.documents import write_atomic, write_json
from profiler.run_folder.folder import (
    AttemptRecord,
    AttemptResult,
    RunFolder,
    RunRecord,
    compress,
    compress_reports,
    finish_attempt,
)
from profiler.run_folder.recording import write_recording
from profiler.run_folder.runs import create_run, find_recording, resumable, runs


def everything(folder):
    """Relative paths of all files below a folder, hidden ones too."""
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


# ---- writing -------------------------------------------------------------------------------------


def test_write_atomic_makes_folders_and_replaces(tmp_path):
    file = tmp_path / "a/b/notes.txt"
    write_atomic(file, "old")
    write_atomic(file, "neu: ü")
    assert file.read_text("utf-8") == "neu: ü"
    assert everything(tmp_path) == ["a/b/notes.txt"]
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_crash_while_writing_leaves_the_old_content(tmp_path, monkeypatch, step):
    file = tmp_path / "run.json"
    write_atomic(file, "old")

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(*{"fsync": (os, "fsync"), "replace": (Path, "replace")}[step], crash)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(file, "new")
    assert file.read_text() == "old"
    assert everything(tmp_path) == ["run.json"]


def test_a_write_that_fails_leaves_the_old_content(tmp_path, monkeypatch):
    file = tmp_path / "run.json"
    write_atomic(file, "old")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left")))
    with pytest.raises(OSError, match="No space left"):
        write_atomic(file, "new")
    assert (file.read_text(), everything(tmp_path)) == ("old", ["run.json"])


def test_a_file_that_cannot_be_written_is_called_by_its_own_name(tmp_path):
    file = tmp_path / ("x" * 300)
    with pytest.raises(OSError, match="too long") as refused:
        write_atomic(file, "new")
    assert refused.value.filename == str(file)


def test_half_of_a_character_is_written_as_an_escape_and_not_into_json(tmp_path):
    write_atomic(tmp_path / "command.txt", "cd /\udcff")
    assert (tmp_path / "command.txt").read_text() == "cd /\\udcff"
    write_json(tmp_path / "x.json", {"path": "/\udcff", "face": "\U0001f600"})
    assert json.loads((tmp_path / "x.json").read_bytes()) == {"path": "/?", "face": "\U0001f600"}


def test_write_json_refuses_nan_and_writes_nothing(tmp_path):
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(tmp_path / "x.json", {"value": float("nan")})
    assert everything(tmp_path) == []


def test_compress_replaces_a_file_and_its_bytes_repeat(tmp_path):
    packed = []
    for name in ("one", "two"):
        file = tmp_path / name / "ncu.csv"
        write_atomic(file, '"ID"\r\n"0"\r\n')
        os.utime(file, (len(packed), len(packed)))
        compress(file)
        assert everything(file.parent) == ["ncu.csv.gz"]
        packed.append(file.with_name("ncu.csv.gz").read_bytes())
    assert packed[0] == packed[1]
    assert gzip.decompress(packed[0]) == b'"ID"\r\n"0"\r\n'


def test_a_crash_while_compressing_leaves_the_file(tmp_path, monkeypatch):
    file = tmp_path / "ncu.csv"
    write_atomic(file, "rows")

    def crash(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("profiler.run_folder.folder.shutil.copyfileobj", crash)
    with pytest.raises(OSError, match="No space"):
        compress(file)
    assert (file.read_text(), everything(tmp_path)) == ("rows", ["ncu.csv"])


def test_compressing_what_is_not_there_does_nothing(tmp_path):
    compress(tmp_path / "ncu.csv")
    assert everything(tmp_path) == []


# ---- run folders ---------------------------------------------------------------------------------


def test_run_folders_never_collide(tmp_path):
    made = [create_run(tmp_path, "sums", CREATED).path for _ in range(12)]
    assert [path.name for path in made[:3]] == [
        "20260304-050607",
        "20260304-050607-2",
        "20260304-050607-3",
    ]
    assert len(set(made)) == 12
    assert create_run(tmp_path, "other", CREATED).path.name == "20260304-050607"


def test_runs_are_listed_oldest_first_and_only_where_something_began(tmp_path):
    record = RunRecord("sums", CREATED, 1, H200, {})
    later = create_run(tmp_path, "sums", "2026-03-04T05:06:08+00:00")
    same_second = [create_run(tmp_path, "sums", CREATED) for _ in range(11)]
    for run in (later, *same_second):
        run.write_record(record)
    create_run(tmp_path, "sums", CREATED)  # killed before it began
    create_run(tmp_path, "other", CREATED).write_record(record)
    assert runs(tmp_path, "sums") == (*same_second, later)
    assert len(runs(tmp_path)) == 13
    assert runs(tmp_path / "nowhere") == ()


def test_everything_in_a_run_folder_comes_back(place):
    build = BuildResult("plain", ok=True, code_hash="c", kernels=(KernelFacts("k", registers=32),))
    place.begin([build, BuildResult("tree", ok=False, error="no such type")])
    run = RunFolder(place.run.path)
    record = replace(place.record, stages={"build": 1.5}, overrides=("collect.blocks=2",))
    run.write_record(record)
    assert run.record() == record
    assert run.plan() == place.plan
    assert run.builds() == place.builds
    assert run.spec_file.read_text("utf-8") == place.loaded.text


def test_attempts_are_numbered_by_session_and_come_back_in_order(place):
    made = [place.attempt("ncu-timing", visits=[]) for _ in range(11)]
    made += [place.attempt("ncu-counters", visits=[])]
    assert [folder.name for folder in made[-2:]] == ["ncu-timing.011", "ncu-counters.001"]
    found = [attempt.folder for attempt in place.run.attempts()]
    assert found == [made[-1], *made[:-1]]
    assert place.run.attempts()[0].record.metrics == ("duration_ns", "l2_bytes")


def test_attempts_that_are_known_are_not_read_again(place):
    first, second = place.attempt(), place.attempt()
    known = {first: place.run.attempt(first)}
    for folder in (first, second):
        (folder / "session.json").write_text("damaged")
    listing = place.run.list_attempts(known)
    assert (listing.attempts, listing.damaged) == ((known[first],), (second.name,))


@pytest.mark.parametrize("unreadable", ["raw", "raw/ncu-timing.001"])
def test_a_folder_of_attempts_that_may_not_be_read_is_no_empty_one(place, monkeypatch, unreadable):
    """A page would be written over by one of a run without samples."""
    place.attempt()

    def refusing(list_folder):
        def listed(folder):
            if Path(folder) == place.run.path / unreadable:
                raise PermissionError(errno.EACCES, "Permission denied", str(folder))
            return list_folder(folder)

        return listed

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))
    with pytest.raises(PermissionError):
        place.run.attempts()


def test_an_experiment_is_named_letter_by_letter(place):
    out = place.run.path.parent.parent
    name = place.run.path.parent.name
    assert [run.path for run in runs(out, name)] == [place.run.path]
    assert runs(out, "*") == runs(out, f"[{name[0]}]{name[1:]}") == runs(out, "nobody") == ()


def test_what_is_no_folder_of_an_attempt_holds_none(place):
    attempt = place.attempt()
    (attempt.parent / "a file").write_text("")
    (attempt.parent / "nowhere").symlink_to("no such folder")
    (attempt.parent / "loop").symlink_to("loop")
    assert [run_attempt.folder for run_attempt in place.run.attempts()] == [attempt]


def test_a_number_is_never_given_twice(place):
    first, second = place.attempt(), place.attempt()
    for file in first.iterdir():
        file.unlink()
    first.rmdir()
    assert place.attempt().name == "ncu-timing.003"
    assert second.exists()


def test_an_attempt_without_result_is_one_of_a_killed_profiler(place):
    place.attempt(result=None)
    (attempt,) = place.run.attempts()
    assert attempt.result is None
    assert attempt.csv() == attempt.folder / "ncu.csv"
    finish_attempt(attempt.folder, AttemptResult("died", 2.0, {"plain..small": ("crashed", "x")}))
    (attempt,) = place.run.attempts()
    assert attempt.result.failed == {"plain..small": ["crashed", "x"]}
    assert attempt.csv() == attempt.folder / "ncu.csv.gz"


def test_reports_of_an_attempt_are_packed_or_stay_as_they_are(place):
    folder = place.attempt()
    (folder / "report.ncu-rep").write_bytes(b"rows")
    (folder / "report.ncu-rep.gz").mkdir()  # in the way
    compress_reports(folder)
    assert (folder / "report.ncu-rep").read_bytes() == b"rows"
    (folder / "report.ncu-rep.gz").rmdir()
    compress_reports(folder)
    assert gzip.decompress((folder / "report.ncu-rep.gz").read_bytes()) == b"rows"
    assert not (folder / "report.ncu-rep").exists()


def test_a_kill_between_the_folder_of_an_attempt_and_its_record_harms_nothing(place):
    (place.run.path / "raw/ncu-timing.001").mkdir(parents=True)
    (place.run.path / "raw/ncu-timing.001/.session.json.x1").write_text('{"session": ')
    assert place.run.attempts() == ()
    assert place.attempt().name == "ncu-timing.002"


def test_an_attempt_that_wrote_nothing_has_no_csv_and_no_command(place):
    folder = place.run.new_attempt(AttemptRecord("ncu-timing", "ncu", "timing", (), {}))
    (attempt,) = place.run.attempts()
    assert (attempt.csv(), attempt.command(), attempt.folder) == (None, "", folder)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("run.json", None),
        ("run.json", "{"),
        ("run.json", "[]"),
        ("run.json", "\udcff"),
        ("run.json", '{"schema_version": 99}'),
        ("run.json", '{"schema_version": 1}'),
        ("run.json", '{"schema_version": 1, "environment": {"colour": 1}, "overrides": []}'),
        ("plan.json", '{"cells": [3]}'),
        ("build.json", '{"builds": [{"ok": true}]}'),
    ],
)
def test_a_damaged_file_is_named(place, file, content):
    path = place.run.path / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    read = {"run.json": "record", "plan.json": "plan", "build.json": "builds"}
    with pytest.raises(UsageError) as error:
        getattr(place.run, read[file])()
    assert str(path.parent) in str(error.value)


def test_a_file_is_not_a_run_folder(tmp_path):
    (tmp_path / "page.html").write_text("")
    with pytest.raises(UsageError, match="not a run folder"):
        RunFolder(tmp_path / "page.html").record()


# ---- resume --------------------------------------------------------------------------------------


def begun(out, second, keys, experiment="sums"):
    run = create_run(out, experiment, f"2026-03-04T05:06:{second:02}+00:00")
    run.write_record(RunRecord(experiment, CREATED, 1, H200, keys))
    return run


def test_resume_takes_the_newest_run_that_shares_a_key(tmp_path):
    begun(tmp_path, 1, {"a": "1"})
    newest = begun(tmp_path, 2, {"a": "1", "b": "old"})
    begun(tmp_path, 3, {"a": "1"}, experiment="other")
    assert resumable(tmp_path, "sums", {"a": "1", "b": "new", "c": "2"}) == newest


@pytest.mark.parametrize("keys", [{"a": "2"}, {"b": "1"}, {}])
def test_resume_finds_nothing_where_no_cell_has_its_key(tmp_path, keys):
    begun(tmp_path, 1, {"a": "1"})
    assert resumable(tmp_path, "sums", keys) is None


def test_resume_never_goes_back_behind_the_newest_run(tmp_path):
    begun(tmp_path, 1, {"a": "1"})
    begun(tmp_path, 2, {"a": "2"})
    assert resumable(tmp_path, "sums", {"a": "1"}) is None
    assert resumable(tmp_path, "nothing", {"a": "1"}) is None


def test_resume_passes_over_what_it_cannot_read(tmp_path):
    good = begun(tmp_path, 1, {"a": "1"})
    (begun(tmp_path, 2, {"a": "1"}).path / "run.json").write_text("{")
    (begun(tmp_path, 3, {"a": "1"}).path / "run.json").write_text('{"schema_version": 0}')
    (begun(tmp_path, 4, {"a": "1"}).path / "run.json").write_text('{"schema_version": 1}')
    assert resumable(tmp_path, "sums", {"a": "1"}) == good


# ---- recordings ----------------------------------------------------------------------------------

PRIVATE = ("/home/rené/kernels", "/home/rené", "renérené", "/var/scratch/tmp")
ENVIRONMENT = "API_TOKEN=hunter2"


@pytest.fixture
def telltale(place):
    """A finished run with folders and names of its machine wherever they could be."""
    named = " ".join(f"{text}/x" for text in PRIVATE)
    build = BuildResult(
        "plain", ok=False, command=f"nvcc -o {named}", library=PRIVATE[0] + "/lib.so", error=named
    )
    place.begin([build])
    place.run.write_spec(f"# {named}\n{place.loaded.text}")
    csv = ncu_csv(place.visits("ncu-timing"), place.session("ncu-timing").metrics)
    place.attempt("ncu-counters")
    folder = place.attempt(
        journal=[failed(place.cells[0].id, "raised", named)],
        csv=f"==PROF== Report: {named}\n{csv.replace('python3', PRIVATE[2])}",
        result=AttemptResult("died", 1.0, {place.cells[0].id: ("crashed", named)}),
    )
    place.run.write_command(folder, f"ncu --log-file '{PRIVATE[0]}/ncu.csv' -o {PRIVATE[3]}")
    (folder / "job.json").write_text(f'{{"journal": "{PRIVATE[0]}"}}')
    for name in ("stdout.txt", "stderr.txt", "report.ncu-rep", "recovered.csv"):
        (folder / name).write_text(ENVIRONMENT)
    (folder / "report.ncu-rep.gz").write_bytes(gzip.compress(ENVIRONMENT.encode()))
    (place.run.path / "index.html").write_text(ENVIRONMENT)
    place.run.write_sources({"workload.py": ENVIRONMENT})
    return place


def contents(folder):
    """Text of every file, decompressed, with the names of the files; JSON escapes resolved."""
    texts = []
    for name in everything(folder):
        data = (folder / name).read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8")
        texts += [name, text]
        if ".json" in name:
            lines = text.splitlines() if "jsonl" in name else [text]
            texts += [json.dumps(json.loads(line), ensure_ascii=False) for line in lines]
    return "\n".join(texts)


def unpacked(recording):
    """Folder of a recording; files of an archive never change the folder that another was."""
    return open_run(recording).path


def test_a_recording_holds_nothing_private(telltale, tmp_path):
    pairs = [(text, f"PLACE{number}") for number, text in enumerate(PRIVATE)]
    before = contents(telltale.run.path / "raw")
    assert all(text in before for text in (*PRIVATE, ENVIRONMENT))
    after = contents(unpacked(write_recording(telltale.run, tmp_path / "recording.zip", pairs)))
    for text in (*PRIVATE, "rené", ENVIRONMENT, "hunter2"):
        assert text not in after
    assert "PLACE0/x PLACE1/x PLACE2/x PLACE3/x" in after


def test_a_place_where_no_recording_can_be_made_is_named(telltale, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/recording\.zip: cannot be made: "):
        write_recording(telltale.run, tmp_path / "file/recording.zip", [])


def test_a_recording_has_only_what_a_replay_needs(telltale, tmp_path):
    recording = unpacked(write_recording(telltale.run, tmp_path / "recording.zip", []))
    names = {Path(name).name for name in everything(recording)}
    assert names == {
        *("run.json", "spec.yaml", "build.json", "session.json", "result.json", "command.txt"),
        *("plan.json.gz", "kernels.json"),
        *("journal.jsonl.gz", "ncu.csv.gz"),
    }


def test_the_command_record_knows_what_is_private_here(place, tmp_path, monkeypatch, capsys):
    home, work, temporary = (tmp_path / name for name in ("home/marianne", "work", "scratch"))
    for folder in (home, work, temporary):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("LOGNAME", "marianne")
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(work)
    named = f"{home}/a {work}/b {temporary}/c /data/marianne/d {place.run.path}/raw"
    csv = ncu_csv(place.visits("ncu-timing"), place.session("ncu-timing").metrics)
    folder = place.attempt(csv=f"==PROF== {named}\n{csv}")
    place.run.write_command(folder, named)
    target = tmp_path / "recording.zip"
    make_recording(RecordRequest(place.run.path, target))
    assert f"Recording: {target}" in capsys.readouterr().out
    after = contents(unpacked(target))
    for text in (str(home), str(work), str(temporary), "marianne", str(place.run.path)):
        assert text not in after
    assert "HOME/a ./b TMP/c /data/USER/d RUN/raw" in after


def test_a_recording_of_a_recording_is_the_same(place, tmp_path):
    place.measure_all()
    first = write_recording(place.run, tmp_path / "first.zip", [])
    second = write_recording(open_run(first), tmp_path / "second", [])  # `.zip` is added
    assert second.name == "second.zip"
    assert second.read_bytes() == first.read_bytes()
    before = first.read_bytes()
    write_recording(open_run(first), first, [])
    assert first.read_bytes() == before


def test_an_old_recording_stays_until_the_new_one_is_whole(place, tmp_path, monkeypatch):
    target = tmp_path / "recordings/sums.zip"
    write_recording(place.run, target, [])
    old = target.read_bytes()
    place.attempt()

    def crash(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("profiler.run_folder.recording.gzip.compress", crash)
        with pytest.raises(KeyboardInterrupt):
            write_recording(place.run, target, [])
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    assert target.read_bytes() == old
    write_recording(place.run, target, [])
    assert len(open_run(target).attempts()) == 1
    assert target.stat().st_mode & 0o777 == 0o644


def another_run(place, tmp_path):
    """A live run beside the place's own, as somebody sends it."""
    run = create_run(tmp_path / "others", "sums", CREATED)
    run.write_record(place.record)
    run.write_plan(place.plan)
    return Path(shutil.make_archive(str(tmp_path / "sent"), "zip", run.path))


def earlier_recording(place, tmp_path):
    return write_recording(place.run, tmp_path / "old.zip", [])


def link_to_a_recording(place, tmp_path):
    (tmp_path / "link.zip").symlink_to(earlier_recording(place, tmp_path))
    return tmp_path / "link.zip"


@pytest.mark.parametrize("older", [earlier_recording, link_to_a_recording])
def test_a_recording_replaces_an_older_one(place, tmp_path, older):
    target = older(place, tmp_path)
    place.attempt()
    write_recording(place.run, target, [])
    recording = open_run(target)
    assert recording.is_recording()
    assert len(recording.attempts()) == 1
    assert recording.record() == replace(place.record, recording=True)
    assert target.is_symlink() == (older is link_to_a_recording)


def recording_of_another(place, tmp_path):
    place.run.write_record(replace(place.record, experiment="products"))
    return write_recording(place.run, tmp_path / "other.zip", [])


def recording_that_is_damaged(place, tmp_path):
    with zipfile.ZipFile(tmp_path / "damaged.zip", "w") as archive:
        archive.writestr("run.json", "{")
    return tmp_path / "damaged.zip"


def recording_with_a_thesis(place, tmp_path):
    target = earlier_recording(place, tmp_path)
    with zipfile.ZipFile(target, "a") as archive:
        archive.writestr("thesis.txt", "all of it")
    return target


def folder_of_files(place, tmp_path):
    (tmp_path / "files.zip").mkdir()
    (tmp_path / "files.zip/thesis.txt").write_text("all of it")
    return tmp_path / "files.zip"


def file(place, tmp_path):
    (tmp_path / "file.zip").write_text("all of it")
    return tmp_path / "file.zip"


@pytest.mark.parametrize(
    "other",
    [
        *(another_run, recording_of_another, recording_that_is_damaged),
        *(recording_with_a_thesis, folder_of_files, file),
    ],
)
def test_a_recording_replaces_nothing_else(place, tmp_path, other):
    target = other(place, tmp_path)
    place.run.write_record(place.record)
    before = everything(tmp_path), target.is_dir() or target.read_bytes()
    with pytest.raises(UsageError, match=str(target)):
        make_recording(RecordRequest(place.run.path, target))
    assert (everything(tmp_path), target.is_dir() or target.read_bytes()) == before


def test_resume_never_goes_on_in_a_recording(place):
    place.measure_all()
    out = place.run.path.parent.parent
    recording = write_recording(place.run, out / "sums/20990101-000000.zip", [])
    shutil.copytree(unpacked(recording), out / "sums/20990101-000000")
    assert resumable(out, "sums", place.keys) == place.run


def test_a_recording_is_found_beside_its_spec(place):
    spec = place.loaded.path
    assert find_recording(spec, "sums") is None
    target = spec.parent / "recordings/sums.zip"
    write_recording(place.run, target, [])
    assert find_recording(spec, "sums") == target
    assert find_recording(spec, "other") is None
    unzipped = spec.parent / "recordings/other"
    shutil.copytree(unpacked(target), unzipped)
    assert find_recording(spec, "other") == unzipped
