"""Which cells ncu explains: those that the answer is about, or those that are asked for."""

import pandas as pd
import pytest

from profiler.errors import UsageError
from profiler.planning.plan import make_plan
from profiler.planning.space import Space
from profiler.planning.spec import load_spec
from profiler.sessions.explain_cells import (
    MOST_KERNELS,
    MOST_KERNELS_AGAIN,
    asked_cells,
    explain_cells,
    many_kernels,
)

VERSIONS = """\
name: sums
workload: ./workload.py
variants: {list: [plain, library, other library, tree, loop]}
problems: {list: [small, middle, large]}
baseline: plain
page: {references: [library, other library]}
"""
LADDER = """\
name: steps
workload: ./workload.py
variants: {list: [first, second, third]}
problems: {list: [small, large]}
baseline: first
page: {kind: progression}
"""
TIMES = {"plain": 100.0, "library": 90.0, "other library": 120.0, "tree": 80.0, "loop": 85.0}
"""Durations at the problem `small`, in ns."""


def plan_of(text, folder):
    (folder / "workload.py").write_text("import torch\n", encoding="utf-8")
    (folder / "spec.yaml").write_text(text, encoding="utf-8")
    return make_plan(load_spec(folder / "spec.yaml"), Space())


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """The plan of VERSIONS, which no test changes."""
    return plan_of(VERSIONS, tmp_path_factory.mktemp("versions"))


def samples(plan, times, kind="timing"):
    """Two blocks of timing samples, by variant, problem or cell; 10 times longer at `large`."""
    rows = []
    for cell in plan.cells:
        scale = {"small": 1.0, "middle": 3.0, "large": 10.0}[cell.problem.name]
        time = times.get(f"{cell.variant.name}/{cell.problem.name}", times.get(cell.variant.name))
        if time is not None:
            rows += [(cell.id, block, 0, scale * time) for block in range(2)]
    frame = pd.DataFrame(rows, columns=["cell", "block", "arm", "duration_ns"])
    return frame.assign(
        collector="ncu", kind=kind, session=f"ncu-{kind}", kernels=1, repeat=0, kernel_names=""
    )


def names(cells):
    return [f"{cell.variant.name}/{cell.problem.name}" for cell in cells]


def explained(plan, times, **more):
    """Names of the cells that are explained where variants have these times."""
    return names(explain_cells(plan, samples(plan, times), **more))


def test_at_most_six_cells_the_best_the_baseline_and_the_best_reference(plan):
    # The largest change is at `middle`; `large` takes longest.
    times = {**TIMES, "loop/middle": 20.0, "loop/large": 70.0}
    assert explained(plan, times) == [
        *("plain/middle", "library/middle", "loop/middle"),
        *("plain/large", "library/large", "loop/large"),
    ]


def test_the_leader_is_explained_where_it_differs_most(plan):
    """It once was not at all, where another variant differs more and the longest is a tie."""
    # `tree` leads; `loop` was measured at `middle` alone, and is far ahead there.
    times = {name: time for name, time in TIMES.items() if name != "loop"}
    times |= {"tree/small": 50.0, "tree/large": 100.0, "loop/middle": 10.0}
    without_libraries = {name: time for name, time in times.items() if "library" not in name}
    assert explained(plan, without_libraries) == [
        *("plain/small", "tree/small"),
        *("plain/middle", "loop/middle"),
        *("plain/large", "tree/large"),
    ]
    # With a reference at each, a third problem would be more than six cells.
    assert explained(plan, times) == [
        *("plain/small", "library/small", "tree/small"),
        *("plain/large", "library/large", "tree/large"),
    ]


def test_each_of_two_leaders_is_explained_where_rivals_share_the_problems(plan):
    """Which of them leads by a hair is found out by the confirmation, after this."""
    times = {"plain": 100.0, "library": 90.0, "tree/small": 79.0, "tree/middle": 80.0}
    times |= {"loop/large": 81.0}
    assert explained(plan, times) == [
        *("plain/small", "library/small", "tree/small"),
        *("plain/large", "library/large", "loop/large"),
    ]


def test_one_problem_where_the_largest_has_the_largest_change(plan):
    found = explained(plan, {**TIMES, "tree/large": 30.0})
    assert found == ["plain/large", "library/large", "tree/large"]


def test_the_confirmation_decides_which_is_the_best(plan):
    times = {"plain/large": 100.0, "tree/large": 88.0, "loop/large": 84.0}
    confirmed = samples(plan, times, "final")
    both = pd.concat([samples(plan, {**TIMES, "tree/large": 30.0}), confirmed])
    assert "loop/large" in names(explain_cells(plan, both))
    assert "tree/large" not in names(explain_cells(plan, both))


def test_a_clock_of_the_confirmation_makes_no_other_variant_the_fastest(plan):
    """Medians of two sessions were once compared: what was not confirmed seemed to be ahead."""
    times = {"plain": 100.0, "tree": 80.0, "loop": 81.0}
    slower_clock = {"plain/large": 110.0, "tree/large": 88.0}
    both = pd.concat([samples(plan, times), samples(plan, slower_clock, "final")])
    assert names(explain_cells(plan, both)) == ["plain/large", "tree/large"]


def test_the_leader_of_tuning_is_who_loses_least_at_its_worst(plan):
    """As on its page: the least geometric mean may be far behind at one problem."""
    times = {"plain": 100.0, "tree": 20.0, "tree/large": 95.0, "loop": 23.0, "loop/large": 80.0}
    assert "tree/small" in explained(plan, times)
    assert "loop/small" in explained(plan, times, tunes=True)


def test_noise_does_not_choose_another_problem_when_cells_are_explained(plan):
    """Attention takes about as long in one 16-bit type as in the other."""
    middle = {"plain/middle": 333.0, "library/middle": 300.0, "tree/middle": 268.0}
    looked = samples(plan, {"plain": 100.0, "library": 90.0, "tree": 80.0, **middle})
    first = explain_cells(plan, looked)
    assert names(first) == ["plain/middle", "library/middle", "tree/middle"], "they share a place"
    before = {
        cell.id
        for cell in plan.cells
        if cell.problem.name == "large" and cell.variant.name in ("plain", "library", "tree")
    }
    assert names(explain_cells(plan, looked, before)) == [
        "plain/large",
        "library/large",
        "tree/large",
    ]
    slower = samples(plan, {"plain/middle": 370.0, "tree/middle": 290.0}, "final")
    later = explain_cells(plan, pd.concat([looked, slower]), before)
    assert "tree/middle" in names(later), "that is no noise"


def test_explained_cells_count_where_they_tell_of_a_leader(plan):
    """Else the fastest of a hair, or the other of two leaders, costs a session of its own."""
    timed = samples(plan, {"plain": 100.0, "library": 90.0, "tree": 80.0, "loop/large": 79.0})

    def of(*variants):
        here = [cell for cell in plan.cells if cell.problem.name != "middle"]
        return {cell.id for cell in here if cell.variant.name in variants}

    of_tree = of("plain", "library", "tree")
    assert {cell.id for cell in explain_cells(plan, timed, of_tree)} == of_tree
    assert "loop/large" in names(explain_cells(plan, timed)), "the fastest there"
    of_loop = of("plain", "library", "loop")
    added = {cell.id for cell in explain_cells(plan, timed, of_loop)} - of_loop
    assert added, "`tree` leads, and none of these tells of it"


@pytest.mark.parametrize(
    "times",
    [
        # `tree` leads, and was not measured at the longest, where `loop` differs by less.
        {"tree/small": 98.5, "tree/middle": 98.6, "loop/large": 99.0},
        # It takes as long as the baseline at the others, or nearly.
        {"tree/small": 98.5, "tree/middle": 100.0, "tree/large": 100.0},
        {"tree/small": 98.5, "tree/middle": 99.9, "tree/large": 99.8},
    ],
)
def test_a_small_difference_is_explained_where_it_is(plan, times):
    assert {"plain/small", "tree/small"} <= {*explained(plan, {"plain": 100.0, **times})}


def test_a_problem_that_takes_ncu_minutes_is_not_the_longest(plan):
    # The largest change is at `small`; those of `large` take more than 50 ms.
    times = {name: 1e5 * time for name, time in {**TIMES, "tree/small": 20.0}.items()}
    found = {name.partition("/")[2] for name in explained(plan, times)}
    assert found == {"small", "middle"}
    longer = {name: 100 * time for name, time in times.items()}
    found = {name.partition("/")[2] for name in explained(plan, longer)}
    assert found == {"small", "large"}  # nothing is shorter


def test_every_version_of_a_ladder_at_the_problem_that_takes_longest(tmp_path):
    plan = plan_of(LADDER, tmp_path)
    times = {"first": 9.0, "second": 8.0, "third": 7.0}
    assert explained(plan, times) == [*("first/large", "second/large", "third/large")]


def test_cells_without_a_duration_are_not_explained(plan):
    assert explain_cells(plan, samples(plan, {})) == ()
    rest = {name: time for name, time in TIMES.items() if name not in ("plain", "tree")}
    assert explained(plan, rest) == ["library/large", "loop/large"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["all"], 15),
        (["large,all"], 15),
        (["small", "large"], 10),
        (["large"], ["plain", "library", "other library", "tree", "loop"]),
        (["tree..small, plain..small"], ["plain", "tree"]),
    ],
)
def test_cells_that_are_asked_for(plan, asked, expected):
    cells = asked_cells(plan, asked)
    variants = [cell.variant.name for cell in cells]
    assert (len(cells) if isinstance(expected, int) else variants) == expected


@pytest.mark.parametrize("asked", [["large,tre"], ["large", "tre"], ["all", "tre"]])
def test_a_name_that_no_cell_has_is_refused(plan, asked):
    with pytest.raises(UsageError, match="no cell and no problem is called 'tre'") as raised:
        asked_cells(plan, asked)
    assert "profiler plan" in raised.value.remedy


def test_cells_of_many_kernels_are_explained_only_where_they_are_asked_for(plan):
    frame = samples(plan, TIMES)
    tree = frame["cell"].str.startswith("tree")
    frame.loc[tree, "kernels"] = MOST_KERNELS + 1
    found = {cell.variant.name for cell in explain_cells(plan, frame)}
    assert found == {"plain", "library", "loop"}, "the fastest of the others stands in"
    assert len(many_kernels(frame)) == 3
    assert {cell.variant.name for cell in asked_cells(plan, ["all"])} >= {"tree"}


def test_a_baseline_of_many_kernels_is_explained_at_one_problem(plan):
    """Of eager RMSNorm, seven kernels took ncu 10 s at each of two."""
    times = {"plain": 100.0, "tree": 80.0, "tree/middle": 20.0}
    frame = samples(plan, times)
    plain = frame["cell"].str.startswith("plain")
    frame.loc[plain, "kernels"] = MOST_KERNELS_AGAIN
    assert names(explain_cells(plan, frame)) == ["plain/middle", "tree/middle"]
    other_is_first = samples(plan, {**times, "loop/large": 60.0})
    many = other_is_first["cell"].str.startswith("plain")
    other_is_first.loc[many, "kernels"] = MOST_KERNELS_AGAIN
    assert names(explain_cells(plan, other_is_first)) == ["plain/middle", "tree/middle"]
    frame.loc[plain, "kernels"] = MOST_KERNELS_AGAIN - 1
    assert "plain/large" in names(explain_cells(plan, frame))


def test_another_leader_is_explained_where_a_baseline_of_many_kernels_was(plan):
    """After an edit of one kernel, `compiled` led RMSNorm, and eager took ncu 10 s once more."""

    def again(**times):
        """Names of what is explained where the baseline was already, at `large`."""
        frame = samples(plan, {"plain": 100.0, "tree/small": 30.0, "tree/middle": 18.0} | times)
        frame.loc[frame["cell"].str.startswith("plain"), "kernels"] = kernels
        return names(explain_cells(plan, frame, {"plain..large"}))

    kernels = MOST_KERNELS_AGAIN
    assert "plain/middle" in again(**{"tree/large": 20.0})
    kernels += 1
    assert again(**{"tree/large": 20.0}) == ["plain/large", "tree/large"]
    assert "plain/middle" in again(**{"tree/large": 27.0}), "it differs by more there"
