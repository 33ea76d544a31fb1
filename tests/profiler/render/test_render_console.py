"""Tables of the terminal, as text."""

import dataclasses

import pytest
from as_read import printed
from synthetic_report import HOSTILE, HOSTILE_NAME, make_report, problems, without

from profiler.findings.find import find
from profiler.model import BuildResult, CellStatus, KernelFacts, Outcome, Problem, Variant
from profiler.render.console import lists
from profiler.render.console import tables as console
from profiler.render.console.lists import plan_table
from profiler.render.console.terminal import plain
from profiler.render.words import numbers
from profiler.sessions.forecasts.launch_counts import launch_counts, launches_note


def table_of(plan):
    return plan_table(plan, launch_counts(plan), launches_note(plan))


def test_summary_has_best_top_failures_and_answer(findings):
    text = printed(console.final_summary(findings, verbose=True))
    for part in (
        "Winner per problem",
        "Geometric means over 12 problems",
        "Failed: 20 of 408 cells",
        "torch.softmax",
    ):
        assert part in text
    assert "384 of 408 cells measured" in " ".join(text.split())
    assert HOSTILE_NAME in text, "rich must not read markup from names"


def test_summary_of_a_single_problem_needs_no_second_table():
    findings = find(make_report(variant_count=3, problem_list=problems()[:1]))
    text = printed(console.final_summary(findings))
    assert "Geometric means" not in text
    assert f"At {findings.programs.problems[0].name}" in text
    assert "Failed" not in text


def test_summary_of_nothing_measured():
    full = make_report(variant_count=3, problem_list=problems()[:1])
    empty = without(full, statuses={}, summary=full.measured.summary.iloc[:0])
    assert "No variant has a correct and measured result." in printed(
        console.final_summary(find(empty))
    )


def test_build_table_shows_facts_states_and_errors():
    variants = [Variant("a", "a [red]"), Variant("b", "b"), Variant("c", "c"), Variant("d", "d")]
    kernel = KernelFacts(HOSTILE, registers=40, spill_store_bytes=16, shared_bytes=None)
    builds = [
        BuildResult("a", ok=True, recipe_hash="1", kernels=(kernel,)),
        BuildResult("b", ok=True, recipe_hash="2", kernels=(kernel,), duplicate_of="a"),
        BuildResult("c", ok=False, recipe_hash="3", error="line 3: no <such> thing"),
        BuildResult("d", ok=True),
    ]
    text = printed(console.build_table(builds, variants), 240)
    for part in ("a [red]", "40", "16", "same machine code as a [red]", "compile failed"):
        assert part in text
    assert "c: line 3: no <such> thing" in text
    assert "no build step" in text


def test_an_error_that_variants_share_is_printed_once():
    variants = [Variant(str(place), f"tile{place}") for place in range(5)]
    error = "a.cu(3): error: no such thing\n    float tile[{}];\n          ^"
    failed = [BuildResult(str(n), ok=False, error=error.format(n)) for n in range(4)]
    other = BuildResult("4", ok=False, error="a.cu(9): error: another\n    x")
    text = printed(console.build_table([*failed, other], variants), 240)
    assert "in 4 variants (tile0, tile1, tile2, …): a.cu(3): error: no such thing" in text
    assert text.count("no such thing") == 1
    assert "float tile[0]" in text
    assert "tile4: a.cu(9): error: another" in text


@pytest.mark.parametrize("alike", [Outcome.COMPILE_FAILED, Outcome.WRONG_RESULT])
def test_cells_that_fail_alike_are_one_row_of_what_failed(alike):
    full = make_report(variant_count=4, problem_list=problems()[:2])
    first, *_, last = full.plan.variants
    statuses, error = dict(full.statuses), "no such thing as the type of its first argument"
    for cell in full.plan.cells:
        if cell.variant is not first:
            # Another outcome is another row, whatever its text.
            outcome = Outcome.RAISED if cell.variant is last else alike
            statuses[cell.id] = CellStatus(cell.id, outcome, cause=f"a.cu(3): {error}")
    summary = console.final_summary(find(without(full, statuses=statuses)))
    text = printed(summary, 240)
    assert "Failed: 6 of 8 cells" in text
    assert text.count("no such thing") == 2
    assert "2 variants (" in text
    assert "2 problems" in text
    heads = next(line for line in printed(summary, 110).splitlines() if line.endswith("cause"))
    assert 110 - heads.index("cause") > 32, "names of several variants leave room for the cause"


def test_plan_table_counts_cells_exclusions_and_visits(report):
    text = printed(table_of(report.plan), 240)
    assert "softmax: 408 cells, seed 42" in text
    assert "a row does not fit into <shared> memory" in text
    assert "36" in text
    assert str((408 + 12) * 8) in text, "the baseline is in every block twice"
    names = [variant.name for variant in report.plan.variants]
    assert f"{names[23]} and {len(names) - 24} more." in " ".join(text.split())
    (session, *_) = report.plan.sessions
    assert f"{session.metrics[3]} and {len(session.metrics) - 4} more" in " ".join(text.split())


def test_doctor_table_shows_state_and_remedy():
    row = ("ncu", "missing", "not [found]", "install it")
    text = printed(lists.doctor_table([row]))
    for part in row:
        assert part in text


def test_without_runs_the_list_says_so():
    assert "No runs here yet." in printed(lists.runs_table([]))


def test_control_characters_never_reach_the_terminal():
    text = printed(lists.doctor_table([("a\x1b[31mred", "ok", "b\x07", "")]))
    assert "\x1b" not in text
    assert "\x07" not in text


def test_narrow_spaces_of_numbers_stay_as_they_are():
    number = numbers.show(60.23e6, "")
    assert "\u202f" in number
    assert plain(number).plain == number


def plan_of(count):
    sizes = tuple(
        Problem(f"n{n}-{kind}", f"n={n},kind={kind}", {"n": n, "kind": kind})
        for n in range(count // 2)
        for kind in ("half", "float")
    )
    return make_report(variant_count=2, problem_list=sizes).plan


@pytest.mark.parametrize("count", [2, 40])
def test_titles_stay_on_one_line(count):
    plan = dataclasses.replace(plan_of(count), experiment="some-experiment", seed=123456789)
    title = f"some-experiment: {2 * count} cells, seed 123456789"
    assert title in printed(table_of(plan), 100).splitlines()[0]


def test_many_problems_are_told_by_their_values():
    few = printed(table_of(plan_of(4)))
    assert "n=1,kind=half" in few
    many = printed(table_of(plan_of(40)))
    assert "n=1,kind=half" not in many
    assert "n = 0, 1, 2," in many
    assert "kind = half, float" in many
    assert "40" in many


def test_problems_are_short_and_their_order_is_told():
    sizes = tuple(
        Problem(f"p{n}", f"m={n},n={2 * n},dtype=fp{n}", {"m": n, "n": 2 * n, "dtype": f"fp{n}"})
        for n in (16, 32)
    )
    findings = find(make_report(variant_count=3, problem_list=sizes))
    text = printed(console.final_summary(findings, verbose=True))
    assert "Winner per problem (m \u00d7 n dtype)" in text
    assert "16 \u00d7 32 fp16" in text


def test_problems_that_nobody_measured_are_counted_not_called_wrong(report):
    problem = report.plan.cells[0].problem
    cells = {cell.id for cell in report.plan.cells if cell.problem == problem}

    def with_outcome(outcome):
        statuses = {
            name: CellStatus(name, outcome) if name in cells else status
            for name, status in report.statuses.items()
        }
        kept = without(
            report,
            statuses=statuses,
            summary=report.measured.summary[~report.measured.summary["cell"].isin(cells)],
            samples=report.measured.samples[~report.measured.samples["cell"].isin(cells)],
        )
        return printed(console.final_summary(find(kept), verbose=True))

    text = with_outcome(Outcome.NOT_MEASURED)
    assert "1 more problem: not measured" in text
    assert "no correct result" not in text
    text = with_outcome(Outcome.WRONG_RESULT)
    assert "no correct result" in text
    assert "more problem: not measured" not in text
