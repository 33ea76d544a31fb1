"""Ranges of GPU operations: a real export against NVIDIA's kind of SQL, and every hard case."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from nsys_exports import (
    MAIN,
    MARK,
    OTHER_PROCESS,
    PROCESS,
    START_END,
    WORKER,
    ExportFile,
)

from profiler.errors import ParseError
from profiler.parse import nsys_attribution
from profiler.parse.nsys import RecordedTimeline, read_nsys
from profiler.parse.nsys_attribution import NO_STACK, attribute

CAPTURE = Path(__file__).parents[2] / "recordings/nsys-2025.3/three_iterations.sqlite"

ENCLOSING = """
SELECT o.correlationId, COALESCE(n.text, t.value)
FROM (SELECT correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL
      UNION ALL SELECT correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMSET) o
JOIN CUPTI_ACTIVITY_KIND_RUNTIME r ON r.correlationId = o.correlationId
 AND r.globalTid / 0x1000000 = o.globalPid / 0x1000000
JOIN NVTX_EVENTS n ON n.eventType = 59 AND n.globalTid = r.globalTid
 AND n.start <= r.start AND n.end >= r.end
LEFT JOIN StringIds t ON t.id = n.textId
ORDER BY o.correlationId, n.start
"""


def stack_rows(found, stack):
    """Rows of the ranges of a stack, outermost first."""
    rows = []
    while stack != NO_STACK:
        rows.append(int(found.stacks.loc[stack, "range"]))
        stack = found.stacks.loc[stack, "parent"]
    return rows[::-1]


def named(found):
    """Names of the ranges around each operation, by its correlation id."""
    names = found.ranges["name"].astype(object).to_numpy()
    return {
        int(row.correlation): [names[r] for r in stack_rows(found, row.stack)]
        for row in found.operations.itertuples()
    }


@pytest.fixture
def export(tmp_path):
    return ExportFile(tmp_path / "timeline.sqlite")


def attributed(export):
    return attribute(read_nsys(export.path))


class TestRealExport:
    def test_every_operation_has_the_ranges_that_sql_finds(self):
        expected = {number: [] for number in named(attribute(read_nsys(CAPTURE)))}
        with closing(sqlite3.connect(CAPTURE)) as connection:
            for correlation, name in connection.execute(ENCLOSING):
                expected[correlation].append(name)
        assert len(expected) == 17
        assert expected[1604] == ["kernel_variant:v1", "run_0"]
        assert sum(map(bool, expected.values())) == 9
        assert named(attribute(read_nsys(CAPTURE))) == expected

    def test_launches(self):
        found = attribute(read_nsys(CAPTURE))
        kernel = found.operations[found.operations["correlation"] == 1604].iloc[0]
        assert kernel["launch_ns"] == 3344702562
        assert found.api.loc[kernel["launch"], "name"] == "cudaLaunchKernel"
        assert not found.operations["by_time"].any()
        assert found.operations["launch"].notna().all()

    def test_ranges_know_their_own_stack(self):
        found = attribute(read_nsys(CAPTURE))
        assert [stack_rows(found, stack) for stack in found.ranges["stack"]] == [
            *([0], [0, 1], [2], [2, 3], [4], [4, 5]),
        ]
        assert found.stacks["depth"].tolist() == [1, 2, 1, 2, 1, 2]


class TestPushPop:
    def test_the_launch_counts_and_not_the_time_on_the_gpu(self, export):
        export.range(0, 100, "first")
        export.range(100, 200, "second")
        export.launch(90, 150, 1)
        assert named(attributed(export)) == {1: ["first"]}

    def test_a_range_holds_its_first_moment_and_not_its_last(self, export):
        export.range(0, 100, "first")
        export.range(100, 200, "second")
        for correlation, at in enumerate([0, 99, 100, 200], start=1):
            export.launch(at, 300 + 10 * correlation, correlation)
        assert named(attributed(export)) == {1: ["first"], 2: ["first"], 3: ["second"], 4: []}

    def test_equal_starts_nest_by_length(self, export):
        export.range(10, 20, "inner")
        export.range(10, 50, "outer")
        export.launch(15, 60, 1)
        export.launch(30, 80, 2)
        assert named(attributed(export)) == {1: ["outer", "inner"], 2: ["outer"]}

    def test_ranges_of_two_domains_may_cross(self, export):
        export.range(0, 50, "a", domainId=1)
        export.range(20, 80, "b", domainId=2)
        for correlation, at in enumerate([10, 30, 60, 90], start=1):
            export.launch(at, 100 * correlation, correlation)
        assert named(attributed(export)) == {1: ["a"], 2: ["a", "b"], 3: ["b"], 4: []}

    def test_marks_and_ranges_without_length_hold_nothing(self, export):
        export.range(10, None, "mark", eventType=MARK)
        export.range(10, 10, "empty")
        export.launch(10, 20, 1)
        found = attributed(export)
        assert named(found) == {1: []}
        assert found.ranges["stack"].tolist() == [NO_STACK, NO_STACK]

    def test_a_range_that_never_ended_holds_what_follows(self, export):
        export.range(10, None, "open")
        export.launch(500, 600, 1)
        assert named(attributed(export)) == {1: ["open"]}

    def test_recursion_keeps_every_level(self, export):
        export.range(0, 100, "f")
        export.range(10, 90, "f")
        export.launch(50, 60, 1)
        assert named(attributed(export)) == {1: ["f", "f"]}


class TestStartEnd:
    def test_of_any_thread_of_the_process(self, export):
        export.range(0, 100, "async", eventType=START_END, globalTid=WORKER, endGlobalTid=MAIN)
        export.launch(50, 60, 1)
        export.launch(150, 160, 2)
        export.launch(50, 70, 3, thread=OTHER_PROCESS + 9)
        assert named(attributed(export)) == {1: ["async"], 2: [], 3: []}
        assert not attributed(export).operations["by_time"].any()

    def test_are_ordered_with_push_pop_ranges_by_their_start(self, export):
        export.range(0, 100, "outer")
        export.range(10, 60, "async", eventType=START_END)
        export.range(20, 90, "inner")
        export.launch(30, 200, 1)
        export.launch(70, 220, 2)
        export.launch(95, 240, 3)
        assert named(attributed(export)) == {
            1: ["outer", "async", "inner"],
            2: ["outer", "inner"],
            3: ["outer"],
        }


class TestOtherThreads:
    def test_backward_thread_is_put_into_the_main_threads_range_by_time(self, export):
        export.range(0, 100, "step")
        export.range(40, 90, "backward")
        export.launch(10, 200, 1)
        export.launch(50, 220, 2, thread=WORKER)
        export.launch(150, 240, 3, thread=WORKER)
        found = attributed(export)
        assert named(found) == {1: ["step"], 2: ["step", "backward"], 3: []}
        assert found.operations["by_time"].tolist() == [False, True, False]

    def test_a_range_of_the_thread_itself_comes_first(self, export):
        export.range(0, 100, "step")
        export.range(40, 60, "own", globalTid=WORKER)
        export.launch(50, 200, 1, thread=WORKER)
        export.launch(70, 220, 2, thread=WORKER)
        found = attributed(export)
        assert named(found) == {1: ["own"], 2: ["step"]}
        assert found.operations["by_time"].tolist() == [False, True]

    def test_main_thread_gets_nothing_from_others(self, export):
        export.range(200, 300, "main")
        export.range(0, 100, "worker", globalTid=WORKER)
        export.launch(50, 60, 1)
        assert named(attributed(export)) == {1: []}

    def test_where_the_main_thread_has_no_ranges_the_first_that_has_stands_for_it(self, export):
        export.range(0, 100, "trainer", globalTid=WORKER)
        export.range(10, 90, "later", globalTid=WORKER + 1)
        export.launch(50, 60, 1, thread=WORKER + 2)
        found = attributed(export)
        assert named(found) == {1: ["trainer"]}
        assert found.operations["by_time"].tolist() == [True]


class TestLaunches:
    def test_equal_correlation_ids_of_two_processes(self, export):
        export.range(0, 100, "mine")
        export.range(0, 100, "yours", globalTid=OTHER_PROCESS + 9)
        export.launch(50, 60, 1)
        export.launch(55, 80, 1, thread=OTHER_PROCESS + 9)
        found = attributed(export)
        names = found.ranges["name"]
        rows = [stack_rows(found, stack)[-1] for stack in found.operations["stack"]]
        assert [names[row] for row in rows] == ["mine", "yours"]

    def test_nodes_of_a_graph_belong_to_its_launch(self, export):
        export.range(0, 100, "capture")
        export.range(200, 300, "replay")
        export.call(250, 7, "cudaGraphLaunch_v10000")
        for node in range(1, 4):
            export.kernel(400 + 20 * node, 410 + 20 * node, 7, graphNodeId=node)
        export.add("CUPTI_ACTIVITY_KIND_MEMCPY", start=500, end=510, correlationId=7, graphNodeId=4)
        found = attributed(export)
        rows = [stack_rows(found, stack) for stack in found.operations["stack"]]
        assert rows == [[1]] * 4
        assert found.api.loc[found.operations["launch"], "name"].tolist() == ["cudaGraphLaunch"] * 4

    def test_an_operation_whose_launch_was_not_recorded(self, export):
        export.range(0, 100, "range")
        export.call(10, 1)
        export.kernel(20, 30, 99)
        export.kernel(40, 50, None)
        found = attributed(export)
        assert found.operations[["launch", "launch_ns", "launch_end_ns"]].isna().all(axis=None)
        assert found.operations["stack"].tolist() == [NO_STACK, NO_STACK]

    def test_the_outer_of_two_calls_with_one_id(self, export):
        export.call(12, 1, "cuLaunchKernel")
        export.call(10, 1, "cudaLaunchKernel_v7000")
        export.kernel(20, 30, 1)
        found = attributed(export)
        assert found.api.loc[found.operations.loc[0, "launch"], "name"] == "cudaLaunchKernel"

    def test_exports_of_old_without_processes(self, tmp_path):
        table = "CUPTI_ACTIVITY_KIND_KERNEL"
        export = ExportFile(tmp_path / "old.sqlite", drop=[(table, "globalPid")])
        export.range(0, 100, "range")
        export.launch(50, 60, 1)
        assert named(attributed(export)) == {1: ["range"]}

    def test_nothing_at_all(self, export):
        found = attributed(export)
        assert (len(found.operations), len(found.ranges), len(found.stacks)) == (0, 0, 0)
        export.kernel(20, 30, 1)
        assert attributed(export).operations["stack"].tolist() == [NO_STACK]
        export.range(0, 100, "range")
        assert attributed(export).operations["stack"].tolist() == [NO_STACK]


# ---- against a search through all ranges ---------------------------------------------------------


def nested(rng, thread, count):
    """Push/pop ranges of one thread, by a random walk of pushes and pops."""
    now, waiting, rows = rng.randrange(20), [], []
    while len(rows) < count or waiting:
        now += rng.randrange(1, 5)
        if waiting and (len(rows) >= count or rng.random() < 0.5):
            rows[waiting.pop()]["end_ns"] = now
        else:
            waiting.append(len(rows))
            rows.append({"kind": "push_pop", "start_ns": now, "end_ns": 0, "thread": thread})
    return rows


def random_timeline(seed):
    rng = random.Random(seed)  # noqa: S311 - not a secret
    threads = [MAIN, WORKER, WORKER + 1, OTHER_PROCESS + 9, OTHER_PROCESS + 10]
    ranges = [row for thread in threads[:4] for row in nested(rng, thread, rng.randrange(12))]
    for _ in range(rng.randrange(8)):
        start = rng.randrange(60)
        end = start + rng.randrange(40)
        thread = rng.choice(threads)
        ranges.append({"kind": "start_end", "start_ns": start, "end_ns": end, "thread": thread})
    ranges = pd.DataFrame(ranges, columns=["kind", "start_ns", "end_ns", "thread"])
    order = np.lexsort((-ranges["end_ns"], ranges["start_ns"]))
    calls = pd.DataFrame(
        {
            "start_ns": sorted(rng.randrange(90) for _ in range(40)),
            "thread": [rng.choice(threads) for _ in range(40)],
            "correlation": rng.sample(range(1, 1000), 40),
        }
    )
    calls["end_ns"] = calls["start_ns"] + 1
    calls["process"] = calls["thread"] // 2**24
    launched = calls.sample(60, replace=True, random_state=seed)
    operations = launched[["process", "correlation"]].assign(start_ns=range(100, 160))
    return RecordedTimeline(
        operations=operations.reset_index(drop=True).astype("Int64"),
        ranges=ranges.iloc[order].reset_index(drop=True).astype({"thread": "Int64"}),
        api=calls.astype({"thread": "Int64", "process": "Int64", "correlation": "Int64"}),
    )


def searched(timeline):
    """Ranges of each operation, found by looking at all of them, and whether by time alone."""
    api = timeline.api.set_index(["process", "correlation"])
    calls = api.loc[[*timeline.operations[["process", "correlation"]].itertuples(index=False)]]
    starts, ends, threads = (
        timeline.ranges[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns", "thread")
    )
    push_pop = (timeline.ranges["kind"] == "push_pop").to_numpy(dtype=bool)
    found = []
    for (process, _), call in zip(calls.index, calls.itertuples(), strict=True):
        holds = (starts <= call.start_ns) & (call.start_ns < ends)
        own = holds & push_pop & (threads == call.thread)
        by_time = False
        if not own.any():
            pushing = threads[push_pop & (threads // 2**24 == process)]
            main = process % 2**24 + process * 2**24
            main = main if (pushing == main).any() else next(iter(pushing), None)
            if main is not None:
                own = holds & push_pop & (threads == main)
                by_time = bool(own.any()) and main != call.thread
        shared = holds & ~push_pop & (threads // 2**24 == process)
        found.append((list(np.flatnonzero(own | shared)), by_time))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_sweep_finds_what_a_search_finds(seed):
    timeline = random_timeline(seed)
    found = attribute(timeline)
    of_stack = {stack: stack_rows(found, stack) for stack in {*found.operations["stack"]}}
    stacks, by_time = found.operations["stack"], found.operations["by_time"].astype(bool)
    assert [*zip(map(of_stack.get, stacks), by_time, strict=True)] == searched(timeline)
    assert (found.stacks["parent"] < found.stacks.index).all()
    assert PROCESS >> 24 in timeline.api["process"].to_list()


class TestManyStacks:
    def test_ranges_in_each_other_make_one_stack_each(self, export):
        for depth in range(200):
            export.range(depth, 1000 - depth, f"r{depth}")
        export.launch(500, 2000, 1)
        assert len(attributed(export).stacks) == 200

    def test_ranges_that_cross_in_too_many_ways_are_refused(self, export, monkeypatch):
        monkeypatch.setattr(nsys_attribution, "MAX_STACKS", 0)
        for begin in range(100):
            export.range(begin, begin + 100, f"r{begin}", eventType=START_END)
            export.launch(begin + 100, 2000 + 10 * begin, begin + 1)
        with pytest.raises(ParseError, match="MAX_STACKS"):
            attributed(export)
