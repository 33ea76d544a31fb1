"""In-kernel sessions in run folders: what they say of a cell, and what they do not."""

import gzip
import json

import pytest
import stamped
from run_folders import SPEC, Workplace, failed

from profiler.model import Outcome, SessionKind
from profiler.notices import NoticeKind
from profiler.run_folder.folder import AttemptResult, finish_attempt
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.outcomes import failures
from profiler.runner.protocol import STAMPS_FILE

CELL, OTHER = "plain..small", "tree..small"
SESSION = "in-kernel"


@pytest.fixture
def place(tmp_path):
    """A measured run that has an in-kernel session as well."""
    text = SPEC.replace("collect: {", "collect: {collectors: [ncu, in_kernel], ")
    place = Workplace(tmp_path / "place", text)
    for session in place.plan.sessions:
        if session.kind is not SessionKind.IN_KERNEL:
            place.attempt(session.name)
    return place


def stamps(place, *cells, **attempt):
    folder = place.attempt(SESSION, visits=[(cell, 0) for cell in cells], result=None, **attempt)
    with gzip.open(folder / f"{STAMPS_FILE}.gz", "wt") as stream:
        for cell in cells:
            stream.write(json.dumps(stamped.ping_pong(cell=cell)) + "\n")
    finish_attempt(folder, AttemptResult("finished", 1.0))
    place.check_kernels(folder)
    return folder


def test_it_visits_every_cell_once_and_last(place):
    session = place.plan.sessions[-1]
    assert (session.name, session.kind) == (SESSION, SessionKind.IN_KERNEL)
    assert sorted(visit.cell for visit in session.visits) == sorted(c.id for c in place.cells)


def test_stamps_belong_to_their_cells(place):
    stamps(place, CELL)
    report = assemble(place.run, place.loaded, place.plan)
    assert list(report.details.in_kernel) == [CELL]
    assert report.details.in_kernel[CELL].groups == {0: "consumer 1", 1: "consumer 2"}
    assert {status.outcome for status in report.statuses.values()} == {Outcome.MEASURED}


def test_stamps_of_a_cell_that_was_edited_since_are_not_shown(place):
    stamps(place, CELL, keys={CELL: "another"})
    assert assemble(place.run, place.loaded, place.plan).details.in_kernel == {}


def test_what_fails_there_costs_a_cell_nothing(place):
    stamps(place, CELL)
    place.attempt(SESSION, visits=[(OTHER, 0)], journal=[failed(OTHER, "illegal_address")])
    assert place.results().statuses[OTHER].outcome is Outcome.MEASURED
    assert failures(place.plan, place.load()) == {}
    assert set(failures(place.plan, place.load(), kind=SessionKind.IN_KERNEL)) == {OTHER}
    assert failures(place.plan, place.load(), kind=SessionKind.EXPLAIN) == {}


def test_what_is_checked_there_is_another_program(place):
    folder = stamps(place, CELL)
    record = {"event": "finished", "cell": CELL, "phase": "check", "time": 0.0}
    with (folder / "journal.jsonl").open("a") as stream:
        stream.write(json.dumps(record) + "\n")
    (loaded,) = [session for session in place.load() if session.attempt.record.session == SESSION]
    assert loaded.tried_cells == {CELL}
    assert loaded.checked_cells == set()


def test_a_damaged_file_costs_only_itself(place):
    folder = stamps(place, CELL)
    (folder / f"{STAMPS_FILE}.gz").write_bytes(b"no gzip")
    report = assemble(place.run, place.loaded, place.plan)
    assert report.details.in_kernel == {}
    (notice,) = [n for n in report.notices if n.kind is NoticeKind.CSV_UNREADABLE]
    assert notice.values["file"] == f"{folder.name}/{STAMPS_FILE}"
