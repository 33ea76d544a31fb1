"""Counters by NVTX range: paths, kernels combined by the catalogue, means over visits."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.range_counters import (
    RANGE_COLUMNS,
    empty_range_visits,
    range_counters,
    range_visits,
    tree_paths,
)
from profiler.analyse.samples import SampleOrigin
from profiler.analyse.timeline import merge_numbered, numbered_prefixes, range_tree
from profiler.metrics.catalogue import CATALOGUE
from profiler.metrics.queries import ncu_name
from profiler.model import Environment
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.runner.protocol import launch_range_name, range_name

RECORDINGS = Path(__file__).parents[2] / "recordings/ncu-2025.3.1"
THREAD = 7
METRICS = ("duration_ns", "dram_read_bytes", "registers", "achieved_occupancy_pct")
H200 = Environment(peak_dram_bytes_per_s=4e12)


class Range(NamedTuple):
    """A parsed NVTX range; without a thread it is a start/end range."""

    domain: str
    name: str
    thread: int | None = THREAD


def stack(*names, cell="a", block=0, arm=0, around=(), domain=""):
    """The ranges around a launch inside a visit."""
    inner = (Range(domain, name) for name in names)
    return (*around, Range("profiler", range_name(cell, block, arm)), *inner)


def launch(nvtx, ns, read=0.0, registers=32.0, occupancy=50.0):
    return {
        "kernel": "k",
        "nvtx": nvtx,
        "gpu__time_duration.sum": ns,
        "dram__bytes_read.sum": read,
        "launch__registers_per_thread": registers,
        "sm__warps_active.avg.pct_of_peak_sustained_active": occupancy,
    }


def visits_of(*rows, session="timing", kind="timing", metrics=METRICS, finished=None):
    origin = SampleOrigin(session, "ncu", kind, metrics, "9.0")
    return range_visits(pd.DataFrame(list(rows)), origin, finished)


def counters(*frames, environment=H200, cells=()):
    return range_counters(pd.concat(frames, ignore_index=True), environment, cells)


def durations(found):
    return dict(zip(found["path"], found["duration_ns"], strict=True))


class TestPaths:
    def test_a_kernel_counts_in_its_range_and_in_those_around_it(self):
        found = counters(
            visits_of(
                launch(stack("mlp", "up"), 10.0),
                launch(stack("mlp", "down"), 20.0),
                launch(stack("mlp"), 3.0),
                launch(stack(), 100.0),
            )
        )
        assert durations(found) == {
            ("mlp",): 33.0,
            ("mlp", "up"): 10.0,
            ("mlp", "down"): 20.0,
        }
        assert found["kernels"].tolist() == [3.0, 1.0, 1.0]
        assert found["depth"].tolist() == [1, 2, 2]
        assert found["name"].tolist() == ["mlp", "up", "down"]

    def test_what_is_around_the_visit_is_no_part_of_a_path(self):
        around = (Range("", "epoch"),)
        found = visits_of(
            launch(stack("up", around=around), 1.0), launch(stack(around=around), 2.0)
        )
        assert found["path"].tolist() == [("up",)]
        assert found["duration_ns"].tolist() == [1.0]

    def test_a_file_may_have_its_ranges_domain_by_domain(self):
        """As ncu keeps them: the stack of the default domain first, then that of ours."""
        default = (Range("", "mlp"), Range("", "up"))
        found = visits_of(
            launch((*default, *stack()), 1.0),
            launch((*default, Range("lib", "gemm"), *stack()), 2.0),
        )
        assert durations(found) == {
            ("mlp",): 3.0,
            ("mlp", "up"): 3.0,
            ("mlp", "up", "lib@gemm"): 2.0,
        }

    def test_a_real_capture(self):
        """Pushed in turn: outer, the visit, inner_0, azz@lib, the launch, deep."""
        table = read_ncu_csv(RECORDINGS / "ncu_raw_nvtx_domains.csv.gz")
        found = range_visits(table.launches, SampleOrigin("s", "ncu", "timing", ["duration_ns"]))
        kernels = {
            (cell, path): count
            for cell, path, count in found[["cell", "path", "kernels"]].itertuples(index=False)
        }
        assert kernels == {
            ("a", ("outer",)): 2,
            ("a", ("outer", "inner_0")): 2,
            ("a", ("outer", "inner_0", "deep")): 1,
            ("a", ("outer", "inner_0", "deep", "azz@lib")): 1,
            ("b", ("pk",)): 1,
            ("b", ("pk", "inner_1")): 1,
        }
        assert found["duration_ns"].between(500, 5000).all()

    def test_a_range_of_a_launch_has_no_name_in_a_path(self):
        inner = (*stack(), Range("profiler", launch_range_name(0)), Range("", "up"))
        assert visits_of(launch(inner, 1.0))["path"].tolist() == [("up",)]

    def test_another_domain_stands_in_the_path(self):
        found = visits_of(launch(stack("up", domain="lib"), 1.0))
        assert found["path"].tolist() == [("lib@up",)]

    def test_a_start_end_range_is_nowhere(self):
        nvtx = (*stack("up"), Range("", "all the time", None))
        assert visits_of(launch(nvtx, 1.0))["path"].tolist() == [("up",)]

    def test_outside_every_visit_is_nothing(self):
        assert visits_of(launch((Range("", "warmup"),), 1.0)).empty

    def test_without_a_range_inside_a_visit_nothing_is_copied(self, monkeypatch):
        def refuse(*_):
            raise AssertionError("launches were grouped")

        monkeypatch.setattr("profiler.analyse.range_counters.Ranges", refuse)
        found = visits_of(launch(stack(), 1.0), launch((Range("", "warmup"),), 1.0))
        assert found.empty
        assert range_counters(found, H200).empty

    def test_no_launches_at_all(self):
        assert visits_of().empty
        assert list(visits_of().columns) == list(empty_range_visits().columns)

    def test_a_visit_that_did_not_end_is_left_out(self):
        rows = [launch(stack("up", block=block), 1.0 + block) for block in (0, 1)]
        found = visits_of(*rows, finished={("a", 1, 0)})
        assert found["block"].tolist() == [1]


class TestNumbers:
    def test_each_metric_has_its_own_rule(self):
        found = counters(
            visits_of(
                launch(stack("up"), 10.0, read=100.0, registers=32.0, occupancy=50.0),
                launch(stack("up"), 30.0, read=300.0, registers=64.0, occupancy=90.0),
            )
        ).iloc[0]
        assert found["duration_ns"] == 40.0
        assert found["dram_read_bytes"] == 400.0
        assert found["registers"] == 64.0
        assert found["achieved_occupancy_pct"] == pytest.approx((50 * 10 + 90 * 30) / 40)

    def test_visits_are_averaged_not_added(self):
        rows = [launch(stack("up", block=block), ns) for block, ns in enumerate((10.0, 30.0))]
        found = counters(visits_of(*rows))
        assert found["duration_ns"].tolist() == [20.0]
        assert found["kernels"].tolist() == [1.0]

    def test_a_value_that_is_missing_does_not_count_as_zero(self):
        rows = [launch(stack("up", block=block), ns) for block, ns in enumerate((10.0, np.nan))]
        assert counters(visits_of(*rows))["duration_ns"].tolist() == [10.0]

    def test_a_metric_without_any_value_has_no_column(self):
        found = counters(visits_of(launch(stack("up"), 1.0), metrics=(*METRICS, "l2_bytes")))
        assert "l2_bytes" not in found.columns

    def test_second_arms_and_finals_do_not_count(self):
        found = counters(
            visits_of(launch(stack("up"), 10.0), launch(stack("up", arm=1), 99.0)),
            visits_of(launch(stack("up"), 99.0), session="finals", kind="final"),
        )
        assert found["duration_ns"].tolist() == [10.0]

    def test_timing_wins_over_counters_and_counters_fill_the_rest(self):
        found = counters(
            visits_of(launch(stack("up"), 10.0), metrics=["duration_ns"]),
            visits_of(
                launch(stack("up"), 99.0, read=5.0),
                session="counters",
                kind="counters",
                metrics=["duration_ns", "dram_read_bytes"],
            ),
        )
        assert found["duration_ns"].tolist() == [10.0]
        assert found["dram_read_bytes"].tolist() == [5.0]

    def test_what_follows_from_metrics_is_there_too(self):
        row = {**launch(stack("up"), 10.0, read=100.0), "dram__bytes_write.sum": 300.0}
        found = counters(visits_of(row, metrics=[*METRICS, "dram_write_bytes"]))
        assert found["dram_gbps"].tolist() == [40.0]
        assert found["peak_dram_pct"].tolist() == [pytest.approx(1.0)]
        assert "tflops" not in found.columns

    def test_hit_rate_takes_its_bytes_from_the_same_path_of_another_session(self):
        def rows(name, value, **names):
            return [
                {**launch(stack(part), 1.0), name: value * factor} for part, factor in names.items()
            ]

        found = counters(
            visits_of(
                *rows("lts__t_sectors_lookup_hit.sum", 1.0, up=1, down=3),
                session="one",
                kind="counters",
                metrics=["l2_hit_sectors"],
            ),
            visits_of(
                *rows("lts__t_bytes.sum", 128.0, up=1, down=1),
                session="two",
                kind="counters",
                metrics=["l2_bytes"],
            ),
        )
        assert found["l2_hit_pct"].tolist() == [25.0, 75.0]

    def test_operations_that_were_counted_in_parts_are_whole_in_each_path(self):
        parts = CATALOGUE["tensor_fp16_ops"].parts
        visits = [
            visits_of(
                {**launch(stack(path), 1e6), str(ncu_name(part, "9.0")): operations},
                session=part,
                kind="counters",
                metrics=("duration_ns", part),
            )
            for part in parts
            for path, operations in (("up", 2.0), ("down", 5.0))
        ]
        found = counters(*visits).set_index("name")
        assert found["tensor_fp16_ops"].to_dict() == {"up": 6.0, "down": 15.0}


class TestNumberedRanges:
    def test_each_has_a_row_and_all_together_have_one(self):
        rows = [launch(stack(f"step_{n}", "gemm"), 10.0 * (n + 1)) for n in range(3)]
        assert durations(counters(visits_of(*rows))) == {
            ("step_0",): 10.0,
            ("step_0", "gemm"): 10.0,
            ("step_1",): 20.0,
            ("step_1", "gemm"): 20.0,
            ("step_2",): 30.0,
            ("step_2", "gemm"): 30.0,
            ("step_*",): 60.0,
            ("step_*", "gemm"): 60.0,
        }

    def test_any_of_several_numbers_may_be_taken_off(self):
        rows = [launch(stack(f"step_{n}", f"layer_{m}"), 1.0) for n in range(2) for m in range(3)]
        found = durations(counters(visits_of(*rows)))
        assert found[("step_*",)] == 6.0
        assert found[("step_1", "layer_2")] == 1.0
        assert found[("step_*", "layer_2")] == 2.0
        assert found[("step_1", "layer_*")] == 3.0
        assert found[("step_*", "layer_*")] == 6.0
        assert len(found) == 3 + 4 * 3

    def test_numbers_of_one_cell_merge_nothing_in_another(self):
        rows = [launch(stack(f"step_{n}"), 1.0) for n in range(2)]
        found = counters(visits_of(*rows, launch(stack("step_0", cell="b"), 1.0)))
        assert found.loc[found["cell"] == "b", "path"].tolist() == [("step_0",)]

    def test_one_number_alone_is_a_name(self):
        found = counters(visits_of(launch(stack("linear_1"), 1.0)))
        assert found["path"].tolist() == [("linear_1",)]

    def test_prefixes_need_two_numbers(self):
        names = ["step_0", "step_1", "step_1", "linear_2", "a_b", "w_1_7", "w_1_8"]
        assert numbered_prefixes(names) == ("step", "w_1")


class TestOrder:
    def test_cells_as_asked_and_parents_above_children(self):
        rows = [
            launch(stack("up", cell="b"), 1.0),
            launch(stack("up", "gemm", cell="b"), 1.0),
            launch(stack("down", cell="b"), 1.0),
            launch(stack("down", cell="a"), 1.0),
            launch(stack("gone", cell="c"), 1.0),
        ]
        found = range_counters(visits_of(*rows), H200, ["a", "b"])
        assert list(zip(found["cell"], found["path"], strict=True)) == [
            ("a", ("down",)),
            ("b", ("up",)),
            ("b", ("up", "gemm")),
            ("b", ("down",)),
        ]
        assert tuple(found.columns[: len(RANGE_COLUMNS)]) == RANGE_COLUMNS


class TestBesideATimeline:
    """The tree of a timeline and the counters name the same ranges alike."""

    def frames(self):
        names = [
            ("profiler", range_name("a", 0)),
            ("profiler", launch_range_name(0)),
            ("", "step_0"),
            ("lib", "gemm"),
            ("", "step_1"),
        ]
        ranges = pd.DataFrame(
            {
                "kind": "push_pop",
                "start_ns": [0, 1, 2, 3, 50],
                "end_ns": [100, 90, 40, 30, 80],
                "name": [name for _, name in names],
                "domain": [domain for domain, _ in names],
            }
        )
        stacks = pd.DataFrame(
            {"parent": [-1, 0, 1, 2, 1], "range": [0, 1, 2, 3, 4], "depth": [1, 2, 3, 4, 3]}
        )
        operations = pd.DataFrame(
            {
                "kind": "kernel",
                "start_ns": [10, 60],
                "end_ns": [20, 65],
                "device": 0,
                "stack": [3, 4],
                "by_time": False,
            }
        )
        return operations, ranges, stacks

    def counted(self):
        visit = (*stack(), Range("profiler", launch_range_name(0)))
        return counters(
            visits_of(
                launch((*visit, Range("", "step_0"), Range("lib", "gemm")), 10.0),
                launch((*visit, Range("", "step_1")), 5.0),
            )
        )

    def test_paths_are_those_of_the_counters(self):
        operations, ranges, stacks = self.frames()
        tree = range_tree(operations, ranges, stacks)
        paths = tree_paths(tree)
        assert paths == [(), (), ("step_0",), ("step_0", "lib@gemm"), ("step_1",)]
        joined = tree.assign(path=paths).merge(self.counted(), on="path")
        assert joined["duration_ns"].tolist() == joined["gpu_ns"].tolist() == [10.0, 10.0, 5.0]

    def test_merged_names_join_too(self):
        operations, ranges, stacks = self.frames()
        prefixes = numbered_prefixes(ranges["name"])
        tree = range_tree(operations, merge_numbered(ranges, prefixes), stacks)
        joined = tree.assign(path=tree_paths(tree)).merge(self.counted(), on="path")
        assert joined["path"].tolist() == [("step_*",), ("step_*", "lib@gemm")]
        assert joined["duration_ns"].tolist() == joined["gpu_ns"].tolist() == [15.0, 10.0]

    def test_outside_visits_there_is_no_path(self):
        tree = pd.DataFrame(
            {"parent": [-1, 0], "domain": ["", "profiler"], "name": ["warmup", range_name("a", 0)]}
        )
        assert tree_paths(tree) == [None, ()]
