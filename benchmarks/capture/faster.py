"""Make one operator of a captured model faster, and compare the projected step with the real one.

python benchmarks/capture/faster.py MODEL [--size 96] [--device cuda] [--out DIR] [OPTIONS OF RUN]

The model is captured, the stub of the operator's experiment is filled in with the kernel below, and
`profiler run` measures it: its page says what the step would take. Then the kernel is registered in
place of PyTorch's, and steps of the model are timed with and without it, in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import math
import re
import statistics
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch
from models import recommender_training, transformer_training

import profiler

ROUNDS, STEPS = 30, 5
"""Steps with and without the kernel, in turn."""
_T_95 = 2.05
"""Student's t for ROUNDS - 1 degrees of freedom, two-sided."""


def halves_mm(a, b):
    """Three products of bfloat16 halves in one cuBLAS call: 16 bits, where TF32 has 11."""

    def halves(x):
        high = x.bfloat16()
        return high, (x - high).bfloat16()

    (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
    left = torch.cat([a_high, a_high, a_low], 1)
    right = torch.cat([b_high, b_low, b_high], 0)
    if not a.is_cuda:  # to try it; not by mm, which this may stand in for
        return left.float()[None].bmm(right.float()[None])[0]
    return torch.mm(left, right, out_dtype=torch.float32)


def add_rows(*arguments):
    """Rows added by atomics, where PyTorch sorts the indices first; of plain sums alone."""
    grad, indices, offsets, offset2bag, _, _, rows = arguments[:7]
    if not len(offset2bag):  # a CPU does without
        lengths = offsets.diff(append=offsets.new_tensor([len(indices)]))
        offset2bag = torch.arange(len(offsets)).repeat_interleave(lengths)
    table = grad.new_zeros(rows, grad.shape[1])
    return table.index_add_(0, indices, grad.index_select(0, offset2bag))


FASTER = {
    "transformer": (transformer_training, "mm", halves_mm),
    "recommender": (recommender_training, "_embedding_bag_backward", add_rows),
}
"""The step of a model, an operator of it, and a faster kernel for that."""


def alone(function, *arguments):
    """Result of a function in a process of its own, which leaves the GPU to the next."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def step_of(make, size, device):
    """Step of a model, the same each time."""
    torch.set_default_device(device)
    torch.manual_seed(0)
    return make(size)


def captured(folder, *model):
    """Capture two steps of a model."""
    step = step_of(*model)
    with profiler.capture(folder, steps=(10, 12)):
        for _ in range(12):
            step()


def fill_in(file, operator, kernel):
    """Put a kernel in place of the stub in the experiment of an operator; returns its name."""
    text = file.read_text()
    pattern = r"# @(\w+)\.variant.*\n# def mine\((.*)\):\n(?:#.*\n)+"
    for stub in re.finditer(pattern, text):
        if stub[1] == (operator if operator[0].isalpha() else f"op{operator}"):
            source = inspect.getsource(kernel)
            filled = (
                f"{source}\n\n@{stub[1]}.variant\ndef mine({stub[2]}):\n"
                f"    return {kernel.__name__}({stub[2]})\n"
            )
            file.write_text(text[: stub.start()] + filled + text[stub.end() :])
            return stub[1]
    raise SystemExit(f"{operator} is in no experiment of {file}")


@contextlib.contextmanager
def in_place_of(operator, kernel, device):
    """While inside, a kernel is what PyTorch calls for an operator."""
    library = torch.library.Library("aten", "IMPL")
    library.impl(operator, kernel, device.upper())
    try:
        yield
    finally:
        library._destroy()


def milliseconds(step, device):
    """Mean of STEPS steps, waited for."""
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begin) / STEPS


def measured(operator, kernel, *model):
    """Milliseconds of a step without and with the kernel, their ratio and its 95 % interval."""
    step, device = step_of(*model), model[-1]
    pairs = []
    for _ in range(ROUNDS):
        plain = milliseconds(step, device)
        with in_place_of(operator, kernel, device):
            pairs.append((plain, milliseconds(step, device)))
    logs = [math.log(swapped / plain) for plain, swapped in pairs]
    mean, half = statistics.mean(logs), _T_95 * statistics.stdev(logs) / len(logs) ** 0.5
    ratios = [math.exp(mean + side * half) for side in (-1, 0, 1)]
    step_ms = statistics.median(plain for plain, _ in pairs)
    return {
        "step_ms": step_ms,
        "with_kernel_ms": [step_ms * ratio for ratio in ratios],
        "ratio": ratios,
    }


def projected(summary):
    """Milliseconds of the step and of the step with the kernel by a page, and their ratio."""
    found = summary["captured_step"]
    (mine,) = (row for row in found["variants"] if row["variant"] == "mine")
    step, operator = found["step_ns"], found["operator_ns"]
    ratios = [mine[key] for key in ("ratio_low", "ratio", "ratio_high")]
    return {
        "step_ms": step / 1e6,
        "operator_ms": operator / 1e6,
        "operator_ratio": ratios,
        "with_kernel_ms": [(step - operator * (1 - ratio)) / 1e6 for ratio in ratios],
        "ratio": [1 - operator / step * (1 - ratio) for ratio in ratios],
    }


def main() -> None:
    """Print what was projected and what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=FASTER)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("faster"))
    options, of_run = parser.parse_known_args()
    make, operator, kernel = FASTER[options.model]
    model = (make, options.size, options.device)
    folder = options.out / options.model
    alone(captured, folder, *model)
    name = fill_in(folder / "experiment.py", operator, kernel)
    command = ["-m", "profiler", "run", f"{folder / 'experiment.py'}:{name}", "--live"]
    summary = folder / "summary.json"
    command += [*of_run, "--out", str(folder / "reports"), "--json", str(summary)]
    subprocess.run([sys.executable, *command], check=True)
    real = alone(measured, operator, kernel, *model)
    page = projected(json.loads(summary.read_text()))
    row = {"model": options.model, "operator": operator, "projected": page, "measured": real}
    print(json.dumps(row, indent=1))


if __name__ == "__main__":
    main()
