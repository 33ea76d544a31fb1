"""The section of in-kernel timelines, from buffers whose content is known."""

import lxml.html
import pytest
import stamped
from synthetic_report import make_report, problems, without

from profiler.findings.find import find
from profiler.parse.stamps import kernel_stamps
from profiler.render.page import render_page
from profiler.render.timeline.in_kernel_section import MOST_PICTURES, make_in_kernel_section


def report_with(lines):
    """A run whose first cells have these lines as their stamps."""
    report = make_report(variant_count=4, problem_list=problems()[:1])
    cells = [cell.id for cell in report.plan.cells if report.statuses[cell.id].outcome.correct]
    recorded = {cell: kernel_stamps(line) for cell, line in zip(cells, lines, strict=False)}
    return without(report, in_kernel=recorded)


@pytest.fixture(scope="module")
def tree():
    report = report_with([stamped.ping_pong(delay=200), stamped.ping_pong(delay=0)])
    return lxml.html.document_fromstring(render_page(find(report)))


def test_every_warpgroup_has_a_row_and_one_for_what_it_has_under_way(tree):
    (figure,) = tree.xpath("//figure[@id='figure-in-kernel-0']")
    texts = [text.text_content().strip() for text in figure.xpath(".//*[local-name()='text']")]
    assert texts.count("consumer 1") == texts.count("consumer 2") == 2, "in both panels"
    assert texts.count("Q K^T under way") == 4
    assert "softmax" in texts, "on its bars"


def test_activities_that_wait_have_no_colour(tree):
    keys = {
        key.text_content(): key.get("class")
        for key in tree.xpath("//section[@id='in-kernel']//span[contains(@class,'phase-key')]")
    }
    assert keys["start scores"] == "phase-key p-best", "what begins an operation comes first"
    assert keys["softmax"] == "phase-key p-baseline"
    assert keys["wait for scores"] == "phase-key"


def test_turns_are_seen_in_one_table(tree):
    (table,) = tree.xpath("//section[@id='in-kernel']//h3[.='Operations under way']/..//table")
    rows = [
        [cell.text_content().strip() for cell in row.xpath("./td")]
        for row in table.xpath(".//tbody/tr")
    ]
    in_turns, at_once = rows
    assert in_turns[2] == "0.0\u202f%"
    assert float(at_once[2].split("\u202f")[0]) > 48


def test_a_run_without_stamps_has_no_such_section(page_of):
    assert 'id="in-kernel"' not in page_of("versions")


@pytest.mark.usefixtures("undrawn")
def test_a_kernel_that_wrote_nothing_has_a_sentence_and_no_picture():
    section = make_in_kernel_section(find(report_with([stamped.line([])])))
    (cell,) = section["cells"]
    assert cell["sentence"] == "No warpgroup recorded anything."
    assert cell["chart"] is None
    assert section["overlap"] is None


@pytest.mark.usefixtures("undrawn")
def test_what_was_done_before_all_were_recorded_is_grey():
    first = stamped.consumer(0, delay=500, steps=4)
    first[2].insert(stamped.HEAD, stamped.stamp(5, 1_000_010))
    activities = ", ".join((*stamped.ACTIVITIES, "idle"))
    line = stamped.line([first, stamped.consumer(1, delay=600, steps=4)], activities=activities)
    section = make_in_kernel_section(find(report_with([line])))
    assert section["cells"][0]["chart"] is not None
    assert "idle" not in {name for name, _ in section["cells"][0]["keys"]}


@pytest.mark.usefixtures("undrawn")
def test_pictures_have_a_limit(monkeypatch):
    module = "profiler.render.timeline.in_kernel_section"
    monkeypatch.setattr(f"{module}.MOST_PICTURES", 1)
    section = make_in_kernel_section(find(report_with([stamped.ping_pong()] * 3)))
    assert [cell["chart"] is not None for cell in section["cells"]] == [True, False, False]
    assert section["left_out_pictures"] == 2
    assert MOST_PICTURES > 1
