"""Attempts that are read together are what each of them is alone."""

import csv
import io

import pytest
from pandas.testing import assert_frame_equal
from run_folders import measured, ncu_csv

from profiler.run_folder.load.alike import read_together
from profiler.run_folder.load.attempts import AttemptReader

BLOCKS = range(2)


def row_again(page):
    """The last row stands twice, as where two processes wrote it."""
    return page + page.splitlines(keepends=True)[-1]


def last_cell(column, text):
    """A function that gives a page whose last row has another value in a column."""

    def changed(page):
        message, head, units, *rows = page.splitlines(keepends=True)
        cells = next(csv.reader([rows[-1]]))
        cells[next(csv.reader([head])).index(column)] = text
        stream = io.StringIO()
        csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerow(cells)
        return "".join([message, head, units, *rows[:-1], stream.getvalue()])

    return changed


def without_last_row(page):
    return "".join(page.splitlines(keepends=True)[:-1])


HARM = {
    "nothing": (lambda page: page, True),
    "a row that is lost": (without_last_row, True),
    "a kernel that is in no visit": (lambda page: page.replace("cell=tree", "tree", 1), True),
    "a row that stands twice": (row_again, False),
    "another stream": (last_cell("Stream", "9"), False),
    "several passes": (last_cell("profiler__replayer_passes", "2"), False),
    "no value": (last_cell("gpu__time_duration.sum", "nan"), False),
    "a duration that is none": (last_cell("gpu__time_duration.sum", "0"), False),
}
"""Changes of a page of ncu, and whether samples of the attempts are made as one frame."""


def facts(loaded):
    """All of an attempt but its frames, which `==` does not compare."""
    return (
        *(loaded.visits, loaded.reading_notices, loaded.unreadable, loaded.tool_facts),
        *(loaded.visits_without_sample, loaded.kernels()),
        *(loaded.current_cells, loaded.records),
    )


@pytest.mark.parametrize("edited", [False, True], ids=["", "with an edited cell"])
@pytest.mark.parametrize(("harmed", "is_one_frame"), HARM.values(), ids=HARM)
def test_what_is_read_together_is_what_each_is_alone(place, harmed, is_one_frame, edited):
    session = place.session("ncu-timing")
    for block in BLOCKS:
        visits = [visit for visit in place.visits(session.name) if visit[1] == block]
        page = ncu_csv(visits, session.metrics)
        done = visits[1:] if block == 1 else visits
        place.attempt(
            visits=visits, csv=harmed(page) if block == 1 else page, journal=measured(done)
        )
    today = dict(place.keys)
    if edited:
        today[place.cells[0].id] = "another"
    attempts, capability = place.run.attempts(), place.environment.compute_capability
    ahead = read_together(attempts, capability)
    assert [each.samples is not None for each in ahead.values()] == [is_one_frame] * len(BLOCKS)
    together = AttemptReader()
    together.read_ahead(attempts, capability)
    for attempt in attempts:
        one = together.load(attempt, today, capability)
        alone = AttemptReader().load(attempt, today, capability)
        assert facts(one) == facts(alone)
        assert_frame_equal(one.samples.reset_index(drop=True), alone.samples.reset_index(drop=True))
        assert_frame_equal(one.ranges, alone.ranges)
    assert len(together.load(attempts[0], today, capability).samples)
