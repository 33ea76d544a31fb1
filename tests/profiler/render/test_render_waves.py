"""The page of grids that are counted in waves."""

import io
import json
import math
from dataclasses import replace

import lxml.html
import pytest
from rich.console import Console
from synthetic_waves import MULTIPROCESSORS, WAVES, make_waves

from profiler.analyse.waves import tail_efficiency
from profiler.commands.output import dump, report_document
from profiler.findings.find import find
from profiler.model import Environment, Outcome
from profiler.render.console.tables import final_summary
from profiler.render.kinds.waves import wave_table
from profiler.render.page import render_page


@pytest.fixture(scope="module")
def report():
    return make_waves()


@pytest.fixture(scope="module")
def findings(report):
    return find(report)


@pytest.fixture(scope="module")
def tree(findings):
    return lxml.html.document_fromstring(render_page(findings))


def texts(tree, path):
    return [" ".join(one.text_content().split()) for one in tree.xpath(path)]


def test_the_table_has_every_grid(report):
    table = wave_table(find(report))
    assert len(table) == len(WAVES) * 2
    one = table[(table["variant"] == "b4") & (table["waves"] == 1.01)].iloc[0]
    assert one["blocks"] == 534
    assert one["blocks_per_sm"] == pytest.approx(534 / MULTIPROCESSORS)
    assert one["time_ns"] == pytest.approx(100_000, rel=0.01)


def test_without_waves_and_grids_those_of_the_problem_are_taken():
    table = wave_table(find(make_waves((1, 1.5, 2), grids=False)))
    assert table["waves"].tolist() == [1, 1, 1.5, 1.5, 2, 2]
    assert table["blocks_per_sm"].isna().all()
    efficiency = tail_efficiency(table)["efficiency"]
    assert efficiency.tolist() == pytest.approx([1, 1, 0.75, 0.75, 1, 1])


def test_cells_that_are_wrong_are_left_out(report):
    cell = report.plan.cells[0].id
    wrong = replace(report.statuses[cell], outcome=Outcome.WRONG_RESULT)
    table = wave_table(find(replace(report, statuses={**report.statuses, cell: wrong})))
    assert len(table) == len(WAVES) * 2 - 1


def test_the_answer_says_from_where_on_and_judges_the_rule(tree):
    answer = texts(tree, "//div[@class='sentences']/p")
    # Just above 8 waves it is 8.02 / 9; 8.5 / 9 is good again, and so is all that follows.
    assert answer[0] == (
        "1 a <b> keeps at least 90.0 % of the rate of full waves from 8.5 waves (8.5 blocks per "
        "SM) on, as far as was measured (10 waves). At least 4 blocks per SM are not always "
        "enough: the least is 80.3 %, at 4.02 waves."
    )
    assert "from 8.5 waves (34 blocks per SM) on" in answer[1]
    assert "are not always enough: the least is 50.6 %, at 1.01 waves" in answer[1]
    assert answer[-1].endswith("cells measured.")


def test_figures_and_tables_say_the_same(tree):
    titles = texts(tree, "//figure//figcaption/b")
    assert titles[:2] == ["Time by waves", "Tail efficiency by blocks per SM"]
    needs = texts(tree, "//caption[.='What each variant needs']/..//tbody//td")
    assert needs[-1] == "does not hold"
    grids = tree.xpath("//caption[starts-with(., 'Every grid with')]/..//tbody/tr")
    assert len(grids) == len(WAVES) * 2
    first = [cell.text_content() for cell in grids[0].xpath("td")]
    assert first == ["0.5", "66", "0.5", "50.05\u202fµs", "25.02\u202fµs", "50.0\u202f%", "\u2013"]


@pytest.mark.usefixtures("undrawn")
def test_unknown_multiprocessors_are_no_number(report):
    page = render_page(find(replace(report, environment=Environment())))
    tree = lxml.html.document_fromstring(page)
    answer = texts(tree, "//div[@class='sentences']/p")
    assert "blocks per SM" not in answer[0]
    assert "Tail efficiency by waves" in page


def test_without_full_waves_there_is_no_efficiency():
    report = make_waves((0.5, 1.5))
    table = tail_efficiency(wave_table(find(report)))
    assert all(math.isnan(one) for one in table["efficiency"])
    page = render_page(find(report))
    assert "Time by waves" in page
    assert "How many blocks are enough" not in page


@pytest.mark.usefixtures("undrawn")
def test_no_steady_grid_and_a_rule_that_holds_are_said():
    (first, _, _) = texts(
        lxml.html.document_fromstring(render_page(find(make_waves((1, 2, 4, 8, 8.01))))),
        "//div[@class='sentences']/p",
    )
    assert first.startswith(
        "1 a <b>: no grid up to 8.02 waves from which on all keep at least 90.0"
    )
    assert "not always enough: the least is 89.1" in first
    (first, second, _) = texts(
        lxml.html.document_fromstring(render_page(find(make_waves((1, 2, 4, 8, 9.5))))),
        "//div[@class='sentences']/p",
    )
    assert "from 1 waves (1 blocks per SM) on" in first
    assert "At least 4 blocks per SM are enough: the least is 95.0" in first
    assert "from 1 waves (4 blocks per SM) on" in second


def test_the_console_and_the_json_answer_the_question_of_the_page(findings):
    stream = io.StringIO()
    Console(file=stream, width=250, color_system=None, highlight=False).print(
        final_summary(findings)
    )
    shown = " ".join(stream.getvalue().split())
    assert "How many blocks fill the GPU" in shown
    assert "Winner per problem" not in shown
    assert "keeps at least 90.0 % of the rate of full waves from 8.5 waves" in shown
    document = json.loads(dump(report_document(findings)))["waves"]
    first, second = document["variants"]
    assert (first["good_from_waves"], first["good_from_blocks_per_sm"]) == (8.5, 8.5)
    assert (second["good_from_waves"], second["good_from_blocks_per_sm"]) == (8.5, 34)
    assert first["rule_holds"] is False
    assert first["rule_least_efficiency"] == pytest.approx(0.803, abs=0.001)
    assert len(document["grids"]) == len(wave_table(findings))
    assert {"waves", "blocks", "time_ns", "ideal_ns", "efficiency"} <= set(document["grids"][0])
