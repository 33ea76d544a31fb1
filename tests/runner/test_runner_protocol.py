"""Jobs and journals survive the way through a file."""

import gzip
import json
import string
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiler.parse.runner_journal import finished_visits, read_journal
from profiler.runner.protocol import (
    FAILED,
    FINISHED,
    MEASURE,
    SESSION_FINISHED,
    STARTED,
    WARMUP,
    JobVisit,
    Tolerance,
    append_record,
    launch_range_name,
    parse_launch_range_name,
    parse_range_name,
    range_name,
    read_job,
    write_job,
)

CELL_CHARACTERS = string.ascii_letters + string.digits + "_.=-"


def test_a_job_comes_back_as_it_was_written(bench, tmp_path):
    job = bench.job(["plain"], tolerances={"float16": Tolerance(1e-3, 1e-2)})
    job = replace(job, visits=(*job.visits, JobVisit(job.cells[0].id, 0, 1)))

    write_job(job, tmp_path / "job.json")

    assert read_job(tmp_path / "job.json") == job


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.pop("cells"), "not a whole job: 'cells'"),
        (lambda data: data.update(colour="red"), "not a whole job: .*colour"),
        (lambda data: data.update(tolerances=[1]), "not a whole job"),
        (lambda data: data.update(version=99), "job version 99, this runner speaks 2"),
        (lambda data: data["cells"].pop(), "visits to cells that the job does not have: .*plain"),
    ],
)
def test_a_damaged_job_says_what_is_wrong(bench, tmp_path, change, words):
    path = tmp_path / "job.json"
    write_job(bench.job(["plain"]), path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))

    with pytest.raises(ValueError, match=words):
        read_job(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
def test_what_is_no_job_at_all(tmp_path, text):
    path = tmp_path / "job.json"
    path.write_text(text)

    with pytest.raises(ValueError, match=r"job version None|Expecting"):
        read_job(path)


def test_a_record_cut_off_by_a_crash_is_left_out(tmp_path):
    path = tmp_path / "journal.jsonl"
    with path.open("w") as stream:
        append_record(stream, {"event": "started", "cell": "a", "phase": "check"})
        stream.write('{"event":"finis')

    assert list(read_journal(path)) == [{"event": "started", "cell": "a", "phase": "check"}]


def test_a_compressed_journal_is_read_as_far_as_it_goes(tmp_path):
    records = [{"event": "finished", "cell": f"cell-{n}-{n * 7919}"} for n in range(9000)]
    packed = gzip.compress("".join(json.dumps(one) + "\n" for one in records).encode())
    file = tmp_path / "journal.jsonl.gz"

    def read():
        return list(read_journal(tmp_path / "journal.jsonl"))

    file.write_bytes(packed)
    assert read() == records
    file.write_bytes(packed[: len(packed) // 2])
    half = read()
    assert 1000 < len(half) < len(records)
    assert half == records[: len(half)]
    for place in (len(packed) - 6, 9 * len(packed) // 10):  # the checksum, and what lies before
        file.write_bytes(packed[:place] + bytes([packed[place] ^ 0xFF]) + packed[place + 1 :])
        damaged = read()
        assert len(damaged) > 0.8 * len(records)
        assert damaged[: len(records) // 2] == records[: len(records) // 2]
    file.write_bytes(packed + packed)
    assert read() == records + records
    file.write_bytes(b"no gzip at all")
    assert read() == []


@pytest.mark.parametrize(
    "name",
    [
        *("cell=a;block=x", "cell=a", "block=1", "other=a;block=1", ""),
        *("cell=a;block=1;arm=", "cell=a;block=1;arm=x", "cell=a;block=1;arm=-1", "cell=a;arm=1"),
        *("cell=a;block=1;arm=1;", "cell=a;block=\u0661", " cell=a;block=1", "cell=a;block=1\n"),
    ],
)
def test_ranges_of_others_are_not_ours(name):
    assert parse_range_name(name) is None


def test_range_names_hold_only_what_the_csv_of_ncu_can_carry():
    assert range_name("v=1.b..p", 3) == "cell=v=1.b..p;block=3"
    assert range_name("v=1.b..p", 3, 1) == "cell=v=1.b..p;block=3;arm=1"


@given(
    cell=st.text(CELL_CHARACTERS, min_size=1),
    block=st.integers(0, 10**18 - 1),
    arm=st.integers(0, 9),
)
def test_a_range_name_leads_back_to_its_visit(cell, block, arm):
    assert parse_range_name(range_name(cell, block, arm)) == (cell, block, arm)


def test_only_visits_that_were_measured_to_their_end_are_finished():
    where = {"cell": "a", "block": 2, "phase": MEASURE}
    records = [
        {"event": STARTED, **where},
        {"event": FINISHED, **where},
        {"event": FINISHED, **where, "arm": 1},
        {"event": FINISHED, **where, "block": 3, "phase": WARMUP},
        {"event": FAILED, **where, "block": 4},
        {"event": SESSION_FINISHED},
    ]
    assert list(finished_visits(records)) == [("a", 2, 0), ("a", 2, 1)]


@given(st.integers(0, 10**6))
def test_the_range_of_a_launch_is_known_by_its_number(launch):
    assert parse_launch_range_name(launch_range_name(launch)) == launch


@pytest.mark.parametrize(
    "name", ["launch=", "launch=x", "launch=1;", " launch=1", "cell=a;block=0"]
)
def test_no_other_range_is_one_of_a_launch(name):
    assert parse_launch_range_name(name) is None
