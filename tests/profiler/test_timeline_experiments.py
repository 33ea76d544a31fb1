"""What the experiments on timelines, waves and timing methods ask for."""

import math
from pathlib import Path

import pytest

from profiler.model import SessionKind
from profiler.planning.plan import make_plan
from profiler.planning.space import space_of
from profiler.planning.spec import load_spec
from waves import space as waves

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MULTIPROCESSORS = 132


def planned(name):
    loaded = load_spec(EXPERIMENTS / f"{name}.yaml")
    return loaded.experiment, make_plan(loaded, space_of(loaded))


def test_a_training_step_is_seen_from_the_eleventh_to_the_hundredth():
    experiment, plan = planned("mlp")
    collect = experiment.collect
    assert (collect.warmups, collect.warmups + collect.timeline.launches) == (10, 100)
    assert len(plan.cells) == 3 * 2
    assert {"nsys", "ncu", "timer"} == set(collect.collectors)
    assert {cell.problem.params["optimizer"] for cell in plan.cells} == {"none", "adam"}
    assert experiment.page.kind == "timeline"


def test_the_timeline_counts_steps_from_the_first_warm_up():
    """The first session makes the check, which is a step: that must not be the timeline's."""
    _, plan = planned("mlp")
    assert plan.sessions[0].collector != "nsys"
    assert [one.kind for one in plan.sessions if one.collector == "nsys"] == [SessionKind.TIMELINE]


def test_a_training_step_is_counted_once():
    """A step has up to a hundred kernels: another sample or session would cost half a minute."""
    _, plan = planned("mlp")
    (counters,) = (each for each in plan.sessions if each.kind is SessionKind.COUNTERS)
    assert len(counters.visits) == len(plan.cells)


@pytest.fixture(scope="module")
def asked():
    _, plan = planned("waves")
    return sorted({float(cell.problem.params["waves"]) for cell in plan.cells})


def test_grids_lie_just_below_at_and_just_above_whole_waves(asked):
    for whole in (1, 2, 3, 4):
        assert {whole - 0.01, whole, whole + 0.01} <= {round(each, 2) for each in asked}
    assert asked[0] < 1
    assert {each for each in asked if each == int(each)} >= set(range(1, 13))


def test_grids_reach_far_enough_for_nine_tenths(asked):
    """Just above n waves the efficiency is n / (n + 1): nine waves are the first that keep 90 %."""
    assert max(asked) >= 10
    assert all(n / math.ceil(n) >= 0.9 for n in asked if n > 9)


def test_no_two_problems_are_the_same_grid(asked):
    for resident in (1, 2, 4):
        grids = [waves.blocks_of(each, MULTIPROCESSORS * resident) for each in asked]
        assert len(set(grids)) == len(grids)


def test_the_same_cells_go_through_every_timer():
    experiment, plan = planned("timing_methods")
    assert set(experiment.collect.collectors) == {
        *("ncu", "timer", "nsys", "torch_kernels", "wall_clock")
    }
    assert (experiment.collect.timeline.blocks, experiment.collect.timeline.launches) == (8, 5)
    every = {cell.id for cell in plan.cells}
    assert len(every) == 2 * 3
    for session in plan.sessions:
        assert {visit.cell for visit in session.visits} == every
