"""Whole live runs with an in-kernel timeline: its own builds, its session, its rows on the page.

The kernel runs on the host: only nvcc is a stand-in.
"""

import json
import os

import pytest
from whole_runs import TESTS, attempts

from profiler.parse.stamps import read_stamps
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.load.assemble import assemble

STAMPED = TESTS / "workloads/stamped"
WORKLOAD = {"module": str(STAMPED / "workload.py"), "space": str(STAMPED / "space.py")}
NAMES = ("torch", "plain", "kernel")
WITH_NVCC = f"{TESTS / 'fake_nvcc'}{os.pathsep}{os.environ['PATH']}"


def session_of(folder):
    return folder.name.rpartition(".")[0]


@pytest.fixture(scope="module")
def good(tmp_path_factory, command_line):
    """A finished run: command line, spec, run folder, and what was said."""
    profiler = command_line(tmp_path_factory.mktemp("in_kernel"))
    variants = [{"name": name, "params": {"source": name}} for name in NAMES]
    other_card = {"name": "other card", "params": {"source": "plain", "arch": "sm_100a"}}
    spec = profiler.write_spec(
        workload=WORKLOAD,
        variants={"list": [*variants, other_card]},
        problems={"matrix": {"n": [64]}},
        build={"arch": "sm_90"},
        collect={
            "device": "cpu",
            "collectors": ["timer", "in_kernel"],
            "blocks": 1,
            "repeats": 1,
            "warmups": 0,
            "metrics": ["duration_ns"],
        },
    )
    done = profiler(spec, PATH=WITH_NVCC)
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    return profiler, spec, run, done


def test_only_the_kernel_with_stamps_is_in_the_session(good):
    _, _, run, _ = good
    (folder,) = [folder for folder in attempts(run) if session_of(folder) == "in-kernel"]
    (stamps,) = read_stamps(folder).values()
    assert stamps.groups == {0: "all of it"}
    assert stamps.ends["block"].tolist() == [128]
    assert stamps.spans[["activity", "start_ns", "end_ns"]].to_numpy().tolist() == [
        ["load", 100.0, 600.0],
        ["store", 600.0, 1000.0],
    ]


def test_what_is_measured_is_another_build(good):
    _, _, run, _ = good
    libraries = {}
    for folder in attempts(run):
        job = json.loads((folder / "job.json").read_text())
        libraries[session_of(folder)] = {cell["id"]: cell["library"] for cell in job["cells"]}
    (kernel,) = [cell for cell in libraries["timer"] if cell.startswith("kernel")]
    assert libraries["timer"][kernel] != libraries["in-kernel"][kernel]
    (build,) = [build for build in RunFolder(run).builds() if build.variant == "kernel"]
    assert build.library == libraries["timer"][kernel]
    assert "PROFILER_TIMELINE" not in build.command


def test_a_kernel_for_another_card_is_excluded_with_the_reason(good):
    _, _, run, _ = good
    plan = RunFolder(run).plan()
    assert [variant.name for variant in plan.variants] == list(NAMES)
    (exclusion,) = plan.excluded
    assert exclusion.reason == "the kernel needs sm_100a, and this GPU is sm_90"
    assert exclusion.examples == ("other card",)


def test_the_page_and_a_recording_show_it(good, tmp_path):
    profiler, spec, run, _ = good
    assert 'id="in-kernel"' in (run / "index.html").read_text()
    recording = tmp_path / "recording.zip"
    recorded = profiler("record", run, recording)
    assert recorded.code == 0, recorded.err
    folder, loaded = open_run(recording), load_spec(spec)
    report = assemble(folder, loaded, folder.plan(), replay=True)
    (cell,) = report.details.in_kernel
    assert cell.startswith("kernel")


def test_a_second_run_records_nothing_again(good):
    profiler, spec, run, _ = good
    before = attempts(run)
    planned = profiler("plan", spec, "--json", "-", PATH=WITH_NVCC).json["sessions"]
    assert all(each["measured"] + each["left_out"] == each["visits"] for each in planned), planned
    done = profiler.measure(spec, PATH=WITH_NVCC)
    assert done.code == 0, done.err
    assert attempts(run) == before
