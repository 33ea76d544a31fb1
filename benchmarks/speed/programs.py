"""How long a run of an external program takes beside its own commands by hand; needs a GPU.

    python benchmarks/speed/programs.py [--repeats N]

Four versions of `program.cu`, two blocks and the counters: first as a run of this project with its
page, `--no-explain`, into an empty folder; then every command that it made once more, one after the
other. They take turns. Exits 1 where the run takes longer than its commands.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
sys.path[:0] = [str(PROJECT), str(HERE)]

from speed import METRICS, python_path, timed  # noqa: E402 - beside this file

SPEC = {
    "name": "programs",
    "workload": {"command": "./program {width}", "kernel": "regex:scale.*"},
    "variants": {"matrix": {"width": [1, 2, 4, 8]}},
    "collect": {"blocks": 2, "metrics": list(METRICS)},
}
MOST_OF_BY_HAND = 1.0


def run_seconds(folder: Path) -> float:
    """Seconds of a run of this project."""
    (folder / "programs.yaml").write_text(json.dumps(SPEC))
    argv = [sys.executable, "-m", "profiler", "programs.yaml", "--live", "--no-explain"]
    return timed([*argv, "--out", "reports"], folder, PYTHONPATH=python_path(PROJECT))


def by_hand_seconds(folder: Path) -> tuple[float, int]:
    """Seconds of the commands of that run, one after the other, and their number."""
    files = sorted(folder.glob("reports/programs/*/raw/*/command.txt"))
    began = time.monotonic()
    for file in files:
        argv = shlex.split(file.read_text())
        subprocess.run(argv, cwd=folder, capture_output=True, check=True)
    return time.monotonic() - began, len(files)


def main() -> int:
    """Measure and print; 1 where the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    ratios = []
    for _ in range(options.repeats):
        with tempfile.TemporaryDirectory(prefix="programs.") as name:
            folder = Path(name)
            program = [str(HERE / "program.cu"), "-o", str(folder / "program")]
            subprocess.run(["nvcc", "-O2", "-arch=native", *program], check=True)
            ours = run_seconds(folder)
            hand, count = by_hand_seconds(folder)
            ratios.append(ours / hand)
            print(f"run {ours:.1f} s, its {count} commands by hand {hand:.1f} s: {ratios[-1]:.2f}")
    print(f"median {statistics.median(ratios):.2f} (bar {MOST_OF_BY_HAND})")
    return int(statistics.median(ratios) > MOST_OF_BY_HAND)


if __name__ == "__main__":
    sys.exit(main())
