"""Workloads whose right result depends on the variant."""

from pathlib import Path

import pytest

from profiler.runner import protocol
from profiler.runner.workload import WorkloadError, load_workload

WORKLOAD = str(Path(__file__).parent / "workloads" / "two_types.py")


def run(bench, *hows, **changes):
    return bench.run(bench.job(hows, workload=WORKLOAD, **changes))


def outcomes(records):
    return {
        each["cell"].split("..")[0]: each.get("outcome", "ok")
        for each in records
        if each.get("phase") == protocol.CHECK and each["event"] != protocol.STARTED
    }


def test_each_variant_is_compared_with_its_own_result_and_bound(bench):
    records = run(bench, "float16", "float64", "float64 off", "float64 off close")

    assert outcomes(records) == {
        "float16": "ok",
        "float64": "ok",
        "float64_off": "wrong_result",
        "float64_off_close": "ok",
    }
    assert not [each for each in records if each.get("phase") == protocol.REFERENCE]


def test_the_bound_is_named_where_it_is_broken(bench, select):
    (failed,) = select(run(bench, "float64 off"), event=protocol.FAILED)

    assert "(allowed in float64: 0 + 0 * |expected|)" in failed["cause"]
    assert failed["max_abs_error"] == pytest.approx(5e-4)


def test_a_bound_of_the_job_goes_first(bench):
    tolerances = {"default": protocol.Tolerance(1.0, 0.0)}

    assert outcomes(run(bench, "float64 off", tolerances=tolerances)) == {"float64_off": "ok"}


def test_an_expected_result_that_cannot_be_made_costs_its_own_variant(bench):
    found = outcomes(run(bench, "unknown", "float64"))

    assert found == {"unknown": "raised", "float64": "ok"}


def test_expected_stands_for_the_reference(tmp_path):
    workload = load_workload(WORKLOAD)
    assert workload.reference is None
    assert workload.expected is not None

    neither = tmp_path / "neither.py"
    neither.write_text("def make_inputs(problem, device, seed): return 1\n")
    with pytest.raises(WorkloadError, match="no function reference"):
        load_workload(str(neither))
