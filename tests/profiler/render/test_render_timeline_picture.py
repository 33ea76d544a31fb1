"""Rows and bars of a timeline's picture, where it is cut, and its data."""

import numpy as np
import pandas as pd
from synthetic_timeline import mlp

from profiler.analyse.phases import find_phases
from profiler.findings.timelines.bars import (
    API,
    GPU,
    RANGE,
    SETS,
    SPAN,
    bar_paths,
    find_bars,
    find_window,
)
from profiler.render.embed import pack
from profiler.render.timeline.picture import (
    bars_within,
    far_apart,
    in_rows,
    joined_bars,
    picture_data,
    window_parts,
)

TRAINING = find_phases(mlp("c", launches=4, layers=3))


def picture(most=40000):
    return in_rows(find_bars(TRAINING, most))


def unit_window(found, until_ns=np.inf):
    window = find_window(found, until_ns)
    assert window is not None
    return window


PICTURE = picture()


def bars(*rows):
    """Bars from (start, end, row)."""
    frame = pd.DataFrame(rows, columns=["start_ns", "end_ns", "row"])
    names = [f"k{n}" for n in range(len(frame))]
    return frame.assign(name=names, short=names, phase=0, inside=-1)


def test_every_operation_call_and_range_but_the_visit_is_a_bar():
    timeline = TRAINING.timeline
    assert len(PICTURE.frames[GPU]) == len(timeline.operations)
    assert len(PICTURE.frames[API]) == len(timeline.api)
    assert len(PICTURE.frames[RANGE]) == len(timeline.ranges) - 1
    assert not PICTURE.frames[RANGE]["name"].str.startswith("cell=").any()
    assert PICTURE.left_out == 0
    columns = "start_ns end_ns name short phase inside thread device stream row"
    for frame in PICTURE.frames.values():
        assert set(frame.columns) == set(columns.split())
        assert frame["start_ns"].is_monotonic_increasing


def test_bars_of_a_row_never_overlap_and_are_of_its_kind():
    for kind, frame in PICTURE.frames.items():
        for row, own in frame.groupby("row"):
            assert PICTURE.rows[int(str(row))][0] == kind
            assert (own["start_ns"].to_numpy()[1:] >= own["end_ns"].to_numpy()[:-1]).all()


def test_rows_of_nested_ranges_are_their_depth():
    ranges = PICTURE.frames[RANGE].set_index("name")["row"]
    assert ranges["launch=0"] == 0
    assert ranges["step_0"] == 1
    assert set(ranges["forward"]) == {2}
    assert set(ranges["layer_1"]) == {3}


def test_rows_say_thread_and_stream_once():
    labels = [label for _, label in PICTURE.rows]
    assert labels[:4] == ["NVTX", "", "", ""]
    assert labels[4:6] == ["CUDA calls, main thread", "CUDA calls, thread 2"]
    assert labels[6:] == ["NVTX on the GPU", "", "", "", "GPU, stream 7"]


def test_ranges_on_the_gpu_last_from_their_first_operation_to_their_last():
    spans, gpu, ranges = (PICTURE.frames[kind] for kind in (SPAN, GPU, RANGE))
    of_name = spans[spans["name"] == "forward"]
    assert len(of_name) == 4
    paths = [" / ".join(path) for path in bar_paths(ranges)]
    for _, span in of_name.iterrows():
        assert ranges["name"][span["inside"]] == "forward"
        path = paths[span["inside"]]
        own = [(paths[around] + " / ").startswith(path + " / ") for around in gpu["inside"]]
        assert span["start_ns"] == gpu.loc[own, "start_ns"].min()
        assert span["end_ns"] == gpu.loc[own, "end_ns"].max()
        assert TRAINING.phases[span["phase"]] == "forward"
    rows = [list(spans[spans["name"] == name]["row"].unique()) for name in ("launch=0", "forward")]
    assert rows == [[6], [8]], "as deep as on the host"


def test_a_bar_knows_what_it_lies_in():
    paths = [" / ".join(path) for path in bar_paths(PICTURE.frames[RANGE])]
    gpu = PICTURE.frames[GPU]
    own = gpu[gpu["short"] == "bias_kernel"].iloc[0]
    assert paths[own["inside"]] == "launch=0 / step_0 / forward / layer_0"
    assert TRAINING.phases[own["phase"]] == "forward"


def test_a_large_timeline_is_cut_after_whole_launches():
    of_one = len(TRAINING.timeline.operations) // 4
    cut = picture(int(of_one * 2.5))
    assert cut.launches == 2
    assert len(cut.frames[GPU]) == 2 * of_one
    assert cut.left_out == 2 * of_one
    assert "launch=1" in set(cut.frames[RANGE]["name"])
    assert "launch=2" not in set(cut.frames[RANGE]["name"])


def test_what_is_shown_in_full_lies_in_what_is_left_of_the_picture():
    cut = picture(len(TRAINING.timeline.operations) // 4 + 1)
    assert cut.launches == 1
    window = unit_window(TRAINING, cut.until_ns)
    assert window.unit == "step_0"
    assert window.gpu is not None
    assert len(bars_within(cut.frames[GPU], window.gpu)) == len(cut.frames[GPU])


def test_a_launch_that_is_too_large_is_cut_inside():
    cut = picture(20)
    assert cut.launches == 0
    assert 0 < len(cut.frames[GPU]) <= 20
    assert len(cut.frames[API]) <= 40


def test_the_data_of_the_script_hold_every_bar():
    names = {}
    data = picture_data(PICTURE, TRAINING.phases, names, unit_window(TRAINING))
    for kind in SETS:
        frame, columns = PICTURE.frames[kind], data[kind]
        assert columns["start"] == frame["start_ns"].tolist()
        assert columns["ns"] == (frame["end_ns"] - frame["start_ns"]).tolist()
        assert [list(names)[number] for number in columns["name"]] == frame["name"].tolist()
        for name in ("row", "phase", "inside"):
            assert columns[name] == frame[name].tolist()
    assert list(names.values()) == list(range(len(names)))


def test_fourteen_bytes_a_bar_are_enough():
    """What keeps the page of a hundred steps below its size."""
    data = picture_data(PICTURE, TRAINING.phases, {}, None)
    count = sum(len(data[kind]["start"]) for kind in SETS)
    assert len(pack(data)) / count < 14


def test_the_window_is_that_of_the_unit_in_the_middle():
    window = unit_window(TRAINING)
    row = TRAINING.median_unit()
    assert row is not None
    middle = TRAINING.timeline.ranges.iloc[row]
    assert window.unit == middle["name"]
    assert window.host == (middle["start_ns"], middle["end_ns"])
    own = TRAINING.operation_unit == TRAINING.units.rows.tolist().index(row)
    assert window.gpu[0] == TRAINING.timeline.operations.loc[own, "start_ns"].min()


def test_a_gpu_far_behind_its_host_has_an_axis_of_its_own():
    late = unit_window(find_phases(mlp("c", launches=40, speed=4.0, layers=3)))
    assert far_apart(late)
    assert [name for name, *_ in window_parts(late)] == ["One on the GPU", "One on the host"]
    near = unit_window(find_phases(mlp("c", launches=3, speed=0.1, layers=3)))
    assert [name for name, *_ in window_parts(near)] == ["One"]


def test_without_a_gpu_the_window_is_of_the_host():
    window = unit_window(find_phases(mlp("c", gpu=False)))
    assert window.gpu is None
    assert window.extent == window.host


def test_bars_are_cut_to_a_window():
    found = bars_within(bars((0, 10, 0), (10, 30, 0), (30, 90, 0), (95, 99, 0)), (20, 50))
    assert found[["start_ns", "end_ns"]].values.tolist() == [[20, 30], [30, 50]]


def test_only_bars_that_no_eye_tells_apart_are_joined():
    found = joined_bars(bars((0, 2, 0), (3, 5, 0), (20, 22, 0), (23, 60, 0), (4, 6, 1)), 5)
    assert found[["start_ns", "end_ns", "row"]].values.tolist() == [
        [0, 5, 0],
        [20, 22, 0],
        [23, 60, 0],
        [4, 6, 1],
    ]
    assert found["name"].tolist() == ["", "k2", "k3", "k4"]


def test_bars_of_two_phases_are_never_joined():
    frame = bars((0, 1, 0), (1, 2, 0)).assign(phase=[0, 1])
    assert len(joined_bars(frame, 100)) == 2
