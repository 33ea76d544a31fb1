"""What travels arrives as it was sent, or is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profiler.cluster.parcels import files_of, packed, unpacked
from profiler.errors import UsageError

FILES = {"session.json": b"{}", "ncu.csv.gz": b"\x1f\x8b"}


def test_what_arrives_is_what_was_sent() -> None:
    assert unpacked(packed({"kind": "attempt"}, FILES)) == ({"kind": "attempt"}, FILES)


def _changed(parcel: dict[str, Any]) -> None:
    parcel["files"]["ncu.csv.gz"] += b"0"


def _lacking(parcel: dict[str, Any]) -> None:
    del parcel["files"]["ncu.csv.gz"]


def _added(parcel: dict[str, Any]) -> None:
    parcel["files"]["more.json"] = b"{}"


def _cut(parcel: dict[str, Any]) -> None:
    parcel["document"] = parcel["document"][:-1]


@pytest.mark.parametrize("fault", [_changed, _lacking, _added, _cut])
def test_what_is_not_what_was_sent_is_refused(fault: Callable[[dict[str, Any]], None]) -> None:
    parcel = dict(packed({}, FILES))
    fault(parcel)
    with pytest.raises(UsageError):
        unpacked(parcel)


@pytest.mark.parametrize("name", ["../run.json", "/etc/passwd", "a/b", ".hidden", "", "nul\0"])
def test_no_file_has_the_name_of_another_place(name: str) -> None:
    with pytest.raises(UsageError, match="has a file called"):
        unpacked(packed({}, {name: b""}))


def test_private_files_and_the_report_of_ncu_stay(tmp_path: Path) -> None:
    for name in ("session.json", "report.ncu-rep", "report.ncu-rep.gz", ".draft"):
        (tmp_path / name).write_text(name)
    (tmp_path / "private").mkdir()
    (tmp_path / "private/report.nsys-rep.gz").write_text("the environment")
    (tmp_path / "link.txt").symlink_to(tmp_path / "session.json")
    assert files_of(tmp_path) == {"session.json": b"session.json"}
