"""kernel_tuner's own strategies in its simulation mode, on the same records.

Run with the Python of an environment that has kernel_tuner, and this project on PYTHONPATH:
`python benchmarks/search/beside_kernel_tuner.py FOLDER [--seeds N] [--budget N]`. The value of a
configuration is the median of its runs, as in `bars.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import statistics
import sys
import tempfile
from pathlib import Path

import kernel_tuner
import numpy as np

from profiler.search.t4 import read_t4

STRATEGIES = ("random_sample", "greedy_ils", "genetic_algorithm", "diff_evo", "simulated_annealing")


def main() -> int:
    """Print evaluations to 95 % and 99 % of the best, for each space and strategy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--budget", type=int, default=240)
    parser.add_argument("--strategies", nargs="+", default=STRATEGIES)
    arguments = parser.parse_args()
    for space_file in sorted(arguments.folder.glob("*.T1.json")):
        stem = space_file.name.removesuffix(".T1.json")
        results_file = next(arguments.folder.glob(f"{stem}*_T4.json*"))
        with tempfile.TemporaryDirectory() as folder:
            cache, best = _write_cache(results_file, Path(folder) / "cache.json")
            for strategy in arguments.strategies:
                _print_row(stem, strategy, cache, best, arguments)
    return 0


def _print_row(
    stem: str, strategy: str, cache: Path, best: float, arguments: argparse.Namespace
) -> None:
    values = [_search(cache, strategy, seed, arguments.budget) for seed in range(arguments.seeds)]
    row: dict[str, object] = {"space": stem, "strategy": strategy}
    for share in (0.95, 0.99):
        counts = [_evaluations_to(share, best, times) for times in values]
        row[f"median_to_{share}"] = statistics.median(counts)
        row[f"reached_{share}"] = int(np.isfinite(counts).sum())
    print(row, flush=True)


def _write_cache(results_file: Path, target: Path) -> tuple[Path, float]:
    """Write the records as a cache file of kernel_tuner; returns it with the best time."""
    results = read_t4(results_file)
    names = list(results[0].params)
    entries, times = {}, []
    for result in results:
        value = result.value_ms()
        times += [] if value is None else [value]
        entries[",".join(str(result.params[name]) for name in names)] = {
            **result.params,
            "time": "RuntimeFailedConfig" if value is None else value,
            "times": [] if value is None else [value],
            **dict.fromkeys(("compile_time", "verification_time", "benchmark_time"), 0),
            **dict.fromkeys(("strategy_time", "framework_time"), 0),
            "timestamp": "2023-01-01 00:00:00+00:00",
        }
    values = {name: sorted({result.params[name] for result in results}) for name in names}
    document = {
        "schema_version": "1.0.0",
        "device_name": "recorded",
        "kernel_name": "recorded",
        "kernel_string": "",
        "problem_size": [1, 1],
        "tune_params_keys": names,
        "tune_params": values,
        "objective": "time",
        "cache": entries,
    }
    target.write_text(json.dumps(document))
    return target, min(times)


def _search(cache: Path, strategy: str, seed: int, budget: int) -> list[float]:
    """Times of the configurations that did not fail, in the order in which they were first met."""
    names = json.loads(cache.read_text())["tune_params_keys"]
    random.seed(seed)
    np.random.seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = kernel_tuner.tune_cache(
            str(cache),
            strategy=strategy,
            strategy_options={"max_fevals": budget},
            quiet=True,
            lang="CUDA",
        )
    # A configuration that is met again stands in the list again, at no cost to the budget; failed
    # ones do not stand in it.
    times: dict[tuple[object, ...], float] = {}
    for result in results:
        times.setdefault(tuple(result[name] for name in names), float(result["time"]))
    return list(times.values())


def _evaluations_to(share: float, best: float, times: list[float]) -> float:
    return next((i for i, time in enumerate(times, start=1) if best / time >= share), np.inf)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
