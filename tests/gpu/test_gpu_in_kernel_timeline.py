"""In-kernel timelines on a real GPU of compute capability 9.0; `python -m pytest -m gpu`."""

import itertools
import json
import math

import pytest
import torch
from live_run import run_live
from studies import workload_of

from profiler.commands.report import read_run
from profiler.findings.find import find
from profiler.parse.stamps import read_stamps
from profiler.run_folder.folder import RunFolder

CONSUMERS = {"consumer 1", "consumer 2"}
COPIES = {"copies of K and V", "copies of Q"}

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0),
        reason="needs compute capability 9.0",
    ),
]

SPEC = """\
name: inside
workload: WORKLOAD
variants:
  list:
    - name: ping-pong
      params: {dtype: BF16, consumers: 2, B_c: 128, persistent: false}
    - name: best
      params: {dtype: BF16}
    - name: sdpa
      params: {implementation: sdpa_flash}
problems: {matrix: {precision: [BF16], seq_len: [1024], batch: [4]}}
baseline: sdpa
collect:
  blocks: 1
  final_blocks: 0
  metrics: [duration_ns]
  collectors: [ncu, in_kernel]
  explain: false
""".replace("WORKLOAD", workload_of("flash_attention_hopper"))

CUDA_FILE = """\
#include <profiler/timeline.cuh>
PROFILER_ACTIVITIES(Activity, load, store)
__global__ void twice(const float* in, float* out, int n) {
  profiler::Timeline timeline(threadIdx.x / 128);
  timeline.enter(Activity::load);
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = i < n ? in[i] : 0.0f;
  timeline.enter(Activity::store);
  if (i < n) out[i] = 2.0f * value;
}
"""
CUDA_SPEC = """\
name: twice
workload:
  source: twice.cu
  arguments: {x: {shape: [n]}, out: {shape: [n], output: true}, n}
  grid: ceil_div(n, 256)
  block: 256
  reference: 2 * x
variants: {list: [{name: twice, kernel: twice}]}
problems: {matrix: {n: [65536]}}
collect:
  blocks: 1
  final_blocks: 0
  metrics: [duration_ns]
  collectors: [timer, in_kernel]
"""


def measured(folder, name, text):
    """The folder of a finished run."""
    spec = folder / f"{name}.yaml"
    spec.write_text(text)
    run_live(spec, folder)
    (run,) = folder.glob(f"{name}/*/")
    return run


def stamps_of(run, variant):
    (attempt,) = (run / "raw").glob("in-kernel.*")
    (stamps,) = (
        stamps
        for visit, stamps in read_stamps(attempt).items()
        if visit.cell.startswith(f"{variant}..")
    )
    return stamps


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("inside"), "inside", SPEC)


@pytest.fixture(scope="module")
def stamps(run):
    return stamps_of(run, "ping-pong")


def test_every_warpgroup_of_the_first_blocks_has_rows(stamps):
    assert set(stamps.groups.values()) == CONSUMERS | COPIES
    assert sorted(stamps.ends["block"].unique()) == [0, 1, 2, 3]
    seen = stamps.spans.groupby(["block", "group"])["activity"].agg(set)
    names = {number: name for number, name in stamps.groups.items() if name in CONSUMERS}
    for block, group in itertools.product(range(4), names):
        assert {"wait_for_keys", "start_scores", "softmax", "epilogue"} <= seen[block, group]
        assert {"wait_for_turn", "start_output", "wait_for_output"} <= seen[block, group]


def test_stamps_go_forward_and_lie_inside_the_kernel(run, stamps):
    assert (stamps.spans["end_ns"] >= stamps.spans["start_ns"]).all()
    for _, group in stamps.spans.groupby(["block", "group"]):
        assert (group["start_ns"].to_numpy()[1:] == group["end_ns"].to_numpy()[:-1]).all()
    summary = json.loads((run / "summary.json").read_text())
    (cell,) = [cell for cell in summary["cells"] if cell["id"].startswith("ping-pong")]
    duration = cell["metrics"]["duration_ns"]["median"]
    # Both clocks are the GPU's; caches are warm here and cold under ncu.
    length = stamps.ends["end_ns"].max() - stamps.ends["start_ns"].min()
    assert 0 < length < 1.3 * duration
    assert stamps.spans["end_ns"].max() <= stamps.ends["end_ns"].max() + 1


def test_steps_of_a_consumer_are_the_tiles_of_keys(stamps):
    consumer = next(number for number, name in stamps.groups.items() if name == "consumer 1")
    spans = stamps.spans[(stamps.spans["group"] == consumer) & (stamps.spans["block"] == 0)]
    assert (spans["activity"] == "start_scores").sum() == 1024 // 128
    assert (spans["activity"] == "wait_for_output").sum() == 1024 // 128


def test_of_a_persistent_kernel_two_tiles_are_recorded(run):
    stamps = stamps_of(run, "best")
    assert sorted(stamps.ends["block"].unique()) == [0, 1, 2, 3]
    consumer = next(number for number, name in stamps.groups.items() if name == "consumer 1")
    spans = stamps.spans[stamps.spans["group"] == consumer]
    counts = spans.groupby("block")["activity"].value_counts().unstack()
    assert counts["epilogue"].tolist() == [2] * 4
    assert counts["start_scores"].tolist() == [2 * math.ceil(1024 / 80)] * 4


def test_warpgroups_take_turns_on_the_tensor_cores(run):
    findings = find(read_run(RunFolder(run)))
    (inside,) = (
        inside for cell, inside in findings.in_kernel.items() if cell.startswith("ping-pong..")
    )
    shares = inside.operation_shares
    assert len(shares) == 3
    assert sum(shares) == pytest.approx(1.0)
    assert shares[1] + shares[2] > 0.5, "products are under way most of the time"


def test_the_page_shows_it(run):
    page = (run / "index.html").read_text()
    assert 'id="in-kernel"' in page
    assert "consumer 2" in page


def test_a_cuda_file_of_ones_own_needs_one_include(tmp_path):
    (tmp_path / "twice.cu").write_text(CUDA_FILE)
    stamps = stamps_of(measured(tmp_path, "twice", CUDA_SPEC), "twice")
    assert stamps.groups == {0: "group 0", 1: "group 1"}
    assert set(stamps.spans["activity"]) == {"load", "store"}
    assert (stamps.spans["end_ns"] >= stamps.spans["start_ns"]).all()
