"""One synthetic run of more than 400 cells and its page, shared by the tests of this folder."""

import functools

import lxml.html
import pytest
from synthetic_report import make_report, problems, with_metrics, without

from profiler.findings.find import find
from profiler.render.page import render_page

FEW = ("duration_ns", "cycles", "registers")
"""Metrics of the pages that are drawn of every kind; `page` has all."""


@pytest.fixture(scope="session")
def report():
    return make_report(variant_count=34)


@pytest.fixture(scope="session")
def findings_of(report):
    """The findings of the run by its kind of page; each are found once."""
    return functools.cache(lambda kind: find(without(report, kind=kind)))


@pytest.fixture(scope="session")
def findings(report, findings_of):
    return findings_of(report.settings.kind)


@pytest.fixture(scope="session")
def findings_by_baseline():
    """The findings of the run by the id of its baseline; each are found once."""
    return functools.cache(lambda baseline: find(make_report(variant_count=34, baseline=baseline)))


@pytest.fixture(scope="session")
def page_of():
    """The page of a smaller run, with fewer metrics, by its kind; each is drawn once."""
    small = with_metrics(make_report(variant_count=12, problem_list=problems()[:3]), *FEW)
    return functools.cache(lambda kind: render_page(find(without(small, kind=kind))))


@pytest.fixture(scope="session")
def page(findings):
    """The page of the run, drawn once: it takes seconds."""
    return render_page(findings)


@pytest.fixture(scope="session")
def tree(page):
    return lxml.html.document_fromstring(page)
