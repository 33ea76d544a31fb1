"""Whole live runs on the CPU: the command line, the runner, and the stand-in for ncu."""

import csv
import gzip
import json
import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
from as_read import data_of_page
from whole_runs import (
    SECRET,
    TESTS,
    attempts,
    finish,
    rows_of,
    unpacked,
    visits_of,
    wait_for,
)

ENDINGS = str(TESTS / "workloads/endings.py")
METRICS = ["duration_ns", "cycles", "registers"]
"""All in one pass, so that one session has all of them."""


def collect(**fields):
    return {"device": "cpu", "blocks": 2, "metrics": METRICS, "warmups": 0, **fields}


def write_endings(profiler, hows, *, rows=(4,), **fields):
    """Spec of variants that end in these ways."""
    fields = {"collect": collect(), **fields}
    variants = {"list": [{"name": how, "params": {"how": how}} for how in hows]}
    return profiler.write_spec(
        workload=ENDINGS, variants=variants, problems={"matrix": {"rows": list(rows)}}, **fields
    )


def outcomes(run):
    document = json.loads((run / "summary.json").read_text())
    return {cell["variant"]: cell["outcome"] for cell in document["cells"]}


# ---- a run that goes well, its page again, its recording, and the replay of that ----


@pytest.fixture(scope="module")
def good(tmp_path_factory, command_line):
    """A finished run under both collectors: command line, spec, and what it said."""
    profiler = command_line(tmp_path_factory.mktemp("good"))
    spec = write_endings(
        profiler,
        ["well", "also well"],
        rows=(4, 8),
        collect=collect(
            collectors=["ncu", "timer"], metrics=[*METRICS, "l2_hit_pct", "tflops"], repeats=3
        ),
    )
    return profiler, spec, profiler(spec, "--json", "-")


def test_a_good_run_exits_0_and_writes_everything(good):
    profiler, _, done = good
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    for name in ("index.html", "samples.csv", "summary.csv", "summary.json", "spec.yaml"):
        assert (run / name).stat().st_size > 0, name
    assert not list(run.glob("raw/*/report.ncu-rep"))  # packed beside the sessions that followed
    assert len(list(run.glob("raw/*/report.ncu-rep.gz"))) == 2
    assert f"Page: {Path('reports') / 'mine'}" in done.err or str(run) in done.err
    assert done.json == json.loads((run / "summary.json").read_text())
    assert [cell["outcome"] for cell in done.json["cells"]] == ["measured"] * 4
    assert done.json["baseline"] == "well"
    assert done.json["replayed"] is None


def test_either_ncu_or_the_runner_empties_the_caches(good):
    profiler, _, _ = good
    (run,) = profiler.runs()
    by_runner = {}
    for attempt in (run / "raw").iterdir():
        command = (attempt / "command.txt").read_text()
        if "--cache-control" in command:
            flush = json.loads((attempt / "job.json").read_text())["settings"]["flush"]
            assert f"--cache-control {'none' if flush else 'all'}" in command
            by_runner[attempt.name] = flush
    assert by_runner["ncu-timing.001"]
    assert not all(by_runner.values()), "counters of so few cells are replayed together"


def test_every_metric_has_as_many_samples_as_were_asked_for(good):
    _, _, done = good
    for cell in done.json["cells"]:
        metrics = cell["metrics"]
        assert metrics["duration_ns"]["n"] == 2
        assert metrics["cycles"]["n"] == 2, "no confirmation counts them"
        assert metrics["l2_hit_pct"]["n"] == 1
        assert 0 < metrics["l2_hit_pct"]["median"] < 100
        assert metrics["duration_ns"]["median"] > 0
        assert metrics["tflops"]["median"] > 0
        assert cell["missing_metrics"] == []
        assert cell["flops"] == 7 * cell["problem_params"]["rows"]


def test_samples_name_their_session_cell_and_block(good):
    profiler, _, _ = good
    (run,) = profiler.runs()
    with (run / "samples.csv").open(newline="") as stream:
        samples = list(csv.DictReader(stream))
    by_collector = {row["collector"] for row in samples}
    assert by_collector == {"ncu", "timer"}
    timed = [row for row in samples if row["collector"] == "timer"]
    assert len(timed) == (4 + 2) * 2 * 3  # cells and the baseline again, blocks, repeats
    assert all(float(row["duration_ns"]) > 0 for row in timed)
    counted = [row for row in samples if row["session"] == "ncu-counters-together"]
    assert len(counted) == 4
    assert {row["cycles"] for row in counted} == {""}, "missing is empty, never 0"
    visited = [row for row in samples if row["session"] == "ncu-timing"]
    assert all(float(row["cycles"]) > 0 for row in visited)
    assert {row["arm"] for row in counted} == {"0"}
    second = {row["cell"].partition("..")[0] for row in samples if row["arm"] == "1"}
    assert second == {"well"}, "the baseline"


def test_progress_goes_to_stderr(good):
    _, _, done = good
    assert "visits of 4 cells" in done.err
    assert "visits, 4/4 cells in " in done.err


def test_the_same_command_measures_nothing_again(good):
    profiler, spec, first = good
    again = profiler.measure(spec, "--json", "-")
    assert again.code == 0
    assert len(profiler.runs()) == 1
    assert again.err.count("nothing is missing") == 3
    assert again.json["cells"] == first.json["cells"]


def test_a_page_is_made_again_from_the_run_folder_alone(good):
    profiler, _, first = good
    (run,) = profiler.runs()
    page = (run / "index.html").read_text()
    assert "Where the seconds went" in page
    (run / "index.html").unlink()
    again = profiler("report", run, "--json", "-", PROFILER_NCU="/nowhere")
    assert again.code == 0
    assert again.json["cells"] == first.json["cells"]
    made_again = (run / "index.html").read_text()
    assert len(made_again) > 0.9 * len(page)
    rerun = data_of_page(page)["rerun"]
    assert re.match(r"python -m profiler \S+\.yaml", rerun)
    assert data_of_page(made_again)["rerun"] == rerun  # and not of the copy in the run folder


def test_a_recording_is_replayed_where_nothing_can_be_measured(good):
    profiler, spec, first = good
    (run,) = profiler.runs()
    made = profiler("record", run, profiler.folder / "recordings/mine.zip")
    assert made.code == 0, made.err
    done = profiler(spec, "--out", "elsewhere", PROFILER_NCU="/nowhere")
    assert done.code == 0, done.err
    cannot, banner, *_ = done.err.splitlines()
    assert cannot.startswith("Cannot measure here: PROFILER_NCU=/nowhere")
    assert banner.startswith("Replaying a recording: measured on ")
    assert "ncu 2025.3.1.0" in banner
    (replayed,) = (profiler.folder / "elsewhere/mine").iterdir()
    summary = json.loads((replayed / "summary.json").read_text())
    assert summary["replayed"]["ncu"] == "ncu 2025.3.1.0"
    assert summary["replayed"]["when"] == first.json["created"]
    assert summary["cells"] == first.json["cells"]
    assert summary["notices"][0]["kind"] == "replayed"
    page = (replayed / "index.html").read_text()
    assert page.index("<body") < page.index("Replayed recording: measured on") < page.index("<h1")

    live = profiler.measure(spec, "--live", "--out", "refused", PROFILER_NCU="/nowhere")
    assert live.code == 3
    assert "Remedy: " in live.err
    assert not (profiler.folder / "refused").exists()

    chosen = profiler.measure(spec, "--replay", "recordings/mine.zip", "--out", "chosen", "-q")
    assert chosen.code == 0
    assert chosen.err.startswith("Replaying a recording: measured on ")


def test_nothing_that_is_shared_has_the_environment_or_the_home_folder(good):
    profiler, _, done = good
    archive = profiler.folder / "recordings/shared.zip"
    profiler("record", profiler.runs()[0], archive)
    shared = [unpacked(archive), *profiler.runs()]
    files = [
        file
        for folder in shared
        for file in folder.rglob("*")
        if file.is_file() and file.parent.name != "private"
    ]
    assert len(files) > 20
    for file in files:
        content = file.read_bytes()
        text = gzip.decompress(content) if file.suffix == ".gz" else content
        assert SECRET.encode() not in text, file
    assert SECRET not in done.out + done.err
    recorded = [file for file in files if "recordings" in file.parts]
    for file in (*recorded, profiler.runs()[0] / "index.html", profiler.runs()[0] / "summary.json"):
        content = file.read_bytes()
        text = gzip.decompress(content) if file.suffix == ".gz" else content
        assert str(profiler.folder).encode() not in text, file


# ---- failures ----

BAD = {
    "wrong": ("wrong_result", "of 4"),
    "raise": ("raised", "RuntimeError: no such algorithm"),
    "exhaust": ("out_of_memory", "21474836480 bytes"),
    "segfault": ("crashed", "(Fatal Python error: Segmentation fault; endings.py:67 in <lambda>)"),
    "hang": ("timed_out", "time limit (collect.time_limit_s; endings.py:70 in <lambda>)"),
    "fault": ("illegal_address", "LaunchFailed"),
    "unseen": ("no_kernel", "no kernel"),
}


def test_every_failure_costs_its_own_cell_and_no_other(profiler):
    spec = write_endings(profiler, ["well", *BAD, "also well"], collect=collect(time_limit_s=5.0))
    odd = {
        "FAKE_NCU_FAULT_IN": "fault..",
        "FAKE_NCU_BLIND_TO": "unseen..",
        "FAKE_NCU_DROP_METRIC": "gpc__cycles_elapsed.max",
    }
    done = profiler(spec, "--json", "summary.json", "--verbose", **odd)
    assert done.code == 4, done.err
    cells = json.loads((profiler.folder / "summary.json").read_text())["cells"]
    found = {cell["variant"]: cell for cell in cells}
    for name in ("well", "also well"):
        assert found[name]["outcome"] == "measured"
        assert found[name]["metrics"]["duration_ns"]["n"] == 2
        assert found[name]["missing_metrics"] == ["cycles"]
        assert "cycles" not in found[name]["metrics"]
    assert "did not come back: cycles" in done.err
    for name, (outcome, cause) in BAD.items():
        assert found[name]["outcome"] == outcome, found[name]
        assert cause in found[name]["cause"]
        assert found[name]["metrics"].get("duration_ns", {}).get("rank") is None
        assert f"{name} " in done.out, "the console names every failed cell"
    assert found["wrong"]["max_abs_error"] == pytest.approx(1)

    (run,) = profiler.runs()
    page = (run / "index.html").read_text()
    assert "no such algorithm" in page
    answered = profiler("check", str(run))
    assert "The first: wrong at" in answered.out, "an answer in text names a cause, too"
    assert "did not come back: cycles" in page
    before = len(attempts(run))
    again = profiler.measure(spec, **odd)
    assert again.code == 4
    assert len(attempts(run)) == before, "what failed is not tried again"
    assert outcomes(run) == {name: cell["outcome"] for name, cell in found.items()}


def test_a_session_whose_checks_all_fail_has_nothing_to_profile(profiler):
    done = profiler(write_endings(profiler, ["wrong", "raise"]), "--verbose", "--no-report")
    assert done.code == 4, done.err
    (run,) = profiler.runs()
    printed = (attempts(run)[0] / "ncu.csv.gz").read_bytes()
    assert b"No kernels were profiled" in gzip.decompress(printed)
    assert "cannot be read" not in done.err


REFUSED = {
    "no_permission": ("ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
    "driver_resource": ("Another tool is using the GPU's performance counters", "dcgmi"),
    "lock_file": ("lock file", "TMPDIR"),
    "old_version": ("2022.4.1.0 is too old", "2025.1 or newer"),
    "no_kernels": ("no kernel to profile", "launch on the GPU"),
}


def test_a_machine_that_cannot_profile_is_refused_and_leaves_nothing_that_harms(profiler):
    spec = write_endings(profiler, ["well"])
    for mode, (message, remedy) in REFUSED.items():
        done = profiler.measure(spec, FAKE_NCU_MODE=mode)
        assert done.code == 3, (mode, done.err)
        words, _, advice = done.err[done.err.index("profiler: ") :].partition("\n  Remedy: ")
        assert message in words, mode
        assert remedy in advice, mode
        assert done.out == ""
    done = profiler.measure(spec)
    assert done.code == 0, done.err
    assert set(outcomes(profiler.runs()[-1]).values()) == {"measured"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"PROFILER_NCU": "/nowhere/ncu"}, "PROFILER_NCU=/nowhere/ncu is not a program"),
        ({"CUDA_VISIBLE_DEVICES": ""}, "No NVIDIA GPU is visible"),
    ],
)
def test_without_ncu_gpu_or_recording_there_is_nothing_to_do(profiler, changes, message):
    device = "cpu" if "PROFILER_NCU" in changes else "cuda"
    spec = write_endings(profiler, ["well"], collect=collect(device=device))
    done = profiler.measure(spec, **changes)
    assert done.code == 3
    assert message in done.err
    assert "Remedy: " in done.err
    assert not (profiler.folder / "reports").exists()


# ---- interruptions ----

MANY = ["well", "second", "third"]
MADE = 5
"""Visits that a run makes before it stands still."""


def start_and_stand_still(profiler, spec, variants, *arguments, start=None):
    """A run that has made some visits and is inside the next one; `start` is how it is started."""
    start = start or profiler.start
    # The check launches each variant twice.
    stop = 2 * variants + MADE
    process = start(spec, "--no-report", *arguments, endings_stop_after=str(stop))

    def standing():
        journals = profiler.folder.glob("reports/mine/*/raw/*/journal.jsonl")
        return any(len(visits_of(each.parent)) == MADE for each in journals)

    wait_for(standing)
    return process


def assert_only_the_rest_was_measured(run, blocks):
    first, second = attempts(run)
    assert len(visits_of(first)) == len(rows_of(first)) == MADE
    # the baseline twice in each block
    assert len(visits_of(second)) == len(rows_of(second)) == (len(MANY) + 1) * blocks - MADE
    assert not set(visits_of(first)) & set(visits_of(second))
    # The first ended before the test on new inputs: the second checks again, and tests.
    records = [json.loads(line) for line in (second / "journal.jsonl").read_text().splitlines()]
    for phase in ("check", "recheck"):
        ended = [(r["event"], r.get("phase")) for r in records]
        assert ended.count(("finished", phase)) == len(MANY), phase
    summary = json.loads((run / "summary.json").read_text())
    counts = {cell["variant"]: cell["metrics"]["duration_ns"]["n"] for cell in summary["cells"]}
    assert counts == dict.fromkeys(MANY, blocks)


def test_a_killed_run_goes_on_with_what_is_missing(profiler):
    spec = write_endings(profiler, MANY, collect=collect(blocks=4))
    process = start_and_stand_still(profiler, spec, len(MANY))
    process.kill()
    process.communicate(timeout=60)
    done = profiler.measure(spec)
    assert done.code == 0, done.err
    (run,) = profiler.runs()
    assert f"Resuming {run.resolve()}" in done.err
    assert_only_the_rest_was_measured(run, 4)

    # More blocks add to what is there; of a changed variant nothing is.
    spec.write_text(spec.read_text().replace("name: third", "name: changed"))
    assert profiler.measure(spec, "--blocks", "5").code == 0
    assert profiler.runs() == [run]
    counts = Counter(cell for cell, *_ in visits_of(attempts(run)[2]))
    assert counts == {"well..rows=4": 2, "second..rows=4": 1, "changed..rows=4": 5}


def test_ctrl_c_keeps_what_was_measured_and_says_how_to_go_on(profiler):
    spec = write_endings(profiler, MANY, collect=collect(blocks=4))
    start = profiler.start_interpreter
    process = start_and_stand_still(profiler, spec, len(MANY), "--fresh", start=start)
    os.killpg(process.pid, signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130
    assert out == ""
    assert "what was measured is kept" in err
    assert err.endswith(f"Go on with: python -m profiler {spec} --no-report\n"), (
        "--fresh would not go on"
    )
    assert profiler.measure(spec).code == 0
    (run,) = profiler.runs()
    assert_only_the_rest_was_measured(run, 4)


def test_two_runs_at_once_wait_for_each_other_and_share_what_is_measured(profiler):
    spec = write_endings(profiler, ["well"], collect=collect(blocks=8))
    first = start_and_stand_still(profiler, spec, 1)
    second = profiler.start(spec, "--no-report")
    wait_for(lambda: "waiting for it" in second.written()[1] or second.poll() is not None)
    assert second.poll() is None, "it ended without waiting"
    (profiler.folder / "go").touch()
    assert finish(first)[0] == 0
    code, _, err = finish(second)
    assert code == 0
    assert "nothing is missing" in err
    (run,) = profiler.runs()
    (attempt,) = attempts(run)
    assert len(visits_of(attempt)) == 8
    assert "samples.csv" in {file.name for file in run.iterdir()}
