"""How long the commands take that should answer at once: `list`, `doctor`, `--version`, `schema`.

Run from the repository root: `python benchmarks/quick_commands.py [--runs N] [--out REPORTS]`. The
median of the later runs is printed beside what the first took, and the slowest imports; the script
exits 1 where a median is above the bar.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
BAR_S = 0.6
_IMPORT = re.compile(r"import time:\s*\d+ \|\s*(?P<microseconds>\d+) \| (?P<module>\S+)")
_SHOWN_IMPORTS = 4


def main() -> int:
    """Time every command, in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", default="reports", help="folder of runs that `list` reads")
    arguments = parser.parse_args()
    commands = (["list", "--out", arguments.out], ["doctor"], ["--version"], ["schema"])
    medians = []
    for command in commands:
        first, *later = [_seconds(command) for _ in range(arguments.runs + 1)]
        medians.append(median(later))
        slowest = ", ".join(_slowest_imports(command))
        print(f"{command[0]}: {medians[-1]:.2f} s, the first {first:.2f} s; imports {slowest}")
    return int(max(medians) > BAR_S)


def _run(command: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-m", "profiler", *command],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,  # doctor exits with 3 where something is missing
    )


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    _run(command)
    return time.perf_counter() - start


def _slowest_imports(command: list[str]) -> list[str]:
    """Modules at the top of the command's imports, with what they brought along, in ms."""
    lines = _run(command, "-X", "importtime").stderr.splitlines()
    imports = [match for match in map(_IMPORT.fullmatch, lines) if match is not None]
    imports.sort(key=lambda match: int(match["microseconds"]), reverse=True)
    return [
        f"{match['module']} {int(match['microseconds']) / 1000:.0f} ms"
        for match in imports[:_SHOWN_IMPORTS]
    ]


if __name__ == "__main__":
    sys.exit(main())
