"""Whole runs of a user's own workload: outside the project, with CUDA that is compiled."""

import json
import os
import shutil
import signal

import pytest
from whole_runs import TESTS, attempts, finish, visits_of, wait_for

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")

VARIANTS = [
    {"how": "torch"},
    {"how": "cuda"},
    {"how": "cuda", "spare": 1},
    {"how": "cuda", "unroll": 4},
    {"how": "broken"},
]
COLLECT = {"device": "cpu", "blocks": 2, "metrics": ["duration_ns", "spill_store_bytes"]}


@pytest.fixture
def project(profiler):
    """A folder of the user's with the workload and its spec; the commands start elsewhere."""
    own = profiler.folder / "own project"
    shutil.copytree(TESTS / "workloads/scaling", own)
    spec = profiler.write_spec(
        "scaling",
        workload={"module": "./workload.py", "space": "./space.py"},
        variants={"list": [{"params": params} for params in VARIANTS]},
        problems={"matrix": {"size": [5, 1000]}},
        collect=COLLECT,
    )
    return spec.rename(own / "scaling.yaml")


def summary(profiler):
    text = (profiler.runs("scaling")[-1] / "summary.json").read_text()
    return json.loads(text)


def cells_of(document, **params):
    return [cell for cell in document["cells"] if cell["variant_params"] == params]


def measured_in(attempt):
    """Variants that an attempt visited."""
    return {cell.partition("..")[0] for cell, *_ in visits_of(attempt)}


def test_compiled_variants_from_first_run_to_edited_kernel(profiler, project):
    done = profiler(project)
    assert done.code == 4, done.err
    assert "Built 4 variants (0 from the cache, 1 failed, 1 with the machine code" in done.err
    document = summary(profiler)

    for cell in cells_of(document, how="broken"):
        assert cell["outcome"] == "compile_failed"
        assert "this variant does not compile" in cell["cause"]
        assert cell["metrics"] == {}
    for cell in cells_of(document, how="cuda", spare=1):
        assert cell["outcome"] == "duplicate"
        assert cell["duplicate_of"] == f"how=cuda..size={cell['problem_params']['size']}"
        assert cell["metrics"]["duration_ns"]["n"] == 2
    for params in ({"how": "torch"}, {"how": "cuda"}, {"how": "cuda", "unroll": 4}):
        assert [cell["outcome"] for cell in cells_of(document, **params)] == ["measured"] * 2
    assert cells_of(document, how="cuda")[0]["metrics"]["spill_store_bytes"]["median"] == 0
    page = (profiler.runs("scaling")[-1] / "index.html").read_text()
    assert "this variant does not compile" in page
    for text in (page, json.dumps(document)):
        assert str(profiler.folder) not in text

    (first,) = attempts(profiler.runs("scaling")[-1])
    assert len(measured_in(first)) == 3, "of twins one is measured, of broken ones none"

    # One source for all; the edit changes the machine code of one variant.
    source = project.parent / "scale.cu"
    source.write_text(source.read_text().replace("2.0f * in[i];\n#else", "3.0f - in[i];\n#else"))
    again = profiler.measure(project)
    assert again.code == 4, again.err
    (run,) = profiler.runs("scaling")
    old, new = attempts(run)
    assert old == first
    edited = {cell["id"] for cell in cells_of(document, how="cuda", unroll=4)}
    assert {cell for cell, *_ in visits_of(new)} == edited
    assert [cell["outcome"] for cell in summary(profiler)["cells"]] == [
        cell["outcome"] for cell in document["cells"]
    ]


NVCC = """#!/bin/sh
# Compiles when told to, and never the same thing twice at a time.
case " $* " in *" -c "*) ;; *) exec {nvcc} "$@" ;; esac
# The lock is that of the file, and ends with the last process that has it open, however it ends.
exec 9>"{folder}/busy.$(echo "$*" | cksum | cut -d' ' -f1)"
flock -n 9 || exit 9
touch "{folder}/compiling"
while [ ! -e "{folder}/go" ]; do sleep 0.05; done
exec {nvcc} "$@"
"""


def test_a_build_that_is_interrupted_or_killed_harms_no_later_one(profiler, project):
    bin_ = profiler.folder / "bin"
    bin_.mkdir()
    nvcc = bin_ / "nvcc"
    nvcc.write_text(NVCC.format(nvcc=shutil.which("nvcc"), folder=profiler.folder))
    nvcc.chmod(0o755)
    environment = {"PATH": f"{bin_}:{profiler.environment['PATH']}"}
    command = (project, "--only", "how=cuda,unroll=4,size=5", "--json", "-", "-q", "--no-report")

    stopped = profiler.start(*command, **environment)
    wait_for((profiler.folder / "compiling").exists)
    os.killpg(stopped.pid, signal.SIGINT)
    code, _, err = finish(stopped)
    assert code == 130, err
    assert "Go on with: python -m profiler" in err

    (profiler.folder / "compiling").unlink()
    first = profiler.start(*command, **environment)
    wait_for((profiler.folder / "compiling").exists)
    first.kill()
    first.communicate(timeout=60)
    begun = [run for run in profiler.runs("scaling") if (run / "run.json").exists()]
    assert begun == [], "a process may have waited for the build, but nothing was measured"

    second = profiler.start(*command, **environment)
    (profiler.folder / "go").touch()
    code, out, err = finish(second)
    cells = json.loads(out)["cells"]
    assert code == 0, f"{err}{[(cell['outcome'], cell['cause']) for cell in cells]}"
    assert [cell["outcome"] for cell in cells] == ["measured"] * 2, "torch and what is built"
    assert len(profiler.runs("scaling")) == 1, "what the killed one left is gone"
