"""The main table: every cell by problem, ranks as verdicts allow, traffic, bars."""

from dataclasses import replace

import lxml.html
import pytest
from synthetic_grid import make_grid
from synthetic_report import make_report, problems, without

from profiler.findings.find import find
from profiler.model import BuildResult
from profiler.render.html import templates
from profiler.render.page import render_page
from profiler.render.tables.main_table import main_table
from profiler.render.tables.method import builds_of
from profiler.render.tables.why import why


@pytest.fixture(scope="module")
def of_grid():
    return find(make_grid())


@pytest.fixture(scope="module")
def table(of_grid):
    return main_table(of_grid, of_grid.verdicts.baselines[0])


def test_bars_grow_with_the_numbers_of_a_problem(of_grid, table):
    """The longest bar of each problem is full; what has no number has none."""
    for problem in of_grid.programs.problems:
        rows = [row for row in table.rows if row.cell.problem == problem]
        steps = {
            float(row.primary.raw): int(row.primary.css.removeprefix("w"))
            for row in rows
            if row.primary.raw
        }
        ordered = [steps[value] for value in sorted(steps)]
        assert ordered == sorted(ordered)
        assert ordered[-1] == 20
        assert all(row.primary.css == "none" for row in rows if not row.primary.raw)


def test_a_line_begins_each_problem_but_the_first(of_grid):
    tree = lxml.html.document_fromstring(render_page(of_grid))
    first_rows = tree.xpath("//table[@id='main-table']//tr[@class='begins']")
    cells = [of_grid.programs.cells[int(row.get("data-cell"))] for row in first_rows]
    problems_with_line = [cell.problem.id for cell in cells]
    assert problems_with_line == [problem.id for problem in of_grid.programs.problems[1:]]


def test_key_columns_come_before_all_others(page_of):
    tree = lxml.html.document_fromstring(page_of("versions"))
    heads = tree.xpath("//table[@id='main-table']/thead//th")
    stuck = ["stuck" in head.get("class", "").split() for head in heads]
    assert stuck == sorted(stuck, reverse=True)
    names = [head.text_content() for head, is_stuck in zip(heads, stuck, strict=True) if is_stuck]
    assert {"variant", "ratio", "verdict"} < set(names)
    assert any(name.startswith("Duration") for name in names)
    places = [int(box.get("data-column")) for box in tree.xpath("//input[@data-column]")]
    assert places == [place for place, is_stuck in enumerate(stuck, 1) if not is_stuck]


def test_builds_are_grouped_and_absent_where_nothing_was_built(of_grid, page_of):
    tree = lxml.html.document_fromstring(page_of("versions"))
    groups = tree.xpath("//table[@id='builds']/tbody")
    assert groups
    for group in groups:
        (name,) = group.xpath("./tr/th")
        assert int(name.get("rowspan")) == len(group.xpath("./tr"))
    assert not lxml.html.document_fromstring(render_page(of_grid)).xpath("//table[@id='builds']")


def test_an_error_that_variants_share_is_on_the_page_once(of_grid):
    variants = of_grid.programs.variants[:3]
    failed = [
        BuildResult(v.id, ok=False, error="a.cu(3): error: no <such> thing") for v in variants
    ]
    report = replace(of_grid.report, builds=tuple(failed))
    builds = builds_of(replace(of_grid, report=report))
    ((labels, _, _),) = builds["failed"]
    assert labels == [variant.label for variant in variants]
    html = (
        templates().get_template("build.html").render(builds=builds, report=report, code_groups=())
    )
    (details,) = lxml.html.document_fromstring(html).xpath("//details")
    text = details.text_content()
    assert text.startswith("The compiler in 3 variants (")
    assert text.count("no <such> thing") == 1
    assert all(variant.label in text for variant in variants)


def lacking(report, variant, problem_ids):
    """The report without a variant's cells at some problems: it cannot run there."""
    gone = {
        cell.id
        for cell in report.plan.cells
        if cell.variant.id == variant and cell.problem.id in problem_ids
    }
    cells = tuple(cell for cell in report.plan.cells if cell.id not in gone)
    return without(
        report,
        plan=replace(report.plan, cells=cells),
        statuses={name: one for name, one in report.statuses.items() if name not in gone},
        samples=report.measured.samples[~report.measured.samples["cell"].isin(gone)],
        summary=report.measured.summary[~report.measured.summary["cell"].isin(gone)],
    )


def test_who_wins_most_problems_leads_even_where_it_lacks_one():
    whole = make_report(variant_count=12, problem_list=problems()[:5])
    findings = find(whole)
    best = findings.ranking.best
    assert len(findings.ranking.contenders[best.id]) == 5, "it wins them all"
    without_one = find(lacking(whole, best.id, {problems()[0].id}))
    assert without_one.ranking.best == best
    assert without_one.ranking.best_rank.complete is False
    half = find(lacking(whole, best.id, {one.id for one in problems()[:3]}))
    assert half.ranking.best != best, "best at two of five problems is no leader"
    assert half.ranking.best_rank.complete


def test_where_the_leader_lacks_the_largest_problem_another_one_says_why():
    whole = make_report(variant_count=12, problem_list=problems()[:5])
    findings = find(whole)
    best, largest = findings.ranking.best, findings.ranking.largest_problem
    part = find(lacking(whole, best.id, {largest.id}))
    assert part.ranking.best == best
    found = why(part)
    assert found["problem"] != largest.name
    assert found["moved"].lines, "both have counters there"
    assert why(findings)["problem"] == largest.name
