"""A damaged file of one attempt, or another run's record, stops nothing and is named."""

import gzip
import io
import json
from dataclasses import replace

import pytest
from damage import damaged_versions
from rich.console import Console

from profiler.errors import ProfilerError, UsageError
from profiler.findings.find import find
from profiler.machine.requirements import Machine
from profiler.model import Problem, Variant
from profiler.notices import text
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import AttemptResult
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.attempts import AttemptReader
from profiler.run_folder.load.outcomes import failures, gather
from profiler.run_folder.load.throttling import throttled_again
from profiler.run_folder.recording import write_recording
from profiler.run_folder.runs import create_run, resumable, runs
from profiler.sessions.builds.plan_builds import build_all
from profiler.sessions.measure import MeasureRequest, measure
from profiler.sessions.progress import ProgressReporter

BUDGET = 12
CLOCKS = "time_s,sm_mhz,memory_mhz,reasons,temperature_c,power_w\n" + "".join(
    f"{second}.5,1980,2619,4,50,300\n" for second in range(40)
)
ATTEMPT_FILES = ("session.json", "result.json", "kernels.json", "clocks.csv.gz", "command.txt")


@pytest.fixture
def folder(place):
    """The second of two attempts that measured everything."""
    place.measure_all()
    visits = place.visits("ncu-timing")
    folder = place.attempt(
        visits=visits[:2], result=AttemptResult("died", 1.0, {visits[1][0]: ("crashed", "signal")})
    )
    (folder / "clocks.csv.gz").write_bytes(gzip.compress(CLOCKS.encode()))
    return folder


def load(place, attempt):
    return AttemptReader().load(attempt, place.keys, place.environment.compute_capability)


def notices_of(place):
    findings = find(assemble(place.run, place.loaded, place.plan))
    return [text(notice) for notice in findings.notices]


def resume(place, created="2026-03-04T09:00:00+00:00"):
    """Go on with the run; gives what was said. The tool is none: nothing may be left to measure."""
    console = Console(file=io.StringIO(), width=300)
    request = MeasureRequest(
        loaded=place.loaded,
        plan=place.plan,
        space=place.space,
        machine=Machine(place.environment, None, "cpu"),
        out=place.folder / "reports",
        fresh=False,
        created=created,
    )
    reporter = ProgressReporter(console, console)
    run = measure(request, build_all(request, reporter), reporter)
    return run, console.file.getvalue()


@pytest.mark.parametrize("name", ATTEMPT_FILES)
def test_no_damage_to_a_file_of_an_attempt_stops_reading(place, folder, name):
    path = folder / name
    content = path.read_bytes()
    others = [load(place, attempt) for attempt in place.run.attempts() if attempt.folder != folder]
    for damaged in damaged_versions(content, BUDGET):
        path.write_bytes(damaged)
        of_attempt = [
            load(place, attempt) for attempt in place.run.attempts() if attempt.folder == folder
        ]
        assert len(of_attempt) == (0 if folder.name in place.run.list_attempts().damaged else 1)
        assert failures(place.plan, of_attempt).keys() <= place.keys.keys()
        assert throttled_again(place.plan, "ncu-timing", of_attempt) == set()
    results = gather(place.plan, place.builds, [*others, *of_attempt], place.environment)
    assert len(results.statuses) == len(place.cells)


def test_no_damage_to_a_run_record_is_more_than_a_message(place):
    path = place.run.path / "run.json"
    refused = 0
    for damaged in damaged_versions(path.read_bytes(), 100):
        path.write_bytes(damaged)
        try:
            record = place.run.record()
            assert all(isinstance(key, str) for key in record.keys.values())
        except UsageError:
            refused += 1
        resumable(place.folder / "reports", "sums", place.keys)
    assert refused > 48


@pytest.mark.parametrize("name", ["plan.json", "build.json"])
def test_no_damage_to_a_plan_is_more_than_a_message(place, folder, name):
    path = place.run.path / name
    for damaged in damaged_versions(path.read_bytes(), 24):
        path.write_bytes(damaged)
        try:
            plan = place.run.plan()
            place.run.builds()
        except ProfilerError:
            continue
        assert isinstance(plan.cells, tuple)


OTHER = {"variant": Variant("plain", "plain", {"a": 1}), "problem": Problem("small", "small")}


@pytest.mark.parametrize("part", ["id", "variant", "problem"])
def test_a_plan_in_which_an_id_stands_for_two_things_is_damaged(place, part):
    plan = place.run.plan()
    again = replace(plan.cells[0], **{"id": "x", part: OTHER.get(part, plan.cells[0].id)})
    place.run.write_plan(replace(plan, cells=(*plan.cells, again)))
    with pytest.raises(UsageError, match=r"plan\.json: damaged: the cell 'plain\.\.small'"):
        place.run.plan()


@pytest.mark.parametrize("name", ATTEMPT_FILES)
def test_the_attempt_of_a_damaged_file_is_named_and_the_rest_is_used(place, name):
    place.measure_all()
    folder = place.attempt(visits=place.visits("ncu-timing")[:2])
    (folder / name).write_bytes(b"\xff\x00 damaged")
    notices = notices_of(place)
    assert any(folder.name in line and "damaged" in line for line in notices), notices
    statuses = assemble(place.run, place.loaded, place.plan).statuses
    assert {status.outcome for status in statuses.values()} == {"measured"}


def test_a_journal_that_is_gone_is_said(place):
    place.measure_all()
    (place.run.path / "raw/ncu-timing.001/journal.jsonl").unlink()
    assert any(text.startswith("ncu-timing.001/journal.jsonl: ") for text in notices_of(place))


@pytest.mark.parametrize("name", ATTEMPT_FILES)
def test_resume_goes_on_beside_a_damaged_file(place, name):
    place.measure_all()
    folder = place.attempt(visits=place.visits("ncu-timing")[:2])
    (folder / name).write_bytes(b"\xff\x00 damaged")
    run, output = resume(place)
    assert run == place.run
    assert output.count("nothing is missing") == len(place.plan.sessions)


@pytest.mark.parametrize("lose", [lambda file: file.write_text("{"), lambda file: file.unlink()])
def test_of_an_attempt_whose_record_is_lost_nothing_counts(place, lose):
    for session in place.plan.sessions[1:]:
        place.attempt(session.name)
    folder = place.attempt(place.plan.sessions[0].name)
    lose(folder / "session.json")
    assert place.run.list_attempts().damaged == (folder.name,)
    assert folder not in [attempt.folder for attempt in place.run.attempts()]


def test_kernels_are_checked_again_and_a_csv_damaged_as_well_blames_nobody(place):
    place.measure_all()
    folder = place.run.path / "raw/ncu-timing.001"
    (folder / "kernels.json").write_text("[")
    (folder / "ncu.csv.gz").write_bytes(b"")
    statuses = assemble(place.run, place.loaded, place.plan).statuses
    assert "no_kernel" not in {status.outcome for status in statuses.values()}
    place.check_kernels(folder)
    assert json.loads((folder / "kernels.json").read_text())["no_kernel"] == []


def test_another_run_with_an_odd_record_is_passed_over_and_named(place):
    place.measure_all()
    other = create_run(place.folder / "reports", "sums", "2027-01-01T00:00:00+00:00")
    (other.path / "run.json").write_text('{"schema_version": 1, "keys": []}')
    run, output = resume(place)
    assert run == place.run
    assert f"Passed over: {other.path}" in output
    assert len(runs(place.folder / "reports", "sums")) == 2


def test_a_recording_is_made_of_what_is_whole(place, tmp_path):
    place.measure_all()
    folder = place.attempt(visits=place.visits("ncu-timing")[:2])
    (folder / "command.txt").unlink()
    (folder / "command.txt").mkdir()
    (folder / "result.json").write_text("{")
    (folder / "journal.jsonl.gz").write_bytes(b"no gzip")
    (folder / "journal.jsonl").unlink(missing_ok=True)
    left_out = []
    path = write_recording(place.run, tmp_path / "recording.zip", [], left_out=left_out)
    recording = open_run(path)
    assert left_out == [f"raw/{folder.name}/journal.jsonl"]
    recorded = {file.name for file in (recording.path / "raw" / folder.name).iterdir()}
    assert "session.json" in recorded
    assert not {"command.txt", "result.json"} & recorded


@pytest.mark.parametrize("name", ["plan.json", "spec.yaml"])
def test_without_what_a_recording_cannot_be_read_without_none_is_made(place, tmp_path, name):
    place.measure_all()
    for path in place.run.path.glob(f"{name}*"):
        path.unlink()
    (place.run.path / name).symlink_to("/etc/hostname")
    with pytest.raises(UsageError, match=rf"{name}: is absent, or a link"):
        write_recording(place.run, tmp_path / "recording.zip", [])
    assert not list(tmp_path.glob("*.zip"))
