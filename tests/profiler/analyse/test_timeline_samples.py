"""Launches of a timeline as samples."""

import numpy as np
import pandas as pd
import pytest

from profiler.analyse.cell_timeline import (
    samples_from_program,
    samples_from_timeline,
)
from profiler.analyse.samples import SampleOrigin, check_samples
from profiler.model import Visit

NSYS = SampleOrigin("nsys", "nsys", "timeline")
VISIT = Visit("a..p", 2, 1)
LAUNCHES = pd.DataFrame({"launch": [0, 1, 2], "start_ns": [0, 100, 200], "end_ns": [90, 190, 240]})


def operations(*rows):
    columns = ["kind", "name", "start_ns", "end_ns"]
    frame = pd.DataFrame(rows, columns=columns)
    sizes = {f"{what}_{axis}": 2 for what in ("grid", "block") for axis in "xyz"}
    return frame.assign(demangled=frame["name"] + "(int)", **sizes)


WORK = operations(
    ("kernel", "k", 10, 30),
    ("memset", "[CUDA memset]", 30, 70),
    ("kernel", "j", 70, 75),
    ("kernel", "k", 110, 130),
    ("kernel", "elsewhere", 500, 600),
)
WORK_OF_LAUNCHES = WORK.assign(launch_row=[0, 0, 0, 1, -1])


def test_kernels_of_a_launch_are_added_up_and_copies_are_not():
    found = samples_from_timeline(WORK_OF_LAUNCHES, LAUNCHES, VISIT, NSYS, on_host=False)
    check_samples(found)
    assert found["duration_ns"].tolist()[:2] == [25.0, 20.0]
    assert found["kernels"].tolist() == [2.0, 1.0, 0.0]
    assert found["kernel_names"].tolist() == ["k; j", "k", ""]
    assert found["repeat"].tolist() == [0, 1, 2]
    assert set(found["kind"]) == {"timeline"}
    identity = found[["cell", "block", "arm", "collector"]].drop_duplicates()
    assert identity.to_numpy().tolist() == [["a..p", 2, 1, "nsys"]]


def test_a_launch_without_kernels_has_no_duration():
    found = samples_from_timeline(WORK_OF_LAUNCHES, LAUNCHES, VISIT, NSYS, on_host=False)
    assert np.isnan(found["duration_ns"].iloc[2])
    nothing = samples_from_timeline(
        WORK.assign(launch_row=-1), LAUNCHES, VISIT, NSYS, on_host=False
    )
    assert nothing["duration_ns"].isna().all()


def test_on_a_cpu_the_launch_itself_is_timed():
    torch = SampleOrigin("torch", "torch", "timeline")
    found = samples_from_timeline(WORK_OF_LAUNCHES.iloc[:0], LAUNCHES, VISIT, torch, on_host=True)
    assert found["duration_ns"].tolist() == [90.0, 90.0, 40.0]
    assert found["kernels"].isna().all(), "nobody counted any, which is not the same as none"


@pytest.mark.parametrize("rows", [WORK, WORK.iloc[:0]])
def test_a_visit_without_launches_has_no_samples(rows):
    found = samples_from_timeline(
        rows.assign(launch_row=-1), LAUNCHES.iloc[:0], VISIT, NSYS, on_host=False
    )
    assert found.empty


def test_kernels_of_a_program_are_cells_of_their_own():
    found = samples_from_program(WORK, Visit("a..p", 0), NSYS)
    check_samples(found)
    assert found["duration_ns"].tolist() == [20.0, 5.0, 20.0, 100.0]
    assert found["repeat"].tolist() == [0, 0, 1, 0]
    assert found["cell"].nunique() == 3
    assert found["cell"].str.endswith("..g2x2x2..b2x2x2").all()
    assert samples_from_program(WORK.iloc[:0], Visit("a..p", 0), NSYS).empty
