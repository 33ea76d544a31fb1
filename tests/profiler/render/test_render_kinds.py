"""What holds for every kind of page: one safe file with all shared sections."""

import re

import lxml.html
import pytest
import test_render_page as shared
from synthetic_report import make_report, without

from profiler.findings.find import find
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.planning.spec import json_schema
from profiler.render.page import render_page

SECTIONS = ("answer", "figures", "table", "why", "build", "method")


@pytest.fixture(scope="module", params=[kind for kind in PAGE_KINDS if kind != "versions"])
def page_of_kind(request, page_of):
    return page_of(request.param)


@pytest.fixture(scope="module")
def tree_of_kind(page_of_kind):
    return lxml.html.document_fromstring(page_of_kind)


def test_the_page_is_one_safe_file(page_of_kind, tree_of_kind):
    shared.test_is_one_file_of_bearable_size(page_of_kind)
    shared.test_ids_are_unique(tree_of_kind)
    shared.test_links_inside_the_page_have_targets(tree_of_kind)
    shared.test_nothing_is_fetched(page_of_kind, tree_of_kind)
    shared.test_hostile_names_are_text_only(page_of_kind, tree_of_kind)


def test_shared_sections_are_in_every_page(tree_of_kind):
    assert [one.get("id") for one in tree_of_kind.xpath("//main/section")] == list(SECTIONS)


def test_every_figure_says_what_it_shows(tree_of_kind):
    drawings = tree_of_kind.xpath("//figure//svg")
    assert drawings
    assert all(one.get("role") == "img" and one.get("aria-label") for one in drawings)


def test_only_verdicts_say_faster_or_slower(tree_of_kind):
    for text in tree_of_kind.xpath("//body//text()[not(parent::script)]"):
        assert not re.search(r"(?i)\b(regression|improvement)\b", text), text
        rest = shared.without_slowdowns(text)
        assert not re.search(r"\b([Ff]aster|[Ss]lower)\b", rest), text


@pytest.mark.parametrize("kind", list(PAGE_KINDS))
def test_a_kind_renders_with_hardly_anything_to_show(kind):
    small = make_report(2, problem_list=shared.problems()[:1], blocks=1, baseline=None)
    nothing = {
        "samples": small.measured.samples.iloc[:0],
        "summary": small.measured.summary.iloc[:0],
    }
    for one in (small, without(small, statuses={}, **nothing)):
        assert "<h1>" in render_page(find(without(one, kind=kind)))


def test_the_spec_offers_the_kinds_that_can_be_rendered():
    page = json_schema()["$defs"]["Page"]["properties"]["kind"]
    assert tuple(page["enum"]) == tuple(PAGE_KINDS)
