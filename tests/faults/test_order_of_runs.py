"""Which run is the newest does not hang on a clock: zones change, and clocks step back."""

from dataclasses import replace

import pytest
from test_damaged_attempts import resume

from profiler.comparison.runs import find_runs
from profiler.run_folder.runs import create_run, next_number, resumable, runs


@pytest.fixture
def begin(place):
    """Begin a run at a local time, as `measure` does."""
    out = place.folder / "reports"

    def begin(created, *, numbered=True, keys=None):
        number = next_number(out, "sums") if numbered else 0
        run = create_run(out, "sums", created)
        run.write_record(
            replace(place.record, created=created, number=number, keys=keys or place.keys)
        )
        return run

    return begin


def test_runs_without_a_number_are_ordered_by_utc(place, begin):
    # 02:30 in summer time, then 02:10 in winter time: forty minutes later.
    first = begin("2026-10-25T02:30:00+02:00", numbered=False)
    second = begin("2026-10-25T02:10:00+01:00", numbered=False)
    east = begin("2026-10-25T10:05:00+09:00", numbered=False)
    assert runs(place.folder / "reports", "sums") == (place.run, first, east, second)


def test_a_run_begun_after_the_clock_stepped_back_is_the_newest(place, begin):
    first = begin("2026-10-25T12:00:00+00:00")
    second = begin("2026-10-25T11:00:00+00:00")
    out = place.folder / "reports"
    assert runs(out, "sums")[1:] == (first, second)
    assert resumable(out, "sums", place.keys) == second
    assert find_runs(["sums~1", "sums"], out) == (first.path, second.path)


def test_no_new_runs_are_started_for_ever(place, begin):
    future = dict.fromkeys(place.keys, "of another driver")
    begin("2030-01-01T00:00:00+00:00", keys=future)
    current = begin("2026-03-04T08:00:00+00:00")
    for session in place.plan.sessions:
        replace_run(place, current).attempt(session.name)
    run, output = resume(place, "2026-03-04T09:00:00+00:00")
    assert run == current
    assert "nothing is missing" in output
    assert run.record().number == 2


def replace_run(place, run):
    place.run = run
    run.write_spec(place.loaded.text)
    run.write_plan(place.plan)
    run.write_builds(())
    return place
