"""How many launches a plan takes: first look, later looks, finals."""

import dataclasses

from synthetic_report import make_report, problems

from profiler.model import SessionKind, SessionPlan
from profiler.sessions import agenda
from profiler.sessions.forecasts.launch_counts import (
    GO_ON,
    MOST_FINALISTS,
    launch_counts,
    launches_note,
)


def plan_of(**changes):
    """The baseline and eleven rivals at one problem; 8 blocks with the baseline twice."""
    plan = make_report(variant_count=12, problem_list=problems()[:1]).plan
    return dataclasses.replace(plan, **changes)


def counted(plan):
    return [(one.expected, one.most) for one in launch_counts(plan)]


def test_visits_of_timelines_are_no_counters():
    plan = plan_of(looks=(8,))
    visits = plan.sessions[0].visits[:3]
    timeline = SessionPlan("nsys", "nsys", SessionKind.TIMELINE, (), visits)
    counters = SessionPlan("ncu-counters", "ncu", SessionKind.COUNTERS, (), visits[:2])
    stamps = SessionPlan("in-kernel", "in_kernel", SessionKind.IN_KERNEL, (), visits[:1])
    plan = dataclasses.replace(plan, sessions=(plan.sessions[0], counters, timeline, stamps))
    found = {one.part.split(",")[0]: one.most for one in launch_counts(plan)}
    assert (found["counters"], found["timelines"], found["in-kernel timelines"]) == (2, 3, 1)
    assert found["together"] == found["first look"] + 6


def test_a_fixed_number_of_blocks_is_known_exactly():
    assert counted(plan_of(looks=(8,))) == [(13 * 8, 13 * 8)] * 2


def test_later_looks_take_a_tenth_of_the_cells_and_at_most_all():
    assert GO_ON == 0.1
    first, second, third, whole = launch_counts(plan_of(looks=(8, 16, 32)))
    assert (second.expected, second.most) == ((2 + 2) * 8, 13 * 8)
    assert (third.expected, third.most) == ((2 + 2) * 16, 13 * 16)
    assert whole.expected == first.expected + second.expected + third.expected
    assert whole.most == 13 * 32
    assert "8 blocks" in first.part


def test_finals_have_at_most_so_many_finalists_and_all_references():
    plan = plan_of(looks=(8,), final_blocks=8)
    *_, final, _ = launch_counts(plan)
    assert (final.expected, final.most) == ((2 + 2) * 8, (MOST_FINALISTS + 2) * 8)
    reference = plan.cells[3].variant.id
    *_, final, _ = launch_counts(dataclasses.replace(plan, references=(reference,)))
    assert final.most == (MOST_FINALISTS + 3) * 8


def test_no_final_where_its_blocks_could_tell_nothing():
    assert len(launch_counts(plan_of(looks=(8,), final_blocks=5))) == 2
    assert len(launch_counts(plan_of(looks=(5,), final_blocks=8))) == 2


def test_the_number_of_finalists_is_that_of_the_looks():
    assert agenda.MOST_FINALISTS == MOST_FINALISTS


def test_counters_count_and_other_timers_make_the_first_look_only():
    plan = plan_of(looks=(8, 16))
    (timing,) = plan.sessions
    counters = SessionPlan("counters", "ncu", SessionKind.COUNTERS, (), timing.visits[:12])
    both = dataclasses.replace(
        plan, sessions=(timing, dataclasses.replace(timing, collector="timer"), counters)
    )
    one, two = counted(plan), counted(both)
    assert two[0] == (2 * one[0][0], 2 * one[0][1])
    assert two[1] == one[1], "no look follows a timer that is not judged"
    assert two[-2] == (12, 12)


def test_a_problem_of_one_cell_is_never_looked_at_again():
    plan = plan_of(looks=(8, 16), final_blocks=8)
    plan = dataclasses.replace(plan, cells=plan.cells[:1])
    assert [one.most for one in launch_counts(plan)][1:-1] == [0]


def test_fewer_go_on_to_a_third_look_where_a_confirmation_takes_those_that_may_be_the_best():
    def looks(final_blocks):
        plan = plan_of(looks=(8, 16, 24), final_blocks=final_blocks)
        return [one.expected for one in launch_counts(plan)][1:3], launches_note(plan)

    (second, third), note = looks(final_blocks=8)
    assert third < second
    assert note == "Expected: 10% of the cells go on to each later look, 3% to the third."
    (second, third), note = looks(final_blocks=0)
    assert third == second
    assert note == "Expected: 10% of the cells go on to each later look."
