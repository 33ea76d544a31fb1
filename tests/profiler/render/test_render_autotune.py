"""The page that tunes: ratios to the best, one for all, effects, needs, the funnel."""

import dataclasses

import pytest
from synthetic_report import without

from profiler.findings.find import find
from profiler.model import Verdict
from profiler.render.kinds.versions import parameter_effects
from profiler.render.tables.slowdowns import (
    single_choice_table,
    slowdown_heats,
)
from profiler.render.words.answer import sentences
from profiler.render.words.cards import cards


@pytest.fixture(scope="module")
def tuned(report):
    return without(report, kind="autotune")


@pytest.fixture(scope="module")
def tuning(tuned):
    return find(tuned)


def whole_heat(findings):
    """The heat map of a run in which every variant runs on every problem."""
    ((name, one),) = slowdown_heats(findings)
    assert name == ""
    return one


def with_reference(tuned, variant):
    plan = dataclasses.replace(tuned.plan, references=(variant,))
    return find(without(tuned, plan=plan))


def test_rows_stand_by_their_worst_case_and_references_below(tuning):
    heat = whole_heat(tuning)
    complete = [
        row for row, one in zip(heat.rows, tuning.ranking.ranks, strict=True) if one.complete
    ]
    worst = [float(row.data[0].raw or "nan") for row in complete]
    assert worst == sorted(worst)
    assert len(worst) > 5
    (baseline,) = [row for row in heat.rows if row.role == "baseline"]
    assert baseline.data[0].raw is None
    assert heat.rows.index(baseline) >= len(complete)


def test_each_problem_has_one_best_at_one(tuning):
    heat = whole_heat(tuning)
    for column in range(2, 2 + len(heat.problems)):
        best = [row.data[column] for row in heat.rows if "top" in row.data[column].css]
        assert [(one.text, one.raw) for one in best] == [("1.000", "1")]


def test_worst_and_mean_are_those_of_the_row(tuning):
    for row in whole_heat(tuning).rows:
        behind = [float(one.raw) for one in row.data[2:] if one.raw is not None]
        if row.data[0].raw is not None:
            assert float(row.data[0].raw) == pytest.approx(max(behind), rel=1e-4)
            assert float(row.data[1].raw or "nan") == pytest.approx(
                sum(behind) / len(behind), rel=1e-3, abs=1e-4
            )


def test_ties_are_marked_by_a_sign_and_by_words(tuning):
    ties = [one for row in whole_heat(tuning).rows for one in row.data if "tied" in one.css]
    assert ties
    for one in ties:
        assert one.text.startswith("\u2248")
        assert Verdict.SAME.word in one.title
        assert "within" in one.title


def test_failures_are_crossed_and_say_why(tuning):
    failed = [one for row in whole_heat(tuning).rows for one in row.data if one.text == "\u2715"]
    assert failed
    assert all(one.css == "failed" and one.raw is None and one.title for one in failed)


def test_a_reference_is_never_best_and_may_be_ahead(tuned, tuning):
    best = tuning.ranking.best
    apart = with_reference(tuned, best.id)
    assert apart.ranking.best is not None
    assert apart.ranking.best != best
    (row,) = [row for row in whole_heat(apart).rows if row.name == best.name]
    assert row.data[0].raw is None
    ahead = [datum for datum in row.data if datum.css == "ahead"]
    assert ahead
    assert all(float(datum.text) < 1 for datum in ahead)
    assert all("\u00d7 the best time" in datum.title for datum in ahead)
    assert best.name not in [row.name for row in single_choice_table(apart.ranking).lines]


def test_the_answer_says_first_which_to_use_everywhere(tuning):
    first, *_, last = ["".join(part.text for part in one) for one in sentences(tuning)]
    assert first.startswith(f"{tuning.ranking.best.name} has the lowest number at ")
    assert "used everywhere, at most" in first
    assert last.startswith("384 of 408 cells measured")
    assert "; at most" in cards(tuning)[0].detail


def test_nothing_to_pair_is_no_section(report):
    cells = [cell for cell in report.plan.cells if cell.variant.id == "torch"]
    alone = without(report, plan=dataclasses.replace(report.plan, cells=tuple(cells)))
    assert parameter_effects(find(without(alone, kind="autotune"))) is None


def test_variants_that_run_on_other_problems_are_no_rivals(tuned):
    def belongs(name, dtype):
        return name == "torch" or (name.endswith("v1") == (dtype == "fp16"))

    cells = [
        cell for cell in tuned.plan.cells if belongs(cell.variant.id, cell.problem.params["dtype"])
    ]
    plan = dataclasses.replace(tuned.plan, cells=tuple(cells))
    kept = tuned.measured.summary["cell"].isin([cell.id for cell in cells])
    findings = find(without(tuned, plan=plan, summary=tuned.measured.summary[kept]))
    (name, first), (other, second) = slowdown_heats(findings)
    assert {name, other} == {"dtype = fp16", "dtype = fp32"}
    for one in (first, second):
        assert len(one.problems) == 6
        assert one.rows[-1].name == "torch.softmax"
        assert "not in the plan" not in {datum.title for row in one.rows for datum in row.data}
    said = ["".join(part.text for part in one) for one in sentences(findings)]
    for one, text in zip((first, second), said, strict=False):
        assert text.startswith(f"{one.rows[0].name} has the lowest number at ")
        assert "; used at all of them, at most" in text
    assert "; not run at the 6 with dtype=fp32: there vector-b128-v4 (" in cards(findings)[0].detail
