"""What it makes of a kernel's duration where its arrays lie; needs a GPU, torch and CUPTI.

    python benchmarks/verdicts/placements.py [--placements 12] [--launches 12]

Kernels of torch between 3 and 200 us are timed by CUPTI, with emptied caches, in rounds of some
launches. Before each round their arrays are made anew: at one time where they were before, at the
other behind a block of another size (`Device.move_memory`), so that they lie elsewhere. Of both it
prints the standard deviation between rounds beyond what launches of a round scatter by. What
moving adds to it is the share of addresses in the offsets that a session keeps to its end.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from profiler.machine.installs import built_library
from profiler.runner.cupti.range_profiler import RangeProfiler, load_library
from profiler.runner.device import Device, open_device

DURATION = "gpu__time_duration.sum"
SHORT_US = 50.0
"""Up to here docs/verdicts.md has an offset between sessions of 0.6 %."""

Launch = Callable[[], object]


def softmax(rows: int, columns: int) -> Launch:
    """Softmax of rows in FP32."""
    x = torch.randn(rows, columns, device="cuda")
    return lambda: torch.softmax(x, -1)


def add(elements: int) -> Launch:
    """An addition that reads and writes FP32."""
    x = torch.randn(elements, device="cuda")
    y = torch.empty_like(x)
    return lambda: torch.add(x, 1, out=y)


def layer_norm(rows: int, columns: int) -> Launch:
    """Layer norm of rows in BF16."""
    x = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
    w = torch.ones(columns, device="cuda", dtype=torch.bfloat16)
    return lambda: torch.nn.functional.layer_norm(x, (columns,), w)


def product(n: int) -> Launch:
    """Product of n x n matrices in BF16."""
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return lambda: a @ b


def gather(elements: int) -> Launch:
    """A quarter as many FP32 elements, by random indices."""
    x = torch.randn(elements, device="cuda")
    index = torch.randint(elements, (elements // 4,), device="cuda")
    return lambda: x[index]


KERNELS: dict[str, tuple[Callable[..., Launch], tuple[int, ...]]] = {
    **{
        f"softmax {rows} x {columns}": (softmax, (rows, columns))
        for rows, columns in ((1024, 512), (1024, 2048), (4096, 1024), (4096, 4096))
    },
    **{f"add 2^{power}": (add, (1 << power,)) for power in (16, 20, 22, 24)},
    **{f"layer norm {rows} x 4096": (layer_norm, (rows, 4096)) for rows in (256, 2048, 8192)},
    **{f"product {n}": (product, (n,)) for n in (512, 1024, 2048, 4096)},
    **{f"gather 2^{power}": (gather, (1 << power,)) for power in (20, 23)},
}


def rounds(
    counters: RangeProfiler,
    device: Device,
    kernel: str,
    options: argparse.Namespace,
    *,
    moved: bool,
) -> Iterator[list[float]]:
    """Durations in ns of the launches of each round."""
    make, sizes = KERNELS[kernel]
    for number in range(options.placements):
        device.release()
        if moved:
            device.move_memory(f"{kernel} {number}")
        launch = make(*sizes)
        launch()
        launch()
        counters.begin()
        for visit in range(options.launches):
            counters.launch(visit, launch)
        counters.end()
        counted = counters.kernels(range(options.launches)).values()
        yield [sum(kernel[DURATION] for kernel in kernels) for kernels in counted]


def variances(durations: np.ndarray) -> tuple[float, float]:
    """Variance of the logarithm between rounds beyond their launches, and within a round.

    The first may be negative: it is a difference, and averaged over kernels.
    """
    logs = np.log(durations)
    within = logs.var(axis=1, ddof=1).mean()
    return logs.mean(axis=1).var(ddof=1) - within / logs.shape[1], within


def percent(variance: float) -> str:
    """Standard deviation in percent; 0 for a variance below it."""
    return f"{100 * max(variance, 0.0) ** 0.5:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--placements", type=int, default=12, help="rounds of each kernel and kind")
    parser.add_argument("--launches", type=int, default=12, help="of a round")
    options = parser.parse_args()
    device = open_device("cuda")
    gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
    device.empty_caches()
    with tempfile.TemporaryDirectory() as folder:
        library = load_library(built_library(Path(folder)))
        room = 16 * options.launches
        counters = RangeProfiler(library, (DURATION,), device, gpu, flush=True, most_kernels=room)
        print("| kernel | us | kept, % | moved, % | within a round, % |\n|---|---|---|---|---|")
        medians_and_variances = []
        for kernel in KERNELS:
            kept, moved = (
                np.array([*rounds(counters, device, kernel, options, moved=moved)])
                for moved in (False, True)
            )
            median = float(np.median(moved)) / 1e3
            (kept_between, within), (moved_between, _) = variances(kept), variances(moved)
            of_kernel = (kept_between, moved_between, within)
            medians_and_variances.append((median, *of_kernel))
            deviations = " | ".join(map(percent, of_kernel))
            print(f"| {kernel} | {median:.1f} | {deviations} |", flush=True)
    medians, *of_kernels = np.array(medians_and_variances).T
    is_short = medians < SHORT_US
    for name, is_one in ((f"all below {SHORT_US:.0f} us", is_short), ("all above", ~is_short)):
        means = (percent(variance[is_one].mean()) for variance in of_kernels)
        print(f"| {name} | | {' | '.join(means)} |")


if __name__ == "__main__":
    main()
