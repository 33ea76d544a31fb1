"""The section that puts several timers side by side."""

from dataclasses import replace

import pandas as pd
from synthetic_report import make_report

from profiler.model import Outcome
from profiler.render.lookup import Lookup
from profiler.render.page import render_page
from profiler.render.timers import timer_table


def with_timers(**factors):
    """A small report whose cells other collectors timed too, that many times as long as ncu."""
    report = make_report(variant_count=3)
    durations = report.summary[report.summary["metric"] == "duration_ns"]
    names = {"plain_timer": "plain_duration_ns", "timer": "timer_duration_ns"}
    more = [
        durations.assign(metric=names[name], median=durations["median"] * factor)
        for name, factor in factors.items()
    ]
    return replace(report, summary=pd.concat([report.summary, *more], ignore_index=True))


def test_a_run_with_one_timer_has_no_such_section():
    report = make_report(variant_count=3)
    assert timer_table(Lookup(report)) is None
    assert 'id="timers"' not in render_page(report)


def test_each_cell_has_every_timer_and_its_ratio():
    report = with_timers(timer=1.5, plain_timer=4.0)
    lookup = Lookup(report)
    table = timer_table(lookup)
    assert table is not None
    assert (table.reference, table.timers) == ("ncu", ("event timer", "plain timer"))
    correct = [cell for cell in report.plan.cells if lookup.correct(cell)]
    assert [(row.problem, row.variant) for row in table.rows] == [
        (cell.problem.name, cell.variant.name) for cell in correct
    ]
    for row in table.rows:
        assert [row.data[2].text, row.data[4].text] == ["1.500\u00d7", "4.000\u00d7"]
    assert [(one.timer, one.mean, one.cells) for one in table.overall] == [
        ("event timer", "1.500\u00d7", len(correct)),
        ("plain timer", "4.000\u00d7", len(correct)),
    ]


def test_cells_that_are_wrong_are_left_out():
    report = with_timers(plain_timer=2.0)
    cell = report.plan.cells[0].id
    wrong = replace(report.statuses[cell], outcome=Outcome.WRONG_RESULT)
    table = timer_table(Lookup(replace(report, statuses={**report.statuses, cell: wrong})))
    before = timer_table(Lookup(report))
    assert table is not None
    assert before is not None
    assert len(table.rows) == len(before.rows) - 1


def test_the_page_says_which_timer_its_verdicts_are_of():
    page = render_page(with_timers(plain_timer=2.0))
    assert 'href="#timers"' in page
    section = page.partition('<section id="timers"')[2].partition("</section>")[0]
    assert "no verdict mixes them" in section
    assert "plain timer \u00f7 ncu" in section
