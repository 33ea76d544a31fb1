"""One synthetic run of more than 400 cells and its page, shared by the tests of this folder."""

import functools
from collections.abc import Callable

import lxml.html
import pytest
from synthetic_report import make_report, without

from profiler.findings.find import find
from profiler.findings.findings import Findings
from profiler.render.page import render_page
from profiler.run_folder.load.report import Report


@pytest.fixture(scope="session")
def report() -> Report:
    return make_report(variant_count=34)


@pytest.fixture(scope="session")
def ranking(report: Report) -> Findings:
    return find(report)


@pytest.fixture(scope="session")
def page_of(report: Report) -> Callable[[str], str]:
    """The page of the run by its kind; each is drawn once, which takes seconds."""
    return functools.cache(lambda kind: render_page(without(report, kind=kind)))


@pytest.fixture(scope="session")
def page(report: Report, page_of: Callable[[str], str]) -> str:
    return page_of(report.kind)


@pytest.fixture(scope="session")
def tree(page: str) -> lxml.html.HtmlElement:
    return lxml.html.document_fromstring(page)
