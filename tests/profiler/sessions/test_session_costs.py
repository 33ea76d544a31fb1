"""What visits and set-ups of a session took, by the records of its journal."""

import pytest

from profiler.runner import protocol
from profiler.sessions.forecasts.session_costs import DeclaredWork, read_costs

PROBLEM_OF = {"a": "small", "b": "small", "c": "large"}
START = {"event": protocol.SESSION_STARTED, "time": 100.0}


def step(phase, cell, begin, end, **findings):
    where = {"phase": phase, "cell": cell}
    return [
        {**where, "event": protocol.STARTED, "time": begin},
        {**where, "event": protocol.FINISHED, "time": end, **findings},
    ]


def visit(cell, begin, end):
    return step(protocol.MEASURE, cell, begin, end)


def test_the_first_visit_of_a_process_is_told_from_the_others():
    records = [START, *visit("a", 103, 103.5), *visit("a", 103.5, 103.6), *visit("b", 103.7, 104)]
    costs = read_costs([*records, *visit("unknown", 104, 120)], PROBLEM_OF)
    assert costs.first_visits == {"a": [3.5]}
    assert costs.visits == {"a": [pytest.approx(0.1)], "b": [pytest.approx(0.4)]}
    assert (costs.visit_count, costs.typical_visits) == (3, costs.visits)
    again = read_costs([*records, START | {"time": 200.0}, *visit("c", 201, 202)], PROBLEM_OF)
    assert again.first_visits == {"a": [3.5], "c": [2.0]}
    assert again.began == 200.0


def test_further_passes_of_counters_are_part_of_a_visit():
    passes = [*step(protocol.COUNT, "b", 104, 107), *step(protocol.COUNT, "b", 107, 110)]
    costs = read_costs(
        [START, *visit("a", 103, 103.5), *visit("b", 103.5, 104), *passes], PROBLEM_OF
    )
    assert costs.visits == {"b": [6.5]}


@pytest.mark.parametrize(("taken", "typical"), [(4.0, {"a": [3.0]}), (0.7, {})])
def test_a_first_visit_alone_tells_what_its_tool_cannot_have_taken(taken, typical):
    costs = read_costs([START, *visit("a", 100, 100 + taken)], PROBLEM_OF)
    assert costs.typical_visits == typical


def test_what_problems_take_beside_their_visits_is_told_apart_by_problem():
    records = [
        START,
        *step(protocol.INPUTS, "a", 101, 102),
        *step(protocol.PREPARE, "a", 102, 103),
        *step(protocol.CHECK, "a", 103, 107),
        *step(protocol.PREPARE, "b", 107, 108),
        *step(protocol.WARMUP, "a", 108, 108.5),
        # The launch of the check stands for its own.
        *step(protocol.WARMUP, "b", 108.5, 108.5, spared_s=0.25),
        *visit("a", 108.5, 109),
        *step(protocol.RELAUNCH, "a", 110, 110.5),
        *step(protocol.RECHECK, "a", 111, 112),
        *step(protocol.INPUTS, "c", 113, 114),
    ]
    costs = read_costs(records, PROBLEM_OF)
    small, large = costs.set_ups["small"], costs.set_ups["large"]
    assert (small.seconds, small.cells, small.checked) == (11.5, {"a", "b"}, {"a"})
    assert small.checks_s == 7.0  # with the new inputs before it
    assert (large.seconds, large.cells, large.checked) == (2.0, {"c"}, set())
    assert (small.is_first, large.is_first) == (True, False)
    assert costs.warm_ups == {"a": 0.5, "b": 0.25}
    assert costs.checked_cells == {"a"}


def test_work_is_declared_before_the_first_problem_or_when_a_cell_is_described():
    large = next(cell for cell, problem in PROBLEM_OF.items() if problem == "large")
    declared = step(protocol.DECLARE, large, 100, 100, bytes=8.0)
    described = step(protocol.DESCRIBE, "a", 101, 102, flops=5.0, bytes=None)
    costs = read_costs([START, *declared, *described], PROBLEM_OF)
    assert costs.work == {"large": DeclaredWork(0.0, 8.0), "small": DeclaredWork(5.0, 0.0)}


def test_roofs_are_of_no_problem():
    roof = {"roof": "dram", "launches": 3}
    records = [
        START,
        {"event": protocol.ROOF_STARTED, "time": 101.0, **roof},
        {"event": protocol.ROOF_FINISHED, "time": 104.0, **roof},
        *step(protocol.INPUTS, "a", 104, 105),
    ]
    costs = read_costs(records, PROBLEM_OF)
    assert (costs.roofs_s, costs.set_ups["small"].seconds) == (4.0, 1.0)


def test_a_clock_that_was_set_back_takes_nothing_away():
    records = [START, *visit("a", 101, 102), *visit("a", 103, 90), *step("prepare", "c", 95, 80)]
    costs = read_costs(records, PROBLEM_OF)
    assert costs.visits == {"a": [0.0]}
    assert costs.set_ups["large"].seconds == 5.0
