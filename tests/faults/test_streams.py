"""What the caller made of our streams and folders costs letters at most, never results."""

import json
import os
import subprocess
import sys

import pytest
import yaml

WORKLOAD = """\
import torch
def make_inputs(problem, device, seed): return torch.ones(8)
def reference(problem, inputs): return inputs * 2
def prepare(variant, problem, inputs, library): return lambda: inputs * 2
"""
SPEC = {
    "name": "mine",
    "title": "Größe → 😀",
    "workload": "./workload.py",
    "variants": {"list": ["a", "b→😀"]},
    "problems": {"list": ["p"]},
    "collect": {"device": "cpu", "blocks": 2, "collectors": ["timer"], "metrics": ["duration_ns"]},
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory, command_line):
    """A command line in whose folder the experiment was measured once."""
    profiler = command_line(tmp_path_factory.mktemp("measured"))
    write(profiler.folder)
    assert profiler.measure("mine.yaml").code == 0
    return profiler


def write(folder):
    (folder / "workload.py").write_text(WORKLOAD)
    (folder / "mine.yaml").write_text(yaml.safe_dump(SPEC, allow_unicode=True), encoding="utf-8")


def start(profiler, *arguments, streams="", cwd=None, **environment):
    """Run with redirections of a shell; gives exit code and the bytes of both streams."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "profiler", *arguments],
        cwd=cwd or profiler.folder,
        check=False,
        env={**profiler.environment, **environment},
        capture_output=True,
        timeout=60,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    assert b"own fault" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def page_of(profiler):
    (run,) = profiler.runs()
    page = run / "index.html"
    assert page.stat().st_size > 10_000
    return page


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_letters_that_an_encoding_lacks_are_printed_plainer(measured, encoding):
    code, out, _ = start(measured, "mine.yaml", PYTHONIOENCODING=encoding)
    assert code == 0
    assert b"b->?" in out
    assert "Größe → 😀" in page_of(measured).read_text(encoding="utf-8")
    code, out, _ = start(measured, "mine.yaml", "--json", "-", PYTHONIOENCODING=encoding)
    assert [cell["variant"] for cell in json.loads(out)["cells"]] == ["a", "b→😀"]


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_cost_no_results(measured, streams):
    page = page_of(measured)
    before = page.stat().st_mtime_ns
    code, _, _ = start(measured, "mine.yaml", streams=streams)
    assert code == 0
    assert page_of(measured).stat().st_mtime_ns > before


def test_a_log_of_stderr_on_a_full_disk_costs_its_words(measured):
    (run,) = measured.runs()
    target = measured.folder / "full.json"
    code, out, _ = start(measured, "report", str(run), "--json", str(target), streams="2>/dev/full")
    assert code == 0
    assert b"Winner" in out
    assert json.loads(target.read_text())["experiment"] == "mine"


@pytest.mark.parametrize("columns", ["0", "1", "5", "x"])
def test_a_narrow_terminal_gets_a_table_all_the_same(measured, columns):
    (run,) = measured.runs()
    code, out, _ = start(measured, "report", str(run), COLUMNS=columns)
    assert code == 0
    assert b"Winner" in out


def test_a_folder_whose_name_is_no_utf_8(profiler):
    folder = profiler.folder / os.fsdecode(b"\xff\xfe dir")
    folder.mkdir()
    write(folder)
    code, out, _ = start(profiler, "mine.yaml", cwd=folder)
    assert code == 0
    assert b"\\xff\\xfe dir" in out
    code, _, err = start(profiler, "mine.yaml", "--no-report", cwd=folder)
    assert (code, b"nothing is missing" in err) == (0, True)


def test_words_of_the_compiler_that_are_no_utf_8(profiler):
    nvcc = profiler.folder / "bin/nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\nprintf 'release 13.0 \\377\\376\\n'\n")
    nvcc.chmod(0o755)
    path = f"{nvcc.parent}:{os.environ['PATH']}"
    code, out, _ = start(profiler, "doctor", PATH=path, CUDA_HOME=str(profiler.folder))
    assert code in (0, 3)
    assert b"nvcc" in out
