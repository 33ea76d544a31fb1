"""The answer outside the page: Markdown for pull requests, HTML for notebooks."""

import re

import pytest
from lxml import html
from synthetic_report import HOSTILE_NAME, make_report

from profiler.findings.find import find
from profiler.render.excerpts import MOST_ROWS, run_html, run_markdown, short_table


@pytest.fixture(scope="module")
def findings():
    return find(make_report())


def test_the_table_has_the_best_of_each_problem_and_the_baseline(findings):
    table = short_table(findings)
    assert len(table.lines) <= MOST_ROWS
    assert len(table.lines) + table.left_out == len(findings.programs.cells)
    problems = {row.name for row in table.lines}
    assert problems == {problem.name for problem in findings.programs.problems}
    for problem in findings.programs.problems:
        rows = [row for row in table.lines if row.name == problem.name]
        assert sum("(baseline)" in row.data[0].text for row in rows) == 1
        winner = findings.ranking.winners[problem.id].cell.variant.label
        assert rows[0].data[0].text.startswith(winner)


def test_behind_a_faster_baseline_nothing_is_called_the_best(findings, findings_by_baseline):
    names = [row.data[0].text for row in short_table(findings).lines]
    assert any(name.endswith(" (leader)") for name in names)
    led = findings_by_baseline(findings.ranking.best.id)
    names = [row.data[0].text for row in short_table(led).lines]
    assert any(name.endswith(" (first of the rest)") for name in names)
    assert not any("(best)" in name for name in names)


def test_markdown_is_what_it_looks_like(findings):
    text = run_markdown(findings)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert not re.search(r"(?<!\\)<(?!/?sub>)", text)
    assert HOSTILE_NAME not in text
    assert f"{findings.programs.measured_count()} of" in text


def test_html_has_the_answer_a_figure_and_the_table(findings):
    text = run_html(findings)
    document = html.fromstring(text)
    assert len(document.xpath("//svg")) == 1
    assert len(document.xpath("//tbody/tr")) == len(short_table(findings).lines)
    assert not document.xpath("//script | //img")
    variables = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    assert variables <= set(re.findall(r"(--[a-z0-9-]+):", text))
