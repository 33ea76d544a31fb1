"""`profiler compare` and `--fail-on` as a user has them: real processes, real recordings."""

import json

import pytest
from scaled_runs import scaled_copy
from whole_runs import TESTS

from profiler.model import Verdict

SMALL = TESTS.parent / "experiments/recordings/transpose.zip"
SLOWER, FASTER = "tiled..", "naive.."


@pytest.fixture(scope="module")
def ready(tmp_path_factory, command_line):
    """A command line with a run of transpose, and a later one with two kernels changed."""
    profiler = command_line(tmp_path_factory.mktemp("compare"))
    profiler.newer = scaled_copy(
        SMALL,
        profiler.folder / "reports/transpose/20261201-080000",
        {SLOWER: 1.06, FASTER: 0.9},
        environment={"driver": "590.10.1"},
    )
    return profiler


def test_a_regression_trips_the_gate_and_is_named(ready):
    done = ready("compare", SMALL, "transpose", "--fail-on", "regression:2%", "--json", "here.json")
    assert done.code == 5, done.err
    assert f"{Verdict.SLOWER.word} beyond the threshold" in done.err
    named = [line.split(":")[0].strip() for line in done.err.splitlines() if line[:2] == "  "]
    assert named
    assert all(cell.startswith(SLOWER) for cell in named)
    assert "590.10.1" in done.out
    page = ready.folder / "reports/compare/transpose--20261201-080000.html"
    assert "Page: reports/compare/transpose--20261201-080000.html" in done.out
    assert "tiled" in page.read_text()
    found = json.loads((ready.folder / "here.json").read_text())
    assert found["gate"]["tripped"] is True
    assert found["gate"]["cells"] == named
    cells = {cell["id"]: cell for step in found["steps"] for cell in step["cells"]}
    assert len(cells) == 8
    for name, cell in cells.items():
        if cell["verdict"] == "slower":
            assert name.startswith(SLOWER)
        if cell["verdict"] == "faster":
            assert name.startswith(FASTER)
        if name.startswith(SLOWER):
            assert cell["ratio"] == pytest.approx(1.06, abs=0.01)
    verdicts = [cell["verdict"] for cell in cells.values()]
    assert (verdicts.count("slower"), verdicts.count("faster")) == (2, 2)


def test_a_regression_below_the_threshold_does_not_trip(ready, tmp_path):
    slower = scaled_copy(SMALL, tmp_path / "slower", {"tiled..": 1.06})
    done = ready(
        *("compare", SMALL, slower, "--fail-on", "regression:10", "--json", "-"),
        *("--no-report", "--only", "variant=tiled|padded"),
    )
    assert done.code == 0, done.err
    assert done.json["gate"] == {"rule": "regression:10%", "tripped": False, "cells": []}
    assert any(cell["verdict"] == "slower" for cell in done.json["steps"][0]["cells"])
    variants = {cell["variant"] for cell in done.json["steps"][0]["cells"]}
    assert variants == {"torch", "padded", "tiled"}


def test_other_machines_and_other_clocks_never_trip(ready, tmp_path):
    other = scaled_copy(SMALL, tmp_path / "other", {"": 2.0}, environment={"gpu": "NVIDIA A100"})
    locked = scaled_copy(
        SMALL, tmp_path / "locked", {"tiled..": 2.0}, environment={"clock_control": "base"}
    )
    less = ("--no-report", "--only", "variant=tiled")
    for run, words in ((other, "different machines"), (locked, "different clock control")):
        done = ready("compare", SMALL, run, "--fail-on", "regression", *less)
        assert done.code == 0, done.err
        assert words in done.out
        assert f"No verdict on durations between transpose and {run.name}" in done.err
        assert "slower" not in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RUN"),
        (["transpose~3", "transpose"], "`--fresh` starts a new run"),
        ([SMALL, "transpose", "--fail-on", "slower"], "--fail-on slower: must look like"),
        ([SMALL, "transpose", "--only", "nothing=1"], "no cell has 'nothing'"),
        ([SMALL, "transpose", "--set", "margin_pct=5"], "runs are compared as they were"),
    ],
)
def test_bad_usage_exits_2_and_says_what_is_wrong(ready, arguments, message):
    done = ready("compare", *arguments)
    assert done.code == 2, (arguments, done.err)
    assert message in done.err
    assert done.out == ""


def test_a_page_that_cannot_be_written_is_said(ready, tmp_path):
    newer = scaled_copy(SMALL, tmp_path / "newer")
    done = ready(
        *("compare", SMALL, newer, "--out", "/proc/none/page.html", "--only", "variant=tiled")
    )
    assert done.code == 2
    assert "cannot be written" in done.err


def test_a_run_refuses_a_gate_that_it_cannot_read(profiler):
    spec = profiler.write_spec(
        workload=str(TESTS / "workloads/endings.py"),
        variants={"list": [{"name": "well", "params": {"how": "well"}}]},
        collect={"device": "cpu", "collectors": "timer", "blocks": 2},
    )
    done = profiler("run", spec, "--fail-on", "regression:many")
    assert done.code == 2, done.err
    assert "--fail-on regression:many" in done.err
    assert profiler.runs() == []
