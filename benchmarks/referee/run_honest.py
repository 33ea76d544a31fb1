"""Has the referee judge 1,000 honest kernels: it must object to none.

python benchmarks/referee/run_honest.py [--device cuda] [--launches N] [--count N]

A kernel is a way of `honest/kernels.py` to do an operation, in a type, at a shape. Exit code 1
where one is objected to.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

ROOT, HERE = Path(__file__).parents[2], Path(__file__).parent
for folder in (ROOT, HERE):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

from honest.kernels import OPERATIONS  # noqa: E402

from profiler.planning.python_files import public_functions  # noqa: E402
from profiler.runner.checks.check import WrongResultError  # noqa: E402
from profiler.runner.experiment import experiment_of  # noqa: E402
from profiler.runner.failures import ForeignError  # noqa: E402
from profiler.runner.import_path import import_file  # noqa: E402
from profiler.runner.referee.workload import RefereedWorkload  # noqa: E402
from profiler.runner.seal import ImplausibleError  # noqa: E402

TASK, KERNELS = HERE / "honest_task.py", HERE / "honest/kernels.py"
DTYPES = ("float32", "float64", "bfloat16", "float16")
SHAPES = ((7, 64), (33, 200), (64, 1024), (5, 4097))

Problem = dict[str, str | int]
Kernel = dict[str, str | int]


def problems() -> list[Problem]:
    """Every operation in every type at every shape, in an order of its own."""
    every = [
        {"op": op, "dtype": dtype, "rows": rows, "columns": columns}
        for op, dtype, (rows, columns) in itertools.product(OPERATIONS, DTYPES, SHAPES)
    ]
    random.Random(1).shuffle(every)  # noqa: S311 - an order, not a secret
    return every


def kernels() -> list[Kernel]:
    """Every way, by its parameters."""
    return [params for f in public_functions(KERNELS) for _, params in f.variants()]


def objections(
    device: torch.device, problems: Sequence[Problem], launches: int
) -> Iterator[tuple[Problem, Kernel, str]]:
    """Problem and kernel of each that was judged, and what was objected; empty where nothing."""
    experiment = experiment_of(import_file(TASK))
    assert experiment is not None
    workload = RefereedWorkload(experiment, TASK, KERNELS, {})
    try:
        for problem in problems:
            rounds = workload.make_inputs(problem, device, 0)
            for kernel in ({"function": "baseline"}, *kernels()):
                try:
                    launch = workload.prepare(kernel, problem, rounds, None)
                    for _ in range(launches):
                        launch.restore()
                        launch()
                    launch.judge()
                    yield problem, kernel, ""
                except (WrongResultError, ImplausibleError, ForeignError) as error:
                    yield problem, kernel, str(error)
    finally:
        workload.close()


def main() -> int:
    """Judge them; 1 where one is objected to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    needed = -(-options.count // len(kernels()))
    judged = objected = 0
    device = torch.device(options.device)
    for problem, kernel, words in objections(device, problems()[:needed], options.launches):
        judged += kernel["function"] != "baseline"
        if words:
            objected += 1
            print(f"{kernel} at {problem}: {words}", flush=True)
    print(f"{judged} honest kernels, {options.launches} launches each: {objected} objections")
    return min(objected, 1)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
