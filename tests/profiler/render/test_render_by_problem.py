"""The narrow table of each problem: who is fastest, ratio, verdict, DRAM bytes, kernels."""

from dataclasses import replace

import lxml.html
import pytest
from synthetic_grid import make_grid
from synthetic_report import make_report, problems, without

from profiler.findings.find import find
from profiler.model import Outcome, Verdict
from profiler.render.page import render_page
from profiler.render.tables import by_problem as module
from profiler.render.tables.by_problem import by_problem
from profiler.render.tables.why import why
from profiler.render.words.numbers import raw
from profiler.render.words.verdicts import word_of


def table_of(report):
    return by_problem(find(report))


@pytest.fixture(scope="module")
def run():
    return make_grid()


@pytest.fixture(scope="module")
def table(run):
    return table_of(run)


def test_every_cell_stands_under_its_problem_with_its_numbers(run, table):
    findings = find(run)
    assert table.heads == ("duration", "ratio", "verdict", "DRAM bytes", "kernels")
    assert table.against == "eager"
    assert len(table.rows) == len(run.plan.cells) == 96
    places = {(row.problem, row.variant): row for row in table.rows}
    for cell in findings.distinct_cells:
        row = places[cell.problem.name, cell.variant.name]
        if not findings.correct(cell):
            assert {one.raw for one in row.data} == {None}
            continue
        moved = [findings.value(cell, f"dram_{way}_bytes").median for way in ("read", "write")]
        assert float(row.data[3].raw) == pytest.approx(sum(moved), rel=1e-4)
        assert float(row.data[4].raw) == findings.value(cell, "kernels").median


def test_the_first_of_a_problem_is_fastest_only_where_all_others_are_slower(run, table):
    findings = find(run)
    said = set()
    for problem in findings.problems:
        rows = [row for row in table.rows if row.problem == problem.name]
        first, *others = (row.rank.text for row in rows)
        winner = findings.winners[problem.id]
        assert rows[0].variant == winner.cell.variant.name
        assert (first == "fastest") == winner.best
        assert first.split(",")[0] in ("fastest", "lowest")
        assert "fastest" not in others
        assert others.count("same as the lowest") == len(winner.same)
        assert others.count("not told apart") == len(winner.not_told_apart)
        said.add(first.split(",")[0])
    assert said == {"fastest", "lowest"}


def test_a_failed_cell_says_its_outcome(run, table):
    said = {row.rank.text for row in table.rows if row.data[0].raw is None}
    assert said == {"out of memory", "fell back", "wrong result"}


def test_verdicts_are_those_of_the_rest_of_the_page(run, table):
    findings = find(run)
    rows = {(row.problem, row.variant): row for row in table.rows}
    compared = 0
    for cell in findings.distinct_cells:
        if cell.variant.id == "eager" or not findings.correct(cell):
            continue
        row = rows[cell.problem.name, cell.variant.name]
        pair = findings.verdict(cell.variant, cell.problem)
        assert (row.data[2].text, row.data[1].raw) == (word_of(pair), raw(pair.ratio))
        compared += pair.verdict in (Verdict.FASTER, Verdict.SLOWER)
    assert compared > 20


def only(report, keep):
    """The report with the cells that `keep` takes."""
    cells = tuple(cell for cell in report.plan.cells if keep(cell))
    return without(report, plan=replace(report.plan, cells=cells))


def test_tables_that_say_nothing_new_are_left_out(run, monkeypatch):
    assert table_of(only(run, lambda cell: cell.variant.id == "triton")) is None
    assert table_of(only(run, lambda cell: cell.problem == run.plan.cells[-1].problem)) is None
    bare = run.summary[~run.summary["metric"].isin(["kernels", "dram_read_bytes"])]
    assert table_of(without(run, summary=bare)) is None
    monkeypatch.setattr(module, "MOST_ROWS", 95)
    assert table_of(run) is None


def test_the_page_shows_it(run, page):
    tree = lxml.html.document_fromstring(render_page(find(run)))
    rows = tree.xpath('//table[@id="by-problem"]/tbody/tr')
    assert len(rows) == 96
    assert all(len(row) == 8 for row in rows)
    assert 'id="by-problem"' not in page
    assert any(one.outcome is Outcome.MEASURED for one in run.statuses.values())


def test_rows_stand_by_rank_with_their_one_number(monkeypatch):
    report = make_report(variant_count=12, problem_list=problems()[:3], final_blocks=8)
    monkeypatch.setattr(module, "_TRAFFIC", ())
    findings = find(report)
    table = by_problem(findings)
    variants = {variant.name: variant for variant in findings.variants}
    for problem in findings.problems:
        rows = [row for row in table.rows if row.problem == problem.name]
        values = [
            findings.correct_at(variants[row.variant], problem, "duration_ns") for row in rows
        ]
        ranks = [value.rank for value in values if value.present]
        assert ranks == sorted(ranks)
        assert ranks[0] == 1
        known = [(row, value) for row, value in zip(rows, values, strict=True) if value.present]
        assert [row.data[0].raw for row, _ in known] == [raw(value.median) for _, value in known]
        of_final = [row.data[0].title.startswith("of the confirmation; ") for row, _ in known]
        assert of_final == [value.source == "final" for _, value in known]
        assert sum(of_final) == 4
        assert rows[0].variant == findings.winners[problem.id].cell.variant.name


def lacking(report, variant, problem_ids):
    """The report without a variant's cells at some problems: it cannot run there."""
    gone = {
        cell.id
        for cell in report.plan.cells
        if cell.variant.id == variant and cell.problem.id in problem_ids
    }
    cells = tuple(cell for cell in report.plan.cells if cell.id not in gone)
    return replace(
        report,
        plan=replace(report.plan, cells=cells),
        statuses={name: one for name, one in report.statuses.items() if name not in gone},
        samples=report.samples[~report.samples["cell"].isin(gone)],
        summary=report.summary[~report.summary["cell"].isin(gone)],
    )


def test_who_wins_most_problems_leads_even_where_it_lacks_one():
    whole = make_report(variant_count=12, problem_list=problems()[:5])
    findings = find(whole)
    best = findings.best
    assert len(findings.contenders[best.id]) == 5, "it wins them all"
    without_one = find(lacking(whole, best.id, {problems()[0].id}))
    assert without_one.best == best
    assert without_one.best_rank.complete is False
    half = find(lacking(whole, best.id, {one.id for one in problems()[:3]}))
    assert half.best != best, "best at two of five problems is no leader"
    assert half.best_rank.complete


def test_where_the_leader_lacks_the_largest_problem_another_one_says_why():
    whole = make_report(variant_count=12, problem_list=problems()[:5])
    findings = find(whole)
    best, largest = findings.best, findings.largest_problem
    part = find(lacking(whole, best.id, {largest.id}))
    assert part.best == best
    found = why(part)
    assert found.problem != largest.name
    assert found.moved, "both have counters there"
    assert why(findings).problem == largest.name
