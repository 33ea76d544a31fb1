"""The section that puts several timers side by side."""

from dataclasses import replace

import pandas as pd
import pytest
from synthetic_report import make_report, problems, with_metrics, without

from profiler.findings.find import find
from profiler.findings.kinds.timers import timer_medians
from profiler.model import Outcome
from profiler.render.page import render_page
from profiler.render.tables.rows import shown_metrics
from profiler.render.tables.timers import error_parts, timer_parts


def with_timers(**factors):
    """A small report whose cells other collectors timed too, that many times as long as ncu."""
    whole = make_report(variant_count=3, problem_list=problems()[:2])
    report = with_metrics(whole, "duration_ns")
    durations = report.measured.summary[report.measured.summary["metric"] == "duration_ns"]
    names = {
        "wall_clock": "wall_clock_duration_ns",
        "timer": "timer_duration_ns",
        "nsys": "nsys_duration_ns",
    }
    more = [
        durations.assign(metric=names[name], median=durations["median"] * factor)
        for name, factor in factors.items()
    ]
    return without(report, summary=pd.concat([report.measured.summary, *more], ignore_index=True))


def test_a_run_with_one_timer_has_no_such_section():
    report = make_report(variant_count=3, problem_list=problems()[:2])
    findings = find(with_metrics(report, "duration_ns"))
    assert findings.timers is None
    assert timer_parts(findings) is None
    assert 'id="timers"' not in render_page(findings)


def test_cells_that_are_wrong_are_left_out():
    report = with_timers(wall_clock=2.0)
    cell = report.plan.cells[0].id
    wrong = replace(report.statuses[cell], outcome=Outcome.WRONG_RESULT)
    table = timer_parts(find(replace(report, statuses={**report.statuses, cell: wrong})))
    before = timer_parts(find(report))
    assert len(table["cells"].lines) == len(before["cells"].lines) - 1


def test_without_nsys_the_parts_are_not_known():
    findings = find(with_timers(wall_clock=4.0))
    table = timer_parts(findings)
    assert table["wall_clock"] is None
    error = findings.timers.furthest
    assert error.ratio == pytest.approx(4.0)
    assert error_parts(error) == ()
    assert "Error of the wall clock" not in render_page(findings)


def test_an_error_below_one_counts_as_well():
    """Half the time is as wrong as twice the time, and further off than a tenth more."""
    report = with_timers(wall_clock=1.1)
    right = (c for c in report.plan.cells if report.statuses[c.id].outcome.correct)
    cell = next(right)
    summary = report.measured.summary.copy()
    worst = (summary["cell"] == cell.id) & (summary["metric"] == "wall_clock_duration_ns")
    summary.loc[worst, "median"] /= 2.2
    timers = find(without(report, summary=summary)).timers
    assert timers.furthest.cell == cell.id
    assert timers.furthest.ratio == pytest.approx(0.5)


def test_without_ncu_nothing_is_said_of_an_error():
    report = with_timers(wall_clock=4.0, nsys=0.75)
    samples = report.measured.samples.assign(collector="timer")
    findings = find(without(report, samples=samples))
    table = timer_parts(findings)
    assert table["wall_clock"] is None
    assert findings.timers.furthest is None
    assert findings.timers.wall_clock.empty


def test_a_duration_is_described_as_what_the_timer_measures():
    whole = make_report(variant_count=3, problem_list=problems()[:2])
    report = with_metrics(whole, "duration_ns")
    by_events = without(report, samples=report.measured.samples.assign(collector="timer"))

    def described(one):
        findings = find(one)
        found = {metric.name: metric.definition for metric in shown_metrics(findings)}
        assert findings.numbers.primary.definition == found["duration_ns"]
        return found["duration_ns"]

    assert "Gaps between kernels are not in it" in described(report)
    assert "gaps between its kernels included" in described(by_events)
    page = render_page(find(by_events))
    assert "Gaps between kernels are not in it" not in page
    assert "gpu__time_duration" not in page


def test_the_median_of_the_event_timer_is_found_wherever_it_stands():
    beside = with_timers(timer=1.5)
    cell = beside.plan.cells[0].id
    believed = without(beside, samples=beside.measured.samples.assign(collector="timer"))
    ncu, timer = (
        timer_medians(one.measured.samples, beside.measured.summary)[cell]
        for one in (believed, beside)
    )
    assert timer == pytest.approx(1.5 * ncu)
    alone = make_report(variant_count=3)
    assert timer_medians(alone.measured.samples, alone.measured.summary) == {}
