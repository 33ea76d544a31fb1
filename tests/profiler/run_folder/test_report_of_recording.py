"""`profiler report` of a recording: the page of its own cells, and the recording stays as it is."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from profiler.commands.report import ReportRequest, rebuild_report
from profiler.errors import ExitCode
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder

RECORDING = Path(__file__).parents[3] / "experiments/recordings/transpose.zip"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    before = RECORDING.stat()
    code = rebuild_report(
        ReportRequest(RECORDING, folder, json_target=str(folder / "it.json"), color="never")
    )
    return folder, code, before.st_mtime_ns == RECORDING.stat().st_mtime_ns


def test_the_page_goes_to_a_folder_of_its_own(made):
    folder, code, untouched = made
    assert code == ExitCode.COMPLETE
    assert untouched
    (target,) = (folder / RECORDING.stem).iterdir()
    page = (target / "index.html").read_text()
    assert "Replayed recording: measured on" in page
    assert (target / "summary.json").exists()


def test_it_has_the_cells_that_were_recorded(made):
    folder, _, _ = made
    document = json.loads((folder / "it.json").read_text())
    record = open_run(RECORDING).record()
    assert {cell["id"] for cell in document["cells"]} == set(record.keys)
    assert {cell["outcome"] for cell in document["cells"]} <= {"measured", "duplicate"}
    assert document["replayed"]["when"] == record.created
    assert document["notices"][0]["kind"] == "replayed"


def test_the_plan_of_a_run_folder_is_its_own(tmp_path):
    run = open_run(RECORDING)
    plan = run.plan()
    assert run.is_recording()
    copy = RunFolder(tmp_path / "run")
    copy.write_record(replace(run.record(), recording=False))
    copy.write_plan(plan)
    assert not copy.is_recording()
    assert copy.plan() == plan


@pytest.mark.parametrize(
    "recording", sorted(RECORDING.parent.glob("*.zip")), ids=lambda file: file.stem
)
def test_every_recording_holds_its_plan_and_what_became_of_its_kernels(recording):
    run = open_run(recording)
    assert run.record().recording
    plan = run.plan()
    assert {cell.id for cell in plan.cells} == set(run.record().keys)
    assert {visit.cell for one in plan.sessions for visit in one.visits} <= set(run.record().keys)
    assert all(attempt.kernel_check is not None for attempt in run.attempts())


def damaged(tmp_path, change, name="timers"):
    """A copy of a recording that `change` was done to; gives it and a folder for the page."""
    copy = tmp_path / name
    shutil.copytree(open_run(RECORDING.with_name(f"{name}.zip")).path, copy)
    change(copy)
    return copy, tmp_path / "out"


def document_of(copy, out):
    request = ReportRequest(
        copy, out, json_target=str(out / "it.json"), verbose=True, color="never"
    )
    code = rebuild_report(request)
    return code, json.loads((out / "it.json").read_text())


@pytest.mark.usefixtures("undrawn")
def test_without_the_timer_that_was_to_be_judged_it_is_said_which_one_is(tmp_path, capsys):
    copy, out = damaged(tmp_path, lambda copy: shutil.rmtree(copy / "raw/ncu-timing.001"))
    _, document = document_of(copy, out)
    (notice,) = (one for one in document["notices"] if one["kind"] == "other_timer")
    assert notice["text"].startswith("Durations and verdicts are those of timer: ncu, which was")
    assert notice["text"] in " ".join(capsys.readouterr().err.split("\n"))
