"""Empty caches before a launch, on a real GPU; `python -m pytest -m gpu`."""

import json

import pytest
from live_run import run_live

pytestmark = pytest.mark.gpu

KEEPING = """\
extern "C" __global__ void keeping(const float* x, float* out, int n) {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;"
                 : "=f"(value)
                 : "l"(x + i), "l"(policy));
    out[i] = value + 1.0f;
}
"""
SPEC = """\
name: caches
workload:
  source: keeping.cu
  arguments: {x: {shape: [n]}, out: {shape: [n], output: true}, n}
  grid: ceil_div(n, 256)
  block: 256
  reference: x + 1.0
variants:
  list:
    - {name: two-kernels, torch: "(x * 1.0) + 1.0"}
    - {name: keeping, kernel: keeping}
problems: {matrix: {n: [1000000, 2000000]}}
collect:
  blocks: 6
  counter_samples: 10  # so that counters have sessions without replays
  metrics: [duration_ns, cycles, dram_read_bytes, kernels]
  cache_control: CACHES
"""


@pytest.mark.parametrize("caches", ["launch", "all"])
def test_a_launch_reads_its_input_once_and_its_kernels_share_what_is_in_l2(tmp_path, caches):
    (tmp_path / "keeping.cu").write_text(KEEPING)
    (tmp_path / "caches.yaml").write_text(SPEC.replace("CACHES", caches))
    run_live(tmp_path / "caches.yaml", tmp_path, "--no-explain", timeout_s=200)
    (path,) = tmp_path.glob("caches/*/summary.json")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert len(cells) == 4
    for cell in cells:
        input_bytes = 4 * cell["problem_params"]["n"]
        read = cell["metrics"]["dram_read_bytes"]["median"]
        # Lines that a kernel keeps in L2 are no exception; what a kernel left there is read there.
        kernels = cell["metrics"]["kernels"]["median"] if caches == "all" else 1
        assert read == pytest.approx(kernels * input_bytes, rel=0.1), cell
