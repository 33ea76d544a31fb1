"""The page of grids: axes, ratios both ways, outcomes, magnitudes, slices and extremes."""

import dataclasses
import math
import re
from collections import Counter

import lxml.html
import pytest
from synthetic_grid import IMPLEMENTATIONS, make_grid
from synthetic_report import unmeasured, without

from profiler.findings.find import find
from profiler.findings.kinds.grids import (
    grids,
    with_ratio,
)
from profiler.model import CellStatus, Outcome, Problem, Verdict
from profiler.render.kinds.grid import grid_pairs_of, grid_view, overview, saved_marks
from profiler.render.page import render_page
from profiler.render.tables import grids as grid_tables
from profiler.render.tables.grids import GridQuantity, kernel_lists, metric_heats, pair_heat
from profiler.render.tables.heats import scale_of
from profiler.render.words.verdicts import details

SCALE = scale_of([0.02, 1.0, 50.0])


@pytest.fixture(scope="module")
def run():
    return make_grid()


@pytest.fixture(scope="module")
def findings(run):
    return find(run)


@pytest.fixture(scope="module")
def pairs(findings):
    return grid_pairs_of(findings)


@pytest.fixture(scope="module")
def html(findings):
    return lxml.html.document_fromstring(render_page(findings))


def _problems(*rows):
    return [Problem(str(number), str(number), row) for number, row in enumerate(rows)]


# ---- axes ----------------------------------------------------------------------------------------


def test_one_number_is_the_columns_and_words_are_the_rows():
    rows = [{"n": n, "layout": one} for n in (1, 2, 3) for one in ("rows", "columns")]
    (found,) = grids(_problems(*rows))
    assert (found.rows, found.columns) == ("layout", "n")
    (line,) = grids(_problems({"n": 1}, {"n": 2}))
    assert (line.rows, line.columns, line.row_values) == ("", "n", ("",))
    assert line.place("", 2) == "n = 2"
    (single,) = grids(_problems({"name": "default"}))
    assert len(single.problems) == 1


def test_grids_of_one_name_are_told_apart():
    rows = [{"op": "a", "m": 1, "n": n} for n in (1, 2)]
    rows += [{"op": "a", "m": m, "k": k} for m in (1, 2) for k in (1, 2)]
    names = [one.name for one in grids(_problems(*rows), split=("op",))]
    assert len(set(names)) == len(names) == 2


# ---- pairs and heat maps -------------------------------------------------------------------------


def test_verdicts_follow_the_measured_times(pairs):
    chain, softmax = pairs.grids
    fast = with_ratio(pairs.cells_of(pairs.compared_pairs[1], chain))
    assert {one.verdict.verdict for one in fast} == {Verdict.FASTER}
    even = with_ratio(pairs.cells_of(pairs.compared_pairs[1], softmax))
    assert {one.verdict.verdict for one in even} <= {Verdict.SAME, Verdict.UNCLEAR}
    assert fast[0].verdict.ratio < fast[-1].verdict.ratio < 1
    assert fast[0].saved == pytest.approx(3.5)


@pytest.mark.usefixtures("undrawn")
def test_titles_state_the_direction_and_no_map_is_the_reciprocal_of_another(findings, pairs):
    both = pair_heat(findings.programs, pairs, pairs.compared_pairs[0], pairs.grids[0], SCALE)
    assert both["title"] == "compile / eager, time: below 1 is better"
    titles = [
        heat["title"] for block in grid_view(findings)["grid_blocks"] for _, heat in block["pairs"]
    ]
    assert titles
    assert not any("performance" in title for title in titles)
    datum = both["rows"][1][1][1]
    assert datum.text.endswith("\N{MULTIPLICATION SIGN}")
    assert f"{Verdict.FASTER.word} [" in datum.title


def test_few_blocks_give_no_verdict():
    rows = with_ratio(grid_pairs_of(find(make_grid(blocks=3))).with_baseline())
    assert {one.verdict.verdict for one in rows} == {Verdict.UNCLEAR}
    assert "3 blocks; a verdict needs 6 or more" in details(rows[0].verdict)


def test_magnitudes_share_one_logarithmic_scale(findings, pairs):
    quantity = GridQuantity(
        "Time", "ns", lambda cell: findings.numbers.value(cell, "duration_ns").median
    )
    heats = metric_heats(findings.programs, quantity, pairs.grids[0])
    titles = [heat["title"] for heat in heats["heats"]]
    assert titles == [f"{name}, time" for name in IMPLEMENTATIONS]
    assert len(heats["legend"]) == grid_tables.SHADES
    data = [d for heat in heats["heats"] for _, row in heat["rows"] for d in row if d.raw]
    low, high = (pick(data, key=lambda d: float(d.raw or 0)) for pick in (min, max))
    assert (low.css, high.css) == ("b0", "b6")
    assert low.text.endswith("\N{MICRO SIGN}s")
    nothing = GridQuantity("Nothing", "", lambda _: math.nan)
    assert metric_heats(findings.programs, nothing, pairs.grids[0]) is None


# ---- what figures are given ----------------------------------------------------------------------


def test_scatter_has_only_cells_known_on_both_sides(findings, pairs):
    marks = saved_marks(findings, pairs.grids[0])
    assert Counter(mark.name for mark in marks) == {"triton": 16, "compile": 13}
    assert [mark.place for mark in marks] == pytest.approx([3.5] * len(marks))
    assert all(mark.value > 1 for mark in marks)


# ---- tables --------------------------------------------------------------------------------------


def test_what_nobody_measured_is_not_counted_as_no_data(run, pairs):
    first = next(
        pair
        for pair in pairs.cells_of(pairs.compared_pairs[0], pairs.grids[0])
        if pair.verdict.ratio > 0
    )
    status = CellStatus(first.over.id, Outcome.NOT_MEASURED)
    statuses = {**run.statuses, first.over.id: status}
    said = overview(find(dataclasses.replace(run, statuses=statuses))).lines[0].data[1].text
    assert f"{Verdict.NO_DATA.word} at 3 of 15 problems" in said


def test_without_kernel_names_there_are_no_lists(run):
    samples = run.measured.samples.assign(kernel_names=None)
    findings = find(without(run, samples=samples))
    assert kernel_lists(findings) == {}


# ---- the page ------------------------------------------------------------------------------------


def test_every_drawing_has_a_description(html):
    drawings = html.xpath("//section[@id='figures']//*[local-name()='svg']")
    assert len(drawings) == 2 * 3, "one scatter and two slices a grid"
    assert all(one.get("role") == "img" and one.get("aria-label") for one in drawings)
    captions = html.xpath("//div[@class='grid-map']/table/caption")
    assert len(captions) == len(html.xpath("//div[@class='grid-map']/table"))


def test_nothing_correct_is_still_a_page(run):
    statuses = {
        cell: dataclasses.replace(status, outcome=Outcome.OUT_OF_MEMORY)
        for cell, status in run.statuses.items()
    }
    page = render_page(find(without(run, statuses=statuses)))
    assert "OUT OF MEMORY" in page


@pytest.mark.usefixtures("undrawn")
def test_ten_by_ten_has_all_cells():
    sizes = [128 << step for step in range(10)]
    findings = find(make_grid(("pointwise_chain",), sizes, ("eager", "compile"), blocks=6))
    (block,) = grid_view(findings)["grid_blocks"]
    ((_, first), *_) = block["pairs"][0][1]["rows"]
    assert len(block["pairs"][0][1]["rows"]) == len(first) == 10
    assert [metric["name"] for metric in block["metrics"]][:3] == [
        "Time",
        "Kernels launched",
        "DRAM bytes, read and written",
    ]
    assert len(block["slices"]) == 2


def test_slices_that_nobody_measured_have_no_panel(run):
    """A logarithmic axis without a point cannot be drawn at all."""
    gone = {cell.id for cell in run.plan.cells if cell.problem.params["dim0"] == 128}
    findings = find(unmeasured(run, gone))
    grid = grid_pairs_of(findings).grids[0]
    (along_dim1, _) = grid_view(findings)["grid_blocks"][0]["slices"]
    assert re.findall(r"dim0 = \d+", along_dim1.drawing) == [
        f"dim0 = {size}" for size in grid.row_values if size != 128
    ]
    assert "time along dim1" in render_page(findings)


@pytest.mark.usefixtures("undrawn")
def test_grids_of_which_nothing_was_measured_are_counted(run):
    every = {cell.problem.params["operator"] for cell in run.plan.cells}
    gone = {
        cell.id for cell in run.plan.cells if cell.problem.params["operator"] != "pointwise_chain"
    }
    findings = find(unmeasured(run, gone))
    parts = grid_view(findings)
    assert [block["grid"].name for block in parts["grid_blocks"]] == ["pointwise_chain"]
    assert parts["left_out_grids"] == len(every) - 1
    assert "more grid of the plan: nothing of it was measured" in render_page(findings)
    nothing = unmeasured(run, run.statuses.keys())
    assert grid_view(find(nothing))["left_out_grids"] == 0
