"""What the roofline costs a session beside duration and cycles alone; needs a GPU, ncu and torch.

    python benchmarks/speed/roofline.py [--samples N ...]

A bf16 product of 4096 x 4096 matrices and FlashAttention-2 at eight lengths, forwards and once more
with heads swapped, counted by this project in one session: with duration and cycles alone, and with
the group `tensor_roofline`. It prints the seconds of each session from its start to its end, and
exits 1 where operations are off by more than 0.1 % of what is declared, or where the sessions with
the first number of samples differ by more than a factor of 1.3.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [str(PROJECT), str(HERE)]

from speed import python_path, timed  # noqa: E402 - beside this file

WORKLOAD = """
import torch

HEADS, WIDTH = 16, 128
TOLERANCES = {"bfloat16": (0.5, 0.02)}


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    length = problem["length"]
    square = problem["kind"] == "product"
    shape = (length, length) if square else (1, HEADS, length, WIDTH)
    count = 2 if square else 3
    return [
        torch.randn(shape, device=device, generator=generator, dtype=torch.bfloat16)
        for _ in range(count)
    ]


def attention(query, key, value):
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)


def reference(problem, inputs):
    if problem["kind"] == "product":
        return inputs[0].float() @ inputs[1].float()
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.EFFICIENT_ATTENTION):
        return attention(*inputs).float()


def prepare(variant, problem, inputs, library):
    turned = variant["order"] == "turned"
    if problem["kind"] == "product":
        left, right = inputs
        return (lambda: (right.T @ left.T).T) if turned else (lambda: left @ right)
    query, key, value = (each.flip(1) if turned else each for each in inputs)

    def launch():
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
            result = attention(query, key, value)
        return result.flip(1) if turned else result

    return launch


def flops(problem):
    length = problem["length"]
    if problem["kind"] == "product":
        return 2 * length**3
    return 4 * HEADS * length**2 * WIDTH
"""
LENGTHS = (512, 1024, 2048, 4096, 6144, 8192, 12288, 16384)
METRICS = {"duration and cycles": ["duration_ns", "cycles"], "roofline": ["tensor_roofline"]}
MOST, OFF = 1.3, 1e-3


def spec(metrics: list[str], samples: int) -> str:
    """Experiment of the session; JSON is YAML."""
    problems = [{"params": {"kind": "product", "length": 4096, "dtype": "bfloat16"}}]
    problems += [
        {"params": {"kind": "attention", "length": n, "dtype": "bfloat16"}} for n in LENGTHS
    ]
    orders = [{"name": name, "params": {"order": name}} for name in ("plain", "turned")]
    collect = {"ncu_timing": False, "collectors": ["ncu", "timer"], "counter_samples": samples}
    return json.dumps(
        {
            "name": "roofline",
            "workload": "./workload.py",
            "variants": {"list": orders},
            "problems": {"list": problems},
            "collect": {**collect, "metrics": metrics, "blocks": 1, "final_blocks": 0},
        }
    )


def session_seconds(metrics: list[str], samples: int) -> tuple[float, float]:
    """Seconds of the counters' session from its start to its end; largest error of operations."""
    with tempfile.TemporaryDirectory(prefix="roofline.") as name:
        folder = Path(name)
        (folder / "workload.py").write_text(WORKLOAD)
        (folder / "roofline.yaml").write_text(spec(metrics, samples))
        argv = [sys.executable, "-m", "profiler", "roofline.yaml", "--live", "--no-explain"]
        timed([*argv, "--out", "reports"], folder, PYTHONPATH=python_path(PROJECT))
        (run,) = folder.glob("reports/roofline/2*")
        (spans,) = json.loads((run / "seconds.json").read_text())["executions"]
        cells = json.loads((run / "summary.json").read_text())["cells"]
    counters = [span for span in spans if span["row"].startswith("ncu-counters")]
    if len({span["row"] for span in counters}) != 1:
        raise SystemExit(f"not one session: {sorted({span['row'] for span in counters})}")
    waits = sum(span["end_s"] - span["begin_s"] for span in counters if span["step"] == "waits")
    whole = max(s["end_s"] for s in counters) - min(s["begin_s"] for s in counters)
    plain = [cell for cell in cells if cell["variant"] == "plain"]
    errors = [
        abs(cell["metrics"]["tensor_bf16_ops"]["median"] / cell["flops"] - 1)
        for cell in plain
        if "tensor_bf16_ops" in cell["metrics"]
    ]
    return whole - waits, max(errors, default=0.0)


def main() -> int:
    """Measure and print; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 10])
    options = parser.parse_args()
    ratios, errors = [], []
    print("| launches | duration and cycles, s | roofline, s | ratio |\n|---|---|---|---|")
    for samples in options.samples:
        alone, _ = session_seconds(METRICS["duration and cycles"], samples)
        roofline, error = session_seconds(METRICS["roofline"], samples)
        ratios.append(roofline / alone)
        errors.append(error)
        launches = 2 * (1 + len(LENGTHS)) * samples
        print(f"| {launches} | {alone:.1f} | {roofline:.1f} | {ratios[-1]:.2f} |", flush=True)
    print(f"operations off by at most {100 * max(errors):.4f} %")
    return int(ratios[0] > MOST or max(errors) > OFF)


if __name__ == "__main__":
    sys.exit(main())
