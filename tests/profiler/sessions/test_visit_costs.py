"""What is left of a session, by the timings of recorded ones."""

import random
from collections import Counter
from functools import cache

import pytest
from recorded import RECORDINGS

from profiler.run_folder.folder import RunFolder
from profiler.runner import protocol
from profiler.sessions.forecasts.visit_costs import CostReader, Rest, VisitCosts, read_costs

START = {"event": protocol.SESSION_STARTED, "time": 100.0}


def visit(cell, begin, end):
    where = {"phase": protocol.MEASURE, "cell": cell}
    return [
        {**where, "event": protocol.STARTED, "time": begin},
        {**where, "event": protocol.FINISHED, "time": end},
    ]


def test_the_set_up_of_a_problem_is_told_from_its_visits():
    problem_of = {"a": "small", "b": "small", "c": "large"}
    records = [START, *visit("a", 103.0, 103.5), *visit("b", 103.6, 104.0), *visit("c", 110.0, 112)]
    costs = read_costs([*records, *visit("unknown", 112.0, 120.0)], problem_of)
    assert costs.set_ups == {"small": [3.0], "large": [6.0]}
    assert costs.visits == {"a": [0.5], "b": [pytest.approx(0.5)], "c": [2.0]}


def test_nothing_is_forecast_before_anything_is_known():
    rest = Rest({"a": "small"}, VisitCosts())
    assert rest.seconds({"a": 2}, VisitCosts()) is None
    assert rest.seconds({"a": 0}, VisitCosts()) == 0.0


def test_cells_go_by_what_they_took_before_on_a_machine_that_is_as_fast_as_this():
    problem_of = {"a": "p", "b": "p", "c": "q"}
    earlier = VisitCosts({"a": [1.0], "b": [3.0], "c": [10.0]}, {"p": [2.0], "q": [4.0]})
    rest = Rest(problem_of, earlier)
    assert rest.seconds({"a": 1, "b": 1, "c": 2}, VisitCosts()) == 1 + 3 + 20 + 2 + 4
    now = VisitCosts({"a": [2.0]}, {"p": [2.0]})  # its visits take twice as long as they did
    assert rest.seconds({"b": 1, "c": 2}, now) == 6 + 40 + 4


@cache
def recorded(name, attempt):
    """Problem by cell, and the journal of an attempt of a recording."""
    run = RunFolder(RECORDINGS / name)
    problem_of = {cell.id: cell.problem.id for cell in run.plan().cells}
    return problem_of, tuple(protocol.read_journal(run.path / "raw" / attempt / "journal.jsonl"))


def errors_after_the_first_tenth(problem_of, records, earlier):
    """Forecast of the whole session against what it took, at every seventh visit."""
    done = [record for record in records if is_measured(record)]
    remaining = Counter(record["cell"] for record in done)
    reader, rest, errors, made = CostReader(problem_of), Rest(problem_of, earlier), [], 0
    began, ended = records[0]["time"], done[-1]["time"]
    for record in records:
        reader.saw(record)
        if is_measured(record):
            remaining[record["cell"]] -= 1
            made += 1
            if made >= len(done) / 10 and made % 7 == 0:
                left = rest.seconds(remaining, reader.costs)
                errors.append((record["time"] + left - ended) / (ended - began))
    assert errors
    return errors


def is_measured(record):
    return record["event"] == protocol.FINISHED and record.get("phase") == protocol.MEASURE


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        ("autotune", "ncu-counters-together.001"),  # problems of 512 to 16384: no rate would tell
        ("fusion_attention", "ncu-timing.001"),
        ("softmax_forms", "ncu-timing.001"),  # half a minute of compiling comes first
        ("transpose", "ncu-timing.001"),
    ],
)
def test_after_a_tenth_a_forecast_by_an_earlier_run_is_within_30_percent(name, attempt):
    problem_of, records = recorded(name, attempt)
    took = read_costs(records, problem_of)
    noise = random.Random(7)  # noqa: S311 - noise, not a secret

    def before(seconds):  # each a quarter off, on a machine that was faster by a fifth
        return [noise.uniform(0.75, 1.25) * second / 1.2 for second in seconds]

    earlier = VisitCosts(
        {cell: before(seconds) for cell, seconds in took.visits.items()},
        {problem: before(seconds) for problem, seconds in took.set_ups.items()},
    )
    assert max(map(abs, errors_after_the_first_tenth(problem_of, records, earlier))) < 0.3


def test_a_later_look_goes_by_those_before():
    earlier = VisitCosts()
    for number in (1, 2, 3):
        problem_of, records = recorded("autotune", f"ncu-timing.00{number}")
        earlier.add(read_costs(records, problem_of))
    problem_of, records = recorded("autotune", "ncu-timing.004")
    assert max(map(abs, errors_after_the_first_tenth(problem_of, records, earlier))) < 0.3


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        ("fusion_grid", "ncu-timing.001"),
        ("softmax_forms", "ncu-timing.001"),  # half a minute of compiling comes first
        ("mlp", "timer.001"),
    ],
)
def test_without_an_earlier_run_visits_and_set_ups_so_far_tell(name, attempt):
    problem_of, records = recorded(name, attempt)
    assert max(map(abs, errors_after_the_first_tenth(problem_of, records, VisitCosts()))) < 0.3


@pytest.mark.parametrize("name", ["softmax", "hopper", "softmax_forms", "autotune_large"])
def test_a_confirmation_goes_by_the_looks_before_without_their_checks(name):
    earlier = VisitCosts()
    for folder in sorted((RECORDINGS / name / "raw").glob("ncu-timing.*")):
        earlier.add(read_costs(recorded(name, folder.name)[1], recorded(name, folder.name)[0]))
    problem_of, records = recorded(name, "ncu-final.001")
    errors = errors_after_the_first_tenth(problem_of, records, earlier.without_checks())
    assert max(map(abs, errors)) < 0.3


@pytest.mark.parametrize("name", ["async_copy", "fusion_attention", "hopper", "progression"])
def test_a_first_session_of_counters_goes_by_the_visits_of_the_timing(name):
    problem_of, timing = recorded(name, "ncu-timing.001")
    records = recorded(name, "ncu-counters.001")[1]
    visits = VisitCosts(read_costs(timing, problem_of).visits)
    assert max(map(abs, errors_after_the_first_tenth(problem_of, records, visits))) < 0.3


def test_checks_are_told_from_the_rest_of_a_set_up():
    check = {"event": protocol.FINISHED, "phase": protocol.CHECK, "cell": "a"}
    records = [
        {**START},
        {"event": protocol.STARTED, "phase": protocol.CHECK, "cell": "a", "time": 101.0},
        {**check, "time": 103.0},
        *visit("a", 103.5, 104.0),
    ]
    costs = read_costs(records, {"a": "small"})
    assert (costs.set_ups, costs.checks) == ({"small": [3.5]}, {"small": [2.0]})
    assert costs.without_checks().set_ups == {"small": [1.5]}
