"""Archives of runs: those of `record`, those that people make, and those that are none."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from profiler.commands.report import ReportRequest, read_run, rebuild_report
from profiler.comparison.runs import find_runs, read_runs
from profiler.errors import ExitCode, ProfilerError, UsageError
from profiler.run_folder import archive
from profiler.run_folder.archive import open_run, write_archive
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.recording import write_recording


@pytest.fixture
def measured(place):
    place.measure_all()
    return place


def zipped(path, files):
    """An archive of files by their names, as any tool may make it."""
    with zipfile.ZipFile(path, "w") as made:
        for name, content in files.items():
            made.writestr(name, content)
    return path


def test_the_same_files_give_the_same_bytes_with_run_json_first(measured, tmp_path):
    first = write_recording(measured.run, tmp_path / "first.zip", [])
    second = write_recording(measured.run, tmp_path / "second.zip", [])
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as made:
        members = made.infolist()
    assert members[0].filename == "run.json"
    assert {member.date_time for member in members} == {(1980, 1, 1, 0, 0, 0)}
    packed = {member.filename.endswith(".gz"): member.compress_type for member in members}
    assert packed == {True: zipfile.ZIP_STORED, False: zipfile.ZIP_DEFLATED}


def test_a_changed_archive_is_unpacked_again(measured, tmp_path):
    path = write_recording(measured.run, tmp_path / "sums.zip", [])
    first = open_run(path)
    assert open_run(path) == first
    measured.attempt()
    write_recording(measured.run, path, [])
    assert len(open_run(path).attempts()) == len(first.attempts()) + 1


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("folders", [0, 1, 3])
def test_a_run_that_somebody_zipped_is_read_and_stays_as_it_is(measured, tmp_path, folders):
    run, with_folder = measured.run.path, folders > 0
    root = Path(*run.parts[: len(run.parts) - folders])
    sent = Path(shutil.make_archive(str(tmp_path / "sent"), "zip", root, run.relative_to(root)))
    opened = open_run(sent)
    assert opened.given_path == sent
    assert not opened.is_recording()
    assert opened.path.name == (run.name if with_folder else "sent")
    live, read = (assemble(one, measured.loaded, measured.plan) for one in (measured.run, opened))
    assert read.measured.samples.equals(live.measured.samples)
    before = sent.read_bytes(), sorted(opened.path.rglob("*"))
    out = tmp_path / "out"
    assert rebuild_report(ReportRequest(sent, out, color="never")) == ExitCode.COMPLETE
    assert len(list(out.glob("sums/*/index.html"))) == 1
    assert (sent.read_bytes(), sorted(opened.path.rglob("*"))) == before
    names = [one.name for one in read_runs(find_runs((str(run), str(sent)), tmp_path))]
    assert names == ([f"{run.name}-1", f"{run.name}-2"] if with_folder else [run.name, "sent"])


def truncated(path, recording):
    path.write_bytes(recording.read_bytes()[: recording.stat().st_size // 2])


def flipped(path, recording):
    content = bytearray(recording.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def no_archive(path, _):
    path.write_text("all of it")


def fifo(path, _):
    os.mkfifo(path)


def file_in_a_file(path, recording):
    zipped(path, {"run.json": "{}", "raw": "", "raw/x/session.json": "{}"})


@pytest.mark.parametrize("damage", [truncated, flipped, no_archive, fifo, file_in_a_file])
def test_a_damaged_archive_is_refused(measured, tmp_path, damage):
    path = tmp_path / "damaged.zip"
    damage(path, write_recording(measured.run, tmp_path / "whole.zip", []))
    with pytest.raises(UsageError, match=r"damaged\.zip: (cannot be unpacked|is a FIFO)"):
        open_run(path)


@pytest.mark.parametrize("name", ["../evil", "run/../../evil", "/tmp/evil"])  # noqa: S108
def test_an_archive_whose_files_leave_it_is_refused(tmp_path, name):
    path = zipped(tmp_path / "evil.zip", {"run.json": "{}", name: "evil"})
    with pytest.raises(UsageError, match="which lies outside of it"):
        open_run(path)
    assert not list(tmp_path.rglob("evil"))


def test_a_name_that_stands_twice_in_an_archive_is_refused(measured, tmp_path):
    path = write_recording(measured.run, tmp_path / "twice.zip", [])
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("run.json", "{}")
    with pytest.raises(UsageError, match=r"twice\.zip: holds 'run\.json' more than once"):
        open_run(path)


@pytest.mark.parametrize("file", ["plan.json", "spec.yaml"])
def test_what_is_damaged_in_an_archive_is_named_by_the_archive(measured, tmp_path, file):
    path = write_recording(measured.run, tmp_path / "some.zip", [])
    files = {name: zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist()}
    (name,) = [name for name in files if name.removesuffix(".gz") == file]
    write_archive(path, [*(files | {name: b"{"}).items()])
    with pytest.raises(ProfilerError, match=rf"some\.zip/{re.escape(name)}"):
        read_run(open_run(path))


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MAX_UNPACKED_BYTES", 2**20)
    bomb = tmp_path / "bomb.zip"
    write_archive(bomb, [("run.json", b"{}"), ("zeros.csv", bytes(2**20))])
    assert bomb.stat().st_size < 2**12
    many = zipped(tmp_path / "many.zip", {"run.json": "{}"} | {str(n): "" for n in range(256)})
    for path in (bomb, many):
        with pytest.raises(UsageError, match="holds more than 1048576 bytes"):
            open_run(path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"thesis.txt": "all of it"}, r"holds no run \(no run\.json\)"),
        ({"deep/deeper/run.json": "{"}, r"some\.zip/run\.json: damaged"),
        ({"a/run.json": "{}", "b/run.json": "{}"}, "holds 2 runs"),
        ({"sums/1/run.json": "{}", "sums/2/run.json": "{}", "index.html": ""}, "holds 2 runs"),
        ({"run.json": "{"}, r"some\.zip/run\.json: damaged"),
        ({"run.json": "{}"}, r"some\.zip: written by another version"),
    ],
)
def test_an_archive_that_holds_no_run_is_refused(tmp_path, files, message):
    with pytest.raises(UsageError, match=message):
        open_run(zipped(tmp_path / "some.zip", files))


def test_an_archive_that_is_not_there_and_a_disk_that_is_full_are_named(
    measured, tmp_path, monkeypatch
):
    with pytest.raises(UsageError, match=r"none\.zip: No such file"):
        open_run(tmp_path / "none.zip")
    path = write_recording(measured.run, tmp_path / "sums.zip", [])

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", full)
    with pytest.raises(UsageError, match=r"sums\.zip: cannot be unpacked: .*No space left"):
        open_run(path)


def test_links_in_an_archive_are_not_made(measured, tmp_path):
    """A link would lead out of the folder: it becomes a file with the path that it named."""
    path = write_recording(measured.run, tmp_path / "sums.zip", [])
    with zipfile.ZipFile(path, "a") as made:
        link = zipfile.ZipInfo("build.link")
        link.external_attr = 0o120777 << 16
        made.writestr(link, "/etc/passwd")
    assert not (open_run(path).path / "build.link").is_symlink()


def test_nothing_of_it_is_left_when_the_program_ends(measured, tmp_path):
    """Nor of one that was killed, when the next reads anything."""
    path = write_recording(measured.run, tmp_path / "sums.zip", [])
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from profiler.run_folder.archive import open_run\n"
        "run = open_run(Path(sys.argv[1]))\n"
        "if os.fork() == 0: sys.exit()\n"  # a fork leaves it to its parent
        "os.wait(); assert run.record(); print(run.path, flush=True)\n"
        "if sys.argv[2:]: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for killed in (True, False):
        done = subprocess.run(
            [sys.executable, "-c", program, path, *(["killed"] if killed else [])],
            env=os.environ | {"TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
            check=not killed,
        )
        assert done.stdout.startswith(str(temporary))
        assert len(list(temporary.iterdir())) == killed
