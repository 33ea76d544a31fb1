"""What a launch costs under ncu by what it is asked for; needs a GPU, ncu and torch.

    python benchmarks/speed/launch_costs.py [--only WORD] [--launches N]

Each row is a process of ncu that profiles launches of two kernels: a product of 1024 x 1024
matrices by cuBLAS and FlashAttention-2 at length 16384, both in fp16. The table has the passes, the
median milliseconds of a launch without the first, and what ncu counted: of operations on fp16 the
whole and its parts, which have to add up to it.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2]))

from profiler.collect.ncu import find_ncu  # noqa: E402 - this checkout's
from profiler.metrics.queries import ncu_names  # noqa: E402

DURATION = "gpu__time_duration.sum"
ONE_PASS = (
    *("dram_read_bytes", "dram_write_bytes", "l2_bytes", "l1_bytes", "achieved_occupancy_pct"),
    *("instructions", "tensor_pipe_pct"),
)
FP16 = "sm__ops_path_tensor_src_fp16.sum"
HGMMA = "sm__ops_path_tensor_op_hgmma_src_fp16.sum"
HMMA = "sm__ops_path_tensor_op_hmma_src_fp16.sum"
HMMA_FP32 = "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp32.sum"
HMMA_FP16 = "sm__ops_path_tensor_op_hmma_src_fp16_dst_fp16.sum"
BF16 = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
BF16_PARTS = (
    "sm__ops_path_tensor_op_hgmma_src_bf16_dst_fp32.sum",
    "sm__ops_path_tensor_op_hmma_src_bf16_dst_fp32.sum",
)
MEMORY = ncu_names(["dram_read_bytes", "dram_write_bytes", "l2_bytes", "l1_bytes"], "9.0")
DRAM_READ = ncu_names(["dram_read_bytes"], "9.0")
ROOFS = ncu_names(
    ["dram_peak", "l2_peak", "l1_peak", "dram_clock_hz", "lts_clock_hz", "sm_clock_hz"], "9.0"
)
OCCUPANCY = ncu_names(["achieved_occupancy_pct"], "9.0")
INSTRUCTIONS = ncu_names(["instructions"], "9.0")
TENSOR_PIPE = ncu_names(["tensor_pipe_pct"], "9.0")
BF16_CEILING = ncu_names(["tensor_bf16_peak"], "9.0")
CYCLES = ncu_names(["cycles"], "9.0")
FMA = ncu_names(["fp32_fma"], "9.0")
ALL_OF_ONE_PASS = ncu_names(ONE_PASS, "9.0")
HITS = ncu_names(["l2_hit_sectors"], "9.0")
CEILING = ncu_names(["tensor_fp16_peak", "sm_clock_hz"], "9.0")
ASKED = {
    "duration": (),
    "cycles": CYCLES,
    "all of one pass": ALL_OF_ONE_PASS,
    "all of one pass, and cycles": (*ALL_OF_ONE_PASS, *CYCLES),
    "bytes of memory": MEMORY,
    "shared: bytes of memory, cycles, on bf16": (*MEMORY, *CYCLES, BF16),
    "shared: bytes of memory, hits of L2": (*MEMORY, *HITS),
    "shared: bytes read of DRAM, hits of L2, cycles": (*DRAM_READ, *HITS, *CYCLES),
    "shared: bytes of memory, hits of L2, cycles, on bf16": (*MEMORY, *HITS, *CYCLES, BF16),
    "shared: roofline on bf16": (*MEMORY, *CYCLES, BF16, *ROOFS, *BF16_CEILING),
    "shared: roofline on bf16, hits of L2": (*MEMORY, *CYCLES, BF16, *ROOFS, *BF16_CEILING, *HITS),
    "shared: roofline on bf16, occupancy": (*MEMORY, *CYCLES, BF16, *ROOFS, *OCCUPANCY),
    "shared: roofline on bf16, instructions": (*MEMORY, *CYCLES, BF16, *ROOFS, *INSTRUCTIONS),
    "shared: roofline on bf16, tensor pipe": (*MEMORY, *CYCLES, BF16, *ROOFS, *TENSOR_PIPE),
    "shared: bytes of memory, roofs, cycles": (*MEMORY, *CYCLES, *ROOFS),
    "shared: roofline on fp16 without HMMA to fp16": (
        *MEMORY,
        HGMMA,
        HMMA_FP32,
        *ROOFS,
        *CEILING[:1],
    ),
    "hits of L2": HITS,
    "operations on bf16": (BF16,),
    "operations on fp16": (FP16,),
    "of HGMMA on fp16": (HGMMA,),
    "of HMMA on fp16": (HMMA,),
    "of HMMA on fp16, sums in fp32": (HMMA_FP32,),
    "of HMMA on fp16, sums in fp16": (HMMA_FP16,),
    "of HGMMA, and of HMMA with sums in fp32": (HGMMA, HMMA_FP32),
    "the three parts of fp16": (HGMMA, HMMA_FP32, HMMA_FP16),
    "all of one pass, and on fp16": (*ALL_OF_ONE_PASS, FP16),
    "all of one pass, and of HGMMA on fp16": (*ALL_OF_ONE_PASS, HGMMA),
    "shared: all of one pass, HGMMA, HMMA with sums in fp32": (*ALL_OF_ONE_PASS, HGMMA, HMMA_FP32),
    "shared: all of one pass, HGMMA and HMMA on bf16": (*ALL_OF_ONE_PASS, *BF16_PARTS),
    "shared: hits of L2, HMMA with sums in fp16": (*HITS, HMMA_FP16),
    "shared: hits of L2, HGMMA, HMMA with sums in fp32": (*HITS, HGMMA, HMMA_FP32),
    "shared: HGMMA, HMMA with sums in fp32, their ceiling": (HGMMA, HMMA_FP32, *CEILING),
    "shared: hits of L2, on bf16": (*HITS, BF16),
    "shared: HGMMA and HMMA on bf16, HMMA on fp16 with sums in fp16": (*BF16_PARTS, HMMA_FP16),
    "shared: FP32 multiply-adds": FMA,
}
"""Raw metrics of each row, beside the duration."""
PASSES = "profiler__replayer_passes"
"""In the rows of some versions of ncu, unasked."""
KERNELS = ("product", "attention")
LIMIT_S = 120


def launch_kernels(launches: int, times: Path) -> None:
    """Launch both kernels in turn, and write the milliseconds of each launch."""
    import torch  # noqa: PLC0415 - under ncu only

    square = torch.randn(1024, 1024, device="cuda", dtype=torch.float16)
    heads = torch.randn(4, 16, 16384, 128, device="cuda", dtype=torch.float16)
    flash = torch.nn.attention.SDPBackend.FLASH_ATTENTION

    def attention() -> None:
        with torch.nn.attention.sdpa_kernel(flash):
            torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)

    kernels = dict(zip(KERNELS, (lambda: square @ square, attention), strict=True))
    took: dict[str, list[float]] = {name: [] for name in kernels}
    for launch in kernels.values():
        launch()
    torch.cuda.synchronize()
    for name, launch in kernels.items():
        for _ in range(launches):
            began = time.monotonic()
            torch.cuda.nvtx.range_push("costs")
            launch()
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            took[name].append(1e3 * (time.monotonic() - began))
    times.write_text(json.dumps(took))


def costs_of(metrics: tuple[str, ...], launches: int) -> tuple[Mapping[str, float], str, str]:
    """Median milliseconds of a launch of each kernel, its passes, and what was counted."""
    with tempfile.TemporaryDirectory() as folder:
        log, times = Path(folder, "log.csv"), Path(folder, "times.json")
        subprocess.run(
            [
                *(str(find_ncu()), "--config-file", "off", "--csv", "--page", "raw"),
                *("--print-units", "base", "--clock-control", "none", "--nvtx"),
                *("--nvtx-include", "costs/", "--log-file", str(log)),
                *("--metrics", ",".join((DURATION, *metrics))),
                *(sys.executable, str(HERE), "--launch", str(times), "--launches", str(launches)),
            ],
            timeout=LIMIT_S,
            check=True,
        )
        took = json.loads(times.read_text())
        rows = ncu_rows(log.read_text())
    passes = " ".join(dict.fromkeys(row.get(PASSES, "?") for row in rows))
    operations = [name for name in metrics if "_ops_path_tensor_" in name]
    counted = " ".join(dict.fromkeys("/".join(row[name] for name in operations) for row in rows))
    return {name: statistics.median(all_ms[1:]) for name, all_ms in took.items()}, passes, counted


def ncu_rows(printed: str) -> list[dict[str, str]]:
    """Rows of ncu's CSV, without that of the units."""
    table = printed[printed.index('"ID"') :]
    return list(csv.DictReader(io.StringIO(table)))[1:]


def main() -> None:
    """Measure every row, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="rows with this word")
    parser.add_argument("--launches", type=int, default=4)
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch is not None:
        launch_kernels(options.launches, options.launch)
        return
    print("| metrics | passes | " + ", ms | ".join(KERNELS) + ", ms | counted |")
    print("|---|---|" + "---|" * (len(KERNELS) + 1))
    for name, metrics in ASKED.items():
        if options.only in name:
            took, passes, counted = costs_of(metrics, options.launches)
            shown = " | ".join(f"{took[kernel]:.1f}" for kernel in KERNELS)
            print(f"| {name} | {passes} | {shown} | {counted} |", flush=True)


if __name__ == "__main__":
    main()
