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


INTERPRETER = (sys.executable, "-m", "profiler")
"""Reads the encoding of its streams, and which of them are open, when it starts."""


def start(profiler, *arguments, command=INTERPRETER, streams="", **environment):
    """Run with redirections of a shell; gives exit code and the bytes of both streams."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {streams}', "sh", *command, *arguments],
        cwd=profiler.folder,
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


def test_letters_that_an_encoding_lacks_are_printed_plainer(measured):
    """And a backend that matplotlib does not know costs no page."""
    other = {"PYTHONIOENCODING": "latin-1", "MPLBACKEND": "nonsense"}
    code, out, _ = start(measured, "mine.yaml", **other)
    assert code == 0
    assert b"b->?" in out
    assert b"\n-----" in out, "a rule of a table is no row of UNCLEAR verdicts"
    assert "Größe → 😀" in page_of(measured).read_text(encoding="utf-8")
    arguments = ("mine.yaml", "--no-report", "--json", "-")
    code, out, _ = start(measured, *arguments, PYTHONIOENCODING="ascii")
    assert [cell["variant"] for cell in json.loads(out)["cells"]] == ["a", "b→😀"]


def test_closed_streams_cost_no_results(measured):
    (run,) = measured.runs()
    for name in ("summary.json", "index.html"):
        (run / name).unlink(missing_ok=True)
    code, _, _ = start(measured, "mine.yaml", streams="<&- >&- 2>&-")
    assert code == 0
    assert json.loads((run / "summary.json").read_text())["cells"]
    assert page_of(measured)


def test_a_log_of_stderr_on_a_full_disk_costs_its_words(measured):
    (run,) = measured.runs()
    target = measured.folder / "full.json"
    command = measured.fork_server.command("profiler", "report", str(run), "--json", str(target))
    code, out, _ = start(measured, command=command, streams="2>/dev/full")
    assert code == 0
    assert b"interval" in out
    assert json.loads(target.read_text())["experiment"] == "mine"


@pytest.mark.parametrize("columns", ["0", "1", "5", "x"])
def test_a_narrow_terminal_gets_a_table_all_the_same(measured, columns):
    (run,) = measured.runs()
    done = measured("report", run, COLUMNS=columns)
    assert done.code == 0, done.err
    assert "own fault" not in done.err
    assert "variant" in done.out
    assert "Page: " in done.out


def test_a_folder_whose_name_is_no_utf_8(profiler):
    folder = profiler.folder / os.fsdecode(b"\xff\xfe dir")
    folder.mkdir()
    write(folder)
    done = profiler("mine.yaml", cwd=folder)
    assert done.code == 0, done.err
    assert r"\xff\xfe dir" in done.out
    again = profiler.measure("mine.yaml", cwd=folder)
    assert (again.code, "nothing is missing" in again.err) == (0, True)
