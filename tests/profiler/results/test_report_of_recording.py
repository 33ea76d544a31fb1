"""`profiler report` of a recording: the page of its own cells, and the recording stays as it is."""

import json
from pathlib import Path

import pytest

from profiler.commands import rebuild_report
from profiler.errors import ExitCode
from profiler.results.planned import is_recording, plan_of
from profiler.spec import load_spec
from profiler.store import RunFolder

RECORDING = Path(__file__).parents[3] / "experiments/recordings/async_copy"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    before = {file: file.stat().st_mtime_ns for file in RECORDING.rglob("*")}
    code = rebuild_report(RECORDING, out=folder, json_target=str(folder / "it.json"), color="never")
    after = {file: file.stat().st_mtime_ns for file in RECORDING.rglob("*")}
    return folder, code, before == after


def test_the_page_goes_to_a_folder_of_its_own(made):
    folder, code, untouched = made
    assert code == ExitCode.COMPLETE
    assert untouched
    (target,) = (folder / "async_copy").iterdir()
    page = (target / "index.html").read_text()
    assert "Replayed recording: measured on" in page
    assert (target / "summary.json").exists()


def test_it_has_the_cells_that_were_recorded(made):
    folder, _, _ = made
    document = json.loads((folder / "it.json").read_text())
    record = RunFolder(RECORDING).record()
    assert {cell["id"] for cell in document["cells"]} == set(record.keys)
    assert {cell["outcome"] for cell in document["cells"]} <= {"measured", "duplicate"}
    assert document["replayed"]["when"] == record.created
    assert document["notices"][0]["kind"] == "replayed"


def test_the_plan_of_a_run_folder_is_its_own(tmp_path):
    run = RunFolder(RECORDING)
    record = run.record()
    plan = plan_of(run, load_spec(RECORDING / "spec.yaml", overrides=record.overrides), record)
    assert is_recording(run)
    copy = RunFolder(tmp_path / "run")
    copy.write_record(record)
    copy.write_plan(plan)
    assert not is_recording(copy)
    assert plan_of(copy, load_spec(RECORDING / "spec.yaml"), record) == plan
    assert not is_recording(RunFolder(tmp_path))
