"""Whole live runs with timelines: the command line, the runner, and the stand-in for nsys."""

import csv
import gzip
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from whole_runs import SECRET, TESTS, attempts, unpacked, visits_of, wait_for

from profiler.analyse.clocks import THROTTLING, measured_visits
from profiler.parse.runner_journal import read_journal
from profiler.planning.spec import load_spec
from profiler.run_folder.archive import open_run
from profiler.run_folder.load.assemble import assemble

ENDINGS = str(TESTS / "workloads/endings.py")
LAUNCHES = 3
CLEANED = {"operations.csv.gz", "ranges.csv.gz", "api.csv.gz", "timeline.json"}


def write_spec(profiler, names=("well", "also well"), **collect):
    few = {"device": "cpu", "blocks": 2, "warmups": 0, "repeats": 2, "metrics": ["duration_ns"]}
    kinds = {"collectors": ["timer", "nsys"], "timeline": {"launches": LAUNCHES}}
    settings = {**few, **kinds, **collect}
    variants = {"list": [{"name": name, "params": {"how": name}} for name in names]}
    problems = {"matrix": {"rows": [4]}}
    return profiler.write_spec(
        workload=ENDINGS, variants=variants, problems=problems, collect=settings
    )


def samples(run, collector):
    with (run / "samples.csv").open(newline="") as stream:
        return [row for row in csv.DictReader(stream) if row["collector"] == collector]


def report_of(run, spec, **arguments):
    folder, loaded = open_run(run), load_spec(spec)
    return assemble(folder, loaded, folder.plan(), **arguments)


def attempts_of(run, session):
    return [folder for folder in attempts(run) if folder.name.rpartition(".")[0] == session]


def content(file):
    """Bytes of a file, unpacked where it is packed."""
    found = file.read_bytes()
    return gzip.decompress(found) if file.suffix == ".gz" else found


def files_with(folder, text):
    """Files below a folder that hold a text in their content or their name."""
    return {
        file.relative_to(folder)
        for file in folder.rglob("*")
        if file.is_file() and (text.encode() in content(file) or text in file.name)
    }


@pytest.fixture(scope="module")
def good(tmp_path_factory, command_line):
    """A finished run under a timer and nsys, with its page: command line, spec, what it said."""
    profiler = command_line(tmp_path_factory.mktemp("timelines"))
    spec = write_spec(profiler)
    return profiler, spec, profiler(spec, "--json", "-")


def test_a_run_leaves_cleaned_files_beside_the_tools_own(good):
    profiler, _, done = good
    assert done.code == 0, done.err
    (attempt,) = attempts_of(profiler.runs()[-1], "nsys")
    assert {file.name for file in attempt.iterdir()} >= CLEANED
    private = {file.name for file in (attempt / "private").iterdir()}
    assert private == {"README.txt", "report.nsys-rep.gz", "timeline.sqlite.gz"}
    assert (attempt / "private").stat().st_mode & 0o077 == 0, "for nobody else on the machine"
    facts = json.loads((attempt / "timeline.json").read_text())
    assert (facts["collector"], facts["device"], facts["tool"]) == ("nsys", "cpu", "2025.3.2.0")
    environment = json.loads((profiler.runs()[-1] / "run.json").read_text())["environment"]
    assert environment["nsys"] == "2025.3.2.0"
    # The set-up lies before the first visit.
    assert b"set_up_kernel" in content(attempt / "private/timeline.sqlite.gz")
    assert b"set_up_kernel" not in content(attempt / "operations.csv.gz")
    assert content(attempt / "operations.csv.gz").count(b"\nkernel,") == 2 * 2 * LAUNCHES


def test_launches_are_samples_beside_those_that_are_judged(good):
    profiler, _, done = good
    run = profiler.runs()[-1]
    rows = samples(run, "nsys")
    assert {row["kind"] for row in rows} == {"timeline"}
    assert sorted(row["repeat"] for row in rows) == sorted(2 * [str(n) for n in range(LAUNCHES)])
    assert {row["kernels"] for row in rows} == {"2.0"}
    assert {row["kernel_names"] for row in rows if row["cell"].startswith("well")} == {
        "well_first; well_second"
    }
    for cell in done.json["cells"]:
        assert cell["metrics"]["nsys_duration_ns"]["n"] == 1
        assert cell["metrics"]["duration_ns"]["n"] == 2, "that of the timer"


def test_a_report_has_the_timeline_of_each_cell(good):
    profiler, spec, _ = good
    report = report_of(profiler.runs()[-1], spec)
    assert set(report.details.timelines) == {cell.id for cell in report.plan.cells}
    found = next(each for cell, each in report.details.timelines.items() if cell.startswith("well"))
    assert (found.collector, found.launches, len(found.operators)) == ("nsys", LAUNCHES, 0)
    names = found.ranges["name"].tolist()
    assert names.count("inner part") == LAUNCHES
    assert found.ranges["start_ns"].min() == 0
    assert names[0].startswith("cell=well..")
    assert set(found.operations["kind"]) == {"kernel", "memset"}
    # Each operation knows the ranges around it: visit, launch, part.
    depth = found.stacks["depth"].to_numpy()[found.operations["stack"].to_numpy()]
    assert set(depth) == {3}


def test_the_timeline_of_a_visit_that_was_made_again_is_the_one_that_counts(good, tmp_path):
    profiler, spec, _ = good
    run = tmp_path / "run"
    shutil.copytree(profiler.runs()[-1], run)
    first = run / "raw/nsys.001"
    shutil.copytree(first, run / "raw/nsys.002")
    timelines = report_of(run, spec).details.timelines
    shown = {timeline.originals[0] for timeline in timelines.values()}
    assert shown == {"raw/nsys.001/private/report.nsys-rep.gz"}
    assert (run / shown.pop()).exists()
    visits = measured_visits(read_journal(first / "journal.jsonl"))
    problem = next(iter(timelines))
    slow = visits[visits["cell"] == problem]["start_s"].tolist()
    header = "time_s,sm_mhz,memory_mhz,reasons,temperature_c,power_w"
    rows = [f"{when},1200,3000,{THROTTLING.value},90,500" for when in slow]
    (first / "clocks.csv").write_text("\n".join([header, *rows, ""]))
    timelines = report_of(run, spec).details.timelines
    assert {timeline.originals[0] for timeline in timelines.values()} == {
        "raw/nsys.002/private/report.nsys-rep.gz"
    }, "a throttled visit takes its block with it"


def test_the_same_command_records_nothing_again_and_other_settings_only_timelines(good):
    profiler, spec, _ = good
    run = profiler.runs()[-1]
    before = {folder.name for folder in attempts(run)}
    again = profiler.measure(spec)
    assert again.code == 0, again.err
    assert {folder.name for folder in attempts(run)} == before
    launches = ("--set", "collect.timeline.launches=2")
    planned = profiler("plan", spec, *launches, "--json", "-").json["sessions"]
    left = {each["name"]: each["visits"] - each["measured"] for each in planned}
    assert [name for name, visits in left.items() if visits] == ["nsys"]
    more = profiler.measure(spec, *launches)
    assert more.code == 0, more.err
    assert profiler.runs()[-1] == run
    assert {folder.name for folder in attempts(run)} - before == {"nsys.002"}
    assert len(samples(run, "nsys")) == 2 * 2
    # And back: what was recorded first is still there.
    assert profiler.measure(spec).code == 0
    assert len(samples(run, "nsys")) == 2 * LAUNCHES
    assert len(attempts_of(run, "nsys")) == 2


def tables_with(export, text):
    """Tables of a packed SQLite file that hold a text."""
    plain = export.parent / "unpacked.sqlite"
    plain.write_bytes(content(export))
    try:
        with closing(sqlite3.connect(plain)) as connection:
            names = [n for (n,) in connection.execute("SELECT name FROM sqlite_master")]
            return {n for n in names if text in str([*connection.execute(f"SELECT * FROM {n}")])}  # noqa: S608 - its own tables
    finally:
        plain.unlink()


def test_nothing_outside_the_private_folder_has_the_environment(good):
    profiler, _, _ = good
    (export,) = profiler.runs()[-1].glob("raw/nsys.001/private/timeline.sqlite.gz")
    assert tables_with(export, SECRET) == {
        "META_DATA_CAPTURE",
        "TARGET_INFO_SYSTEM_ENV",
        "StringIds",
    }
    run, archive = profiler.runs()[-1], profiler.folder / "recorded.zip"
    assert profiler("record", run, archive).code == 0
    recording = unpacked(archive)
    assert profiler("report", run, "--json", profiler.folder / "again.json").code == 0
    found = files_with(run, SECRET)
    of_tools = {"report.nsys-rep.gz", "timeline.sqlite.gz"}
    assert {file.name for file in found} == {*of_tools, "machine.json"}
    assert all(file.parent.name == "private" for file in found)
    assert files_with(recording, SECRET) == set()
    assert SECRET.encode() not in content(profiler.folder / "again.json")
    names = {file.name for file in recording.rglob("*") if file.is_file()}
    assert names >= CLEANED
    assert not [path for path in recording.rglob("*") if path.name == "private"]
    assert not names & {"report.nsys-rep.gz", "timeline.sqlite.gz", "README.txt"}


def test_a_recording_tells_what_the_run_told(good):
    profiler, spec, _ = good
    run, recording = profiler.runs()[-1], profiler.folder / "told.zip"
    assert profiler("record", run, recording).code == 0
    live = report_of(run, spec)
    replayed = report_of(recording, spec, replay=True)
    assert set(replayed.details.timelines) == set(live.details.timelines)
    for cell, timeline in live.details.timelines.items():
        other = replayed.details.timelines[cell]
        for name in ("operations", "ranges", "stacks", "api"):
            assert getattr(other, name).equals(getattr(timeline, name)), name
    assert replayed.measured.samples.equals(live.measured.samples)


# ---- torch.profiler ------------------------------------------------------------------------------


def test_torch_records_the_operators_of_a_launch(profiler):
    spec = write_spec(profiler, ["well"], collectors=["timer", "torch"])
    done = profiler.measure(spec, "--json", "-")
    assert done.code == 0, done.err
    (attempt,) = attempts_of(profiler.runs()[-1], "torch")
    assert {file.name for file in attempt.iterdir()} >= CLEANED
    assert {file.name for file in (attempt / "private").iterdir()} == {
        "README.txt",
        "trace.0.json.gz",
    }
    (cell,) = done.json["cells"]
    assert cell["metrics"]["torch_duration_ns"]["median"] > 0
    (found,) = report_of(profiler.runs()[-1], spec).details.timelines.values()
    assert (found.collector, found.launches) == ("torch", LAUNCHES)
    assert "aten::sum" in set(found.operators["name"])
    assert all(isinstance(stack, tuple) for stack in found.operators["stack"])
    # A trace holds every frame of Python, with its file.
    trace = content(attempt / "private/trace.0.json.gz")
    assert b"endings.py(" in trace
    assert b"traceName" in trace
    for name in CLEANED:
        assert b".py" not in content(attempt / name), name
    stacks = [stack for stack in found.operators["stack"] if stack]
    assert stacks
    assert not [frame for stack in stacks for frame in stack if "/" in frame]
    assert profiler.measure(spec).code == 0
    assert len(attempts_of(profiler.runs()[-1], "torch")) == 1


# ---- --timeline, commands, windows ---------------------------------------------------------------


def test_the_flag_records_finalists_and_baseline_after_the_timing(profiler):
    spec = write_spec(
        profiler, ["well", "quick", "slow"], collectors=["ncu"], blocks=6, final_blocks=0
    )
    times = {"FAKE_NCU_TIMES": "well=20000,quick=10000,slow=90000"}
    first = profiler.measure(spec, **times)
    assert first.code == 0, first.err
    run = profiler.runs()[-1]
    assert not attempts_of(run, "nsys")
    done = profiler.measure(spec, "--timeline", **times)
    assert done.code == 0, done.err
    assert profiler.runs() == [run]
    (attempt,) = attempts_of(run, "nsys")
    assert {cell.partition("..")[0] for cell, _, _ in visits_of(attempt)} == {"well", "quick"}
    assert len(attempts_of(run, "ncu-timing")) == 1


def test_a_command_is_one_process_a_visit(profiler):
    program = profiler.folder / "mine.sh"
    program.write_text("#!/bin/sh\necho $1\n")
    program.chmod(0o755)
    spec = profiler.write_spec(
        workload={"command": "./mine.sh {variant}"},
        variants={"list": ["one", "two"]},
        collect={"device": "cpu", "collectors": ["nsys"]},
    )
    done = profiler.measure(spec, "--json", "-", FAKE_NSYS_KERNELS="sgemm,sgemm,init")
    assert done.code == 0, done.err
    run = profiler.runs()[-1]
    assert len(attempts_of(run, "nsys")) == 2
    assert "--capture-range" not in (attempts_of(run, "nsys")[0] / "command.txt").read_text()
    seen = {cell["id"].partition("..default..")[2] for cell in done.json["cells"]}
    assert len(seen) == 3, "the set-up, too: of a program everything counts"
    repeats = [row["repeat"] for row in samples(run, "nsys") if "sgemm" in row["kernel_names"]]
    assert sorted(repeats) == ["0", "0", "1", "1"]
    timelines = report_of(run, spec).details.timelines
    assert {timeline.launches for timeline in timelines.values()} == {0}
    assert {len(timeline.operations) for timeline in timelines.values()} == {4}


def test_of_a_command_a_timeline_adds_no_kernels_to_those_that_were_asked_for(profiler):
    program = profiler.folder / "mine.sh"
    program.write_text("#!/bin/sh\necho $1\n")
    program.chmod(0o755)
    spec = profiler.write_spec(
        workload={"command": "./mine.sh {variant}", "kernel": "sgemm"},
        variants={"list": ["one"]},
        collect={
            "device": "cpu",
            "blocks": 1,
            "collectors": ["nsys", "ncu"],
            "metrics": ["duration_ns"],
        },
    )
    kernels = {"FAKE_NCU_KERNELS": "init,sgemm", "FAKE_NSYS_KERNELS": "init,sgemm"}
    done = profiler.measure(spec, "--json", "-", **kernels)
    assert done.code == 0, done.err
    (cell,) = done.json["cells"]
    assert {"duration_ns", "nsys_duration_ns"} <= cell["metrics"].keys()
    (timeline,) = report_of(profiler.runs()[-1], spec).details.timelines.values()
    assert sorted(timeline.operations["name"]) == ["init", "set_up_kernel", "sgemm"]


def test_a_window_of_ones_own_is_one_visit_a_process(profiler):
    spec = write_spec(
        profiler, collectors=["nsys"], timeline={"launches": 2, "capture": "part@app"}
    )
    done = profiler.measure(spec)
    assert done.code == 0, done.err
    folders = attempts_of(profiler.runs()[-1], "nsys")
    assert [len(visits_of(folder)) for folder in folders] == [1, 1]
    command = (folders[0] / "command.txt").read_text()
    assert "--capture-range=nvtx --nvtx-capture=part@app --capture-range-end=stop" in command
    assert len(report_of(profiler.runs()[-1], spec).details.timelines) == 2


def test_a_plan_shows_the_sessions_of_timelines(profiler):
    spec = write_spec(profiler, collectors=["torch", "nsys", "timer"])
    found = profiler("plan", spec, "--json", "-").json["sessions"]
    assert [(each["name"], each["kind"], each["visits"]) for each in found] == [
        ("timer", "timing", 6),
        ("torch", "timeline", 2),
        ("nsys", "timeline", 2),
    ]


# ---- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"PROFILER_NSYS": "/nowhere/nsys"}, ["/nowhere/nsys"]),
        ({"FAKE_NSYS_MODE": "old_version"}, ["2020.5.1.85 is too old", "PROFILER_NSYS"]),
        ({"FAKE_NSYS_IMPORTER": "no_library"}, ["libdw.so.1", "apt-get install libdw1"]),
    ],
)
def test_an_nsys_that_cannot_work_is_refused_before_anything_is_measured(
    profiler, environment, words
):
    done = profiler.measure(write_spec(profiler), "--live", **environment)
    assert done.code == 3
    assert all(word in done.err for word in words), done.err
    assert "Remedy: " in done.err
    assert not profiler.runs()


def test_what_fails_in_the_session_keeps_the_results_of_others(profiler):
    spec = write_spec(profiler)
    for mode, words in (
        ("no_report", "nsys wrote no report"),
        ("no_importer", "its importer does not start"),
        ("export_fails", "Failed to open the report"),
    ):
        done = profiler.measure(spec, FAKE_NSYS_MODE=mode)
        assert done.code == 3, mode
        assert words in done.err
        (run,) = profiler.runs()
        (timed,) = attempts_of(run, "timer")
        assert len(visits_of(timed)) == 6
        assert files_with(run, SECRET) <= {
            file.relative_to(run) for file in run.rglob("private/*") if file.is_file()
        }
    assert profiler("report", run).code == 0, "the page of what there is"
    # A report that is there is not recorded once more.
    recorded = attempts_of(run, "nsys")
    again = profiler.measure(spec)
    assert again.code == 0, again.err
    assert attempts_of(run, "nsys") == recorded
    assert attempts_of(run, "timer") == [timed]
    assert len(recorded) == 3
    assert len(samples(run, "nsys")) == 2 * LAUNCHES


def test_a_killed_nsys_costs_what_it_recorded_and_nothing_else(profiler):
    spec = write_spec(profiler)
    done = profiler.measure(spec, FAKE_NSYS_DIE_AFTER="2")
    assert done.code == 3
    assert "killed by SIGKILL" in done.err
    (run,) = profiler.runs()
    assert len(visits_of(attempts_of(run, "timer")[0])) == 6
    assert report_of(run, spec).details.timelines == {}
    assert profiler.measure(spec).code == 0
    assert len(attempts_of(run, "timer")) == 1
    assert len(report_of(run, spec).details.timelines) == 2


def test_a_variant_that_crashes_leaves_the_timelines_of_the_others(profiler):
    spec = write_spec(profiler, ["well", "segfault", "also well"], collectors=["nsys"])
    done = profiler.measure(spec)
    assert done.code == 4, done.err
    run = profiler.runs()[-1]
    found = {
        cell.partition("..")[0].partition("-")[0] for cell in report_of(run, spec).details.timelines
    }
    assert found == {"well", "also_well"}


def test_a_killed_profiler_goes_on_with_the_visits_that_nsys_has(profiler):
    names = ["well", "second", "third"]
    spec = write_spec(profiler, names, collectors=["nsys"], timeline={"launches": 1})
    # The check launches each twice; then the first visit is made, and the second stands still.
    stop = {"endings_stop_after": str(2 * len(names) + 1)}
    process = profiler.start(spec, "--no-report", **stop)
    try:
        (journal,) = wait_for(lambda: [*profiler.folder.glob("reports/*/*/raw/*/journal.jsonl")])
        wait_for(lambda: len(visits_of(journal.parent)) == 1)
    finally:
        process.kill()
    first = journal.parent
    run = first.parent.parent
    process.communicate(timeout=60)
    wait_for((first / "private/report.nsys-rep").exists)
    assert not (first / "timeline.json").exists()
    assert profiler.measure(spec).code == 0
    assert len(visits_of(run / "raw/nsys.002")) == 2, "the visit that nsys has is not made again"
    assert len(report_of(run, spec).details.timelines) == 3


def test_a_damaged_table_is_said_and_the_rest_is_shown(good, tmp_path):
    profiler, spec, _ = good
    run = tmp_path / "copy"
    shutil.copytree(profiler.runs()[-1], run)
    for attempt in attempts_of(run, "nsys"):
        (attempt / "operations.csv.gz").write_bytes(b"nothing of the kind")
    report = report_of(run, Path(spec))
    assert report.details.timelines == {}
    assert len(report.measured.samples)
    assert [n for n in report.notices if n.values.get("file") == "nsys.001/timeline.json"]


def test_who_asks_for_a_timeline_gets_no_replay(profiler, good):
    _, spec, _ = good
    done = profiler.measure(spec, "--timeline", "--replay", good[0].folder / "recorded")
    assert done.code == 2
    assert "leave one of them out" in done.err
