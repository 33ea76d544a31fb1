"""The softmax workload through the runner: its torch variants need no GPU and no compiler."""

import pytest
from studies import workload_of

from profiler.runner.protocol import JobCell, JobVisit


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_torch_variants_of_softmax_are_right_and_measured(bench, select, dtype):
    problem = {"rows": 16, "columns": 256, "dtype": dtype}
    names = ["torch", "torch-naive"]
    job = bench.job(
        [],
        workload=workload_of("softmax"),
        cells=tuple(JobCell(name, name, {"algorithm": name}, "p", problem) for name in names),
        visits=tuple(JobVisit(name, block) for block in range(2) for name in names),
    )

    records = bench.run(job)

    assert not select(records, event="failed")
    assert len(select(records, event="finished", phase="measure")) == 4
    (described, _) = select(records, event="finished", phase="describe")
    size = 2 if dtype == "float16" else 4
    assert described["bytes"] == 2 * 16 * 256 * size


def test_a_cuda_variant_on_the_cpu_is_refused_in_words(bench, select):
    problem = {"rows": 4, "columns": 64, "dtype": "float32"}
    cell = JobCell("online", "online", {"algorithm": "online"}, "p", problem)
    job = bench.job(
        [],
        workload=workload_of("softmax"),
        cells=(cell,),
        visits=(JobVisit("online", 0),),
    )

    (failure,) = select(bench.run(job), event="failed")

    assert (failure["outcome"], failure["phase"]) == ("raised", "prepare")
    assert "is a CUDA kernel and cannot run on cpu" in failure["cause"]
