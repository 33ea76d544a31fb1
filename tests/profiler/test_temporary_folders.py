"""Temporary folders are removed: by their process, and those of a killed one by the next."""

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from profiler.machine import installs, temporary_folders
from profiler.machine.temporary_folders import temporary_folder

HOLDS = (
    "import sys; from profiler.machine.temporary_folders import temporary_folder\n"
    "with temporary_folder() as folder: print(folder, flush=True); sys.stdin.read()\n"
)


@pytest.fixture(autouse=True)
def parent(tmp_path, monkeypatch):
    """Where temporary folders are made; nothing was removed there yet."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary_folders._remove_abandoned_folders.cache_clear()
    return tmp_path


@pytest.fixture
def other(parent):
    """A process that holds a folder, and the folder."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS],
        env=os.environ | {"TMPDIR": str(parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process, parent / process.stdout.readline().strip()
        process.kill()


def made_and_removed():
    with temporary_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()
    return folder


def test_what_a_killed_process_left_is_removed_by_the_next(other, parent):
    process, folder = other
    (folder / "deep").mkdir()
    made_and_removed()
    assert folder.is_dir(), "it is held"
    process.kill()
    process.wait()
    temporary_folders._remove_abandoned_folders.cache_clear()  # as the next process
    made_and_removed()
    assert not list(parent.iterdir())


def test_links_files_and_folders_of_others_stay(parent, monkeypatch):
    target = parent / "target"
    target.mkdir()
    kept = [parent / f"{temporary_folders._PREFIX}{name}" for name in ("link", "file")]
    kept[0].symlink_to(target)
    kept[1].touch()
    made_and_removed()
    kept.append(parent / f"{temporary_folders._PREFIX}folder")
    kept[2].mkdir()
    temporary_folders._remove_abandoned_folders.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: os.geteuid() + 1)
        made_and_removed()
    assert sorted(parent.iterdir()) == sorted([target, *kept])


def test_a_folder_that_was_taken_for_left_over_is_made_anew(parent, monkeypatch):
    """By another process, between its making and its lock."""
    make, made = tempfile.mkdtemp, []

    def make_and_lose(**options):
        made.append(make(**options))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    assert str(made_and_removed()) == made[1]


def test_a_fork_leaves_it_to_its_parent(parent, monkeypatch):
    with ExitStack() as held:
        folder = held.enter_context(temporary_folder())
        with monkeypatch.context() as fork:
            fork.setattr(os, "getpid", lambda: -1)
            held.close()
        assert folder.is_dir()


def test_the_trial_of_doctor_takes_such_a_folder(monkeypatch):
    built = []
    monkeypatch.setattr(installs, "built_library", built.append)
    monkeypatch.setattr(installs, "_stdout_of", lambda *_: str(built[0].is_dir() * 5.0))
    assert installs.duration_by_cupti() == 5.0
    (folder,) = built
    assert folder.name.startswith(temporary_folders._PREFIX)
    assert not folder.exists()
