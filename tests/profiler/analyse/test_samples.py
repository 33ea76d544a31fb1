"""Launches become samples: joined by range, combined by the catalogue, never partly."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from analyse_frames import Range, launch, make_cell, ours
from hypothesis import given
from hypothesis import strategies as st

from profiler.analyse.metric_values import add_derived
from profiler.analyse.samples import (
    SAMPLE_COLUMNS,
    SampleOrigin,
    check_samples,
    command_cells,
    empty_samples,
    metric_columns,
    missing_metrics,
    samples_from_command,
    samples_from_journal,
    samples_from_launches,
    streams_by_cell,
    to_catalogue_metrics,
    with_aliases,
)
from profiler.errors import ProfilerError
from profiler.model import CellStatus, Environment, Outcome, Visit
from profiler.parse.ncu_csv import read_ncu_csv

TIMER = SampleOrigin("timer-0", "timer", "timing")
SESSION = {"session": "timing-0", "collector": "ncu", "kind": "timing"}
ALL = ("duration_ns", "registers", "l1_hit_pct", "dram_read_bytes", "stall_wait", "l2_hit_sectors")
STALL = "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"


def _samples(launches, metrics=ALL):
    return samples_from_launches(pd.DataFrame(launches), SampleOrigin(**SESSION, metrics=metrics))


def test_one_row_per_cell_and_block_in_launch_order():
    visits = [("b", 0), ("a", 0), ("a", 1)]
    frame = _samples([launch(ours(*visit), gpu__time_duration=5.0) for visit in visits])
    assert list(zip(frame["cell"], frame["block"], strict=True)) == visits
    assert list(frame.columns) == [*SAMPLE_COLUMNS, *ALL]
    assert set(frame["kind"]) == {"timing"}
    assert list(frame["duration_ns"]) == [5.0, 5.0, 5.0]


def test_launches_outside_our_ranges_are_left_out():
    others = [(), (Range("", "cell=a;block=0"),), (Range("profiler", "warm-up"),), None]
    launches = [launch(nvtx, gpu__time_duration=1.0) for nvtx in others]
    assert _samples(launches).empty
    with_ours = _samples([*launches, launch(ours("a", 0), gpu__time_duration=2.0)])
    assert list(with_ours["duration_ns"]) == [2.0]


def test_streams_are_counted_in_each_visit_not_over_all_of_them():
    visits = [("one", 0, "7"), ("one", 1, "13"), ("two", 0, "7"), ("two", 0, "13"), ("two", 1, "7")]
    rows = [{**launch(ours(cell, block)), "stream": stream} for cell, block, stream in visits]
    frame = pd.DataFrame([*rows, {**launch(None), "stream": "99"}])
    assert streams_by_cell(frame) == {"one": 1, "two": 2}
    assert streams_by_cell(frame[:1]) == streams_by_cell(frame.drop(columns="stream")) == {}


@pytest.mark.parametrize("visits", [((0, 0), (1, 0)), ((0, 1), (0, 0))], ids=["blocks", "arms"])
def test_unfinished_visits_are_left_out_where_they_are_known(visits):
    launches = pd.DataFrame([launch(ours("a", *visit), gpu__time_duration=1.0) for visit in visits])
    origin = SampleOrigin(**SESSION, metrics=("duration_ns",))
    frame = samples_from_launches(launches, origin, [("a", *visits[0])])
    assert list(zip(frame["block"], frame["arm"], strict=True)) == [visits[0]]


def test_kernels_of_one_range_are_combined_as_the_catalogue_says():
    first = launch(
        ours("a", 0),
        "k1",
        gpu__time_duration=100.0,
        launch__registers_per_thread=32.0,
        dram__bytes_read=10.0,
        lts__t_sectors_lookup_hit=90.0,
    )
    second = launch(
        ours("a", 0),
        "k2",
        gpu__time_duration=300.0,
        launch__registers_per_thread=168.0,
        dram__bytes_read=30.0,
        lts__t_sectors_lookup_hit=0.0,
    )
    for row, l1 in ((first, 80.0), (second, 40.0)):
        row |= {"l1tex__t_sector_hit_rate.pct": l1}
    row = _samples([first, second, {**first, "nvtx": ours("b", 0)}]).iloc[0]
    assert row["kernels"] == 2
    assert row["kernel_names"] == "k1; k2"
    assert row["duration_ns"] == 400
    assert row["registers"] == 168
    assert row["dram_read_bytes"] == 40
    assert row["l1_hit_pct"] == pytest.approx((80 * 100 + 40 * 300) / 400)
    assert row["l2_hit_sectors"] == 90


def test_a_single_kernel_keeps_what_ncu_reported():
    row = launch(ours("a", 0)) | {"l1tex__t_sector_hit_rate.pct": 12.5}
    assert _samples([row])["l1_hit_pct"][0] == 12.5


def test_both_arms_of_a_block_are_samples_of_their_own():
    launches = [
        launch(ours("a", 0, arm), gpu__time_duration=time)
        for arm, time in ((1, 2.0), (0, 3.0), (1, 4.0))
    ]
    frame = _samples(launches)
    assert list(zip(frame["arm"], frame["duration_ns"], strict=True)) == [(1, 6.0), (0, 3.0)]
    assert frame["arm"].dtype == "int64"


def test_stalls_are_weighted_by_issued_instructions():
    launches = [
        launch(ours("a", 0), gpu__time_duration=time, smsp__inst_issued=issued) | {STALL: stall}
        for time, issued, stall in ((1.0, 300.0, 1.0), (99.0, 100.0, 5.0))
    ]
    assert _samples(launches)["stall_wait"][0] == pytest.approx(2.0)


def test_a_value_missing_for_one_kernel_is_missing_for_the_range():
    launches = [
        launch(
            ours("a", 0),
            gpu__time_duration=1.0,
            dram__bytes_read=value,
            launch__registers_per_thread=value,
        )
        for value in (8.0, math.nan, 8.0)
    ]
    row = _samples(launches).iloc[0]
    assert row["duration_ns"] == 3.0
    assert np.isnan(row["dram_read_bytes"])
    assert np.isnan(row["registers"])
    assert np.isnan(row["l1_hit_pct"])


def test_metrics_that_did_not_come_back_are_columns_of_nan():
    names = ("duration_ns", "l2_hit_sectors", "foo__bar.sum")
    frame = _samples([launch(ours("a", 0))], names)
    assert frame[list(names)].isna().all(axis=None)


def test_raw_names_combine_by_their_roll_up():
    launches = [
        launch(ours("a", 0), gpu__time_duration=10.0) | {"x__y.sum": value, "x__y.max": value}
        for value in (1.0, 4.0)
    ]
    row = _samples(launches, ("x__y.sum", "x__y.max")).iloc[0]
    assert (row["x__y.sum"], row["x__y.max"]) == (5.0, 4.0)


def test_sectors_of_local_memory_become_bytes():
    raw = launch(ours("a", 0), l1tex__t_sectors_pipe_lsu_mem_local_op_ld=3.0)
    assert _samples([raw], ("local_load_bytes",))["local_load_bytes"][0] == 96.0


def test_an_architecture_has_its_own_names():
    raw = launch(ours("a", 0), dram__bytes_op_read=7.0)
    origin = SampleOrigin(**SESSION, metrics=("dram_read_bytes",), compute_capability="12.0")
    frame = samples_from_launches(pd.DataFrame([raw]), origin)
    assert frame["dram_read_bytes"][0] == 7.0


def test_derived_and_build_metrics_are_no_columns_of_launches():
    frame = _samples([launch(ours("a", 0))], ("tflops", "spill_store_bytes", "cycles"))
    assert metric_columns(frame) == ("cycles",)


def test_no_launches_give_an_empty_frame_of_samples():
    frame = samples_from_launches(pd.DataFrame(), SampleOrigin(**SESSION, metrics=ALL))
    assert frame.empty
    check_samples(frame)


def test_a_frame_that_is_none_is_refused():
    with pytest.raises(ProfilerError, match="kernel_names"):
        check_samples(pd.DataFrame({"cell": []}))


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.floats(0.001, 1e9)),
        min_size=1,
        max_size=30,
    )
)
def test_durations_of_a_range_always_add_up(rows):
    frame = _samples([launch(ours(c, b), gpu__time_duration=t) for c, b, t in rows])
    expected = {}
    for cell, block, time in rows:
        expected[cell, block] = expected.get((cell, block), 0.0) + time
    found = {(r.cell, r.block): r.duration_ns for r in frame.itertuples()}
    assert found == pytest.approx(expected)
    assert frame["kernels"].sum() == len(rows)


# ---- external commands ---------------------------------------------------------------------------


def _command(launches):
    origin = SampleOrigin(**SESSION, metrics=("duration_ns",))
    return samples_from_command(pd.DataFrame(launches), origin, Visit("v..p", 3))


def test_a_command_gives_one_cell_per_kernel_grid_and_block():
    launches = [launch((), kernel, gpu__time_duration=1.0) for kernel in ("f<int>", "g", "g")]
    launches[2]["grid_size"] = "(16, 2, 1)"
    frame = _command(launches)
    assert frame["cell"][1] == "v..p..g..g8x1x1..b128x1x1"
    assert frame["cell"][2] == "v..p..g..g16x2x1..b128x1x1"
    assert frame["cell"].nunique() == 3
    assert frame["cell"].str.fullmatch(r"[A-Za-z0-9_.=-]+").all()
    assert set(frame["block"]) == {3}


def test_launches_of_one_kind_are_repeats():
    frame = _command([launch((), gpu__time_duration=float(time)) for time in (3, 1, 2)])
    assert list(frame["repeat"]) == [0, 1, 2]
    assert list(frame["duration_ns"]) == [3.0, 1.0, 2.0]


def test_a_range_replay_row_has_no_shape():
    row = launch((), "range", gpu__time_duration=1.0) | {"grid_size": None, "block_size": None}
    assert _command([row])["cell"][0] == "v..p..range..g..b"


def test_a_command_has_the_arm_of_its_visit():
    launches = pd.DataFrame([launch(())])
    frame = samples_from_command(launches, SampleOrigin(**SESSION), Visit("v..p", 2, 1))
    assert list(zip(frame["block"], frame["arm"], strict=True)) == [(2, 1)]


def test_a_command_with_one_kernel_stays_comparable():
    cell = make_cell("v")
    (found,) = command_cells(_command([launch(())]), [cell])
    assert found.id == "v..p..k..g8x1x1..b128x1x1"
    assert (found.variant, found.problem) == (cell.variant, cell.problem)


def test_a_command_with_several_kernels_has_a_problem_for_each():
    frame = _command([launch((), "k1"), launch((), "k2")])
    first, second = command_cells(frame, [make_cell("v"), make_cell("other")])
    assert (first.variant.id, second.variant.id) == ("v", "v")
    assert first.problem.params == {"launch_kernel": "k1"}
    assert second.problem.params == {"launch_kernel": "k2"}
    assert second.problem.name == "p,launch_kernel=k2"
    assert len({first.problem.id, second.problem.id, "p"}) == 3


def test_the_same_part_of_two_commands_is_the_same_problem():
    def of(variant):
        grids = ("(8, 1, 1)", "(16, 1, 1)")
        launches = pd.DataFrame([launch(()) | {"grid_size": grid} for grid in grids])
        cell = f"{variant}..p"
        return samples_from_command(launches, SampleOrigin(**SESSION), Visit(cell, 0))

    cells = [make_cell("v"), make_cell("w")]
    found = command_cells(pd.concat([of("v"), of("w")]), cells)
    assert len(found) == 4
    assert len({cell.problem.id for cell in found}) == 2
    assert {cell.problem.params["launch_grid"] for cell in found} == {"8x1x1", "16x1x1"}


def test_a_cell_does_not_take_the_parts_of_one_whose_id_begins_alike():
    cells = [make_cell("v"), make_cell("v", "p..q")]
    launches = pd.DataFrame([launch(())])
    samples = samples_from_command(launches, SampleOrigin(**SESSION), Visit("v..p..q", 0))
    (found,) = command_cells(samples, cells)
    assert found.problem.id == "p..q"


# ---- timer ---------------------------------------------------------------------------------------


def _record(event, phase, **values):
    return json.loads(json.dumps({"event": event, "phase": phase, "cell": "a", **values}))


def test_each_timed_launch_of_a_finished_visit_is_a_sample():
    records = [
        _record("started", "measure", block=0),
        _record("finished", "measure", block=0, durations_ns=[5, 4]),
        _record("finished", "warmup", block=0, durations_ns=[99]),
        _record("finished", "measure", block=1),
        _record("failed", "measure", block=2, durations_ns=[1]),
        {"event": "session_finished"},
    ]
    frame = samples_from_journal(records, TIMER)
    assert list(frame["duration_ns"]) == [5.0, 4.0]
    assert list(frame["repeat"]) == [0, 1]
    assert frame["kernels"].isna().all()
    assert set(frame["collector"]) == {"timer"}


def test_the_timer_tells_arms_apart():
    records = [
        _record("finished", "measure", block=3, arm=1, durations_ns=[7]),
        _record("finished", "measure", block=3, durations_ns=[8, 9]),
    ]
    frame = samples_from_journal(records, TIMER)
    found = frame[["block", "arm", "repeat", "duration_ns"]].to_numpy().tolist()
    assert found == [[3, 1, 0, 7], [3, 0, 0, 8], [3, 0, 1, 9]]


def test_a_journal_without_measurements_gives_no_samples():
    frame = samples_from_journal([], TIMER)
    assert frame.empty
    check_samples(frame)


# ---- missing, duplicates, import -----------------------------------------------------------------


def test_missing_metrics_are_named_by_cell():
    both = ("duration_ns", "l1_hit_pct", "nosuch__metric.sum")
    full = launch(ours("a", 0), gpu__time_duration=1.0) | {"l1tex__t_sector_hit_rate.pct": 0.0}
    part = launch(ours("b", 0), gpu__time_duration=1.0)
    assert missing_metrics(_samples([full, part], both), both) == {
        "a": ("nosuch__metric.sum",),
        "b": ("l1_hit_pct", "nosuch__metric.sum"),
    }


def test_a_metric_that_came_back_once_is_not_missing():
    launches = [
        launch(ours("a", 0), gpu__time_duration=1.0),
        launch(ours("a", 1), gpu__time_duration=math.nan),
    ]
    assert missing_metrics(_samples(launches), ("duration_ns",)) == {}


def test_a_metric_without_a_column_is_missing():
    assert missing_metrics(_samples([launch(ours("a", 0))]), ("cycles",)) == {"a": ("cycles",)}


def test_what_the_build_says_or_the_gpu_lacks_is_not_missing():
    samples = _samples([launch(ours("a", 0))])
    assert missing_metrics(samples, ("spill_store_bytes", "stall_gmma"), "8.0") == {}
    assert missing_metrics(samples, ("stall_gmma",), "9.0") == {"a": ("stall_gmma",)}


def test_no_samples_miss_nothing():
    assert missing_metrics(empty_samples(), ("cycles",)) == {}


def test_duplicates_share_the_samples_of_the_measured_twin():
    samples = _samples([launch(ours("a", block), gpu__time_duration=2.0) for block in (0, 1)])
    statuses = {
        "b": CellStatus("b", Outcome.DUPLICATE, duplicate_of="a"),
        "c": CellStatus("c", Outcome.DUPLICATE, duplicate_of="gone"),
        "a": CellStatus("a", Outcome.MEASURED, duplicate_of=None),
    }
    shared = with_aliases(samples, statuses)
    assert list(shared["cell"]) == ["a", "a", "b", "b"]
    assert list(shared["duration_ns"]) == [2.0] * 4
    assert len(samples) == 2


def test_an_imported_file_has_our_names_beside_its_own():
    launches = pd.DataFrame(
        {
            "gpu__time_duration.avg": [4864.0, math.nan],
            "gpc__cycles_elapsed.max": [9541.0, 9692.0],
            "dram__bytes_op_read.sum": [5.0, 6.0],
            "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": [1.0, 2.0],
        }
    )
    metrics = to_catalogue_metrics(launches)
    assert metrics["duration_ns"][0] == 4864
    assert np.isnan(metrics["duration_ns"][1])
    assert list(metrics["cycles"]) == [9541, 9692]
    assert list(metrics["dram_read_bytes"]) == [5, 6]
    assert list(metrics["local_store_bytes"]) == [32, 64]
    assert metrics[["registers", "l2_hit_pct"]].isna().all(axis=None)
    assert "waves" not in metrics


RECORDINGS = Path(__file__).resolve().parents[2] / "recordings" / "ncu-2025.3.1"


def test_a_captured_full_report_has_its_known_numbers():
    launches = read_ncu_csv(RECORDINGS / "ncu_import_full_raw.csv.gz").launches
    gemm = to_catalogue_metrics(launches).iloc[0]
    assert gemm["duration_ns"] == pytest.approx(180_544)
    assert gemm["cycles"] == 285_131
    assert gemm["registers"] == 168
    assert gemm["l2_hit_pct"] == pytest.approx(72.963854)
    assert gemm["dram_read_bytes"] == pytest.approx(147_934_720)
    assert gemm["shared_dynamic_bytes"] == pytest.approx(213_188)


def test_a_captured_gemm_and_softmax_in_one_range():
    launches = read_ncu_csv(RECORDINGS / "ncu_import_full_raw.csv.gz").launches
    launches["nvtx"] = [ours("a", 0), ours("a", 0)]
    # Sectors of 32 bytes: this capture counted them, and no bytes.
    launches["lts__t_bytes.sum"] = 32 * launches["lts__t_sectors.sum"]
    metrics = ("duration_ns", "registers", "compute_throughput_pct", "l2_hit_sectors", "l2_bytes")
    origin = SampleOrigin(**SESSION, metrics=metrics, compute_capability="9.0")
    samples = samples_from_launches(launches, origin)
    row = add_derived(samples, {}, Environment()).iloc[0]
    assert row["kernels"] == 2
    assert row["duration_ns"] == pytest.approx(180_544 + 93_440)
    assert row["registers"] == 168
    hits, sectors = 23_129_106 + 1_645_717, 31_699_403 + 3_234_887
    assert row["l2_hit_pct"] == pytest.approx(100 * hits / sectors)
    assert 75.25 < row["compute_throughput_pct"] < 90.32


def test_names_of_ours_in_an_imported_file_are_taken_as_they_are():
    launches = pd.DataFrame({"local_store_bytes": [64.0], "l2_hit_pct": [50.0]})
    metrics = to_catalogue_metrics(launches)
    assert metrics["local_store_bytes"][0] == 64
    assert metrics["l2_hit_pct"][0] == 50
