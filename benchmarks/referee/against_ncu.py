"""Compares the referee's durations of honest kernels with those of ncu; needs a GPU and ncu.

    python benchmarks/referee/against_ncu.py [--sizes 1024 4096 …] [--timer]

The same pairs are judged twice: by `check --referee`, whose clock is the wall clock of another
process, and by `check` of both functions in one file, under ncu, with warm caches as the referee
has them. A pair agrees where ncu's difference of the two durations lies within the referee's
interval of it: asking is in both of its durations, and goes out of their difference. Exits 1 where
a verdict is the contrary one. `--timer` has the wall clock in the place of ncu, where there is no
GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

PROJECT = Path(__file__).resolve().parents[2]
LIMIT_S = 280
TASK = """
import torch


def inputs(size={sizes}):
    return torch.randn(size, size), torch.randn(size, size)


def baseline(x, y):
    return (x @ y).square().sum(1)
"""
CANDIDATES = """
def in_halves(x, y):
    half = x.shape[1] // 2
    return (x[:, :half] @ y[:half] + x[:, half:] @ y[half:]).square().sum(1)


def by_columns(x, y):
    half = y.shape[1] // 2
    parts = ((x @ part).square().sum(1) for part in (y[:, :half], y[:, half:]))
    return sum(parts)


def in_place(x, y):
    product = (x @ y)
    return product.mul_(product).sum(1)
"""
"""Honest ways to do the same, quicker and slower ones."""


def checked(folder: Path, *arguments: str) -> pd.DataFrame:
    """Durations of a `check` in a folder: a row for each candidate and size.

    Raises:
        SystemExit: It failed, or objected to a candidate.

    """
    done = subprocess.run(
        [sys.executable, "-m", "profiler", "check", *arguments, "--json", "-"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(PROJECT), os.environ.get("PYTHONPATH", ""))),
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    answer = json.loads(done.stdout or "{}")
    if done.returncode != 0 or answer.get("failures"):
        raise SystemExit(
            f"check {' '.join(arguments)}: {done.stdout[:2000]}\n{done.stderr[-2000:]}"
        )
    rows = pd.read_csv(Path(answer["page"]).with_name("summary.csv"))
    rows = rows[rows["metric"].str.endswith("duration_ns") & (rows["variant"] != "baseline")]
    return rows.set_index(["variant", "problem.size"])


def compared(referee: pd.DataFrame, ncu: pd.DataFrame) -> pd.DataFrame:
    """Differences to the baseline by both, in us, and whether they and the verdicts agree."""
    base = referee["baseline_median"]
    table = pd.DataFrame(
        {
            "referee_us": base * (referee["ratio"] - 1) / 1e3,
            "low_us": base * (referee["ratio_low"] - 1) / 1e3,
            "high_us": base * (referee["ratio_high"] - 1) / 1e3,
            "ncu_us": ncu["baseline_median"] * (ncu["ratio"] - 1) / 1e3,
            "baseline_by_ncu_us": ncu["baseline_median"] / 1e3,
            "verdict": referee["verdict"],
            "verdict_by_ncu": ncu["verdict"],
        }
    )
    table["within"] = table["ncu_us"].between(table["low_us"], table["high_us"])
    verdicts = table[["verdict", "verdict_by_ncu"]]
    table["contrary"] = verdicts.isin(["faster", "slower"]).all(axis=1) & (
        verdicts["verdict"] != verdicts["verdict_by_ncu"]
    )
    return table


def main() -> int:
    """Measure and print the table; 1 where a verdict is the contrary one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024, 2048, 4096, 8192])
    parser.add_argument("--timer", action="store_true", help="wall clock in the place of ncu")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="referee.") as name:
        folder = Path(name)
        task = TASK.format(sizes=options.sizes)
        (folder / "task.py").write_text(task)
        (folder / "candidates.py").write_text(CANDIDATES)
        (folder / "both.py").write_text(task + "\n" + CANDIDATES)
        by_ncu = ("--timer",) if options.timer else ("--set", "collect.cache_control=none")
        referee = checked(folder, "task.py", "--referee", "candidates.py")
        print(referee[["baseline_median", "ratio", "verdict"]].round(4).to_string(), flush=True)
        ncu = checked(folder, "both.py", *by_ncu, "--set", "collect.explain=false")
    table = compared(referee, ncu)
    print(table.round(2).to_string())
    print(f"within the referee's interval: {table['within'].sum()} of {len(table)}")
    print(f"contrary verdicts: {table['contrary'].sum()} of {len(table)}")
    return int(table["contrary"].any())


if __name__ == "__main__":
    sys.exit(main())
