"""The page of a ladder: ratios to the reference, steps, the ledger and what went with a step."""

import dataclasses
import math

import lxml.html
import pytest
from synthetic_report import make_report, problems, with_metrics, without

from profiler.findings.counters import counter_medians
from profiler.findings.find import find
from profiler.findings.kinds.steps import gains_and_losses
from profiler.metrics.queries import label
from profiler.render.figures.drawing import Mark, to_svg
from profiler.render.kinds.progression import (
    counter_bars,
    ladder_figure,
    ladder_marks,
    ledger,
    multiples_marks,
    panel_name,
    panels_of,
    progression_view,
)
from profiler.render.page import render_page
from profiler.render.words.answer import answer_of


@pytest.fixture(scope="module")
def laddered():
    """Twelve versions, of which one fails to compile and others fail somewhere."""
    return without(make_report(13), kind="progression")


@pytest.fixture(scope="module")
def climbing(laddered):
    return find(laddered)


@pytest.fixture(scope="module")
def ladder(climbing):
    return climbing.ladder


def test_versions_stand_in_the_order_of_the_spec_without_references(climbing, ladder):
    assert [one.variant for one in ladder] == list(climbing.programs.variants[1:])
    assert [one.number for one in ladder] == [*range(1, 9), *range(10, 13)], "9 is an alias"


def test_a_step_skips_versions_that_have_no_result(ladder):
    (failed,) = [one for one in ladder if one.cumulative is None]
    after = ladder[failed.number]
    assert failed.before is None
    assert after.before == ladder[failed.number - 2].variant


def test_steps_multiply_to_the_whole_where_all_are_measured(ladder):
    product = 1.0
    for one in ladder[1:4]:
        product *= one.step.effects[0].ratio
    assert product == pytest.approx(ladder[3].cumulative.effects[0].ratio, rel=0.02)
    assert ladder[0].cumulative.overall.ratio == 1.0


def test_steps_that_gain_stand_apart_from_those_that_lose(ladder):
    gains, losses = gains_and_losses(ladder)
    ratios = [effect.overall.ratio for effect in (*gains, *reversed(losses))]
    assert ratios == sorted(ratios)
    assert min(ratios) < 1 < max(ratios)
    assert len(ratios) == len([rung for rung in ladder if rung.step and rung.step.overall.pairs])


def test_the_ladder_has_no_tread_without_a_result(climbing, ladder):
    marks = ladder_marks(climbing.ranking, ladder)
    assert len(marks) == len([rung for rung in ladder if rung.cumulative is not None])
    assert marks[0].text == ""
    assert all(math.isfinite(mark.value + mark.low + mark.high) for mark in marks)


def test_every_version_has_a_line_in_the_ledger(climbing, ladder):
    table = ledger(climbing, ladder)
    lines = table["lines"]
    assert [one["number"] for one in lines] == [one.number for one in ladder]
    reasons = [one["why_none"] for one in lines if not one["moved"]]
    assert reasons[0] == "the first version"
    assert "compile failed" in reasons
    assert "the version before has no result here" in reasons
    assert all(len(one["row"].data) == len(table["columns"]) for one in lines)
    assert "[" in lines[1]["row"].data[3].text
    assert lines[1]["row"].data[3].css.startswith("verdict is-")


def test_counters_that_moved_are_few_stalls_and_have_bars(climbing, ladder):
    findings = climbing
    medians = counter_medians(findings.numbers)
    problem = findings.ranking.largest_problem
    assert problem is not None
    bars = counter_bars(ladder[3], problem, medians)
    names = [name for name, _, _ in bars]
    assert 1 <= sum(name.startswith("Stall:") for name in names) <= 2
    assert "Registers" in names
    lengths = [int(bar.removeprefix("w")) for *_, bar in bars]
    assert lengths == sorted(lengths, reverse=True), "what moved most comes first"
    assert counter_bars(ladder[0], problem, medians) == ()


def test_small_multiples_share_their_places(climbing, ladder):
    problem = climbing.ranking.largest_problem
    assert problem is not None
    panels = panels_of(climbing.numbers)
    marks = multiples_marks(climbing, ladder, problem, panels)
    assert list(marks) == list(panels)
    assert "Tensor pipe" not in {panel_name(panel) for panel in marks}, "it was not collected"
    nowhere = multiples_marks(climbing, ladder, problem, [(label("stack_bytes"),)])
    assert nowhere == {}
    places = [[mark.place for mark in of_panel] for of_panel in marks.values()]
    assert all(one == list(range(len(ladder))) for one in places)


@pytest.mark.usefixtures("undrawn")
def test_one_version_is_no_ladder():
    report = without(make_report(2, problem_list=problems()[:1]), kind="progression")
    findings = find(report)
    assert progression_view(findings)["ladder"] is None
    assert not any("ladder" in part.text for one in answer_of(findings) for part in one)


@pytest.mark.usefixtures("undrawn")
def test_without_a_baseline_there_is_no_percentage(laddered):
    plan = dataclasses.replace(laddered.plan, baseline=None)
    findings = find(without(laddered, plan=plan))
    parts = progression_view(findings)
    assert parts["ratios"] is None
    assert parts["ladder"] is not None


def test_marks_in_figures_belong_to_versions():
    marks = [
        Mark("1 a", 1.0, 1.0, 1.0, "", "best", 4),
        Mark("2 b", 0.5, 0.4, 0.6, "0.500\u00d7", "other", 7),
    ]
    drawing = to_svg(ladder_figure(marks, "Duration"), "f", "l", "d")
    assert 'data-variant="4"' in drawing
    assert 'data-variant="7"' in drawing
    assert "0.500\u00d7" in drawing


@pytest.mark.usefixtures("undrawn")
def test_the_page_says_went_with_and_shows_notes_where_there_are_any():
    whole = without(make_report(13, problem_list=problems()[:2]), kind="progression")
    small = with_metrics(whole, "duration_ns", "cycles", "instructions", "dram_read_bytes")
    tree = lxml.html.document_fromstring(render_page(find(small)))
    text = tree.xpath("//section[@id='figures']")[0].text_content()
    assert "they went with the step" in text
    heads = [one.text_content() for one in tree.xpath("//table[contains(@class, 'ledger')]//th")]
    assert "note" not in heads
    cells = [
        dataclasses.replace(one, variant=dataclasses.replace(one.variant, note="wide <loads>"))
        for one in small.plan.cells
    ]
    plan = dataclasses.replace(small.plan, cells=tuple(cells))
    noted = lxml.html.document_fromstring(render_page(find(without(small, plan=plan))))
    (table,) = noted.xpath("//table[contains(@class, 'ledger')]")
    assert "wide <loads>" in table.text_content()
