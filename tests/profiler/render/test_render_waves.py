"""The page of grids that are counted in waves."""

import math
from dataclasses import replace

import lxml.html
import pytest
from synthetic_waves import WAVES, make_waves

from profiler.findings.find import find
from profiler.findings.kinds.waves import tail_efficiency
from profiler.model import Environment, Outcome
from profiler.render.kinds.waves import wave_table
from profiler.render.page import render_page


@pytest.fixture(scope="module")
def report():
    return make_waves()


def texts(tree, path):
    return [" ".join(one.text_content().split()) for one in tree.xpath(path)]


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
