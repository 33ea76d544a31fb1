"""What travels arrives as it was sent, or is refused."""

import io
import zipfile

import pytest

from profiler.cluster.parcels import content_hash, packed_run, unpacked_run
from profiler.errors import UsageError
from profiler.model import Environment
from profiler.run_folder.folder import AttemptRecord, RunFolder, RunRecord

RECORD = RunRecord("sums", "2026-03-04T10:00:00+00:00", 1, Environment(), {"cell": "key"})
SESSION = AttemptRecord("ncu-timing", "ncu", "timing", (), {})


@pytest.fixture
def run(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.write_record(RECORD)
    return run


@pytest.fixture
def arrives(tmp_path):
    (tmp_path / "arrives").mkdir()
    return tmp_path / "arrives"


def test_what_arrives_is_what_was_sent(run, arrives):
    attempt, other = run.new_attempt(SESSION), run.new_attempt(SESSION)
    (attempt / "ncu.csv.gz").write_bytes(b"\x1f\x8b")
    arrived = unpacked_run(packed_run(run, [attempt]), arrives)
    assert arrived.record() == RECORD
    (came,) = arrived.attempts()
    assert came.folder.name == attempt.name != other.name
    assert (came.folder / "ncu.csv.gz").read_bytes() == b"\x1f\x8b"
    assert [path.name for path in arrives.iterdir()] == ["run"]


def _changed(digest, archive):
    return digest, archive + b"0"


def _cut(_, archive):
    return content_hash(archive[:-9]), archive[:-9]


def _another(_, archive):
    """An archive of something else."""
    return _archive({"more.json": b"{}"})


def _damaged(_, archive):
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        record = files.read("run.json")
    return _archive({"run.json": record, "raw/ncu-timing.001/session.json": b"{"})


def _archive(files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return content_hash(stream.getvalue()), stream.getvalue()


@pytest.mark.parametrize("fault", [_changed, _cut, _another, _damaged])
def test_what_is_not_a_run_as_it_was_sent_is_refused(fault, run, arrives):
    with pytest.raises(UsageError):
        unpacked_run(fault(*packed_run(run, [run.new_attempt(SESSION)])), arrives)


@pytest.mark.parametrize("name", ["../run.json", "/etc/passwd", "raw/../../run.json"])
def test_no_file_has_the_name_of_another_place(name, arrives):
    parcel = _archive({"run.json": b"{}", name: b""})
    with pytest.raises(UsageError, match="lies outside"):
        unpacked_run(parcel, arrives)


def test_private_files_and_the_report_of_ncu_stay(run, arrives):
    attempt = run.new_attempt(SESSION)
    for name in ("report.ncu-rep", "report.ncu-rep.gz", ".draft"):
        (attempt / name).write_text(name)
    (attempt / "private").mkdir()
    (attempt / "private/report.nsys-rep.gz").write_text("the environment")
    (attempt / "link.txt").symlink_to(attempt / "session.json")
    (came,) = unpacked_run(packed_run(run, [attempt]), arrives).attempts()
    assert [path.name for path in came.folder.iterdir()] == ["session.json"]
