"""The same kernel after a hot and after a cool neighbour: one's heat is not the next one's clock.

    python benchmarks/sustained/neighbours.py [--blocks 8] [--subjects NAME ...] [--out FILE.json]

In each block a visit of a product that draws all that the board may, one of the kernel, one of a
kernel that draws nearly nothing, and one of the kernel again; the neighbours in random order.
About 10 s a block of the product, 6 s of the softmax. Prints the ratio of both, and the verdict.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import pandas as pd
import torch

from kernels import KERNELS, LONGEST_S
from profiler.analyse.judge import TIME_COLUMNS, Judge
from profiler.runner.device import open_device
from profiler.runner.protocol import Job, JobVisit, MeasureSettings
from profiler.runner.visits.bursts import LaunchInTurn
from profiler.runner.visits.sustained import SustainedVisits

SUBJECTS = ("product 4096, normal", "softmax 8192 x 4096")
HOT = "product 8192, normal"
SPUN_CYCLES = 2_000_000


def judged(durations: dict[str, list[float]]) -> pd.Series:
    """Verdict on the kernel after a hot neighbour against it after a cool one."""
    rows = [
        (name, name, "p", block, arm, nanoseconds, float("nan"), 1.0)
        for name, values in durations.items()
        for block, nanoseconds in enumerate(values)
        for arm in ((0, 1) if name == "cool" else (0,))
    ]
    # The second arm of the baseline is its neighbour in time: each block against the one before.
    frame = pd.DataFrame(rows, columns=list(TIME_COLUMNS))
    again = frame["arm"] == 1
    frame.loc[again, "duration_ns"] = frame.loc[again, "duration_ns"].shift(
        fill_value=durations["cool"][-1]
    )
    return Judge(frame, "cool").compare([("hot", "cool")]).iloc[0]


def main() -> None:
    """Measure each subject and print its verdict."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--subjects", nargs="+", default=SUBJECTS, choices=SUBJECTS)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    kernels = {kernel.name: kernel for kernel in KERNELS}
    job = Job(
        "s", "", "sustained", "cuda", 1, "", (), (), settings=MeasureSettings(longest_s=LONGEST_S)
    )
    visits = SustainedVisits(job, open_device("cuda"))
    neighbours = {
        "hot": LaunchInTurn(kernels[HOT].launches()),
        "cool": LaunchInTurn([lambda: torch.cuda._sleep(SPUN_CYCLES)]),
    }
    found = []
    for name in arguments.subjects:
        subject = LaunchInTurn(kernels[name].launches())
        durations: dict[str, list[float]] = {"hot": [], "cool": []}
        facts = []
        for block in range(arguments.blocks):
            for neighbour in random.sample(["hot", "cool"], 2):
                visits.make(JobVisit(neighbour, block), neighbours[neighbour])
                record = visits.make(JobVisit(name, block), subject)
                durations[neighbour] += record["durations_ns"]
                (nanoseconds,) = record["durations_ns"]
                facts.append({"after": neighbour, "ns": nanoseconds, **record["sustained"]})
        verdict = judged(durations)
        found.append({"kernel": name, "durations_ns": durations, "facts": facts})
        print(
            f"{name}: after hot / after cool {verdict['ratio']:.4f} "
            f"[{verdict['ratio_low']:.4f}, {verdict['ratio_high']:.4f}] {verdict['verdict']}"
        )
        for fact in ("temperature_c", "power_w", "sustained_clock_ghz", "seconds", "settled"):
            means = {
                after: [f[fact] for f in facts if f["after"] == after and f[fact] is not None]
                for after in durations
            }
            print(
                f"  {fact}: "
                + ", ".join(f"{a} {sum(v) / len(v):.4g}" for a, v in means.items() if v)
            )
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
