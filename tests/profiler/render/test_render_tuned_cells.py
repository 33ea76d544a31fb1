"""What the autotuner chose, beside the measured time of its cell."""

from dataclasses import replace

import pytest
from cell_statuses import with_facts
from synthetic_grid import make_grid

from profiler.findings.find import find
from profiler.model import Outcome, TunedConfig
from profiler.render import tuning
from profiler.render.page import render_page
from profiler.render.tuning import tuned_cells

KERNEL = "triton_poi_fused_0"
CHOSEN = TunedConfig(KERNEL, "", {"XBLOCK": 512, "num_warps": 8}, 20_000.0, 18, 0, 64, best=True)
SLOWER = replace(CHOSEN, config={"XBLOCK": 1024, "num_warps": 4}, time_ns=50_000.0, best=False)
LIBRARY = TunedConfig("mm(64x64, 64x64)", "mm", {}, 9_000.0, best=True)


def with_tuned(report, tuned):
    """The report, with these configurations told of each compiled cell."""
    statuses = {
        cell: with_facts(status, tried=tuned) if cell.startswith("compile") else status
        for cell, status in report.statuses.items()
    }
    return replace(report, statuses=statuses)


@pytest.fixture(scope="module")
def report():
    return make_grid()


@pytest.fixture(scope="module")
def tuned(report):
    return with_tuned(report, (SLOWER, CHOSEN))


@pytest.fixture(scope="module")
def findings(tuned):
    return find(tuned)


def rows_of(findings):
    return tuned_cells(findings)["table"].lines


def texts(row):
    return [each.text.replace("\u202f", " ") for each in row.data]


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_tells_nothing_has_no_section(report):
    findings = find(report)
    assert tuned_cells(findings) is None
    assert "What the autotuner chose" not in render_page(findings)


def test_the_choice_stands_beside_the_measured_time(findings):
    rows = rows_of(findings)
    assert len(rows) == 32
    cell = next(
        each
        for each in findings.programs.cells
        if each.variant.id == "compile"
        and findings.programs.status(each).outcome is Outcome.MEASURED
    )
    row = next(each for each in rows if each.data[0].text == cell.problem.name)
    assert row.data[2].text == "XBLOCK=512, num_warps=8"
    assert (row.data[3].text, row.data[1].text) == ("by name", KERNEL)
    measured = findings.numbers.value(cell, "duration_ns").median
    assert float(row.data[11].raw) == pytest.approx(measured, rel=1e-4)
    assert float(row.data[12].raw) == pytest.approx(measured / 20_000.0, rel=1e-4)
    assert texts(row)[4:10] == ["2", "20.00 \u00b5s", "2.500\u00d7", "18", "0", "64 B"]


def test_a_cell_without_a_result_says_its_outcome(findings):
    outcomes = {row.data[11].text for row in rows_of(findings) if row.data[12].raw is None}
    assert {"out of memory", "fell back", "wrong result"} <= outcomes


def test_a_kernel_that_was_not_seen_is_not_said_to_be_the_cells(report):
    other = with_tuned(report, (replace(CHOSEN, operation="triton_red_fused_1"), LIBRARY))
    rows = [row for row in rows_of(find(other)) if row.data[11].raw is not None]
    joins = {(row.data[1].text, row.data[3].text) for row in rows}
    assert joins == {("triton_red_fused_1", "not seen"), (LIBRARY.operation, "by cell only")}
    assert all(row.data[12].raw is None for row in rows)


def test_one_configuration_was_no_choice(report):
    found = tuned_cells(find(with_tuned(report, (replace(CHOSEN, time_ns=None),))))
    assert found["tried"] == {}
    assert {row.data[6].raw for row in found["table"].lines} == {None}
    assert {row.data[4].text for row in found["table"].lines} == {"1"}


def test_long_tables_are_cut_and_say_so(findings, monkeypatch):
    monkeypatch.setattr(tuning, "MOST_CHOSEN", 5)
    monkeypatch.setattr(tuning, "MOST_TRIED", 7)
    found = tuned_cells(findings)
    assert (len(found["table"].lines), found["table"].left_out) == (5, 27)
    assert (len(found["tried"]), found["left_out_tried"]) == (3, 29)
