"""Kernels of a trace by their time, with the operators that a live capture records."""

import pytest
from torch_traces import TraceFile

from profiler.importers.registry import read_files
from profiler.importers.timelines import BY_PARTS, LEFT_OUT, RANK_COLUMNS, RECORDED, ranked_work


def ranks_of(path):
    imported, _ = read_files([path])
    return ranked_work(imported.timelines[0].timeline)


def test_kernels_are_ranked_and_collectives_named(tmp_path):
    trace = TraceFile(tmp_path / "trace.json.gz")
    trace.add("cpu_op", "aten::addmm", 20, 90)
    trace.launch(1, 30)
    trace.launch(2, 130)
    trace.launch(3, 300, name="cudaLaunchKernel")
    trace.kernel(
        4, 400, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    )
    trace.kernel(5, 500, "triton_poi_fused_add_0")
    trace.write()

    ranks = ranks_of(trace.path)

    assert tuple(ranks.columns) == RANK_COLUMNS
    assert ranks["calls"].tolist() == [3, 1, 1]
    assert ranks["share"].tolist() == pytest.approx([0.6, 0.2, 0.2])
    assert sorted(ranks["capture"]) == ["", BY_PARTS, LEFT_OUT]


def test_a_planted_operator_among_200_is_first(tmp_path):
    trace = TraceFile(tmp_path / "trace.json.gz")
    for number in range(200):
        trace.add("cpu_op", f"aten::op{number}", 100 * number, 100 * number + 20)
    trace.add("cpu_op", "mine::planted", 20_000, 20_090)
    trace.write()

    ranks = ranks_of(trace.path)

    assert ranks["name"][0] == "mine::planted"
    assert set(ranks["capture"]) == {"", RECORDED}
    assert len(ranks) == 201


def test_the_command_prints_them(profiler, tmp_path):
    trace = TraceFile(tmp_path / "trace.json.gz")
    trace.add("cpu_op", "aten::mm", 20, 90)
    trace.write()

    done = profiler("capture", str(trace.path))
    refused = profiler("capture", str(tmp_path / "none.json"))
    sums = tmp_path / "sums.csv"
    sums.write_text('"Time (%)","Total Time (ns)","Instances","Name"\n"100.0","9","1","gemm"\n')
    without_times = profiler("capture", str(sums))
    written = profiler("capture", "-o", str(tmp_path / "c"), str(trace.path))

    assert done.code == 0, done.err
    assert "aten::mm" in done.out
    assert "100.0" in done.out
    assert written.code == 0, written.err
    assert "aten::mm" in written.out
    assert "needs a live capture: the trace has no shapes" in written.out
    assert without_times.code == 2
    assert "holds no operation with its times" in without_times.err
    assert refused.code == 2
    assert "a program and -o FOLDER, or a trace" in refused.err
