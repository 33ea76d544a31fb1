"""How long each way takes from its command to its answer, on a machine with a GPU.

`python benchmarks/first_kernel/time_ways.py [--runs N] [--keep FOLDER]` runs every way whose
packages are installed, in processes of their own, and prints a row of a Markdown table for each: a
first run, which compiles, and the median of the later ones. Their output goes to FOLDER.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from count_lines import ROOT, WAYS, count

PACKAGES = {
    "this project": ("torch",),
    "nsight-python": ("nsight", "torch"),
    "triton.testing": ("triton", "torch"),
    "kernel_tuner": ("kernel_tuner", "cupy"),
}
OF_TASK = {"transpose": ("cupy",), "softmax": ("triton",)}
"""What the other ways launch the kernel with."""


def main() -> int:
    """Run what can run here; 1 where a way failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="runs after the first")
    parser.add_argument("--keep", type=Path, default=None, help="folder for the output")
    arguments = parser.parse_args()
    folder = arguments.keep or Path(tempfile.mkdtemp(prefix="first-kernel-"))
    print("| task | way | lines | first run, s | later, s |\n|---|---|---|---|---|")
    failed = False
    for task, ways in WAYS.items():
        for way, file in ways.items():
            cells = _measured(task, way, file, folder, arguments.runs)
            failed |= "failed" in cells
            print(f"| {task} | {way} | {count(file)} | {cells} |", flush=True)
    print(f"Output: {folder}", file=sys.stderr)
    return int(failed)


def _measured(task: str, way: str, file: Path, folder: Path, runs: int) -> str:
    needed = PACKAGES[way] if way == "this project" else (*PACKAGES[way], *OF_TASK[task])
    missing = [name for name in dict.fromkeys(needed) if find_spec(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} | "
    place = folder / f"{task}-{way}"
    place.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(file)]
    if way == "this project":
        command[1:1] = ["-m", "profiler"]
        command += ["--live", "--fresh", "--out", str(place / "reports")]
    seconds = []
    for number in range(runs + 1):
        start = time.perf_counter()
        with (place / f"output.{number}.txt").open("w") as output:
            done = subprocess.run(
                command, stdout=output, stderr=output, env=_environment(), cwd=place, check=False
            )
        seconds.append(time.perf_counter() - start)
        if done.returncode != 0:
            return f"failed: {place / f'output.{number}.txt'} | "
    return f"{seconds[0]:.1f} | {median(seconds[1:] or seconds):.1f}"


def _environment() -> dict[str, str]:
    """Of the ways: this checkout is imported first, then what the caller's PYTHONPATH has."""
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


if __name__ == "__main__":
    sys.exit(main())
