"""Page, console, JSON and gate of a comparison say the same of every cell."""

import io
from dataclasses import replace

import lxml.html
import numpy as np
import pandas as pd
import pytest
from as_read import words
from rich.console import Console
from run_pairs import Pair

from profiler.analyse.between_runs import BetweenRunsReason, compare_runs
from profiler.comparison import judged
from profiler.comparison.changes import MetricChange
from profiler.comparison.compare import compare
from profiler.comparison.document import comparison_document
from profiler.comparison.runs import read_runs
from profiler.findings.gates import Gate, regressions
from profiler.render.runs.page import comparison_tables, render_comparison
from profiler.render.runs.rows import metric_table, reason_words

GATE = Gate(2)
HALF = 0.5


def as_timed_by(samples, collector, factor):
    """Timing samples as another collector would have them."""
    timing = samples[samples["kind"] == "timing"]
    return timing.assign(
        collector=collector, duration_ns=timing["duration_ns"] * factor, cycles=np.nan
    )


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Three runs: two timed by ncu and by events, the last by events only; one has a final."""
    pair = Pair(tmp_path_factory.mktemp("runs"))
    second = pair.copy({"fast..": 0.7}, created="2026-12-01T08:00:00+00:00")
    third = pair.copy({"slow..": 1.2}, created="2026-12-02T08:00:00+00:00")
    runs = read_runs([pair.older, second, third])
    for number, run in enumerate(runs):
        samples = run.report.measured.samples
        parts = [as_timed_by(samples, "timer", 2.0)]
        if number < 2:
            parts.append(samples)
        final = samples[samples["kind"] == "timing"].assign(kind="final")
        parts.append(final.assign(duration_ns=final["duration_ns"] * HALF))
        object.__setattr__(run.report.measured, "samples", pd.concat(parts, ignore_index=True))
    return compare(runs)


@pytest.fixture(scope="module")
def page(comparison):
    return lxml.html.document_fromstring(render_comparison(comparison))


@pytest.fixture(scope="module")
def document(comparison):
    return comparison_document(comparison, GATE)


def shown_row(row):
    """Durations, ratio and verdict of a row of the page's main table."""
    older, newer, ratio = (float(row[place].get("data-value")) for place in (2, 3, 4))
    return older, newer, ratio, words(row[6])


def test_every_cell_has_one_duration_ratio_and_verdict(page, document, comparison):
    of_json = {cell["id"]: cell for cell in document["steps"][-1]["cells"]}
    rows = page.xpath('//table[@id="main-table"]/tbody/tr')
    assert len(rows) == len(of_json) == len(comparison.last.cells)
    for row, change in zip(rows, comparison.last.all.ranked, strict=True):
        older, newer, ratio, verdict = shown_row(row)
        cell = of_json[change.cell.id]
        for number, key, name in (
            (older, "older_duration_ns", "older_ns"),
            (newer, "newer_duration_ns", "newer_ns"),
            (ratio, "ratio", "ratio"),
        ):
            values = vars(change) | vars(change.durations)
            exact = pytest.approx(values[name], rel=1e-5)
            assert (number, cell[key]) == (exact, exact)
        shown, _, within = verdict.partition(" within ")
        assert shown == (cell["verdict"] or "no verdict")
        assert bool(within) == (shown == "same"), "its margin stands beside the word"


def test_the_history_has_the_numbers_of_the_steps(page, document, comparison):
    """The summary of the second run is of ncu, its step to the third one of events."""
    history = {entry["cell"]: entry["runs"] for entry in document["history"]}
    names = {
        (cell.variant.label, cell.problem.name): name for name, cell in comparison.cells.items()
    }
    rows = page.xpath('//section[@id="history"]//table[1]/tbody/tr')
    shown = {
        names[words(row[0]).removesuffix(" baseline"), words(row[1])]: row for row in rows[:14]
    }
    for name, change in comparison.last.cells.items():
        times = [entry["duration_ns"] for entry in history[name]]
        assert times[1:] == [
            pytest.approx(change.durations.older_ns),
            pytest.approx(change.durations.newer_ns),
        ]
        assert times[0] == pytest.approx(comparison.steps[0].cells[name].durations.older_ns)
        raw = [float(shown[name][place].get("data-value")) for place in (2, 4, 7)]
        assert raw == [pytest.approx(time, rel=1e-5) for time in times]


def test_no_duration_stands_among_the_metrics_of_another_collector(document):
    for cell in document["steps"][-1]["cells"]:
        assert "duration_ns" not in cell["metrics"]


def test_the_gate_trips_at_cells_that_the_page_calls_slower(page, document, comparison):
    tripped = regressions(comparison.judged, GATE)["cell"].tolist()
    assert tripped == document["gate"]["cells"]
    assert sorted(tripped) == ["fast..large", "fast..small", "slow..large", "slow..small"]
    rows = page.xpath('//table[@id="main-table"]/tbody/tr')
    slower = [words(row[0]) for row in rows if words(row[6]) == "slower"]
    assert sorted(slower) == ["fast", "fast", "slow", "slow"]


def test_the_console_prints_the_rows_of_the_page(page, comparison):
    console = Console(width=400, file=io.StringIO(), highlight=False)
    console.print(comparison_tables(comparison))
    printed = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    rows = page.xpath('//table[@id="main-table"]/tbody/tr')
    for row in rows[:4]:
        variant, *texts = (words(row[place]) for place in range(8))
        texts = [variant.removesuffix(" baseline"), *texts]
        assert any(all(text in line for text in texts) for line in printed), texts


def test_every_step_is_judged_once(tmp_path, monkeypatch):
    calls = []

    def counting(*frames, **options):
        calls.append(len(frames))
        return compare_runs(*frames, **options)

    monkeypatch.setattr(judged, "compare_runs", counting)
    pair = Pair(tmp_path)
    found = pair.compare(pair.copy({"slow..": 1.1}))
    render_comparison(found)
    comparison_tables(found)
    comparison_document(found, GATE)
    assert len(calls) == 1


def test_facts_that_rounding_would_make_equal_are_shown_in_full(comparison):
    change = MetricChange("slow..large", "grid_size", 2_000_000, 2_000_001)
    (row,) = metric_table("Facts", [change], comparison).lines
    assert [datum.text for datum in row.data[2:4]] == ["2000000", "2000001"]


def test_the_number_of_instructions_is_no_static_fact():
    change = MetricChange("slow..large", "instructions", 100.0, 101.0)
    assert not change.is_fact
    assert not change.moved
    assert MetricChange("slow..large", "instructions", 100.0, 110.0).moved


def test_large_effects_are_factors(comparison):
    change = comparison.last.cells["slow..large"]
    for seen, words_of_it in ((0.25, "25.00\u202f%"), (12.9, "13.9\u00d7")):
        judgement = replace(
            change.judgement, reason=BetweenRunsReason.MORE_BLOCKS_NEEDED, detectable=seen
        )
        of_change = reason_words(replace(change, judgement=judgement))
        assert of_change.endswith(f"would likely see {words_of_it}")
