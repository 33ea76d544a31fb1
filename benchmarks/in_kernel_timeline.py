"""How much slower a kernel is with stamps inside it, by CUDA events, beside the same without.

    python benchmarks/in_kernel_timeline.py [--lengths 512 1024 4096 16384] [--rounds 15]

The Hopper attention kernel, steps 5, 6, 9 and 10 of its ladder, in bf16. Each round launches both
builds in turns, in random order, behind a flush of the L2 cache; the ratio is a median over rounds,
and beside it stands that of the build without stamps against itself. Exits 1 where a median is
above the bar. Needs compute capability 9.0 and nvcc.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from profiler.kernels.recipe import with_stamps
from profiler.model import Variant
from profiler.sessions.builds.libraries import build_variants

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))
from flash_attention_hopper import space, workload
from flash_attention_hopper.tuning import ladder

BAR = 1.03
STEPS = (5, 6, 9, 10)
PLAIN, AGAIN, STAMPED = "plain", "plain again", "stamped"
LAUNCHES = 10
SEED = 1

Launch = Callable[[], Any]


def main() -> int:
    """Build, time and print a line per step and length; 1: the bar is missed."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 4096, 16384])
    arguments.add_argument("--rounds", type=int, default=15)
    options = arguments.parse_args()
    params = {step: ladder("BF16")[step - 1].config.params() for step in STEPS}
    with tempfile.TemporaryDirectory() as folder:
        libraries = build(params, Path(folder))
        print("length step  stamped / plain (lowest to highest)   plain / plain")
        ratios = [
            compare(params[step], length, libraries[step], options.rounds, step)
            for length in options.lengths
            for step in STEPS
        ]
    worst = max(ratios)
    print(f"worst median: {worst:.4f} (bar {BAR})")
    return int(worst > BAR)


def build(params: Mapping[int, Any], folder: Path) -> dict[int, dict[str, Path]]:
    """Libraries of each step, with stamps and without."""
    recipes = {}
    for step, values in params.items():
        recipe = space.recipe(values)
        if recipe is None:
            raise ValueError(f"step {step} needs no build")
        recipes |= {f"{step}-{PLAIN}": recipe, f"{step}-{STAMPED}": with_stamps(recipe)}
    variants = [Variant(name, name) for name in recipes]
    results = build_variants(variants, recipes, arch="sm_90", build_root=folder)
    libraries: dict[int, dict[str, Path]] = {}
    for result in results:
        if result.library is None:
            raise RuntimeError(result.error)
        step, _, kind = result.variant.partition("-")
        libraries.setdefault(int(step), {})[kind] = Path(result.library)
    return libraries


def compare(
    params: Any, length: int, libraries: Mapping[str, Path], rounds: int, step: int
) -> float:
    """Median ratio of the build with stamps to that without, printed with its range."""
    problem = {"seq_len": length, "precision": "BF16"}
    inputs = workload.make_inputs(problem, torch.device("cuda"), SEED)
    launches = {
        kind: workload.prepare(params, problem, inputs, library)
        for kind, library in libraries.items()
    }
    launches[AGAIN] = launches[PLAIN]
    flush = torch.empty(2 * 64 * 2**20, dtype=torch.uint8, device="cuda")
    order = random.Random(SEED)  # noqa: S311 - an order, not a secret
    for launch in launches.values():
        launch()
    times: dict[str, list[float]] = {kind: [] for kind in launches}
    for _ in range(rounds):
        kinds = list(launches)
        order.shuffle(kinds)
        for kind in kinds:
            times[kind].append(median_ms(launches[kind], flush))
    stamped, again = (
        [a / b for a, b in zip(times[kind], times[PLAIN], strict=True)] for kind in (STAMPED, AGAIN)
    )
    ratio = statistics.median(stamped)
    print(
        f"{length:6d} {step:4d}  {ratio:.4f} ({min(stamped):.4f} to {max(stamped):.4f})"
        f"   {statistics.median(again):.4f} ({min(again):.4f} to {max(again):.4f})",
        flush=True,
    )
    return ratio


def median_ms(launch: Launch, flush: torch.Tensor) -> float:
    """Median milliseconds of some launches, each behind a flush of the caches."""
    events = []
    for _ in range(LAUNCHES):
        flush.zero_()
        begins, ends = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begins.record()
        launch()
        ends.record()
        events.append((begins, ends))
    torch.cuda.synchronize()
    return statistics.median(begins.elapsed_time(ends) for begins, ends in events)


if __name__ == "__main__":
    sys.exit(main())
