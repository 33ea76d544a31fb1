"""Files that never end, or that compute for ever: they are refused, and the limit is named."""

import contextlib
import os
import signal
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from nsys_exports import COLUMNS, ExportFile
from run_folders import FAKE_NCU

from profiler.commands.importing import ImportRequest, import_files
from profiler.errors import ParseError, ProfilerError, SpecError
from profiler.importers.registry import read_files
from profiler.parse import bounded_files
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.parse.ncu_lines import MAX_COLUMNS
from profiler.parse.nsys import read_nsys
from profiler.parse.nsys_tables import MAX_TEXT_BYTES
from profiler.planning.spec import load_spec
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.recording import write_recording

PATIENCE_S = 90
EVENTS = ", ".join(f'"{name}"' for name in COLUMNS["NVTX_EVENTS"])
ROW = "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, domainId, text) "
LOOP = "WITH RECURSIVE row(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM row)"
ENDLESS_EVENTS = f"CREATE VIEW NVTX_EVENTS AS {LOOP} SELECT x AS start FROM row"  # noqa: S608
ENDLESS_FACTS = f"CREATE VIEW META_DATA_EXPORT AS {LOOP} SELECT x AS name, x AS value FROM row"  # noqa: S608
MANY_ROWS = f"{LOOP} SELECT 1, 2, 59, 1, 0, 'range' FROM row LIMIT 3000"  # noqa: S608


@pytest.fixture(autouse=True)
def patience():
    """Whatever waits for ever is ended, and its test fails."""

    def give_up(*_):
        raise TimeoutError(f"still reading after {PATIENCE_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


# ---- what is no regular file ---------------------------------------------------------------------


@pytest.fixture(params=["a FIFO", "a device"])
def special(request, tmp_path):
    """Put something special in place of a file; gives what it is called in messages."""

    def put(path):
        path.unlink(missing_ok=True)
        if request.param == "a FIFO":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
        return request.param

    return put


@pytest.mark.parametrize(
    "name",
    ["rows.csv", "rows.csv.gz", "trace.json", "x.sqlite", "x.nsys-rep", "x.nsys-rep.gz", "a.log"],
)
def test_what_is_imported_is_a_file(tmp_path, special, name):
    what = special(tmp_path / name)
    with pytest.raises(ParseError, match=f"is {what}, and not a file"):
        import_files(ImportRequest(files=(tmp_path / name,), page=tmp_path / "page.html"))


def test_an_experiment_is_a_file(tmp_path, special):
    what = special(tmp_path / "spec.yaml")
    with pytest.raises(SpecError, match=f"is {what}, and not a file"):
        load_spec(tmp_path / "spec.yaml")


@pytest.mark.parametrize("special", ["a FIFO"], indirect=True)
def test_whatever_file_of_a_run_is_special_nothing_waits_for_it(place, special, tmp_path):
    """See docs/reliability.md for what each file costs; of a link to a device nothing is read."""
    place.measure_all()
    files = [file for file in sorted(place.run.path.rglob("*")) if file.is_file()]
    assert len(files) > 8
    for number, file in enumerate(files):
        content = file.read_bytes()
        special(file)
        with contextlib.suppress(ProfilerError):
            place.run.record()
            place.run.plan()
            assemble(place.run, place.loaded, place.plan)
        with contextlib.suppress(ProfilerError):
            write_recording(place.run, tmp_path / f"recording-{number}.zip", [])
        assert not list(tmp_path.glob(".recording-*"))
        file.unlink()
        file.write_bytes(content)


# ---- files that are too large --------------------------------------------------------------------


def sparse(path, size):
    """A file of zeros that takes no room."""
    with path.open("wb") as stream:
        stream.truncate(size)
    return path


def test_a_file_of_zeros_is_not_read_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_files, "MAX_UNPACKED_BYTES", 2**20)
    monkeypatch.setattr(bounded_files, "MAX_LINE_BYTES", 2**20)
    with pytest.raises(SpecError, match="MAX_SPEC_BYTES"):
        load_spec(sparse(tmp_path / "spec.yaml", 2**40))
    with pytest.raises(ParseError, match="MAX_LINE_BYTES"):
        read_ncu_csv(sparse(tmp_path / "ncu.csv", 2**40))
    with pytest.raises(ParseError, match="MAX_UNPACKED_BYTES"):
        bounded_files.read_content(sparse(tmp_path / "trace.json", 2**40))


@pytest.mark.parametrize("name", ["x.sqlite.gz", "x.nsys-rep.gz"])
def test_a_packed_timeline_without_end_fills_no_disk(tmp_path, monkeypatch, name):
    monkeypatch.setattr(bounded_files, "MAX_UNPACKED_BYTES", 2**20)
    path = tmp_path / name
    path.write_bytes(bounded_files.gzip.compress(b"SQLite format 3\0" + b"\0" * 2**23))
    with pytest.raises(ParseError, match="MAX_UNPACKED_BYTES"):
        read_files([path])
    assert read_limited(path, 2**24) != read_limited(path, 2**20)


def test_a_packed_report_of_ncu_without_end_fills_no_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(bounded_files, "MAX_UNPACKED_BYTES", 2**20)
    path = tmp_path / "x.ncu-rep.gz"
    path.write_bytes(bounded_files.gzip.compress(b"\0" * 2**23))
    with pytest.raises(ParseError, match="MAX_UNPACKED_BYTES"):
        read_files([path], environ={"PROFILER_NCU": str(FAKE_NCU)})


def read_limited(path, limit):
    """What importing says where the user gave a limit."""
    try:
        read_files([path], limit, {"PATH": ""})
    except ProfilerError as error:
        return error.message
    return None


def test_a_table_with_more_columns_than_metrics_exist_is_refused(tmp_path):
    head = ["ID", "Process ID", "Kernel Name", *(f"m{i}.sum" for i in range(MAX_COLUMNS))]
    row = ["0", "1", "k", *["1"] * MAX_COLUMNS]
    path = tmp_path / "wide.csv"
    path.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in (head, row)))
    with pytest.raises(ParseError, match="MAX_COLUMNS"):
        read_ncu_csv(path)


# ---- exports of nsys -----------------------------------------------------------------------------


@pytest.fixture
def export(tmp_path):
    """Make an export with one kernel, and change it by statements of SQL."""

    def make(*statements):
        path = tmp_path / "export.sqlite"
        file = ExportFile(path)
        name = file.string("kernel")
        times = {"start": 1, "end": 2, "correlationId": 1}
        file.add("CUPTI_ACTIVITY_KIND_KERNEL", **times, shortName=name, demangledName=name)
        file.add("CUPTI_ACTIVITY_KIND_RUNTIME", **times, nameId=name)
        with closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                connection.execute(*statement if isinstance(statement, tuple) else (statement,))
        return path

    return make


@pytest.mark.parametrize(
    "statements",
    [
        [ENDLESS_EVENTS],
        ["DROP TABLE META_DATA_EXPORT", ENDLESS_FACTS],
        [f"CREATE VIRTUAL TABLE NVTX_EVENTS USING fts3({EVENTS})"],
    ],
)
def test_views_and_virtual_tables_are_not_read(export, statements):
    with pytest.raises(ParseError, match="is no plain table"):
        read_nsys(export(*statements))


def test_a_text_beyond_all_names_is_refused(export):
    values = "VALUES (1, 2, 59, 1, 0, ?)"
    path = export(
        f"CREATE TABLE NVTX_EVENTS ({EVENTS})", (ROW + values, ["x" * (MAX_TEXT_BYTES + 1)])
    )
    with pytest.raises(ParseError, match="MAX_TEXT_BYTES"):
        read_nsys(path)


def test_letters_that_are_no_utf_8_are_replaced(export):
    text = "SELECT 1, 2, 59, 1, 0, CAST(x'61ff80c3' AS TEXT)"
    path = export(f"CREATE TABLE NVTX_EVENTS ({EVENTS})", ROW + text)
    assert read_nsys(path).ranges["name"].tolist() == ["a\ufffd\ufffd\ufffd"]


def test_a_tree_of_pages_that_never_ends_is_left(export):
    path = export(f"CREATE TABLE NVTX_EVENTS ({EVENTS})", ROW + MANY_ROWS)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'NVTX_EVENTS'"
        (root,) = connection.execute(query).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    path.write_bytes(with_looping_pages(bytearray(path.read_bytes()), root, size))
    with pytest.raises(ParseError, match="MAX_STEPS_PER_BYTE"):
        read_nsys(path)


def with_looping_pages(content, root, size):
    """Seven levels of inner pages, each of which names the page below it many times."""
    page = bytes(content[(root - 1) * size : root * size])
    inner = 5  # what the format calls such a page
    assert page[0] == inner
    (count,) = struct.unpack(">H", page[3:5])
    cells = [struct.unpack(">H", page[12 + 2 * i : 14 + 2 * i])[0] for i in range(count)]
    (below,) = struct.unpack(">I", page[cells[0] : cells[0] + 4])
    for _ in range(7):
        level = bytearray(page)
        for place in (*cells, 8):  # 8: the rightmost child
            level[place : place + 4] = struct.pack(">I", below)
        content += level
        below = len(content) // size
    content[(root - 1) * size : root * size] = content[-size:]
    content[28:32] = struct.pack(">I", below)  # how many pages the file has
    return bytes(content)


def test_the_file_is_opened_for_reading_only(export, monkeypatch):
    opened = []
    connect = sqlite3.connect

    def note(name, **options):
        opened.append((str(name), options))
        return connect(name, **options)

    path = export(f"CREATE TABLE NVTX_EVENTS ({EVENTS})")
    before = path.read_bytes()
    monkeypatch.setattr(sqlite3, "connect", note)
    read_nsys(path)
    ((name, options),) = opened
    assert name.endswith("?mode=ro")
    assert options == {"uri": True}
    assert path.read_bytes() == before
    assert [file.name for file in Path(path).parent.iterdir()] == [path.name]
