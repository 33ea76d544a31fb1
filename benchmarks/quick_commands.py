"""How long the commands take that measure nothing.

Run from the repository root: `python benchmarks/quick_commands.py [--runs N] [--out REPORTS]`.
`list`, `doctor`, `--version` and `schema` should answer at once, `plan` of 10,000 cells and
`report` of the largest recording in some seconds. Medians of the later runs are printed beside what
the first took, with the seconds of CPU (user and system, which other programs on the machine change
less) and the slowest imports; the script exits 1 where the CPU of one is above its bar.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE_S = 0.6
PLAN_S = 3.0
REPORT_S = 4.0
TEN_THOUSAND_CELLS = """\
name: many
workload: ./workload.py
variants: {matrix: {tile: [1, 2, 3, 4, 5, 6, 7, 8], stages: [1, 2, 3, 4, 5]}}
problems: {matrix: {rows: [1, 2, 3, 4, 5], columns: [1, 2, 3, 4, 5], depth: [1, 2, 3, 4, 5],
  batch: [1, 2]}}
"""
WORKLOAD = """\
def make_inputs(problem, device, seed): ...
def reference(problem, inputs): ...
def prepare(variant, problem, inputs, library): ...
"""
_IMPORT = re.compile(r"import time:\s*\d+ \|\s*(?P<microseconds>\d+) \| (?P<module>\S+)")
_SHOWN_IMPORTS = 4


@dataclass(frozen=True)
class Timed:
    """Seconds of one process."""

    wall: float
    cpu: float
    """User and system."""


def main() -> int:
    """Time every command, in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--out", default="reports", help="folder of runs that `list` reads")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="quick_commands.") as folder:
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        (Path(folder) / "many.yaml").write_text(TEN_THOUSAND_CELLS)
        (Path(folder) / "workload.py").write_text(WORKLOAD)
        recording = str(ROOT / "experiments/recordings/autotune.zip")
        commands = (
            (["list", "--out", arguments.out], AT_ONCE_S),
            (["doctor"], AT_ONCE_S),
            (["--version"], AT_ONCE_S),
            (["schema"], AT_ONCE_S),
            (["plan", str(Path(folder) / "many.yaml"), "--out", folder], PLAN_S),
            (["report", recording, "--out", folder], REPORT_S),
        )
        above = [_is_above(command, bar_s, arguments.runs) for command, bar_s in commands]
        return int(any(above))


def _is_above(command: list[str], bar_s: float, runs: int) -> bool:
    """Whether the median of the CPU seconds of a command is above its bar; prints them."""
    first, *later = [_timed(command) for _ in range(runs + 1)]
    wall, cpu = (median(getattr(timed, kind) for timed in later) for kind in ("wall", "cpu"))
    slowest = ", ".join(_slowest_imports(command))
    print(
        f"{command[0]}: {wall:.2f} s, of CPU {cpu:.2f} s (bar {bar_s:g}), "
        f"the first {first.wall:.2f} s; imports {slowest}"
    )
    return cpu > bar_s


def _run(command: list[str], *options: str) -> subprocess.CompletedProcess[str]:
    # As where it is installed: modules are compiled once, by the first run.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(
        [sys.executable, *options, "-m", "profiler", *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,  # doctor exits with 3 where something is missing
    )


def _timed(command: list[str]) -> Timed:
    start, before = time.perf_counter(), _children_s()
    _run(command)
    return Timed(time.perf_counter() - start, _children_s() - before)


def _children_s() -> float:
    """Seconds of CPU of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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
