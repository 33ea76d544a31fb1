"""How far other timers are from the one that is believed most."""

import math

import pandas as pd
import pytest
from analyse_frames import make_cell, samples_of

from profiler.analyse.judge import visit_times
from profiler.analyse.summary import summarise
from profiler.collect.registry import duration_metrics, primary_timer, timeline_collectors
from profiler.findings.kinds.timers import (
    OVERALL_COLUMNS,
    TIMER_COLUMNS,
    WALL_CLOCK_COLUMNS,
    compare_timers,
    overall_ratios,
    reference_collector,
    split_wall_clock,
)
from profiler.metrics.catalogue import CATALOGUE
from profiler.model import SessionKind

A, B = make_cell("a", "p"), make_cell("b", "p")
CELLS = (A, B)


def timed(**values):
    """Samples by collector: one duration of each cell, in the order of `CELLS`."""
    frames = [
        samples_of({cell.id: [each] for cell, each in zip(CELLS, times, strict=True)}, collector=n)
        for n, times in values.items()
    ]
    return pd.concat(frames, ignore_index=True)


FOUR = timed(
    wall_clock=[40.0, 30.0], torch_kernels=[11.0, 20.0], ncu=[10.0, 20.0], timer=[12.0, 24.0]
)


TIMELINES = [name for name in timeline_collectors() if name in duration_metrics()]
DURATION = {name: 10.0 + place for place, name in enumerate(duration_metrics())}
"""Of the first cell, by timer, each another."""
EVERY = timed(**{name: [duration, 2 * duration] for name, duration in DURATION.items()})
EVERY.loc[EVERY["collector"].isin(TIMELINES), "kind"] = SessionKind.TIMELINE.value


def compared(samples):
    return compare_timers(summarise(samples, cells=CELLS))


def test_each_timer_is_a_metric_of_its_own():
    summary = summarise(EVERY, cells=CELLS).set_index(["cell", "metric"])["median"]
    assert {name: summary[A.id, metric] for name, metric in duration_metrics().items()} == DURATION


def test_one_timer_is_judged_and_the_rest_never_mixed_in():
    for left_out in range(4):
        names = list(duration_metrics())[left_out:]
        samples = EVERY[EVERY["collector"].isin(names)]
        results = visit_times(samples, CELLS, SessionKind.TIMING)
        own = EVERY.loc[EVERY["collector"] == names[0], "duration_ns"]
        assert list(results["duration_ns"]) == list(own)
        assert reference_collector(samples) == primary_timer(reversed(names)) == names[0]
        others = set(compared(samples)["collector"])
        assert others == set(names[1:])


def test_every_duration_is_in_the_catalogue():
    for name, metric in duration_metrics().items():
        assert CATALOGUE[metric].unit == "ns"
        assert (CATALOGUE[metric].source == "ncu") == (name == "ncu")


def test_ratios_are_of_medians():
    found = compared(FOUR)
    assert tuple(found.columns) == TIMER_COLUMNS
    ratios = {(row.collector, row.cell): row.ratio for row in found.itertuples()}
    assert ratios == pytest.approx(
        {
            ("timer", A.id): 1.2,
            ("timer", B.id): 1.2,
            ("torch_kernels", A.id): 1.1,
            ("torch_kernels", B.id): 1.0,
            ("wall_clock", A.id): 4.0,
            ("wall_clock", B.id): 1.5,
        }
    )


def test_a_cell_that_the_reference_did_not_time_has_no_ratio():
    samples = timed(ncu=[10.0, math.nan], timer=[12.0, 24.0])
    found = compared(samples).set_index("cell")
    assert found["ratio"][A.id] == pytest.approx(1.2)
    assert math.isnan(found["ratio"][B.id])
    assert found["median"][B.id] == 24.0
    assert list(overall_ratios(compared(samples))["cells"]) == [1]


def test_over_all_cells():
    results = overall_ratios(compared(FOUR))
    assert tuple(results.columns) == OVERALL_COLUMNS
    assert list(results["collector"]) == ["timer", "torch_kernels", "wall_clock"]
    wall_clock = results.set_index("collector").loc["wall_clock"]
    assert wall_clock["mean"] == pytest.approx(math.sqrt(4.0 * 1.5))
    assert (wall_clock["least"], wall_clock["least_at"]) == (1.5, B.id)
    assert (wall_clock["most"], wall_clock["most_at"]) == (4.0, A.id)


def test_with_one_timer_there_is_nothing_to_compare():
    alone = timed(timer=[1.0, 2.0])
    assert compared(alone).empty
    assert overall_ratios(compared(alone)).empty
    assert reference_collector(alone.drop(columns="duration_ns")) is None


def medians(**by_metric):
    """A summary by metric: the median of each cell, in the order of `CELLS`."""
    rows = [
        {"cell": cell.id, "metric": metric, "median": value}
        for metric, values in by_metric.items()
        for cell, value in zip(CELLS, values, strict=True)
        if value is not None
    ]
    return pd.DataFrame(rows, columns=["cell", "metric", "median"])


def test_the_parts_of_the_error_of_the_wall_clock_add_up():
    found = split_wall_clock(
        medians(
            duration_ns=[10.0, 20.0],
            nsys_duration_ns=[8.0, 21.0],
            wall_clock_duration_ns=[40.0, 20.0],
        )
    )
    assert tuple(found) == WALL_CLOCK_COLUMNS
    first, second = found.to_dict("records")
    assert first == {
        "cell": A.id,
        "wall_clock": 40.0,
        "traced": 8.0,
        "reference": 10.0,
        "host": 32.0,
        "caches": -2.0,
        "ratio": 4.0,
    }
    assert (second["host"], second["caches"], second["ratio"]) == (-1.0, 1.0, 1.0)
    assert (found["host"] + found["caches"] == found["wall_clock"] - found["reference"]).all()


def test_without_a_timeline_the_parts_are_missing():
    found = split_wall_clock(medians(duration_ns=[10.0, 20.0], wall_clock_duration_ns=[40.0, 20.0]))
    assert found["ratio"].tolist() == [4.0, 1.0]
    assert found[["traced", "host", "caches"]].isna().all(axis=None)


def test_only_cells_with_both_times_have_an_error():
    found = split_wall_clock(
        medians(
            duration_ns=[10.0, None],
            wall_clock_duration_ns=[40.0, 20.0],
            nsys_duration_ns=[None, 9.0],
        )
    )
    assert found["cell"].tolist() == [A.id]
    assert found["host"].isna().all()
    assert split_wall_clock(medians(duration_ns=[10.0, 20.0])).empty
