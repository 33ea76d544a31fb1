"""A fact that a file says otherwise, twice or no longer changes no number without a word."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from ncu_samples import raw_page

from profiler.notices import NoticeKind, text
from profiler.parse import runner_journal
from profiler.parse.ncu_csv import parse_ncu_csv
from profiler.runner import protocol

TIME = "gpu__time_duration.sum"
DETAILS = (
    '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
)


@pytest.fixture
def timing(place):
    """A run in which all went well, and the folder of its timing."""
    place.measure_all()
    return next(a.folder for a in place.run.attempts() if a.record.kind == "timing")


def kinds(notices):
    return {notice.kind for notice in notices}


def durations(place):
    samples = place.results().samples
    return (
        samples.set_index(["session", "cell", "block", "arm"])["duration_ns"].dropna().sort_index()
    )


def edit_lines(path, edit):
    """Edit the lines of a packed file."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
    path.write_bytes(gzip.compress("".join(edit(lines)).encode()))


# ---- rows and records of a run -------------------------------------------------------------------


def test_rows_that_stand_twice_are_not_added(place, timing):
    before = durations(place)
    edit_lines(timing / "ncu.csv.gz", lambda lines: [*lines, *lines[-6:]])
    assert durations(place).equals(before)
    assert NoticeKind.CSV_REPEATED_ROWS in kinds(place.results().notices)


def test_rows_that_are_gone_are_named(place, timing):
    assert NoticeKind.VISITS_LOST not in kinds(place.results().notices)
    edit_lines(timing / "ncu.csv.gz", lambda lines: lines[:-2])
    lost = [n for n in place.results().notices if n.kind is NoticeKind.VISITS_LOST]
    assert [notice.values["count"] for notice in lost] == [2]


def test_visits_of_cells_that_are_no_longer_planned_are_not_missed(place, timing):
    edit_lines(timing / "ncu.csv.gz", lambda lines: lines[:-2])
    place.plan = replace(place.plan, cells=place.plan.cells[:1])
    assert NoticeKind.VISITS_LOST not in kinds(place.results().notices)


@pytest.mark.parametrize(("old", "new"), [('"finished"', '"finishef"'), ('"measure"', '"measurf"')])
def test_records_that_nobody_knows_are_counted(place, timing, old, new):
    journal = timing / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    (place_of, *_) = [
        n for n, line in enumerate(lines) if '"finished"' in line and '"measure"' in line
    ]
    lines[place_of] = lines[place_of].replace(old, new)
    journal.write_text("".join(lines))
    (odd,) = [n for n in place.results().notices if n.kind is NoticeKind.JOURNAL_ODD]
    assert odd.values["count"] == 1


def test_every_event_and_phase_of_the_protocol_is_known():
    names = {n: v for n, v in vars(protocol).items() if n.isupper() and isinstance(v, str)}
    assert {names["FINISHED"], names["OPENED"], names["PRELOADING"]} <= set(protocol.EVENTS)
    for event in protocol.EVENTS:
        needed = dict.fromkeys(runner_journal._NEEDED.get(event, ()), "x") | {"event": event}
        needed |= {"phase": protocol.CHECK} if "phase" in needed else {}
        needed |= {"outcome": "raised"} if "outcome" in needed else {}
        needed |= {"kernels": [], "block": 0} if event == protocol.COUNTED else {}
        needed |= {"modules": []} if event == protocol.IMPORTED else {}
        assert runner_journal.record_of(json.dumps(needed)) is not None, event


# ---- numbers and units of ncu --------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell", ["90,45", "1,2345", "12,34,567", "1234,567", "0,123", "1,,234", "1,234,5"]
)
def test_digits_that_are_no_thousands_are_no_number(cell):
    table = parse_ncu_csv(raw_page({TIME: ("ns", ["1,234", cell, "5,678,901"])}))
    np.testing.assert_array_equal(table.launches[TIME], [1234, np.nan, 5678901])
    assert kinds(table.notices) == {NoticeKind.CSV_BAD_CELLS}


def test_a_list_beside_numbers_changes_nothing():
    tpcs = ",".join(map(str, range(66)))
    page = raw_page({"launch__tpc_enabled": ("", [tpcs, "0,1"]), TIME: ("ns", ["1,234", "5.5"])})
    launches = parse_ncu_csv(page).launches
    assert launches[TIME].tolist() == [1234, 5.5]
    assert launches["launch__tpc_enabled"].tolist() == [tpcs, "0,1"]


@pytest.mark.parametrize("unit", ["nseconc", "uq", "cycle", "byte"])
def test_a_unit_that_is_none_of_the_metric_makes_it_missing(unit):
    bytes_read = {"dram__bytes_read.sum": ("Kbyte", ["3"])}
    raw = parse_ncu_csv(raw_page({TIME: (unit, ["5"]), **bytes_read}))
    row = f'"0","1","k","GPU Speed Of Light","Duration","{unit}","5"\n'
    details = parse_ncu_csv(DETAILS + row)
    for table in (raw, details):
        assert np.isnan(table.launches[TIME]).all()
        assert kinds(table.notices) == {NoticeKind.CSV_ODD_UNIT}
    assert raw.launches["dram__bytes_read.sum"].tolist() == [3000]


def test_of_a_cell_of_a_million_letters_both_ends_are_quoted():
    table = parse_ncu_csv(raw_page({TIME: ("ns", ["5", "b" + "a" * 10**6 + "e"])}))
    (said,) = map(text, table.notices)
    assert len(said) < 3000
    assert "first: baa" in said
    assert said.endswith("aae).")


@pytest.mark.parametrize("rows", [2, 200])
def test_columns_of_one_metric_that_differ_have_no_value_and_it_is_said(rows):
    page = raw_page({TIME: ("ns", ["5"] * rows), "x": ("", ["1"] * rows)})
    header, units, *lines = page.splitlines()
    again = [f'{line},"{value}"' for line, value in zip(lines, ["5", "6"] * rows, strict=False)]
    twice = "\n".join([f'{header},"{TIME}"', f'{units},"ns"', *again, ""])
    table = parse_ncu_csv(twice)
    assert table.launches[TIME].fillna(-1).tolist() == [5, -1] * (rows // 2)
    (notice,) = table.notices
    assert (notice.kind, notice.values["count"]) == (NoticeKind.CSV_REPEATED_COLUMN, rows // 2)


def test_a_run_that_was_appended_with_the_same_numbers_of_launches_stands_beside_the_first():
    rows = [
        f'"0","1","k","Command line profiler metrics","{m}","{u}","{v}"\n'
        for m, u, v in ((TIME, "us", 10), ("x", "", 1), (TIME, "us", 30), ("x", "", 1))
    ]
    launches = parse_ncu_csv(DETAILS + "".join(rows)).launches
    assert launches[TIME].tolist() == [10_000, 30_000]
