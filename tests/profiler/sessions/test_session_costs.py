"""What visits and set-ups of a session took, by the records of its journal."""

import pytest

from profiler.runner import protocol
from profiler.sessions.forecasts.session_costs import ProblemCosts, read_costs

PROBLEM_OF = {"a": "small", "b": "small", "c": "large", "d": "huge"}
START = {"event": protocol.SESSION_STARTED, "time": 100.0}


def step(phase, cell, begin, end, **findings):
    where = {"phase": phase, "cell": cell}
    return [
        {**where, "event": protocol.STARTED, "time": begin},
        {**where, "event": protocol.FINISHED, "time": end, **findings},
    ]


def visit(cell, begin, end):
    return step(protocol.MEASURE, cell, begin, end)


def test_first_visits_of_a_process_are_told_from_the_others():
    records = [START, *visit("a", 103, 103.5), *visit("a", 103.5, 103.6), *visit("b", 103.7, 104)]
    costs = read_costs([*records, *visit("unknown", 104, 120)], PROBLEM_OF)
    assert costs.visit_s == {"small": pytest.approx((0.1 + 0.4) / 2)}
    assert costs.problems["small"].first_visit_s == 3.5
    again = read_costs([*records, START | {"time": 200.0}, *visit("b", 201, 202)], PROBLEM_OF)
    assert again.problems["small"].first_visit_s == 2.0
    assert again.visit_s == costs.visit_s


def test_first_visits_tell_where_there_are_no_others():
    records = [START, *visit("a", 103, 103.5), *visit("c", 104, 105)]
    assert read_costs(records, PROBLEM_OF).visit_s == {"small": 3.5, "large": 1.5}
    assert read_costs([START], PROBLEM_OF).visit_s == {}


def test_further_passes_of_counters_are_part_of_a_visit():
    passes = [*step(protocol.COUNT, "b", 104, 107), *step(protocol.COUNT, "b", 107, 110)]
    first, later = [START, *visit("a", 103, 104)], visit("b", 103.5, 104)
    assert read_costs([*first, *passes], PROBLEM_OF).problems["small"].first_visit_s == 4.0 + 6.0
    assert read_costs([*first, *later, *passes], PROBLEM_OF).visit_s == {"small": 0.5 + 6.0}


def test_what_problems_take_beside_their_visits_is_told_apart_by_problem():
    records = [
        START,
        *step(protocol.INPUTS, "a", 101, 102),
        *step(protocol.PREPARE, "a", 102, 103),
        *step(protocol.CHECK, "a", 103, 107),
        *step(protocol.PREPARE, "b", 107, 108),
        *visit("a", 108.5, 109),
        *step(protocol.RECHECK, "a", 111, 112),
        *step(protocol.INPUTS, "c", 113, 114),
    ]
    costs = read_costs(records, PROBLEM_OF)
    small, large = costs.problems["small"], costs.problems["large"]
    assert (small.set_up_s, small.is_first) == (8.0 + 3.0, True)
    assert large == ProblemCosts(set_up_s=2.0, cells={"c"})
    assert costs.set_ups_s(["a"]) == 11.0 / 2
    assert costs.set_ups_s(["a", "b", "c", "d"]) == 11.0 + 2 * 2.0  # "d" as cells at "large"


def test_work_is_declared_before_the_first_problem():
    declared = [
        *step(protocol.DECLARE, "a", 100, 101, flops=3e14, bytes=None),
        *step(protocol.DECLARE, "c", 101, 102, flops=float("nan"), bytes=5e12),
    ]
    costs = read_costs([START, *declared], PROBLEM_OF)
    assert costs.launch_s == {"small": 1.0, "large": 2.0}
    assert costs.problems == {}


def test_roofs_are_of_no_problem():
    roof = {"roof": "dram", "launches": 3}
    records = [
        START,
        {"event": protocol.ROOF_STARTED, "time": 101.0, **roof},
        {"event": protocol.ROOF_FINISHED, "time": 104.0, **roof},
        *step(protocol.INPUTS, "a", 104, 105),
    ]
    costs = read_costs([*records, START | {"time": 900.0}], PROBLEM_OF)
    assert (costs.outside_problems_s, costs.problems["small"].set_up_s) == (4.0, 1.0)


def test_a_clock_that_was_set_back_takes_nothing_away():
    records = [START, *visit("a", 101, 102), *visit("a", 103, 90), *step("prepare", "c", 95, 80)]
    costs = read_costs(records, PROBLEM_OF)
    assert costs.problems["small"].later_visits_s == 0.0
    assert costs.problems["large"].set_up_s == 5.0
