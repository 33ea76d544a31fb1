"""The page of single parameters: effects by problem, and the counters that went with them."""

import dataclasses
import re

import lxml.html
import pytest
from synthetic_report import make_report, problems, with_metrics, without

from profiler.analyse.effects import CounterChange
from profiler.findings.counters import counter_medians
from profiler.findings.find import find
from profiler.metrics.queries import label
from profiler.render.kinds.versions import MOST_STEPS, ablation_view
from profiler.render.page import render_page
from profiler.render.tables.heats import moved_table
from profiler.render.tables.rows import move_datum
from profiler.render.words.answer import answer_of
from profiler.render.words.comparisons import step_summary


@pytest.fixture(scope="module")
def ablated(report):
    return without(report, kind="ablation", parameters=("vec",))


@pytest.fixture(scope="module")
def ablation(ablated):
    return find(ablated)


def test_without_names_all_parameters_that_differ(ablated):
    findings = find(without(ablated, parameters=()))
    names = {one.step.parameter for one in findings.parameter_steps}
    assert names == {"kernel", "block", "vec"}


def test_named_references_are_not_paired(ablated):
    shared = [cell.variant.id for cell in ablated.plan.cells if cell.variant.params.get("vec") == 4]
    plan = dataclasses.replace(ablated.plan, references=tuple(dict.fromkeys(shared)))
    assert find(without(ablated, plan=plan)).parameter_steps == ()


def test_one_problem_has_its_interval_in_the_sentence():
    small = make_report(30, problem_list=problems()[:1])
    findings = find(without(small, kind="ablation", parameters=("vec",)))
    (found,) = findings.parameter_steps
    summary = step_summary(findings.programs.problems, found)
    assert f"at {findings.programs.problems[0].name} [" in summary
    assert re.search(r"\], [\u25bc\u25b2=?] [A-Z]+ \(.*8 blocks.*\)\.$", summary)


@pytest.mark.usefixtures("undrawn")
def test_many_steps_are_counted_in_the_answer():
    # Many variants make many steps; each is drawn over the problems, of which two are enough.
    many = make_report(34, problem_list=problems()[:2])
    findings = find(without(many, kind="ablation"))
    said = ["".join(part.text for part in one) for one in answer_of(findings)]
    total = len(findings.parameter_steps)
    assert total > MOST_STEPS
    assert f"{total - 4} more steps stand below." in said
    parts = ablation_view(findings)
    assert len(parts["ablations"]) == min(total, MOST_STEPS)
    assert parts["left_out_steps"] == total - len(parts["ablations"])


def test_counters_that_follow_from_the_time_explain_nothing(ablation):
    names = {metric.name for metric in counter_medians(ablation.numbers)}
    assert names.isdisjoint({"duration_ns", "cycles", "gbps", "tflops"})
    assert {"registers", "instructions", "stall_barrier", "l2_hit_pct"} <= names


def test_counters_stand_by_how_far_they_moved(ablation):
    findings = ablation
    (found,) = findings.parameter_steps
    medians = counter_medians(findings.numbers)
    table = moved_table(findings.programs, found.step, medians)
    assert "Instructions" not in [row.name for row in table.rows], "the same in all variants"
    still = {label("instructions"): medians[label("instructions")]}
    assert moved_table(findings.programs, found.step, still) is None


def test_percentages_change_in_points_and_counts_by_a_factor():
    assert move_datum(label("l2_hit_pct"), CounterChange(1, 50.0, 62.5)).text == "+12.5 points"
    assert move_datum(label("l2_hit_pct"), CounterChange(1, 50.0, 49.99)).text == "\u00b10.0 points"
    assert move_datum(label("l2_hit_pct"), CounterChange(1, 50.0, 48.2)).text == "\u22121.8 points"
    assert move_datum(label("instructions"), CounterChange(1, 200.0, 100.0)).text == "0.500\u00d7"
    assert move_datum(label("bank_conflicts"), CounterChange(1, 8.0, 0.0)).text == "to 0"
    assert move_datum(label("bank_conflicts"), CounterChange(0)).title == "not collected for both"


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_went_with():
    small = without(
        make_report(13, problem_list=problems()[:2]), kind="ablation", parameters=("vec",)
    )
    tree = lxml.html.document_fromstring(render_page(find(small)))
    heads = [one.text_content() for one in tree.xpath("//section[@id='figures']//h3")]
    assert heads[:2] == ["All steps", "vec: 1 \u2192 4"]
    assert tree.xpath("//h4[text()='Counters that went with it']")
    bare = with_metrics(without(small, parameters=("torch",)), "duration_ns")
    alone = lxml.html.document_fromstring(render_page(find(bare)))
    assert "No two measured variants differ" in alone.text_content()
