"""GPU time by range and kernel: numbers of a real export against SQL, and small cases by hand."""

import sqlite3
import statistics
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profiler.analyse.timeline import (
    GAP_COLUMNS,
    INSTANCE_COLUMNS,
    LATENCY_COLUMNS,
    SUMMARY_COLUMNS,
    TREE_COLUMNS,
    busy_bins,
    busy_time,
    idle_gaps,
    kernel_summary,
    latency_summary,
    launch_latency,
    merge_numbered,
    operation_summary,
    range_instances,
    range_tree,
)
from profiler.parse.nsys import read_nsys
from profiler.parse.nsys_attribution import attribute

CAPTURE = Path(__file__).parents[2] / "recordings/nsys-2025.3/three_iterations.sqlite"


@pytest.fixture(scope="module")
def captured():
    return attribute(read_nsys(CAPTURE))


def rows_of(query):
    with closing(sqlite3.connect(CAPTURE)) as connection:
        return connection.execute(query).fetchall()


def operations(*rows, **columns):
    """Operations from (start, end, stack), launched 5 ns before they start."""
    frame = pd.DataFrame(rows, columns=["start_ns", "end_ns", "stack"]).astype("int64")
    frame["kind"] = "kernel"
    frame["name"] = pd.Categorical([f"k{n}" for n in range(len(frame))])
    frame["demangled"] = frame["name"]
    frame["device"] = pd.array([0] * len(frame), dtype="Int64")
    frame["launch"] = pd.array(range(len(frame)), dtype="Int64")
    frame["launch_ns"] = (frame["start_ns"] - 5).astype("Int64")
    frame["by_time"] = False
    return frame.assign(**columns)


def ranges(*rows):
    """Ranges from (start, end, name), or with a domain behind."""
    named = [(*row, "")[:4] for row in rows]
    frame = pd.DataFrame(named, columns=["start_ns", "end_ns", "name", "domain"])
    return frame.astype({"name": "category", "domain": "category"}).assign(kind="push_pop")


def stacks(*rows):
    """Stacks from (parent, range)."""
    frame = pd.DataFrame(rows, columns=["parent", "range"]).astype("int64")
    depths = []
    for parent in frame["parent"]:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return frame.assign(depth=np.array(depths, dtype=np.int64))


STEP = ranges((0, 100, "step"), (10, 40, "forward"), (50, 90, "backward"))
STEP_STACKS = stacks((-1, 0), (0, 1), (0, 2))


class TestRealExport:
    def test_kernel_summary_is_that_of_sql(self, captured):
        found = {}
        for name, start, end in rows_of(
            "SELECT s.value, k.start, k.end FROM CUPTI_ACTIVITY_KIND_KERNEL k "
            "JOIN StringIds s ON s.id = k.demangledName"
        ):
            found.setdefault(name, []).append(end - start)
        table = kernel_summary(captured.operations).set_index("name")
        assert set(table.index) == set(found)
        total = sum(map(sum, found.values()))
        for name, durations in found.items():
            row = table.loc[name]
            assert row["total_ns"] == sum(durations)
            assert row["instances"] == len(durations)
            assert row["time_pct"] == pytest.approx(100 * sum(durations) / total)
            assert row["med_ns"] == statistics.median(durations)
            assert row["stddev_ns"] == pytest.approx(statistics.stdev(durations))
            assert (row["min_ns"], row["max_ns"]) == (min(durations), max(durations))

    def test_range_tree(self, captured):
        tree = range_tree(captured.operations, captured.ranges, captured.stacks)
        assert tuple(tree.columns) == TREE_COLUMNS
        assert tree["name"].tolist() == ["kernel_variant:v1", "run_0", "run_1", "run_2"]
        assert tree["parent"].tolist() == [-1, 0, 0, 0]
        assert tree["instances"].tolist() == [3, 1, 1, 1]
        [(inside,)] = rows_of(
            "SELECT SUM(o.end - o.start) FROM "
            "(SELECT start, end, correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL "
            " SELECT start, end, correlationId FROM CUPTI_ACTIVITY_KIND_MEMSET) o "
            "JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = o.correlationId "
            "WHERE EXISTS (SELECT 1 FROM NVTX_EVENTS n WHERE n.text LIKE 'run_%' "
            "              AND n.start <= r.start AND n.end >= r.end)"
        )
        assert tree.loc[0, "gpu_ns"] == tree.loc[1:, "gpu_ns"].sum() == inside
        assert tree.loc[0, "self_operations"] == 0
        assert tree["operations"].tolist() == [9, 3, 3, 3]
        assert (tree["busy_ns"] == tree["gpu_ns"]).all()  # one stream
        assert (tree["span_ns"] == tree["busy_ns"] + tree["idle_ns"]).all()
        [(host,)] = rows_of("SELECT SUM(end - start) FROM NVTX_EVENTS WHERE text LIKE 'kernel%'")
        assert tree.loc[0, "host_ns"] == host

    def test_numbered_ranges_are_one_row(self, captured):
        merged = merge_numbered(captured.ranges, ["run"])
        tree = range_tree(captured.operations, merged, captured.stacks)
        assert tree["name"].tolist() == ["kernel_variant:v1", "run_*"]
        assert tree["instances"].tolist() == [3, 3]
        assert tree.loc[1, ["busy_ns", "span_ns"]].tolist() == [820285, 841693]

    def test_gaps_and_busy_time_make_up_the_whole(self, captured):
        gaps = idle_gaps(captured.operations, captured.stacks)
        whole = captured.operations["end_ns"].max() - captured.operations["start_ns"].min()
        assert gaps["idle_ns"].sum() + busy_time(captured.operations) == whole
        inside = gaps[gaps["stack"] >= 0]
        assert inside["idle_ns"].sum() == 21408
        assert not inside["host_late"].any()  # the host was ahead inside each iteration
        between = gaps[(gaps["stack"] < 0) & (gaps["start_ns"] > 3344680211)]
        assert between["host_late"].all()  # and waited for the GPU between them

    def test_launch_latency(self, captured):
        latency = launch_latency(captured.operations)
        kernel = captured.operations["correlation"] == 1604
        assert latency[kernel].tolist() == [3344868562 - 3344702562]
        assert latency.notna().all()


class TestSummary:
    def test_one_instance_has_no_deviation(self):
        table = kernel_summary(operations((0, 10, -1)))
        assert tuple(table.columns) == SUMMARY_COLUMNS
        assert table.loc[0, "avg_ns"] == 10
        assert np.isnan(table.loc[0, "stddev_ns"])

    def test_kinds_are_kept_apart_and_sorted_by_time(self):
        frame = operations((0, 10, -1), (20, 50, -1), (60, 65, -1))
        frame["kind"] = ["kernel", "kernel", "memset"]
        assert kernel_summary(frame)["name"].tolist() == ["k1", "k0"]
        assert kernel_summary(frame)["time_pct"].tolist() == [75.0, 25.0]
        assert operation_summary(frame, ["memset"])["total_ns"].tolist() == [5]

    def test_an_operation_without_a_name_keeps_its_time(self):
        frame = operations((0, 10, -1), (20, 50, -1))
        frame["name"] = pd.Categorical(["a", None])
        table = operation_summary(frame, ["kernel"])
        assert table["total_ns"].tolist() == [30, 10]
        assert table["time_pct"].tolist() == [75.0, 25.0]
        assert pd.isna(table.loc[0, "name"])
        assert len(latency_summary(frame)) == 2

    def test_nothing(self):
        empty = operations()
        assert len(kernel_summary(empty)) == 0
        assert tuple(latency_summary(empty).columns) == LATENCY_COLUMNS
        assert busy_time(empty) == 0
        assert len(range_tree(empty, STEP, STEP_STACKS)) == 3
        assert len(range_instances(empty, STEP_STACKS)) == 0
        assert tuple(idle_gaps(empty, STEP_STACKS).columns) == GAP_COLUMNS

    def test_nothing_and_no_ranges(self):
        for frame in (operations(), operations((0, 10, -1))):
            assert tuple(range_tree(frame, ranges(), stacks()).columns) == TREE_COLUMNS
            assert len(range_tree(frame, ranges(), stacks())) == 0
            assert len(range_instances(frame, stacks())) == 0


class TestBusyTime:
    def test_overlap_counts_once_and_the_sum_twice(self):
        frame = operations((0, 10, 0), (5, 20, 0), (6, 8, 0), (30, 40, 0))
        assert busy_time(frame) == 30
        tree = range_tree(frame, ranges((0, 9, "r")), stacks((-1, 0)))
        assert tree.loc[0, ["gpu_ns", "busy_ns", "span_ns", "idle_ns"]].tolist() == [37, 30, 40, 10]

    def test_devices_are_busy_each_for_itself(self):
        device = pd.array([0, 1], dtype="Int64")
        assert busy_time(operations((0, 10, -1), (5, 15, -1), device=device)) == 20

    def test_against_a_count_of_every_nanosecond(self):
        rng = np.random.default_rng(7)
        start = np.sort(rng.integers(0, 300, 60))
        end = start + rng.integers(0, 12, 60)
        stack = rng.integers(-1, 3, 60)
        frame = operations(*zip(start, end, stack, strict=True))
        tree = range_tree(frame, STEP, STEP_STACKS).set_index("name")
        busy = np.zeros((4, 320), bool)
        for first, last, which in zip(start, end, stack, strict=True):
            busy[which, first:last] = True
        assert busy_time(frame) == busy.any(axis=0).sum()
        assert tree.loc["step", "busy_ns"] == busy[:3].any(axis=0).sum()
        assert tree.loc["step", "self_busy_ns"] == busy[0].sum()
        assert tree.loc["forward", "busy_ns"] == busy[1].sum()
        held = stack >= 0
        span = slice(start[held].min(), end[held].max())
        assert tree.loc["step", "idle_ns"] == (~busy.any(axis=0)[span]).sum()


class TestTree:
    def test_inclusive_and_exclusive(self):
        frame = operations((0, 10, 0), (10, 30, 1), (30, 70, 2), (70, 75, -1))
        tree = range_tree(frame, STEP, STEP_STACKS)
        assert tree["name"].tolist() == ["step", "forward", "backward"]
        assert tree["gpu_ns"].tolist() == [70, 20, 40]
        assert tree["self_gpu_ns"].tolist() == [10, 20, 40]
        assert tree["operations"].tolist() == [3, 1, 1]
        assert tree["self_operations"].tolist() == [1, 1, 1]
        assert tree["host_ns"].tolist() == [100, 30, 40]

    def test_ranges_of_one_path_are_one_row(self):
        steps = ranges((0, 10, "step"), (1, 9, "layer"), (20, 40, "step"), (21, 39, "layer"))
        four = stacks((-1, 0), (0, 1), (-1, 2), (2, 3))
        tree = range_tree(operations((100, 110, 1), (150, 180, 3)), steps, four)
        assert tree["name"].tolist() == ["step", "layer"]
        assert tree["instances"].tolist() == [2, 2]
        assert tree["host_ns"].tolist() == [30, 26]
        assert tree["gpu_ns"].tolist() == [40, 40]
        # Spans are those of each instance: the 40 ns between the two steps are in none.
        assert tree["span_ns"].tolist() == [40, 40]
        assert tree["idle_ns"].tolist() == [0, 0]

    def test_equal_names_at_other_places_or_domains_stay_apart(self):
        four = ranges((0, 50, "a"), (10, 20, "b"), (60, 70, "b"), (80, 90, "b", "other"))
        tree = range_tree(operations(), four, stacks((-1, 0), (0, 1), (-1, 2), (-1, 3)))
        assert tree[["depth", "domain", "name"]].to_numpy().tolist() == [
            *([1, "", "a"], [2, "", "b"], [1, "", "b"], [1, "other", "b"])
        ]

    def test_children_stand_below_their_parent_in_order_of_time(self):
        four = ranges((0, 50, "a"), (10, 20, "z"), (30, 40, "b"), (60, 70, "c"))
        tree = range_tree(operations(), four, stacks((-1, 3), (-1, 0), (1, 2), (1, 1)))
        assert tree["name"].tolist() == ["a", "z", "b", "c"]
        assert tree["parent"].tolist() == [-1, 0, 0, -1]

    def test_operations_placed_by_time_are_counted(self):
        frame = operations((0, 10, 2), (10, 30, 2), by_time=[True, False])
        assert range_tree(frame, STEP, STEP_STACKS)["by_time"].tolist() == [1, 0, 1]

    def test_a_range_without_a_name(self):
        unnamed = ranges((0, 10, None))
        tree = range_tree(operations((1, 2, 0)), unnamed, stacks((-1, 0)))
        assert tree.loc[0, "name"] is None
        assert tree.loc[0, "gpu_ns"] == 1


class TestNames:
    def test_numbers_are_merged_only_where_asked(self):
        numbered = ranges((0, 1, "step_0"), (2, 3, "step_12"), (4, 5, "layer_1"), (6, 7, "step_x"))
        assert merge_numbered(numbered, ["step"])["name"].tolist() == [
            *("step_*", "step_*", "layer_1", "step_x")
        ]
        assert merge_numbered(numbered, []) is numbered
        assert numbered["name"].tolist()[0] == "step_0"

    def test_an_instance_is_a_single_range(self):
        frame = operations((100, 110, 1), (130, 150, 2), (120, 125, -1))
        frame = frame.sort_values("start_ns", ignore_index=True)
        found = range_instances(frame, STEP_STACKS)
        assert tuple(found.columns) == INSTANCE_COLUMNS
        assert found["range"].tolist() == [0, 1, 2]
        assert found["first_ns"].tolist() == [100, 100, 130]
        assert found["last_ns"].tolist() == [150, 110, 150]


class TestGaps:
    def test_a_gap_lies_in_the_ranges_of_both_sides(self):
        frame = operations((0, 10, 1), (20, 30, 1), (35, 40, 2), (50, 60, -1))
        gaps = idle_gaps(frame, STEP_STACKS)
        assert gaps["idle_ns"].tolist() == [10, 5, 10]
        assert gaps["stack"].tolist() == [1, 0, -1]
        assert gaps[["before", "after"]].to_numpy().tolist() == [[0, 1], [1, 2], [2, 3]]

    def test_a_long_operation_of_another_stream_fills_it(self):
        gaps = idle_gaps(operations((0, 100, -1), (10, 20, -1), (120, 130, -1)), stacks())
        assert gaps[["start_ns", "end_ns", "before", "after"]].to_numpy().tolist() == [
            [100, 120, 0, 2]
        ]

    def test_devices_have_gaps_of_their_own(self):
        device = pd.array([0, 1, 0], dtype="Int64")
        gaps = idle_gaps(
            operations((0, 10, -1), (5, 25, -1), (20, 30, -1), device=device), stacks()
        )
        assert gaps[["device", "idle_ns"]].to_numpy().tolist() == [[0, 10]]

    def test_whether_the_host_was_late(self):
        launch = pd.array([0, 5, 35, None], dtype="Int64")
        frame = operations((0, 10, -1), (20, 30, -1), (40, 50, -1), (60, 70, -1), launch_ns=launch)
        late = idle_gaps(frame, stacks())["host_late"]
        assert late.tolist()[:2] == [False, True]
        assert pd.isna(late[2])


class TestLatency:
    def test_only_the_first_operation_of_a_call_has_one(self):
        launch = pd.array([3, 3, 7, None], dtype="Int64")
        times = pd.array([0, 0, 25, None], dtype="Int64")
        frame = operations(
            *((10, 20, -1), (20, 25, -1), (31, 40, -1), (50, 60, -1)),
            launch=launch,
            launch_ns=times,
        )
        latency = launch_latency(frame)
        assert latency.tolist()[0] == 10
        assert latency.tolist()[2] == 6
        assert latency.isna().tolist() == [False, True, False, True]

    def test_summary_by_name(self):
        frame = operations((10, 20, -1), (30, 40, -1), (50, 60, -1))
        frame["name"] = ["a", "b", "b"]
        frame["launch_ns"] = pd.array([9, 20, 46], dtype="Int64")
        table = latency_summary(frame)
        assert table["name"].tolist() == ["b", "a"]
        assert table.loc[0].tolist() == ["b", 2, 7.0, 7.0, 4.0, 10.0]


class TestBusyBins:
    def test_by_hand(self):
        frame = pd.DataFrame({"start_ns": [0, 5, 30], "end_ns": [10, 8, 40]})
        assert busy_bins(frame, (0, 40), 4).tolist() == [1, 0, 0, 1]
        assert busy_bins(frame, (5, 45), 2) == pytest.approx([5 / 20, 10 / 20])
        assert busy_bins(frame.iloc[:0], (0, 40), 2).tolist() == [0, 0]

    @given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 40)), min_size=1, max_size=12))
    def test_as_counted(self, rows):
        rows = sorted(rows)
        frame = pd.DataFrame(
            {"start_ns": [start for start, _ in rows], "end_ns": [sum(row) for row in rows]}
        )
        busy = np.zeros(240)
        for start, length in rows:
            busy[start : start + length] = 1
        counted = busy.reshape(12, 20).mean(axis=1)
        assert busy_bins(frame, (0, 240), 12) == pytest.approx(counted)


@st.composite
def timelines(draw):
    """Ranges in each other at random, and operations in them on two devices."""
    parents = [draw(st.integers(-1, node - 1)) for node in range(draw(st.integers(1, 7)))]
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 20), st.integers(0, 9), st.integers(-1, len(parents) - 1)),
            max_size=9,
        )
    )
    rows = sorted((start, start + length, stack) for start, length, stack in rows)
    frame = operations(*rows)
    devices = draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
    return frame.assign(device=pd.array(devices, dtype="Int64")), parents


class TestNested:
    @settings(max_examples=30)
    @given(timelines())
    def test_sums_are_those_of_every_pair_of_an_operation_and_a_range_around_it(self, timeline):
        frame, parents = timeline
        names = ranges(*((0, 99, f"r{row}") for row in range(len(parents))))
        tree = range_tree(frame, names, stacks(*((p, row) for row, p in enumerate(parents))))
        for row in tree.to_dict("records"):
            held = [row["name"] in self.path(parents, stack) for stack in frame["stack"]]
            inside = frame[np.array(held, dtype=bool)]
            busy = {
                (device, time)
                for start, end, device in zip(
                    inside["start_ns"], inside["end_ns"], inside["device"], strict=True
                )
                for time in range(start, end)
            }
            assert row["operations"] == len(inside)
            assert row["gpu_ns"] == (inside["end_ns"] - inside["start_ns"]).sum()
            assert row["busy_ns"] == len(busy)
            by_device = inside.groupby("device")
            span = (by_device["end_ns"].max() - by_device["start_ns"].min()).sum()
            assert row["span_ns"] == span

    @staticmethod
    def path(parents, stack):
        names = []
        while stack != -1:
            names.append(f"r{stack}")
            stack = parents[stack]
        return names

    def test_memory_is_that_of_the_rows_however_deep_they_are(self):
        depth = 500
        frame = operations(*((10 * row, 10 * row + 15, row) for row in range(depth)))
        deep = ranges(*((row, 10**6 - row, f"r{row}") for row in range(depth)))
        around = stacks(*((row - 1, row) for row in range(depth)))
        tracemalloc.start()
        try:
            tree = range_tree(frame, deep, around)
            gaps = idle_gaps(frame.assign(end_ns=frame["start_ns"] + 5), around)
            spans = range_instances(frame, around)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert tree.loc[0, ["operations", "busy_ns"]].tolist() == [depth, 10 * depth + 5]
        assert gaps["stack"].tolist() == list(range(depth - 1))
        assert spans["last_ns"].tolist() == [10 * depth + 5] * depth
        assert peak < 3000 * depth  # a pair of each operation and range would take 24 * depth**2
