"""Who measured where is found in nothing that is shared, whoever reads or records it, and where."""

import getpass
import gzip
import json
import shutil
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from run_folders import Workplace, failed, measured, ncu_csv

from profiler.commands.output import dump, report_document, write_results
from profiler.commands.report import make_recording
from profiler.commands.requests import RecordRequest
from profiler.comparison.programs import Machines, machines_of
from profiler.findings.find import find
from profiler.model import BuildResult
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import AttemptResult, RunFolder
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.redact import MACHINE_FILE, public_environment

HOST, USER, UUID = "node7.lab.example", "ada", "GPU-00001111-2222-3333-4444-555566667777"
WORDS = f"cannot reach node7 or {HOST}:22 as {USER}@node7 on {UUID}, not adamant: {{folder}}/x.cu"


def become(monkeypatch, host, user, home):
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    monkeypatch.setattr(getpass, "getuser", lambda: user)
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture
def moved(tmp_path, monkeypatch):
    """A run that ada measured and another user has copied elsewhere; and its old folder."""
    become(monkeypatch, HOST, USER, tmp_path / "ada")
    place = Workplace(tmp_path / "ada/place")
    words = WORDS.format(folder=place.run.path)
    environment = replace(place.environment, gpu_uuid=UUID)
    place.run.note_machine(environment, 7, tmp_path / "ada/place")
    place.run.write_record(
        replace(place.run.record(), environment=public_environment(environment, 7))
    )
    place.run.write_builds([BuildResult("loop", ok=False, error=words)])
    visits = place.visits("ncu-timing")
    good = [visit for visit in visits if visit[0].startswith("plain")]
    place.attempt(
        visits=visits,
        journal=[*measured(good), failed("tree..small", "raised", words)],
        csv=f"==WARNING== {words}\n{ncu_csv(good, ['duration_ns']).replace('kernel_0', USER)}",
        result=AttemptResult("died", 1.0, {"tree..large": ("crashed", words)}),
    )
    elsewhere = tmp_path / "bob/copied"
    shutil.copytree(place.run.path, elsewhere)
    become(monkeypatch, "laptop", "bob", tmp_path / "bob")
    return replace_run(place, elsewhere), place.run.path


def replace_run(place, folder):
    place.run = RunFolder(folder)
    return place


def assert_nameless(text, old_folder):
    for private in (HOST, "node7", UUID, str(old_folder), str(old_folder.parents[3]), f"{USER}@"):
        assert private not in text
    assert f" as {USER}" not in text


def test_what_is_shown_names_nobody(moved, tmp_path):
    place, old_folder = moved
    findings = find(assemble(place.run, place.loaded, place.plan))
    page = write_results(findings, tmp_path / "shown")[1].read_text()
    document = dump(report_document(findings))
    for text in (page, document):
        assert_nameless(text, old_folder)
        assert "cannot reach HOST or HOST:22 as USER@HOST on gpu-" in text
        assert "not adamant: RUN/x.cu" in text


def test_a_recording_names_nobody_and_keeps_the_names_of_kernels(moved, tmp_path):
    place, old_folder = moved
    make_recording(RecordRequest(place.run.path, tmp_path / "recording.zip"))
    recording = open_run(tmp_path / "recording.zip")
    target = recording.path
    texts = {file.name: content(file) for file in target.rglob("*") if file.is_file()}
    assert not (target / MACHINE_FILE).exists()
    for text in texts.values():
        assert_nameless(text, old_folder)
    for name in ("result.json", "journal.jsonl.gz", "ncu.csv.gz", "build.json"):
        assert "as USER@HOST on gpu-" in texts[name]
    assert f'"{USER}(float *, int)"' in texts["ncu.csv.gz"]
    statuses = assemble(recording, place.loaded, place.plan).statuses
    assert statuses["tree..small"].cause.startswith("cannot reach HOST")
    assert statuses["plain..small"].outcome == "measured"


def content(file):
    packed = file.read_bytes()
    return (gzip.decompress(packed) if file.suffix == ".gz" else packed).decode()


def test_a_damaged_note_of_the_machine_is_no_error(moved):
    place, _ = moved
    for text in ("{", "[]", '{"folders": 1, "names": {"x": 2}}', ""):
        (place.run.path / MACHINE_FILE).write_text(text)
        assemble(place.run, place.loaded, place.plan)


def test_a_resumed_run_knows_both_machines(moved, tmp_path):
    place, _ = moved
    place.run.note_machine(place.environment, 7, Path("/data/specs"))
    note = json.loads((place.run.path / MACHINE_FILE).read_text())
    assert {HOST, "node7", USER, "laptop", "bob"} <= note["names"].keys()
    assert note["folders"]["/data/specs"] == "SPEC"


def test_names_that_anybody_has_stay_words(moved, monkeypatch, tmp_path):
    become(monkeypatch, "localhost", "root", tmp_path)
    place = Workplace(tmp_path / "root/place")
    visits = place.visits("ncu-timing")
    words = "only root may do that on localhost"
    place.attempt(visits=visits, journal=[failed("tree..small", "raised", words)])
    report = assemble(place.run, place.loaded, place.plan)
    assert report.statuses["tree..small"].cause == words


def test_gpus_are_told_apart_by_a_hash_and_an_older_record_is_read_as_one(place):
    environment = replace(place.environment, gpu_uuid=UUID)
    neighbour = replace(environment, gpu_uuid=UUID.replace("0000", "0001"))
    first, again = (public_environment(environment, 7) for _ in range(2))
    assert machines_of(first, again) is Machines.SAME
    assert machines_of(first, public_environment(neighbour, 7)) is Machines.OTHER_CHIP
    assert first.gpu_uuid != public_environment(environment, 8).gpu_uuid
    place.run.write_record(replace(place.run.record(), environment=environment, seed=7))
    assert place.run.record().environment == first
    assert public_environment(first, 7) == first
