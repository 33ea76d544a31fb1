"""The first screen: one sentence, four cards, one figure; everything else is further down."""

import re
from collections import defaultdict
from dataclasses import replace

import lxml.html
import numpy as np
import pandas as pd
import pytest
from cell_statuses import with_facts
from synthetic_grid import make_grid
from synthetic_report import make_report, problems, unmeasured, without
from synthetic_waves import make_waves

from profiler.findings.find import find
from profiler.findings.kinds.timers import OVERALL_COLUMNS, TIMER_COLUMNS, TimerComparison
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.render.figures.ratio_rows import ratio_ticks
from profiler.render.kinds.grid import grid_pairs_of
from profiler.render.kinds.maps import HeatMap, MapCell, columns_for, grid_chart
from profiler.render.kinds.ratios import strip_marks, versions_chart
from profiler.render.words.cards import cards
from profiler.render.words.headline import headline
from profiler.render.words.signs import ORDER

MOST_WORDS = 45


def words_of(findings):
    return "".join(part.text for part in headline(findings))


@pytest.fixture(scope="module", params=list(PAGE_KINDS))
def answer(request, page_of):
    """The section of the answer on the page of a kind."""
    tree = lxml.html.document_fromstring(page_of(request.param))
    return tree.xpath("//section[@id='answer']")[0]


def test_it_is_one_sentence_four_cards_and_at_most_one_figure(answer):
    shown = [child for child in answer if child.tag != "h2"]
    tags = [child.get("class") or child.tag for child in shown]
    assert tags[:2] == ["answer", "cards"]
    figures = [child for child in shown if child.tag == "figure"]
    assert [figure.get("id") for figure in figures] in ([], ["figure-first"])
    assert tags.index("more") == 2 + len(figures), "what else is said is folded, after the figure"
    assert len(shown[1]) == 4
    sentence = shown[0].text_content()
    assert sentence.endswith(".")
    assert len(sentence.split()) <= MOST_WORDS
    for card in shown[1]:
        texts = [text.strip() for text in card.xpath("./p/text()")]
        assert texts[0] not in ("", "\u2013"), "a card says what is known, in a phrase"


def test_most_kinds_have_their_figure_on_it(page_of):
    for kind in ("versions", "autotune", "ablation", "progression"):
        assert 'id="figure-first"' in page_of(kind), kind


def test_a_variant_has_one_colour_in_all_figures(tree):
    colours = defaultdict(set)
    for drawing in tree.xpath("//figure//svg"):
        rules = dict(re.findall(r"\.(s\w+)\{([^}]*)\}", drawing.findtext("style") or ""))
        for mark in drawing.xpath(".//*[@data-variant]"):
            texts = [rules.get(name, "") for name in mark.get("class").split()]
            fills = re.findall(r"(?:fill|stroke): var\(--([\w-]+)\)", " ".join(texts))
            colours[mark.get("data-variant")] |= {name for name in fills if name != "ink"}
    assert len(colours) > 20
    assert {"best", "baseline", "other"} <= set().union(*colours.values())
    assert {variant: names for variant, names in colours.items() if len(names) > 1} == {}


# ---- sentences -----------------------------------------------------------------------------------


def test_a_baseline_that_is_ahead_comes_first():
    best = find(make_report(variant_count=6, problem_list=problems()[:2])).ranking.best
    led = find(make_report(variant_count=6, problem_list=problems()[:2], baseline=best.id))
    assert words_of(led).startswith(f"{best.name}, the baseline, is ahead; of the rest, ")


@pytest.mark.parametrize(("variants", "words"), [(2, " takes"), (6, ", first of the rest, takes")])
def test_a_baseline_that_is_ahead_at_the_only_problem_is_what_others_are_compared_with(
    variants, words
):
    wanted = {"variant_count": variants, "problem_list": problems()[:1]}
    best = find(make_report(**wanted)).ranking.best
    report = make_report(**wanted, baseline=best.id)
    led = find(report)
    after = led.ranking.best_rank.variant
    text = words_of(led)
    assert text.startswith(f"{best.name}, the baseline, ")
    assert f"; {after.name}{words} " in text
    assert f" the time of {best.name}, " in text.partition(f"; {after.name}")[2]
    assert ("first of the rest" in cards(led)[1].detail) == (variants > 2)
    rest = {cell.id for cell in report.plan.cells if cell.variant.id not in (best.id, after.id)}
    only_one = find(unmeasured(report, rest))
    assert "first of the rest" not in words_of(only_one) + cards(only_one)[1].detail


def test_what_no_number_shows_is_said_beside_the_verdicts():
    report = make_report(variant_count=3, problem_list=problems()[:2])
    findings = find(report)
    best = findings.ranking.best
    assert "whole launches" not in cards(findings)[2].detail
    samples = report.measured.samples
    several = samples["cell"].isin([c.id for c in report.plan.cells if c.variant.id == best.id])
    samples = samples.assign(kernels=np.where(several, 9.0, 1.0))
    samples["duration_ns"] /= samples["duration_ns"].max() / 1000
    shorter = find(without(report, samples=samples))
    assert shorter.ranking.best == best
    assert cards(shorter)[2].answer.startswith("? UNCLEAR at both")
    assert "with 1 µs between the kernels of a launch" in cards(shorter)[2].detail
    assert "--timer" not in cards(shorter)[2].detail  # no result was seen: a command, without timer
    checked = {
        cell: with_facts(status, result_bytes=4.0) for cell, status in report.statuses.items()
    }
    assert cards(find(without(report, samples=samples, statuses=checked)))[2].detail.endswith(
        "; --timer times whole launches"
    )


def test_a_problem_at_which_few_were_tried_decides_no_rank():
    full_report = make_report(variant_count=4, problem_list=problems()[:2])
    ranked = [rank.variant for rank in find(full_report).ranking.ranks]
    names = [variant.name for variant in ranked]
    last = problems()[1].id
    untried = {
        cell.id
        for cell in full_report.plan.cells
        if cell.problem.id == last and cell.variant.name != names[-1]
    }
    cut = find(unmeasured(full_report, untried))
    assert [rank.variant.name for rank in cut.ranking.ranks] == names
    assert cut.ranking.leader.variant.name == names[0]
    assert cards(cut)[0].detail.endswith("▲ at 1")  # of the next, which has only one


def test_one_problem_is_said_with_its_number_and_verdict():
    report = make_report(variant_count=6, problem_list=problems()[:1])
    text = words_of(find(report))
    assert re.search(r"(is the best|has the lowest time), [\d.]+\u202f(µs|ms)", text)
    assert any(verdict.word in text for verdict in ORDER[:3])


def test_a_baseline_without_another_is_not_compared_with_itself():
    report = make_report(variant_count=3, problem_list=problems()[:2])
    cells = tuple(c for c in report.plan.cells if c.variant.id == report.plan.baseline)
    alone = find(without(report, plan=replace(report.plan, cells=cells)))
    assert words_of(alone) == f"{cells[0].variant.name} alone was measured, at 2 problems."


def test_nothing_correct_is_said_plainly():
    small = make_report(2, problem_list=problems()[:1], blocks=1)
    nothing = without(
        small, samples=small.measured.samples.iloc[:0], summary=small.measured.summary.iloc[:0]
    )
    findings = find(nothing)
    assert words_of(findings) == "No variant has a correct and measured result."
    best, difference, *_ = cards(findings)
    assert best.detail == difference.detail == "no correct result was measured"


def test_waves_say_from_where_on_all_are_good():
    text = words_of(find(make_waves()))
    assert text.startswith(
        "A grid needs 8.5 to 34 thread blocks per SM (8.5 waves) to reach 90.0\u202f% of the rate"
    )
    never = words_of(find(make_waves((1, 2, 4, 8, 8.01))))
    assert "A grid needs" not in never, "where none is good, the sentence is another"


# ---- timers --------------------------------------------------------------------------------------


def timers_of(means, cell="a"):
    overall = pd.DataFrame(
        [(name, 4, mean, mean, mean, cell, cell) for name, mean in means.items()],
        columns=list(OVERALL_COLUMNS),
    )
    medians = pd.DataFrame(columns=list(TIMER_COLUMNS))
    return TimerComparison("ncu", tuple(means), medians, overall, pd.DataFrame(), None)


def test_cards_of_timers_are_about_timers(findings):
    cell = findings.programs.cells[0].id
    timers = timers_of({"nsys": 0.9, "timer": 3.0, "wall_clock": 0.2}, cell)
    shown = cards(replace(findings, timers=replace(timers, wall_clock=timers.medians)))
    questions = [card.question for card in shown]
    assert questions == ["Nearest to ncu", "By how much", "Is it real", "Why"]
    assert (shown[0].answer, shown[1].answer) == ("nsys timeline", "2 others")
    assert shown[0].detail == "mean 0.900\u00d7 (0.900\u00d7 to 0.900\u00d7) the time by ncu"


# ---- figures -------------------------------------------------------------------------------------


def test_the_strip_has_a_dot_for_each_configuration_and_lines_for_references(findings_of):
    findings = findings_of("autotune")
    dots, lines = strip_marks(findings, findings.programs.problems)
    correct = {findings.programs.cell_numbers[cell] for cell in findings.programs.correct_cells}
    assert {mark.cell for mark in (*dots, *lines)} == correct
    references = {findings.programs.marks[variant] for variant in findings.programs.references}
    assert {mark.variant for mark in lines} == references
    assert not references & {mark.variant for mark in dots}
    baseline = findings.programs.marks[findings.programs.baseline.id]
    ratios = [mark.value for mark in lines if mark.variant == baseline]
    assert ratios == [1.0] * len(findings.programs.problems)


def test_panels_show_the_best_of_each_problem_first(findings):
    chart = versions_chart(findings)
    tree = lxml.html.fromstring(str(chart.drawing))
    first_problem = findings.programs.problems[0]
    best = findings.ranking.winners[first_problem.id].cell
    (title,) = [
        text for text in tree.xpath(".//text/text()") if text.startswith(first_problem.name)
    ]
    assert title.startswith(f"{first_problem.name} \u00b7 ")
    numbers = [int(mark.get("data-cell")) for mark in tree.xpath(".//*[@data-cell]")]
    assert numbers[0] == findings.programs.cell_numbers[best.id]
    baselines = {
        findings.programs.cell_numbers[cell.id]
        for cell in findings.programs.correct_cells.values()
        if cell.variant == findings.programs.baseline
    }
    assert baselines <= set(numbers), "what all are compared with is in each panel"


def test_without_a_baseline_panels_are_relative_to_the_best():
    findings = find(make_report(variant_count=4, problem_list=problems()[:2], baseline=None))
    chart = versions_chart(findings)
    texts = lxml.html.fromstring(str(chart.drawing)).xpath(".//text/text()")
    assert "Duration \u00f7 that of the best" in texts
    assert texts.count("1.000\u00d7") == 2, "the best of each problem"


def test_maps_of_a_grid_say_same_and_unclear_in_signs():
    findings = find(make_grid())
    chart = grid_chart(findings, grid_pairs_of(findings))
    texts = lxml.html.fromstring(str(chart.drawing)).xpath(".//text/text()")
    assert "compile \u00f7 eager, pointwise_chain" in texts
    assert not any(text.startswith("eager \u00f7") for text in texts), "no map twice"
    assert any(re.fullmatch(r"[=?]1\.0\d|[=?]0\.99", text) for text in texts)
    assert "\N{MULTIPLICATION X}" in texts, "a cell without a result"


def test_as_many_maps_stand_beside_each_other_as_can_be_read():
    def of(columns):
        cell = MapCell(0, 0, "0.50", -2, 0, 0)
        return HeatMap("t", ("a",), tuple(map(str, range(columns))), (cell,))

    assert columns_for([of(4)] * 6) == 4
    assert columns_for([of(12)] * 6) == 2
    assert columns_for([of(40)] * 6) == 1


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((0.84, 1.06), 1.0), ((0.2, 20.0), 10.0), ((0.5, 1.4), 0.9)],
)
def test_ticks_of_ratios_are_round_and_have_one(ends, expected):
    ticks = ratio_ticks(*ends)
    assert {1.0, expected} <= set(ticks)
    assert len(ticks) <= 15
    assert all(len(f"{tick:g}") <= 4 for tick in ticks)
