"""Launches of an external command sorted into the samples of its parts."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.parts import launch_window, part_samples, path_params
from profiler.analyse.samples import SampleOrigin, samples_of_parts
from profiler.model import OrderedParts, RangeParts, SessionKind, Visit
from profiler.parse.ncu_csv import read_ncu_csv
from profiler.parse.nvtx_cells import NvtxRange, RangeKind

RECORDINGS = Path(__file__).parents[2] / "recordings" / "ncu-2025.3.1"
PARTS = OrderedParts("size", (64, 128), launches=4, skip=1, take=2)


def launches(*paths, processes=()):
    """Launches in these ranges (`outer/inner`, empty for none)."""
    frame = pd.DataFrame(
        {
            "kernel": [f"k{row}" for row in range(len(paths))],
            "nvtx": [
                tuple(
                    NvtxRange("", name, RangeKind.PUSH_POP, 1) for name in path.split("/") if name
                )
                for path in paths
            ],
        }
    )
    frame["process_id"] = pd.array(processes or [7] * len(paths), dtype="Int64")
    return frame


def test_each_part_by_order_has_its_own_launches():
    counted = part_samples(launches(*[""] * 7), PARTS, counted=True)
    assert counted.fault == ""
    assert counted.codes.tolist() == [0, 1, -1, -1, 2, 3, -1]  # the first of eight was let pass
    assert counted.params == ({"size": 64}, {"size": 64}, {"size": 128}, {"size": 128})
    assert launch_window(PARTS, counted=False) == (1, 6)
    taken = part_samples(launches(*[""] * 6), PARTS, counted=False)
    assert taken.params == counted.params
    assert taken.codes.tolist() == counted.codes.tolist()[:6]


@pytest.mark.parametrize(
    ("made", "counted", "words"),
    [
        (6, True, "it should make 8 matching launches (2 parts of 4); it made 7"),
        (9, True, "it made 10"),
        (11, True, "it made at least 12"),
        (5, False, "of 6 to profile it made 5"),
    ],
)
def test_another_number_of_launches_gives_no_sample(made, counted, words):
    samples = part_samples(launches(*[""] * made), PARTS, counted=counted)
    assert words in samples.fault
    assert samples.params == ()
    assert set(samples.codes) == {-1}


def test_launches_of_several_processes_have_no_order():
    frame = launches(*[""] * 7, processes=(1, 1, 1, 2, 2, 2, 2))
    assert "2 processes" in part_samples(frame, PARTS, counted=True).fault


def test_all_launches_that_follow_on_one_another_in_a_range_are_one_sample():
    frame = launches("size=1", "size=1", "", "size=1", "size=2", "")
    samples = part_samples(frame, RangeParts("size=.*"), counted=False)
    assert samples.codes.tolist() == [0, 0, -1, 1, 2, -1]
    assert samples.params == ({"size": 1}, {"size": 1}, {"size": 2})


def test_ranges_of_a_number_of_launches_are_told_apart_and_left_out():
    parts = RangeParts("size=.*", kernels=2, skip=1, take=1)
    frame = launches(*["size=1"] * 6, *["size=2/inner"] * 4)
    samples = part_samples(frame, parts, counted=False)
    assert samples.codes.tolist() == [-1, -1, 0, 0, -1, -1, -1, -1, 1, 1]
    odd = part_samples(launches(*["size=1"] * 5), parts, counted=False)
    assert odd.fault == "the range size=1 has 1 launches at its end, not 2"
    same = launches(*["size=1"] * 6).assign(kernel=["a", "b"] * 3)
    assert not part_samples(same, replace(parts, take=2), counted=False).fault
    other = part_samples(same, replace(parts, kernels=1, take=2), counted=False)
    assert other.fault.endswith("size=1 are of other kernels each time: kernels is not 1")
    few = part_samples(launches(*["size=1"] * 2), parts, counted=False)
    assert few.fault == "skip and take need 2 ranges of each name; size=1 was there 1 times"
    none = part_samples(launches("other"), parts, counted=False)
    assert none.fault == "no launch is in a range that matches size=.*"


@pytest.mark.parametrize(
    ("path", "params"),
    [
        (("size=128",), {"size": 128}),
        (("m=1,n=2.5", "dtype=bf16"), {"m": 1, "n": 2.5, "dtype": "bf16"}),
        (("sgemm", "size=128"), {"range": "sgemm", "size": 128}),
        (("warm up", "second"), {"range": "warm up/second"}),
        (("size=1", "size=2"), {"range": "size=2", "size": 1}),
        (("size=nan",), {"size": "nan"}),
    ],
)
def test_names_of_ranges_give_parameters(path, params):
    assert path_params(path) == params


def test_ranges_of_a_real_capture():
    table = read_ncu_csv(RECORDINGS / "ncu_raw_nvtx_domains.csv.gz")
    of_default = part_samples(table.launches, RangeParts(".*"), counted=False)
    assert of_default.params == (
        {"range": "outer/inner_0/deep"},
        {"range": "outer/inner_0"},
        {"range": "pk/inner_1"},
    )
    lib = part_samples(table.launches, RangeParts("azz@l.*"), counted=False)
    assert lib.codes.tolist() == [0, -1, -1]
    assert lib.params == ({"range": "lib"},)


def test_samples_name_kernel_grid_and_block_of_what_was_taken():
    table = read_ncu_csv(RECORDINGS / "ncu_raw_onepass_60.csv.gz")
    parts = OrderedParts("shape", tuple(range(20)), launches=3, skip=1, take=2)
    # The capture holds all 60; a session with these parts lets the first of them pass.
    seen = table.launches.iloc[1:].reset_index(drop=True)
    origin = SampleOrigin("ncu-timing", "ncu", SessionKind.TIMING, ("duration_ns",), "9.0")
    of_parts = part_samples(seen, parts, counted=True)
    samples = samples_of_parts(seen, origin, Visit("v..p", 3, 1), of_parts)
    assert len(samples) == 40
    assert samples["cell"].unique().tolist() == [f"v..p..shape={shape}" for shape in range(20)]
    assert samples["repeat"].tolist() == [0, 1] * 20
    taken = table.launches.index % 3 != 0
    expected = table.launches.loc[taken, "gpu__time_duration.sum"].to_numpy()
    np.testing.assert_allclose(samples["duration_ns"].to_numpy(), expected)
    first = table.launches.iloc[1]
    assert samples["kernel_names"][0] == (
        f"{first['kernel']} {first['grid_size']}x{first['block_size']}"
    )
    assert set(samples["block"]) == {3}
    assert set(samples["arm"]) == {1}
