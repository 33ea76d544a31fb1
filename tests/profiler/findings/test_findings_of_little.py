"""A run of which little is known has findings, and everything that prints them."""

import dataclasses
import json

import numpy as np
import pytest
from as_read import printed
from run_folders import Workplace

from profiler.commands.output import dump, report_document
from profiler.findings.document import judged_table, summary_table, wide_table
from profiler.findings.find import find
from profiler.model import Outcome
from profiler.planning.page_kinds import PAGE_KINDS
from profiler.render.console.tables import final_summary
from profiler.render.page import render_page
from profiler.run_folder.load.assemble import assemble
from profiler.run_folder.load.report import Measurements


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    place = Workplace(tmp_path_factory.mktemp("place"))
    place.measure_all()
    return assemble(place.run, place.loaded, place.plan)


def without_samples(report):
    nothing = Measurements(report.measured.samples.iloc[:0], report.measured.summary.iloc[:0])
    return dataclasses.replace(report, measured=nothing, statuses={})


def without_cells(report):
    """The report of a recording that has none of today's cells."""
    plan = dataclasses.replace(report.plan, cells=())
    return dataclasses.replace(without_samples(report), plan=plan)


def without_statuses(report):
    return dataclasses.replace(report, statuses={})


def shown(findings):
    document = json.loads(dump(report_document(findings)))
    return render_page(findings), printed(final_summary(findings)), document


@pytest.mark.parametrize("kind", list(PAGE_KINDS))
@pytest.mark.parametrize("less", [without_samples, without_cells, without_statuses])
def test_a_run_of_which_little_is_known_has_findings_that_can_be_printed(measured, less, kind):
    settings = dataclasses.replace(measured.settings, kind=kind)
    report = dataclasses.replace(less(measured), settings=settings)
    findings = find(report)
    assert findings.ranking.best is None
    assert dict(findings.ranking.winners) == {}
    assert judged_table(findings.verdicts).empty
    summary, wide = summary_table(findings), wide_table(findings)
    assert {"cell", "metric", "median", "source", "verdict"} <= set(summary)
    numbers = summary[["median", "margin", "noise_floor", "session_sd", "detectable"]]
    assert {*numbers.dtypes, wide["duration_ns"].dtype} == {np.dtype("float64")}
    page, console, document = shown(findings)
    assert "<h1>" in page
    assert "No variant has a correct and measured result." in page or kind in ("waves", "grid")
    assert f"0 of {len(report.plan.cells)} cells measured" in page
    assert f"0 of {len(report.plan.cells)} cells measured" in console
    assert document["answer"]["best"] is None
    assert {cell["outcome"] for cell in document["cells"]} <= {"not_measured"}


def test_a_run_by_a_timer_of_a_later_version_can_be_printed(measured):
    samples = measured.measured.samples.assign(collector="later")
    later = dataclasses.replace(measured.measured, samples=samples)
    page, console, _ = shown(find(dataclasses.replace(measured, measured=later)))
    assert "Duration" in page
    assert console


def test_a_cell_that_nobody_reports_on_counts_as_not_measured(measured):
    some = dict(list(measured.statuses.items())[:-1])
    (missing,) = set(measured.statuses) - set(some)
    findings = find(dataclasses.replace(measured, statuses=some))
    outcomes = {cell.id: findings.programs.status(cell).outcome for cell in findings.programs.cells}
    assert outcomes.pop(missing) is Outcome.NOT_MEASURED
    assert set(outcomes.values()) == {Outcome.MEASURED}
    (notice,) = (notice for notice in findings.notices if notice.kind.key == "not_measured")
    assert dict(notice.values) == {"count": 1, "total": len(measured.statuses)}
    assert missing not in findings.programs.correct_cells
