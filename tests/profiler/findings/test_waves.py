import math

import pandas as pd
import pytest

from profiler.findings.kinds.waves import steady_grids, tail_efficiency

PER_WAVE = 100


def grids(blocks, *, per_sm=1, overhead=0.0, variant="v"):
    """Each wave takes 1000 ns, however few blocks it has."""
    return pd.DataFrame(
        {
            "variant": variant,
            "waves": [n / PER_WAVE for n in blocks],
            "blocks": [float(n) for n in blocks],
            "blocks_per_sm": [n / PER_WAVE * per_sm for n in blocks],
            "time_ns": [1000.0 * math.ceil(n / PER_WAVE) + overhead for n in blocks],
        }
    )


def test_full_waves_are_the_ideal():
    found = tail_efficiency(grids([50, 99, 100, 101, 150, 200]))
    assert found["ideal_ns"].tolist() == [500, 990, 1000, 1010, 1500, 2000]
    assert found["efficiency"].tolist() == [0.5, 0.99, 1.0, 0.505, 0.75, 1.0]


def test_the_ideal_is_that_of_the_best_full_waves():
    found = tail_efficiency(grids([100, 400], overhead=100))
    # 11 ns a block in one wave, 10.25 ns in four: the overhead is spread over more blocks.
    assert found["efficiency"].tolist() == pytest.approx([10.25 / 11, 1.0])


def test_variants_have_ideals_of_their_own():
    slow = grids([100, 150], variant="slow")
    slow["time_ns"] *= 3
    found = tail_efficiency(pd.concat([grids([100, 150]), slow], ignore_index=True))
    assert found["ideal_ns"].tolist() == [1000, 1500, 3000, 4500]
    assert found["efficiency"].tolist() == [1.0, 0.75, 1.0, 0.75]


@pytest.mark.parametrize("blocks", [[50, 99, 101, 150], [1]])
def test_without_full_waves_nothing_is_said(blocks):
    found = tail_efficiency(grids(blocks))
    assert found["efficiency"].isna().all()
    assert steady_grids(found) == ()


def test_a_grid_below_one_wave_is_never_full():
    found = tail_efficiency(grids([100]).assign(waves=0.003))
    assert found["efficiency"].isna().all()


def test_missing_times_stay_missing():
    table = grids([100, 150, 200])
    table.loc[1, "time_ns"] = math.nan
    found = tail_efficiency(table)
    assert found["efficiency"].isna().tolist() == [False, True, False]
    (steady_grid,) = steady_grids(found)
    assert steady_grid.waves == 1.0


def test_steady_is_where_no_grid_falls_back():
    # Just above n waves the efficiency is about n / (n + 1): 8 are too few, 9 are enough.
    blocks = [n * PER_WAVE + more for n in range(1, 12) for more in (0, 1, 50)]
    (steady_grid,) = steady_grids(tail_efficiency(grids(blocks)))
    assert steady_grid.waves == 8.5
    assert steady_grid.blocks_per_sm == 8.5
    assert steady_grid.largest_waves == 11.5
    # From 4 blocks on, the worst is just above 4 waves.
    assert steady_grid.rule_least_at == 4.01
    assert steady_grid.rule_least == pytest.approx(401 / 500)
    assert steady_grid.rule_holds is False
    assert steady_grid.rule_grids == 3 * 8


def test_more_blocks_per_sm_are_more_blocks_at_fewer_waves():
    blocks = [n * PER_WAVE + more for n in range(1, 12) for more in (0, 1, 50)]
    (steady_grid,) = steady_grids(tail_efficiency(grids(blocks, per_sm=4)))
    assert (steady_grid.waves, steady_grid.blocks_per_sm) == (8.5, 34.0)
    assert steady_grid.rule_least_at == 1.01, "one full wave has four blocks on each"


def test_a_rule_without_grids_is_not_judged():
    (steady_grid,) = steady_grids(tail_efficiency(grids([100, 200])))
    assert steady_grid.rule_holds is None
    assert steady_grid.rule_grids == 0
    assert steady_grid.waves == 1.0


def test_the_rule_holds_where_all_of_its_grids_are_good():
    (steady_grid,) = steady_grids(tail_efficiency(grids([100, 150, 400, 500, 600])))
    assert steady_grid.rule_holds is True
    assert steady_grid.waves == 4.0


def test_a_last_grid_that_is_bad_leaves_no_steady_one():
    (steady_grid,) = steady_grids(tail_efficiency(grids([100, 200, 201])))
    assert math.isnan(steady_grid.waves)
    assert math.isnan(steady_grid.blocks_per_sm)
    assert steady_grid.largest_waves == 2.01


def test_unknown_multiprocessors_leave_the_rule_open():
    table = grids([100, 500]).assign(blocks_per_sm=math.nan)
    (steady_grid,) = steady_grids(tail_efficiency(table))
    assert steady_grid.rule_holds is None
    assert steady_grid.waves == 1.0
    assert math.isnan(steady_grid.blocks_per_sm)
