"""Launches, what repeats in them, and its phases: small timelines by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.cell_timeline import CellTimeline
from profiler.analyse.phases import (
    API_CALL_COLUMNS,
    GAP_GROUP_COLUMNS,
    LAUNCH,
    MORE,
    NAMELESS,
    OUTSIDE,
    PHASE_COLUMNS,
    SUMMARY_COLUMNS,
    VISIT,
    WHOLE,
    api_calls,
    find_phases,
    find_units,
    gap_groups,
    launch_rows,
    phase_summary,
    plain_ranges,
    stack_paths,
    tree_ranges,
)
from profiler.analyse.timeline import group_times

OPERATORS = ("name", "calls", "self_cpu_us", "cpu_us", "self_device_us", "device_us", "stack")


def timeline(ranges, operations=(), calls=(), launches=2):
    """Ranges from (start, end, name, parent row); operations from (start, end, name, range)."""
    depths, parents = [], []
    for _, _, _, parent in ranges:
        depths.append(1 if parent < 0 else depths[parent] + 1)
        parents.append(parent)
    stacks = pd.DataFrame({"parent": parents, "range": range(len(ranges)), "depth": depths})
    named = [(start, end, name) for start, end, name, _ in ranges]
    frame = pd.DataFrame(named, columns=["start_ns", "end_ns", "name"])
    own = frame["name"].astype(object).str.match("cell=|launch=", na=False)
    frame["domain"] = pd.Categorical(np.where(own, "profiler", ""))
    frame = frame.assign(kind="push_pop", stack=range(len(frame)))
    ops = pd.DataFrame(list(operations), columns=["start_ns", "end_ns", "name", "stack"])
    ops = ops.astype({"start_ns": "int64", "end_ns": "int64", "stack": "int64"})
    ops["device"] = pd.array([0] * len(ops), dtype="Int64")
    ops["launch"] = pd.array(range(len(ops)), dtype="Int64")
    ops["launch_ns"] = (ops["start_ns"] - 1).astype("Int64")
    ops = ops.assign(kind="kernel", by_time=False, demangled=ops["name"])
    api = pd.DataFrame(list(calls), columns=["start_ns", "end_ns", "name"])
    return CellTimeline(
        "c",
        "nsys",
        ops,
        frame,
        stacks.astype("int64"),
        api,
        launches,
        pd.DataFrame([], columns=OPERATORS),
    )


STEPS = [
    (0, 1000, "cell=c;block=0", -1),
    (0, 400, "launch=0", 0),
    (10, 390, "step_0", 1),
    (20, 100, "forward", 2),
    (110, 380, "backward", 2),
    (500, 900, "launch=1", 0),
    (510, 890, "step_1", 5),
    (520, 600, "forward", 6),
    (610, 880, "backward", 6),
]
KERNELS = [
    (30, 50, "a", 3),
    (60, 90, "b", 3),
    (120, 220, "c", 4),
    (225, 230, "copy", 2),
    (530, 550, "a", 7),
    (550, 590, "b", 7),
    (620, 820, "c", 8),
]
TRAINING = timeline(STEPS, KERNELS)


def units_of(found):
    return find_units(found.ranges, found.stacks)


def rows_of(found):
    return find_phases(found).times


class TestUnits:
    def test_the_only_kind_of_range_inside_launches_with_parts(self):
        found = units_of(TRAINING)
        assert (found.name, found.rows.tolist()) == ("step_*", [2, 6])

    def test_launches_that_hold_several_kinds(self):
        found = timeline([(0, 50, "launch=0", -1), (0, 9, "forward", 0), (9, 20, "loss", 0)])
        assert (units_of(found).name, units_of(found).rows.tolist()) == (LAUNCH, [0])

    def test_one_numbered_range_without_parts_in_each_launch(self):
        """As a training step that is a CUDA graph."""
        rows = [
            (0, 5, "launch=0", -1),
            (1, 4, "step_0", 0),
            (6, 9, "launch=1", -1),
            (7, 8, "step_1", 2),
        ]
        assert units_of(timeline(rows)).name == "step_*"

    def test_several_numbered_ranges_without_parts_are_phases(self):
        rows = [(0, 50, "launch=0", -1), (0, 9, "layer_0", 0), (9, 20, "layer_1", 0)]
        found = timeline(rows, [(1, 2, "a", 1), (10, 12, "b", 2)])
        assert units_of(found).name == LAUNCH
        assert find_phases(found).phases == ("layer_0", "layer_1")

    def test_a_program_without_launches(self):
        found = timeline([(0, 9, "run_0", -1), (10, 19, "run_1", -1)], launches=0)
        assert (units_of(found).name, units_of(found).rows.tolist()) == ("run_*", [0, 1])

    def test_nothing_repeats(self):
        for found in (timeline([]), timeline([(0, 9, "a", -1), (10, 19, "b", -1)], launches=0)):
            assert len(units_of(found).rows) == 0
            assert find_phases(found).median_unit() is None
            assert rows_of(found).empty


class TestNames:
    def test_own_ranges_are_called_by_what_they_are(self):
        names = plain_ranges(TRAINING.ranges)["name"].tolist()
        assert names[:3] == [VISIT, LAUNCH, "step_0"]

    def test_a_users_range_of_the_same_name_keeps_it(self):
        ranges = TRAINING.ranges.assign(domain="mine")
        assert plain_ranges(ranges)["name"].tolist() == TRAINING.ranges["name"].tolist()
        assert len(launch_rows(ranges)) == 0

    def test_many_numbers_are_one_name_and_few_stay_apart(self):
        names = [*(f"step_{n}" for n in range(13)), *(f"layer_{n}" for n in range(12)), None]
        rows = [(0, 99, "launch=0", -1), *((n, n + 1, name, 0) for n, name in enumerate(names))]
        found = timeline(rows)
        shown = tree_ranges(found.ranges, units_of(found))["name"].dropna().unique()
        assert set(shown) == {LAUNCH, "step_*", *names[13:-1]}

    def test_units_are_one_name_however_few(self):
        names = tree_ranges(TRAINING.ranges, units_of(TRAINING))["name"].tolist()
        assert names[2] == names[6] == "step_*"

    def test_paths_leave_out_the_visit(self):
        numbers, paths = stack_paths(plain_ranges(TRAINING.ranges), TRAINING.stacks)
        assert paths[numbers[0]] == ()
        assert paths[numbers[3]] == ("launch", "step_0", "forward")
        assert paths[numbers[-1]] == ()

    def test_of_a_deep_path_both_ends_are_named(self):
        rows = [(n, 999 - n, f"r{n}", n - 1) for n in range(30)]
        found = timeline(rows)
        numbers, paths = stack_paths(found.ranges, found.stacks)
        assert len(set(numbers[:-1])) == 30
        assert paths[numbers[15]] == tuple(f"r{n}" for n in range(16))
        ends = [f"r{n}" for n in (*range(8), *range(22, 30))]
        assert paths[numbers[29]] == (*ends[:8], MORE, *ends[8:])


class TestPhases:
    def test_times_by_hand(self):
        table = rows_of(TRAINING)
        assert tuple(table.columns) == PHASE_COLUMNS
        first = table[table["unit"] == 2].set_index("phase")
        assert list(first.index) == [WHOLE, "forward", "backward", OUTSIDE]
        assert first["operations"].tolist() == [4, 2, 1, 1]
        assert first["gpu_ns"].tolist() == [155, 50, 100, 5]
        assert first["span_ns"].tolist() == [220, 60, 100, 5]
        assert first["idle_ns"].tolist() == [65, 10, 0, 0]
        assert first["host_ns"].tolist() == [380, 80, 270, 0]
        second = table[table["unit"] == 6]
        assert second["phase"].tolist() == [WHOLE, "forward", "backward"]

    def test_whole_units_hold_what_the_device_waited_for_between_them(self):
        rows = [(100 * n, 100 * n + 20, f"launch={n}", -1) for n in range(4)]
        operations = [(30, 40, "k", 0), (130, 150, "k", 1), (330, 360, "k", 3)]
        table = rows_of(timeline(rows, operations)).set_index("unit")
        assert table["span_ns"].tolist() == [40, 110, 0, 60], "the last follows one without any"
        assert table["busy_ns"].tolist() == [10, 20, 0, 30]
        assert table["idle_ns"].tolist() == [30, 90, 0, 30]
        shares = phase_summary(table.reset_index())
        assert shares["busy_share"].tolist() == pytest.approx([np.median([10 / 40, 20 / 110, 0.5])])

    def test_behind_an_empty_unit_a_device_that_was_busy_did_not_wait(self):
        rows = [(10 * n, 10 * n + 10, f"launch={n}", -1) for n in range(3)]
        operations = [(100, 1100, "k", 0), (1100, 2100, "k", 2)]
        table = rows_of(timeline(rows, operations))
        assert table["span_ns"].tolist() == [1100, 0, 1000]
        assert table["idle_ns"].tolist() == [100, 0, 0]

    def test_several_devices_have_a_span_each(self):
        found = timeline([(0, 10, "launch=0", -1)], [(50, 100, "k", 0), (50, 100, "k", 0)])
        operations = found.operations.assign(device=[0, 1])
        table = find_phases(replace(found, operations=operations)).times
        assert table["busy_ns"].tolist() == [100]
        assert table["span_ns"].tolist() == [200]

    def test_units_whose_operations_overlap_have_no_negative_times(self):
        rows = [(0, 9, "launch=0", -1), (10, 19, "launch=1", -1)]
        operations = [(5, 100, "k", 0), (20, 90, "k", 1)]
        table = rows_of(timeline(rows, operations))
        assert table["span_ns"].tolist() == [100, 70]
        assert table["idle_ns"].tolist() == [5, 0]

    def test_summary_by_hand(self):
        table = phase_summary(rows_of(TRAINING))
        assert tuple(table.columns) == SUMMARY_COLUMNS
        rows = table.set_index("phase")
        assert list(rows.index) == [WHOLE, "forward", "backward", OUTSIDE]
        forward = rows.loc["forward"]
        assert forward["busy_share"] == pytest.approx((50 / 60 + 1) / 2)
        assert (forward["busy_share_low"], forward["busy_share_high"]) == (
            pytest.approx(50 / 60),
            1,
        )
        assert (forward["gpu_ns"], forward["gpu_ns_low"], forward["gpu_ns_high"]) == (55, 50, 60)
        assert forward["share_of_gpu"] == pytest.approx(110 / 415)
        assert rows.loc[OUTSIDE, "units"] == 1
        assert np.isnan(rows.loc[OUTSIDE, "host_ns"])

    def test_without_a_gpu_there_are_host_times_only(self):
        rows = phase_summary(rows_of(timeline(STEPS))).set_index("phase")
        assert list(rows.index) == [WHOLE, "forward", "backward"]
        assert rows["host_ns"].tolist() == [380, 80, 270]
        assert rows[["gpu_ns", "busy_share", "idle_ns", "share_of_gpu"]].isna().all().all()

    def test_everything_knows_its_phase(self):
        phases = find_phases(TRAINING)
        assert phases.phases == ("forward", "backward")
        assert phases.operation_phase.tolist() == [0, 0, 1, -1, 0, 0, 1]
        assert phases.operation_unit.tolist() == [0, 0, 0, 0, 1, 1, 1]
        assert phases.range_phase.tolist() == [-1, -1, -1, 0, 1, -1, -1, 0, 1]

    def test_a_phase_of_two_ranges_is_one(self):
        rows = [(0, 99, "launch=0", -1), (0, 9, "a", 0), (10, 20, "b", 0), (30, 40, "a", 0)]
        found = timeline(rows, [(1, 3, "k", 1), (12, 13, "k", 2), (31, 35, "k", 3)])
        first = rows_of(found).set_index("phase").loc["a"]
        assert (first["operations"], first["gpu_ns"], first["span_ns"]) == (2, 6, 34)
        assert first["host_ns"] == 19

    def test_a_range_without_a_name_is_a_phase(self):
        rows = [(0, 99, "launch=0", -1), (0, 9, None, 0), (10, 20, "b", 0)]
        assert find_phases(timeline(rows)).phases == (NAMELESS, "b")

    def test_the_one_in_the_middle(self):
        rows = [(10 * n, 10 * n + 9, f"launch={n}", -1) for n in range(3)]
        operations = [(0, 8, "k", 0), (10, 11, "k", 1), (20, 25, "k", 2)]
        assert find_phases(timeline(rows, operations)).median_unit() == 0
        assert find_phases(timeline(rows, operations)).median_unit(before_ns=19) == 1
        assert find_phases(timeline(rows, operations)).median_unit(before_ns=5) is None
        assert (
            find_phases(timeline([(0, 5, "launch=0", -1), (6, 9, "launch=1", -1)])).median_unit()
            == 1
        )


def test_the_time_of_a_launch_is_from_end_to_end():
    ops = [(30, 40, "a", 3), (350, 400, "b", 4), (530, 540, "a", 7), (850, 905, "b", 8)]
    found = timeline(STEPS, ops)
    assert find_phases(found).launch_ns == 905 - 400
    assert np.isnan(find_phases(timeline(STEPS, ops[:2])).launch_ns), "one launch has no next one"
    assert np.isnan(find_phases(timeline(STEPS, ops, launches=0)).launch_ns)


def test_group_times_leaves_out_what_is_in_no_group():
    table = group_times(TRAINING.operations, np.array([0, 0, 2, -1, -1, -1, 2]), 3)
    assert table["operations"].tolist() == [2, 0, 2]
    assert table["gpu_ns"].tolist() == [50, 0, 300]
    assert table["span_ns"].tolist() == [60, 0, 700]
    assert table["idle_ns"].tolist() == [10, 0, 5 + 300 + 30]


class TestCalls:
    CALLS = (
        (5, 8, "cudaLaunchKernel"),
        (10, 12, "cudaLaunchKernel"),
        (450, 499, "cudaDeviceSynchronize"),
        (505, 511, "cudaLaunchKernel"),
        (520, 521, "cudaMemcpyAsync"),
        (999, 1500, "cudaFree"),
    )

    def test_calls_of_launches_only(self):
        found = timeline(STEPS, calls=self.CALLS)
        table = api_calls(found.api, found.ranges)
        assert tuple(table.columns) == API_CALL_COLUMNS
        rows = table.set_index("name")
        assert list(rows.index) == ["cudaLaunchKernel", "cudaMemcpyAsync"]
        assert rows["calls"].tolist() == [1.5, 0.5]
        assert rows["host_ns"].tolist() == [5.5, 0.5]
        assert rows["low_ns"].tolist() == [5, 0]
        assert rows["high_ns"].tolist() == [6, 1]

    def test_all_calls_of_a_program(self):
        found = timeline([], calls=self.CALLS, launches=0)
        assert api_calls(found.api, found.ranges)["calls"].sum() == len(self.CALLS)

    def test_no_calls(self):
        assert tuple(api_calls(TRAINING.api, TRAINING.ranges).columns) == API_CALL_COLUMNS
        assert api_calls(TRAINING.api, TRAINING.ranges).empty


class TestGaps:
    def test_gaps_of_one_kind_are_one_row(self):
        rows = [
            (0, 99, "launch=0", -1),
            (0, 20, "a", 0),
            (100, 199, "launch=1", -1),
            (100, 120, "a", 2),
        ]
        found = timeline(
            rows, [(1, 3, "k", 1), (8, 9, "m", 1), (101, 103, "k", 3), (110, 111, "m", 3)]
        )
        names = tree_ranges(found.ranges, units_of(found))
        table = gap_groups(found.operations, names, found.stacks)
        assert tuple(table.columns) == GAP_GROUP_COLUMNS
        assert table[["before", "after", "count", "total_ns", "max_ns"]].values.tolist() == [
            ["m", "k", 1, 92, 92],
            ["k", "m", 2, 12, 7],
        ]
        assert table["before_path"].tolist() == [("launch", "a")] * 2
        assert table["host_late"].tolist() == [1.0, 1.0]

    def test_launches_that_are_not_known_count_neither_way(self):
        found = timeline([], [(0, 5, "k", -1), (9, 10, "m", -1)])
        operations = found.operations.assign(launch_ns=pd.array([None, None], dtype="Int64"))
        table = gap_groups(operations, found.ranges, found.stacks)
        assert np.isnan(table["host_late"].iloc[0])

    def test_no_operations(self):
        found = timeline(STEPS)
        assert gap_groups(found.operations, found.ranges, found.stacks).empty
