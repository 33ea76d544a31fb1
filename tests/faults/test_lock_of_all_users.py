"""One lock per GPU and machine: whoever runs, whatever lies where its file should be."""

import contextlib
import os
import stat
from pathlib import Path

import pytest

from profiler.machine import locks as gpu_lock_module
from profiler.machine import locks as lock_files
from profiler.machine.locks import gpu_lock, is_free, lock_folder, own_lock_folder

NOBODY = 65534
LOCK = "kernel-profiler-GPU-1.lock"


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A folder as /run/lock is, and homes in which nothing is yet."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(lock_files, "_SHARED_FOLDERS", (tmp_path / "absent", folder))
    monkeypatch.delenv(lock_files.FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def hold(messages=None):
    return gpu_lock(
        "GPU-1", timeout_s=2, on_wait=pytest.fail if messages is None else messages.append
    )


def test_users_with_other_homes_and_temporary_folders_have_one_folder(shared, monkeypatch):
    users = [{"HOME": "/home/a"}, {"HOME": "/home/b", "TMPDIR": "/scratch"}, {}]
    assert {lock_folder(environ) for environ in users} == {shared}
    assert lock_folder({"PROFILER_LOCKS": "/mnt/locks"}) == Path("/mnt/locks")


def test_a_folder_that_others_cannot_use_is_none_for_all(shared, tmp_path):
    shared.chmod(0o755)
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert lock_folder(environ) == own_lock_folder(environ) == tmp_path / "kernel-profiler/locks"


def test_files_are_for_all_and_are_never_created_over_others(shared, monkeypatch):
    opened = []
    open_file = os.open

    def watched(path, flags, *rest):
        opened.append(flags)
        return open_file(path, flags, *rest)

    monkeypatch.setattr(os, "open", watched)
    before = os.umask(0o077)
    try:
        for _ in range(2):
            with hold():
                assert not is_free("GPU-1")
    finally:
        os.umask(before)
    assert is_free("GPU-1")
    assert {stat.S_IMODE(file.stat().st_mode) for file in shared.iterdir()} == {0o666}
    # With fs.protected_regular Linux refuses O_CREAT alone for the file of another user.
    assert all(flags & os.O_EXCL for flags in opened if flags & os.O_CREAT)
    assert all(flags & os.O_NOFOLLOW for flags in opened)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_user_waits_and_takes_the_lock_afterwards(shared):
    # Folders above the lock are the test's own and closed to others.
    for folder in shared.parents:
        with contextlib.suppress(PermissionError):
            folder.chmod(folder.stat().st_mode | 0o011)
    answers, answer = os.pipe()
    go, start = os.pipe()
    with hold():
        other = os.fork()
        if other == 0:
            _become_nobody_and_tell(answer, go)
        assert os.read(answers, 99) == b"free: False;"
        lock = shared / LOCK
        assert lock.read_text() == f"{os.getpid()}\n"
        lock.unlink()  # as a cleaner of temporary files may: the next one makes its own
    os.write(start, b"go")
    assert os.read(answers, 99) == b"held: [];"
    os.waitpid(other, 0)
    for descriptor in (answers, answer, go, start):
        os.close(descriptor)


def _become_nobody_and_tell(answer, go):
    """Be another user: say whether the lock is free, and take it when told."""
    try:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        gpu_lock_module._locks_of_process.clear()  # what the forked process seems to hold
        os.write(answer, f"free: {is_free('GPU-1')};".encode())
        os.read(go, 2)
        messages = []
        with hold(messages):
            os.write(answer, f"held: {messages};".encode())
    except Exception as error:
        os.write(answer, f"{error!r};".encode())
    finally:
        os._exit(0)


def link(path, target):
    path.symlink_to(target)


def second_name(path, target):
    path.hardlink_to(target)


def fifo(path, target):
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [link, second_name, fifo])
def test_what_somebody_put_in_its_place_is_not_touched(shared, tmp_path, plant):
    precious = tmp_path / "precious"
    precious.write_text("data")
    plant(shared / LOCK, precious)
    messages = []
    with hold(messages):
        assert precious.read_text() == "data"
        assert [path.name for path in own_lock_folder().iterdir()] != []
    (sentence,) = messages
    assert sentence.startswith("Profilers of other users are not waited for: ")
    assert str(shared / LOCK) in sentence


def test_a_lock_file_that_was_taken_away_is_made_again(shared):
    with hold() as session_file:
        session_file.unlink()
        (shared / LOCK).unlink()
    with hold():
        assert not is_free("GPU-1")
