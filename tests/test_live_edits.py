"""Whole runs of which one kernel is edited: what is measured again, and what is not."""

import json
import os
import shutil

import pytest
from whole_runs import TESTS, attempts, visits_of

from profiler.parse.runner_journal import read_journal

STAMPED = TESTS / "workloads/stamped"
NAMES = ("torch", "quick", "slow")
ENVIRONMENT = {
    "PATH": f"{TESTS / 'fake_nvcc'}{os.pathsep}{os.environ['PATH']}",
    "FAKE_NCU_TIMES": "torch=9000,quick=7000,slow=8500",
    "FAKE_NCU_NOISE": "0.0001",
}


@pytest.fixture
def project(profiler):
    """The folder of the sources, and a finished run with counters, confirmation and why.

    The confirmation comes after the explain session, and asks for no other.
    """
    folder = profiler.folder / "sources"
    folder.mkdir()
    for name in ("workload.py", "space.py"):
        shutil.copy(STAMPED / name, folder / name)
    plain = (STAMPED / "plain.cu").read_text()
    for name in NAMES[1:]:
        (folder / f"{name}.cu").write_text(f"{plain}\nint number(void) {{ return {len(name)}; }}\n")
    spec = profiler.write_spec(
        workload={"module": str(folder / "workload.py"), "space": str(folder / "space.py")},
        variants={"list": [{"name": name, "params": {"source": name}} for name in NAMES]},
        problems={"matrix": {"n": [64]}},
        baseline="torch",
        build={"arch": "sm_90"},
        collect={
            "device": "cpu",
            "blocks": 6,
            "final_blocks": 6,
            "warmups": 0,
            "explain": True,
            "metrics": ["duration_ns", "cycles", "l2_hit_pct"],
        },
    )
    done = profiler.measure(spec, **ENVIRONMENT)
    assert done.code == 0, done.err
    began = {
        attempt.name: next(read_journal(attempt / "journal.jsonl"))["time"]
        for attempt in attempts(profiler.runs()[0])
    }
    assert sorted(began, key=began.__getitem__)[-2:] == ["ncu-explain.001", "ncu-final.001"]
    assert "ncu-explain, why: nothing is missing" not in done.err
    return folder, spec


def measured_after_edit(profiler, project, name):
    """Sessions that are made after a kernel is edited, with the variants that each visited."""
    folder, spec = project
    (run,) = profiler.runs()
    before = set(attempts(run))
    source = folder / f"{name}.cu"
    assert "24 of 24 visits measured, nothing to go" in profiler("plan", spec, **ENVIRONMENT).out
    source.write_text(source.read_text().replace("return ", "return 10 + "))
    planned = profiler("plan", spec, **ENVIRONMENT)
    assert "18 of 24 visits measured (kernels may have changed, only a build" in planned.out, (
        planned.out
    )
    done = profiler.measure(spec, **ENVIRONMENT)
    assert done.code == 0, done.err
    assert "Built 2 variants (1 from the cache" in done.err
    assert profiler.runs() == [run]
    return {
        folder.name.rpartition(".")[0]: {cell.partition("..")[0] for cell, *_ in visits_of(folder)}
        for folder in set(attempts(run)) - before
    }


def test_an_edited_kernel_is_measured_again_and_nothing_else(profiler, project):
    again = measured_after_edit(profiler, project, "slow")
    assert again == {"ncu-timing": {"slow"}, "ncu-counters-together": {"slow"}}
    again = measured_after_edit(profiler, project, "quick")
    sessions = ("ncu-timing", "ncu-counters-together", "ncu-final", "ncu-explain")
    assert again == {session: {"quick"} for session in sessions}


FUNCTIONS = """
import torch
import profiler

e = profiler.Experiment(
    "mine", problems={"n": [64, 128]}, collect={"device": "cpu", "blocks": 6, "warmups": 0}
)


@e.inputs
def inputs(n):
    return torch.randn(n)


@e.variant(baseline=True)
def plain(x):
    return x + x


@e.variant
def doubled(x):
    return 2 * x


@e.variant
def summed(x):
    return x.add(x)
"""


def test_an_edited_function_is_measured_again_and_no_other(profiler):
    """The key of a cell once held the whole file, and an edit of one function measured it anew."""
    file = profiler.folder / "mine.py"
    file.write_text(FUNCTIONS)
    times = {**ENVIRONMENT, "FAKE_NCU_TIMES": "plain=9000,doubled=9500,summed=7000"}
    options = ("--set", "collect.explain=false", "--set", "collect.metrics=[duration_ns]")
    assert profiler.measure(file, *options, **times).code == 0
    (run,) = profiler.runs()
    before = set(attempts(run))
    file.write_text(FUNCTIONS.replace("2 * x", "x * 2  # the other way round"))
    planned = profiler("plan", file, *options, **times)
    assert "mine.py edited since" in planned.out, planned.out
    done = profiler.measure(file, *options, **times)
    assert done.code == 0, done.err
    assert profiler.runs() == [run]
    again = {cell for folder in set(attempts(run)) - before for cell, *_ in visits_of(folder)}
    assert {cell.partition("..")[0] for cell in again} == {"doubled"}
    cells = json.loads((run / "summary.json").read_text())["cells"]
    assert [cell["outcome"] for cell in cells] == ["measured"] * 6
    visits = [visit for folder in attempts(run) for visit in visits_of(folder)]
    profiler.measure(file, *options, **times)
    assert [visit for folder in attempts(run) for visit in visits_of(folder)] == visits
