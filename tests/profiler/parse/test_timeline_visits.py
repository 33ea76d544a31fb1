"""Cutting a timeline into visits and launches, and its files."""

import gzip

import pandas as pd
import pytest
from nsys_exports import WORKER, ExportFile

from profiler.errors import ParseError
from profiler.parse.nsys import read_nsys
from profiler.parse.nsys_attribution import (
    full_window,
    launches,
    part_of_each_window,
    parts_in_windows,
    visits,
    window_of,
)
from profiler.parse.timeline_files import (
    FACTS_FILE,
    OPERATIONS_FILE,
    TimelineFacts,
    read_timeline,
    write_timeline,
)

DOMAIN_ID = 3
FACTS = TimelineFacts("nsys", "cuda", "visits", "2025.3.2", "3.20.3")


@pytest.fixture
def timeline(tmp_path):
    """Two visits of two launches each, with kernels before, between and in them."""
    export = ExportFile(tmp_path / "export.sqlite")
    export.add("NVTX_EVENTS", start=1, eventType=75, text="profiler", domainId=DOMAIN_ID)
    ours = {"domainId": DOMAIN_ID}
    export.launch(10, 20, 1, name="set_up")
    export.range(100, 500, "cell=a..p;block=0", **ours)
    export.range(110, 200, "launch=0", **ours)
    export.range(120, 150, "step")
    export.launch(130, 140, 2, name="first")
    export.launch(160, 260, 3, name="late")  # begins when the next launch was made already
    export.range(210, 300, "launch=1", **ours)
    export.launch(220, 280, 4, thread=WORKER, name="worker")
    export.range(90, 120, "crossing")
    export.launch(600, 610, 5, name="between")
    export.range(700, 900, "cell=b..p;block=2;arm=1", **ours)
    export.range(710, 800, "launch=0", **ours)
    export.launch(720, 730, 6, name="other")
    export.add("NVTX_EVENTS", start=2, eventType=75, text="theirs", domainId=DOMAIN_ID + 1)
    export.range(750, 760, "cell=c..p;block=0", domainId=DOMAIN_ID + 1)  # the program's own words
    export.range(950, None, "cell=d..p;block=0", **ours)  # died in it
    return read_nsys(export.path)


def names(frame):
    return frame["name"].tolist()


def test_visits_and_launches_are_whole_ranges_of_our_domain(timeline):
    found = visits(timeline.ranges)
    assert found.to_dict("list") == {
        "cell": ["a..p", "b..p"],
        "block": [0, 2],
        "arm": [0, 1],
        "start_ns": [100, 700],
        "end_ns": [500, 900],
    }
    assert launches(timeline.ranges)["launch"].tolist() == [0, 1, 0]


def test_only_what_lies_inside_visits_is_kept(timeline):
    parts = parts_in_windows(timeline, visits(timeline.ranges))
    assert names(parts.operations) == ["first", "late", "worker", "other"]
    assert "crossing" not in names(parts.ranges)
    assert "cell=d..p;block=0" not in names(parts.ranges)
    assert "cell=c..p;block=0" in names(parts.ranges)
    assert parts.api["correlation"].tolist() == [2, 3, 4, 6]


def test_a_visit_by_itself_begins_at_0_and_its_operations_know_their_ranges(timeline):
    part, second = part_of_each_window(timeline, visits(timeline.ranges))
    assert names(part.operations) == ["first", "late", "worker"]
    assert part.operations["start_ns"].tolist() == [40, 160, 180]
    assert part.operations["launch_ns"].tolist() == [30, 60, 120]
    assert part.ranges["start_ns"].min() == 0
    assert launches(part.ranges)["start_ns"].tolist() == [10, 110]
    innermost = part.stacks["range"].to_numpy()[part.operations["stack"].to_numpy()]
    assert part.ranges["name"].iloc[innermost].tolist() == ["step", "launch=0", "launch=1"]
    assert names(second.operations) == ["other"]


def test_cutting_what_was_cleaned_gives_the_same(timeline):
    windows = visits(timeline.ranges)
    cleaned = parts_in_windows(timeline, windows)
    assert visits(cleaned.ranges).equals(windows)
    for first_part, other in zip(
        part_of_each_window(timeline, windows), part_of_each_window(cleaned, windows), strict=True
    ):
        assert names(first_part.operations) == names(other.operations)
        assert first_part.stacks.equals(other.stacks)
        assert launches(first_part.ranges).equals(launches(other.ranges))


def test_all_of_a_timeline_is_a_window_too(timeline):
    (part,) = part_of_each_window(timeline, full_window(timeline))
    assert len(part.operations) == len(timeline.operations) == 6
    assert len(part.ranges) == len(timeline.ranges)
    empty = parts_in_windows(timeline, visits(timeline.ranges).iloc[:0])
    (nothing,) = part_of_each_window(empty, full_window(empty))
    assert len(nothing.operations) == 0


def test_a_time_at_the_end_of_a_window_lies_outside():
    windows = pd.DataFrame({"start_ns": [10, 30], "end_ns": [20, 40]})
    times = pd.Series([9, 10, 19, 20, 30, 39, 40]).to_numpy()
    assert window_of(times, windows).tolist() == [-1, 0, 0, -1, 1, 1, -1]
    assert window_of(times, windows.iloc[:0]).tolist() == [-1] * 7


# ---- files ---------------------------------------------------------------------------------------


def test_files_give_back_what_was_written(timeline, tmp_path):
    write_timeline(tmp_path, timeline, FACTS)
    found, facts = read_timeline(tmp_path)
    assert facts == FACTS
    for name in ("operations", "ranges", "api"):
        written, read = getattr(timeline, name), getattr(found, name)
        assert read.dtypes.astype(str).tolist() == written.dtypes.astype(str).tolist()
        pd.testing.assert_frame_equal(read, written, check_categorical=False)
    (first_part,), (other,) = (
        part_of_each_window(timeline, full_window(timeline)),
        part_of_each_window(found, full_window(found)),
    )
    assert first_part.operations["stack"].equals(other.operations["stack"])


def test_names_may_hold_anything(tmp_path):
    export = ExportFile(tmp_path / "export.sqlite")
    odd = ['a, "quoted" name', "two\nlines", "carriage\rreturn", "NA", "null", "ünï", "1"]
    for number, name in enumerate(odd):
        export.range(number * 10 + 1, number * 10 + 5, name)
        export.launch(number * 10 + 2, number * 10 + 3, number + 1, name=name)
    timeline = read_nsys(export.path)
    write_timeline(tmp_path, timeline, FACTS)
    found, _ = read_timeline(tmp_path)
    assert names(found.ranges) == odd
    assert names(found.operations) == odd


def test_the_same_timeline_gives_the_same_bytes(timeline, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        write_timeline(tmp_path / folder, timeline, FACTS)
    one, two = sorted((tmp_path / "one").iterdir()), sorted((tmp_path / "two").iterdir())
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]


def test_without_facts_there_is_no_timeline(timeline, tmp_path):
    write_timeline(tmp_path, timeline, FACTS)
    (tmp_path / FACTS_FILE).unlink()
    assert read_timeline(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "damaged"),
    [
        (f"{OPERATIONS_FILE}.gz", b"no gzip"),
        (f"{OPERATIONS_FILE}.gz", gzip.compress(b"kind,start_ns\nkernel,x\n", mtime=0)),
        (f"{OPERATIONS_FILE}.gz", gzip.compress(b"", mtime=0)),
        (FACTS_FILE, b"{"),
        (FACTS_FILE, b'{"schema_version": 99, "collector": "nsys", "device": "", "capture": ""}'),
        (FACTS_FILE, b'{"schema_version": 1, "colour": "red"}'),
    ],
)
def test_damaged_files_are_said(timeline, tmp_path, name, damaged):
    write_timeline(tmp_path, timeline, FACTS)
    (tmp_path / name).write_bytes(damaged)
    with pytest.raises(ParseError, match=name):
        read_timeline(tmp_path)
