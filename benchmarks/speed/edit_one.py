"""How long it takes to run again after one of 80 kernels was edited; needs a GPU, ncu and nvcc.

    python benchmarks/speed/edit_one.py [--problems N] [--fast]

The row softmax of this project in 80 tunings, each in a source file of its own, against
torch.softmax, at six sizes or the first N of them, with five metrics: a whole run into an empty
folder, with its page, `--no-explain`.
Then one loop of one kernel is unrolled twice in place of four times, and the same command is run
again. Exits 1 where that takes more than 0.12 times the whole run, or more than 25 s; by CUPTI
(`--fast`) where it takes more than 10 s.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [str(PROJECT), str(PROJECT / "kernels"), str(HERE)]

from speed import METRICS, python_path, timed  # noqa: E402 - beside this file

STUDY = PROJECT / "kernels/softmax"
SOURCES = STUDY / "src"
SPACE = """
from dataclasses import replace
from pathlib import Path

from softmax import space
from softmax.space import check_cell, check_problem, check_variant, variant_name


def recipe(params):
    shared = space.recipe(params)
    if shared is None:
        return None
    return replace(shared, sources=(Path(__file__).parent / f"{variant_name(params)}.cu",))
"""
EVERY = {"block_size": [128, 256, 512, 1024], "vector_width": [1, 2, 4, 8]}
TUNINGS = (
    {"algorithm": "naive", "block_size": EVERY["block_size"]},
    {"algorithm": "shared", **EVERY},
    {
        "algorithm": "warp",
        "rows_per_block": [1, 2, 4, 8, 16, 32],
        "vector_width": EVERY["vector_width"],
    },
    {"algorithm": "online", **EVERY},
    {
        "algorithm": "vector",
        "block_size": EVERY["block_size"],
        "rows_per_block": 1,
        "vector_width": [4, 8],
    },
    {
        "algorithm": "vector",
        "block_size": 256,
        "rows_per_block": [2, 4, 8],
        "vector_width": [4, 8],
    },
    {
        "algorithm": "vector",
        "block_size": [128, 256],
        "rows_per_block": 1,
        "vector_width": 8,
        "min_blocks_per_sm": [2, 3, 4],
    },
)
"""80 in all."""
SHAPES = ((8192, 4096), (12288, 2048), (10240, 3072), (6144, 6144), (5120, 8192), (4096, 12288))
"""Rows and columns of each problem: as many as a sweep of attention has lengths, each of another
size. By what the recording of softmax has of neighbouring sizes (H200), the fastest kernels take
25 to 50 µs, and nearly all less than 200 µs."""
EDITED = "shared-b256-v8"
SHARE, BAR_S, FAST_BAR_S = 0.12, 25.0, 10.0
LIMIT_S = 900
"""More than a sweep of so many cells takes (autotune: 516 in 410 s)."""


def tunings() -> Iterator[dict[str, str | int]]:
    """Parameters of each variant."""
    for matrix in TUNINGS:
        choices = [value if isinstance(value, list) else [value] for value in matrix.values()]
        yield from (dict(zip(matrix, values, strict=True)) for values in product(*choices))


def write_experiment(folder: Path, problems: int) -> None:
    """The experiment in a folder: its space, and a source file for each variant."""
    from softmax.space import variant_name  # noqa: PLC0415 - this checkout's

    for header in SOURCES.glob("*.cuh"):
        shutil.copy(header, folder)
    for params in tunings():
        shutil.copy(SOURCES / f"{params['algorithm']}.cu", folder / f"{variant_name(params)}.cu")
    (folder / "space.py").write_text(SPACE)
    spec = {
        "name": "edit_one",
        "workload": {"module": str(STUDY / "workload.py"), "space": "./space.py"},
        "variants": {
            "list": [{"name": "torch", "params": {"algorithm": "torch"}}],
            "matrix": list(TUNINGS),
        },
        "problems": {
            "list": [
                {"params": {"rows": rows, "columns": columns, "dtype": "float16"}}
                for rows, columns in SHAPES[:problems]
            ]
        },
        "baseline": "torch",
        "collect": {"metrics": list(METRICS)},
    }
    (folder / "edit_one.yaml").write_text(json.dumps(spec))


def edit(source: Path) -> None:
    """Unroll the loops over a row twice where they are unrolled four times."""
    text = source.read_text()
    if "#pragma unroll 4" not in text:
        raise SystemExit(f"{source.name} has no loop to edit")
    source.write_text(text.replace("#pragma unroll 4", "#pragma unroll 2"))


def run_seconds(folder: Path, *flags: str) -> float:
    """Seconds of the command."""
    command = [sys.executable, "-m", "profiler", "run", "edit_one.yaml"]
    argv = [*command, "--live", "--no-explain", *flags]
    path = os.pathsep.join((python_path(PROJECT), str(STUDY.parent)))
    environment = {"PYTHONPATH": path, "XDG_CACHE_HOME": str(folder / "cache")}
    seconds = timed([*argv, "--out", "reports"], folder, LIMIT_S, **environment)
    print((folder / "printed.txt").read_text().strip().splitlines()[-1], flush=True)
    return seconds


def main() -> int:
    """Measure and print; 1 where a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--problems", type=int, default=len(SHAPES), choices=range(1, len(SHAPES) + 1)
    )
    parser.add_argument("--fast", action="store_true", help="by CUPTI, without ncu")
    options = parser.parse_args()
    flags = ["--fast"] if options.fast else []
    with tempfile.TemporaryDirectory(prefix="edit.") as name:
        folder = Path(name)
        write_experiment(folder, options.problems)
        whole = run_seconds(folder, *flags)
        edit(folder / f"{EDITED}.cu")
        again = run_seconds(folder, *flags)
    print(f"whole run {whole:.1f} s, after the edit {again:.1f} s: {again / whole:.2f}")
    return int(again > (FAST_BAR_S if options.fast else min(SHARE * whole, BAR_S)))


if __name__ == "__main__":
    sys.exit(main())
