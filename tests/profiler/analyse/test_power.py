"""Power and energy from samples of NVML: only of visits that it says something about."""

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.power import add_power


def clocks(seconds, watts):
    """Samples every 20 ms from 0; `watts` is a function of the time."""
    times = np.arange(0, seconds, 0.02)
    return pd.DataFrame({"time_s": times, "power_w": [watts(time) for time in times]})


def visits(*spans):
    rows = [("a", block, 0, start, end) for block, (start, end) in enumerate(spans)]
    return pd.DataFrame(rows, columns=["cell", "block", "arm", "start_s", "end_s"])


def samples(*launches):
    """Per visit, number and duration in seconds of its launches."""
    rows = [("a", block, 0, s * 1e9) for block, (n, s) in enumerate(launches) for _ in range(n)]
    return pd.DataFrame(rows, columns=["cell", "block", "arm", "duration_ns"])


def test_the_first_second_still_holds_what_was_before():
    seen = add_power(
        samples((20, 0.1)), visits((1, 3)), clocks(4, lambda time: 100 if time < 2 else 600)
    )
    assert set(seen["power_w"]) == {600}
    assert seen["energy_j"].tolist() == pytest.approx([60] * 20)


def test_short_visits_and_those_that_mostly_flush_have_none():
    seen = add_power(
        samples((20, 0.05), (20, 0.01), (20, 0.1)),
        visits((0, 1), (1, 3), (3, 5)),  # 1 s; a tenth of 2 s; all of 2 s
        clocks(5, lambda _: 300),
    )
    by_block = seen.groupby("block")["power_w"].max()
    assert by_block.isna().tolist() == [True, True, False]


@pytest.mark.parametrize("watts", [float("nan"), 300.0])
def test_without_any_value_there_is_no_column(watts):
    launches = samples((3, 0.001))
    seen = add_power(launches, visits((0, 0.003)), clocks(1, lambda _: watts))
    assert list(seen.columns) == list(launches.columns)
