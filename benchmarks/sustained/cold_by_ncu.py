"""The twelve kernels of `kernels.py` as ncu times them, one launch after the other; needs ncu.

    python benchmarks/sustained/cold_by_ncu.py

Runs itself under ncu, which empties caches before each launch and leaves the clocks alone. A launch
of several kernels is their sum. Prints the median of five launches of each, in us.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import torch

from kernels import KERNELS
from profiler.parse.ncu_csv import read_ncu_csv

LAUNCHES = 5
METRIC = "gpu__time_duration.sum"


def launch_all() -> None:
    """Launch each kernel once unseen, then in NVTX ranges that have its number."""
    torch.backends.cuda.matmul.allow_tf32 = True
    with torch.no_grad():
        for number, kernel in enumerate(KERNELS):
            launches = kernel.launches()[:LAUNCHES]
            launches[0]()
            for launch in range(LAUNCHES):
                torch.cuda.nvtx.range_push(f"kernel={number};launch={launch}")
                launches[launch % len(launches)]()
                torch.cuda.nvtx.range_pop()
            torch.cuda.synchronize()
            del launches
            torch.cuda.empty_cache()


def durations_us() -> pd.Series:
    """Duration in us of each launch, by the number of its kernel and its own.

    Raises:
        SystemExit: ncu failed.

    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "ncu.csv")
        options = ("--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none")
        done = subprocess.run(
            [
                *("ncu", *options, "--metrics", METRIC, "--log-file", str(log), "--nvtx"),
                *("--nvtx-include", "regex:kernel=.*/", sys.executable, __file__, "--launch"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise SystemExit(f"ncu failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        rows = read_ncu_csv(log).launches
    names = rows["nvtx"].map(str)
    cells = names.str.extract(r"kernel=(?P<kernel>\d+);launch=(?P<launch>\d+)").astype(int)
    return (rows[METRIC] / 1e3).groupby([cells["kernel"], cells["launch"]]).sum()


def main() -> None:
    """Print the table, or launch the kernels, which is what ncu is to run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().launch:
        launch_all()
        return
    table = durations_us().groupby("kernel").agg(["median", "min", "max"])
    print("| kernel | one launch (ncu), us | least, us | most, us |\n|---|---|---|---|")
    for number, *values in table.itertuples():
        print(f"| {KERNELS[number].name} | {' | '.join(f'{value:.5g}' for value in values)} |")


if __name__ == "__main__":
    main()
