"""A run folder and a recording are data: nothing that they name is imported or followed."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from run_folders import SPEC, Workplace

from profiler.commands.compare import CompareRequest, show_comparison
from profiler.commands.report import ReportRequest, rebuild_report
from profiler.errors import UsageError
from profiler.run_folder.archive import open_run
from profiler.run_folder.folder import RunFolder
from profiler.run_folder.recording import write_recording

pytestmark = pytest.mark.usefixtures("undrawn")
EVIL = """\
from pathlib import Path
Path({marker!r}).touch()
def check_kernels(variant, problem, kernels):
    return "evil"
"""


@pytest.fixture(params=["run", "recording"])
def folder(request, tmp_path):
    """A measured run, or a recording of it; its workload is gone."""
    place = Workplace(tmp_path / "place")
    place.measure_all()
    (place.folder / "workload.py").unlink()
    if request.param == "run":
        return place.run.path
    recording = open_run(write_recording(place.run, tmp_path / "sums.zip", []))
    return Path(shutil.copytree(recording.path, tmp_path / "recordings/sums"))


AS_A_RUN = pytest.mark.parametrize("folder", ["run"], indirect=True)
"""A recording is read as a run folder is, of which it is a copy."""


def look(folder, tmp_path, monkeypatch):
    """Report and compare, in a folder whose modules Python would find; gives the report's JSON."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    target = tmp_path / "out/it.json"
    rebuild_report(ReportRequest(folder, tmp_path / "out", json_target=str(target), color="never"))
    other = write_recording(RunFolder(folder), tmp_path / "other.zip", [])
    show_comparison(
        CompareRequest(
            (str(folder), str(other)), reports=tmp_path / "out", no_report=True, color="never"
        )
    )
    return json.loads(target.read_text())


def as_before(document):
    return {cell["outcome"] for cell in document["cells"]} == {"measured"}


@pytest.mark.parametrize(
    ("folder", "workload", "file"),
    [
        ("run", "{module: profiler.kernels.cuda_file, space: ./evil.py}", "evil.py"),
        ("run", "{module: profiler.kernels.cuda_file, space: ../evil.py}", "../evil.py"),
        ("run", "{module: evil_package}", None),
        ("recording", "{module: profiler.kernels.cuda_file, space: evil_package.space}", None),
    ],
    indirect=["folder"],
)
def test_what_a_spec_names_is_not_executed(folder, tmp_path, monkeypatch, workload, file):
    marker = tmp_path / "executed"
    package = tmp_path / "evil_package"
    package.mkdir()
    files = [package / name for name in ("__init__.py", "space.py", "workload.py")]
    for path in [*files, *([folder / file] if file else [])]:
        path.write_text(EVIL.format(marker=str(marker)))
    (folder / "spec.yaml").write_text(SPEC.replace("./workload.py", workload))
    assert as_before(look(folder, tmp_path, monkeypatch))
    assert not marker.exists()
    assert "evil_package" not in sys.modules


@AS_A_RUN
def test_nor_is_what_overrides_name(folder, tmp_path, monkeypatch):
    marker = tmp_path / "executed"
    (folder / "evil.py").write_text(EVIL.format(marker=str(marker)))
    (tmp_path / "evil.py").write_text(EVIL.format(marker=str(marker)))
    record = json.loads((folder / "run.json").read_text())
    workload = "workload={module: profiler.kernels.cuda_file, space: ./evil.py}"
    (folder / "run.json").write_text(json.dumps({**record, "overrides": [workload]}))
    assert as_before(look(folder, tmp_path, monkeypatch))
    assert not marker.exists()


@AS_A_RUN
def test_a_linked_file_of_an_attempt_is_not_read_and_the_attempt_is_named(
    folder, tmp_path, monkeypatch
):
    secret = tmp_path / "secret"
    secret.write_text("hidden words")
    command = folder / "raw/ncu-counters.001/command.txt"
    command.unlink()
    command.symlink_to(secret)
    document = look(folder, tmp_path, monkeypatch)
    (notice,) = (one for one in document["notices"] if one["kind"] == "attempt_linked")
    assert notice["text"].startswith("ncu-counters.001 was not read: it is or holds a link")
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not any(b"hidden words" in path.read_bytes() for path in written)
    assert not (folder / "index.html").exists() or "hidden words" not in (
        folder / "index.html"
    ).read_text("utf-8")


@AS_A_RUN
def test_a_linked_attempt_is_not_read(folder, tmp_path, monkeypatch):
    moved = (folder / "raw/ncu-timing.001").rename(tmp_path / "moved")
    (folder / "raw/ncu-timing.001").symlink_to(moved)
    document = look(folder, tmp_path, monkeypatch)
    assert {cell["outcome"] for cell in document["cells"]} == {"measured"}
    assert "attempt_linked" in {one["kind"] for one in document["notices"]}
    assert {"registers", "l2_bytes"} & document["cells"][0]["metrics"].keys() == {"l2_bytes"}


@AS_A_RUN
@pytest.mark.parametrize("name", ["run.json", "spec.yaml", "raw"])
def test_a_link_in_place_of_the_rest_is_refused(folder, tmp_path, monkeypatch, name):
    moved = (folder / name).rename(tmp_path / "moved")
    (folder / name).symlink_to(moved)
    with pytest.raises(UsageError, match=rf"{name}: is a link, and links in a run folder"):
        look(folder, tmp_path, monkeypatch)
