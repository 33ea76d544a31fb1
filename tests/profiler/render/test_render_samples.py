"""Samples in the page's data."""

import pandas as pd
import pytest
from synthetic_report import make_report, problems, without

from profiler.findings.find import find
from profiler.render import embed
from profiler.render.tables import main_table


@pytest.fixture(scope="module")
def small():
    return find(make_report(variant_count=9, problem_list=problems()[:2], final_blocks=8))


def written(findings):
    """Samples by metric in the data of a page, by cell."""
    facets = main_table.facets(findings.programs)
    return embed.payload(findings, facets)["samples"]


def measured(findings, cell, metric, kind, arm):
    frame = findings.report.measured.samples
    rows = frame[(frame["cell"] == cell.id) & (frame["kind"] == kind) & (frame["arm"] == arm)]
    return [float(value) for value in rows[metric].dropna()]


@pytest.mark.parametrize("metric", ["duration_ns", "cycles"])
def test_every_sample_comes_back_in_the_order_of_measurement(small, metric):
    samples_by_cell = written(small)[metric]
    assert len(samples_by_cell) == len(small.programs.cells)
    sets = {"timing": ("timing", 0), "timing again": ("timing", 1), "confirmation": ("final", 0)}
    compared = 0
    for cell, sets_of_cell in zip(small.programs.cells, samples_by_cell, strict=True):
        samples = dict(sets_of_cell or [])
        for name, (kind, arm) in sets.items():
            wanted = measured(small, cell, metric, kind, arm)
            if len(set(wanted)) > 1:
                assert samples[f"ncu {name}"] == pytest.approx(wanted, rel=1e-5)
                compared += 1
    assert compared > 10


def test_what_is_the_same_in_all_samples_is_not_written(small):
    metrics = written(small)
    assert not any(metrics["registers"]), "a static fact"
    assert "tflops" not in metrics, "follows from the time"
    durations = zip(small.programs.cells, metrics["duration_ns"], strict=True)
    failed = [samples for cell, samples in durations if not small.programs.correct(cell)]
    assert failed
    assert not any(failed)


def test_the_same_metric_of_two_tools_is_never_mixed(small):
    report = small.report
    first = report.measured.samples[report.measured.samples["cell"] == report.plan.cells[0].id]
    timer = first.assign(collector="timer", session="timer", duration_ns=first["duration_ns"] * 2)
    both = without(report, samples=pd.concat([report.measured.samples, timer], ignore_index=True))
    sets = dict(written(find(both))["duration_ns"][0])
    assert {"ncu timing", "timer timing"} <= set(sets)
    doubled = [2 * value for value in sets["ncu timing"]]
    assert sets["timer timing"] == pytest.approx(doubled, rel=1e-5)


def test_many_samples_are_cut_to_the_shown_metrics(small, monkeypatch):
    monkeypatch.setattr(embed, "MOST_SAMPLES", 10)
    noisy = small.report.measured.samples.assign(
        stall_wait=range(len(small.report.measured.samples))
    )
    metrics = written(find(without(small.report, samples=noisy)))
    assert "stall_wait" not in metrics
    assert "duration_ns" in metrics
