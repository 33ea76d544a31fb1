"""A file that a session read belongs to its numbers: edited, they are measured again."""

import os
import shutil
import subprocess

import pytest
from whole_runs import attempts

from profiler.parse import runner_journal
from profiler.parse.machine_code import shared_objects
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from profiler.run_folder.folder import RunFolder
from profiler.runner import protocol
from profiler.runner.journal import OpenedFiles
from profiler.sessions.sources import source_files

WORKLOAD = """\
import importlib.util
from pathlib import Path
import torch
HERE = Path(__file__).parent
FACTOR = float((HERE / "data" / "factor.txt").read_text())

def _helper():
    spec = importlib.util.spec_from_file_location("by_name", HERE / ("help" + "er.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def make_inputs(problem, device, seed):
    (HERE / "cache.txt").read_text()
    (HERE / "cache.txt").write_text("what this process wrote last")
    return torch.ones(8)

def reference(problem, inputs):
    return inputs * FACTOR

def prepare(variant, problem, inputs, library):
    offset = _helper().OFFSET
    return lambda: inputs * FACTOR + offset
"""


@pytest.fixture
def spec(profiler):
    files = {
        "workload.py": WORKLOAD,
        "helper.py": "OFFSET = 0.0\n",
        "data/factor.txt": "2.0",
        "cache.txt": "of another day",
    }
    for name, text in files.items():
        path = profiler.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        os.utime(path, (1e9, 1e9))
    return profiler.write_spec(
        workload="./workload.py",
        variants={"list": ["a", "b"]},
        problems={"list": ["p"]},
        collect={
            "device": "cpu",
            "blocks": 2,
            "collectors": ["timer"],
            "metrics": ["duration_ns"],
        },
    )


def test_an_edited_helper_or_data_file_measures_its_cells_again(profiler, spec):
    assert profiler.measure(spec).code == 0
    (run,) = profiler.runs()
    opened = RunFolder(run).record().opened
    assert {"spec:helper.py", "spec:data/factor.txt"} <= opened.keys()
    assert "spec:cache.txt" not in opened, "the session itself wrote it"
    first = attempts(run)

    done = profiler.measure(spec)
    assert attempts(run) == first, done.err
    assert "nothing is missing" in done.err

    # As wrong as it now is: the numbers of before are not those of what stands there.
    (profiler.folder / "helper.py").write_text("OFFSET = 1.0\n")
    done = profiler.measure(spec)
    assert profiler.runs() == [run]
    assert len(attempts(run)) > len(first)
    assert "Edited since they were read: helper.py" in done.err
    assert done.code == 4, "the wrong result is seen"


def test_a_recording_stays_valid_whatever_became_of_the_files(profiler, spec):
    assert profiler.measure(spec).code == 0
    (run,) = profiler.runs()
    assert profiler("record", run, "recorded.zip").code == 0
    shutil.rmtree(profiler.folder / "data")
    (profiler.folder / "helper.py").write_text("gone")
    done = profiler("report", "recorded.zip", "--json", "-")
    assert {cell["outcome"] for cell in done.json["cells"]} == {"measured"}


def opened_in(folder, read, unwatched=()):
    """What a hook notes of the files that `read` opens."""
    files = OpenedFiles({"spec": str(folder)}, [str(path) for path in unwatched])
    for path, flags in read:
        files._hook("open", (path, "r", flags))
    return dict(files.drain())


def test_files_that_are_written_young_special_or_elsewhere_are_not_noted(tmp_path):
    old = ("read.txt", "written.txt", "reports/out.txt", "lib/site-packages/torch.py")
    for name in (*old, "young.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        if name in old:
            os.utime(path, (1e9, 1e9))
    os.mkfifo(tmp_path / "pipe")
    os.utime(tmp_path / "pipe", (1e9, 1e9))
    os.utime(tmp_path / "young.txt", (4e9, 4e9))
    names = (*old, "young.txt", "pipe", "absent")
    read = [(str(tmp_path / name), os.O_RDONLY) for name in names]
    read += [(str(tmp_path / "written.txt"), os.O_WRONLY), (3, os.O_RDONLY), ("/etc/hostname", 0)]
    noted = opened_in(tmp_path, read, unwatched=[tmp_path / "reports"])
    assert noted == {"spec:read.txt": protocol.file_digest(tmp_path / "read.txt")}


def test_a_file_is_noted_under_its_own_name_whatever_link_leads_to_it(tmp_path):
    watched, library = tmp_path / "mine", tmp_path / "lib"
    (watched / "deep").mkdir(parents=True)
    library.mkdir()
    for name in ("by_file.py", "deep/by_folder.py", "theirs.py"):
        path = (library if name == "theirs.py" else watched) / name
        path.write_text(name)
        os.utime(path, (1e9, 1e9))
    (library / "file.py").symlink_to(watched / "by_file.py")
    (library / "folder").symlink_to(watched / "deep")
    (watched / "link.py").symlink_to(library / "theirs.py")
    (watched / "round").symlink_to(watched / "round")
    opened = [library / "file.py", library / "folder/by_folder.py", watched / "link.py"]
    compiled = library / "folder/__pycache__/by_folder.cpython-311.pyc"
    read = [(str(path), os.O_RDONLY) for path in (*opened, compiled, watched / "round/x", "/")]
    noted = opened_in(watched, read, unwatched=[tmp_path / "reports"])
    assert noted.keys() == {"spec:by_file.py", "spec:deep/by_folder.py"}


def test_a_folder_is_looked_up_once_for_all_of_its_files(tmp_path, monkeypatch):
    looked_up = []
    is_link = os.path.islink
    monkeypatch.setattr(os.path, "islink", lambda path: looked_up.append(path) or is_link(path))
    read = [(str(tmp_path / f"lib/{number}.py"), os.O_RDONLY) for number in range(100)]
    opened_in(tmp_path / "spec", read)
    assert len(looked_up) <= len(read) + len((tmp_path / "lib/0.py").parts)


def test_a_file_that_the_session_writes_later_is_taken_back(tmp_path):
    path = tmp_path / "cache"
    path.write_text("old")
    os.utime(path, (1e9, 1e9))
    files = OpenedFiles({"spec": str(tmp_path)}, [])
    files._hook("open", (str(path), "r", os.O_RDONLY))
    records = [{"event": "opened", "file": f, "digest": d} for f, d in files.drain()]
    assert runner_journal.opened_files(records)
    files._hook("open", (str(path), "w", os.O_WRONLY))
    records += [{"event": "opened", "file": f, "digest": d} for f, d in files.drain()]
    assert runner_journal.opened_files(records) == {}


# ---- external commands ---------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path):
    """A program with a shared object of its own."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "lib").mkdir()
    (tmp_path / "own.c").write_text("int own(void) { return 7; }")
    (tmp_path / "main.c").write_text("int own(void); int main(void) { return own(); }")
    for command in (
        ["-shared", "-fPIC", "own.c", "-o", "lib/libown.so"],
        ["main.c", "-o", "main", "-Llib", "-lown", "-Wl,-rpath,$ORIGIN/lib"],
    ):
        subprocess.run([compiler, *command], cwd=tmp_path, check=True)
    return tmp_path / "main"


def test_shared_objects_of_a_program_are_found_and_the_systems_left_out(program):
    assert shared_objects(program) == ((program.parent / "lib/libown.so").resolve(),)
    script = program.parent / "script.sh"
    script.write_text("#!/bin/sh\n")
    assert shared_objects(script) == ()


def test_a_command_depends_on_its_program_its_library_and_what_is_named(program):
    (program.parent / "data").mkdir()
    (program.parent / "data/a.bin").write_text("a")
    (program.parent / "spec.yaml").write_text(
        "name: s\nworkload: {command: ./main, depends: [data, main.c]}\n"
        "variants: {list: [v]}\nproblems: {list: [p]}\n"
    )
    loaded = load_spec(program.parent / "spec.yaml")

    (cell,) = make_plan(loaded, space_of(loaded)).cells
    names = {file.name for file in source_files(loaded.experiment, loaded.base, cell)}
    assert names == {"main", "libown.so", "a.bin", "main.c"}
