"""Verdicts on equal kernels, and on planted differences, by visits of a GPU.

    python benchmarks/sustained/equal_kernels.py [--kernel NAME] [--arms 16] [--blocks 8]
        [--out FILE.json] [--read FILE.json ...]

Blocks of as many visits of one kernel as there are arms, in random order: the baseline twice, and
versions that are the kernel itself. Away from the power limit a visit takes 1 s, at it 2.6 s.
Prints how visits scatter, wrong verdicts on each version against the baseline (one family), on any
two arms (which are not independent of each other), and which of these are found where one is made
2 % slower or faster by arithmetic. `--read`: of recorded visits, without a GPU.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from kernels import KERNELS, LONGEST_S
from profiler.analyse.judge import TIME_COLUMNS, Judge
from profiler.model import Verdict
from profiler.runner.device import open_device
from profiler.runner.protocol import Job, JobVisit, MeasureSettings
from profiler.runner.visits.bursts import LaunchInTurn
from profiler.runner.visits.sustained import SustainedVisits

PLANTED = 1.02
Visits = list[list[float]]
"""Durations in ns, by block and arm."""


def measured(name: str, arms: int, blocks: int) -> Visits:
    """Visits of a kernel on this GPU."""
    (kernel,) = (kernel for kernel in KERNELS if kernel.name == name)
    job = Job(
        "s", "", "sustained", "cuda", 1, "", (), (), settings=MeasureSettings(longest_s=LONGEST_S)
    )
    collector, launches = SustainedVisits(job, open_device("cuda")), kernel.launches()
    in_turn = [LaunchInTurn(launches) for _ in range(arms)]
    collector.make(JobVisit("warm-up", 0), in_turn[0])
    durations = []
    for block in range(blocks):
        of_block = [0.0] * arms
        for arm in random.sample(range(arms), arms):
            record = collector.make(JobVisit(f"arm{arm}", block), in_turn[arm])
            (of_block[arm],) = record["durations_ns"]
        durations.append(of_block)
    return durations


def verdicts(visits: Visits, arms: tuple[int, ...], factor: float = 1.0) -> list[Verdict]:
    """Verdicts on the third and further arms against the first; the second is its other visit."""
    rows = [
        (f"arm{arm}", f"arm{arm}", "p", block, 0, factor ** (place > 0) * of_block[arm])
        for block, of_block in enumerate(visits)
        for place, arm in enumerate((arms[0], *arms[2:]))
    ]
    rows += [
        (f"arm{arms[0]}", f"arm{arms[0]}", "p", block, 1, of_block[arms[1]])
        for block, of_block in enumerate(visits)
    ]
    frame = pd.DataFrame([(*row, np.nan, 1.0) for row in rows], columns=list(TIME_COLUMNS))
    judge = Judge(frame, f"arm{arms[0]}")
    return [*judge.compare((f"arm{arm}", f"arm{arms[0]}") for arm in arms[2:])["verdict"]]


def report(name: str, visits: Visits) -> None:
    """Print what was found of one kernel."""
    arms = tuple(range(len(visits[0])))
    every = [visit for of_block in visits for visit in of_block]
    within = statistics.fmean(statistics.pstdev(b) / statistics.fmean(b) for b in visits)
    print(
        f"{name}: {len(visits)} blocks of {len(arms)} visits, {statistics.median(every) / 1e3:.4g} "
        f"µs; deviation {100 * statistics.pstdev(every) / statistics.fmean(every):.3f} %, "
        f"{100 * within:.3f} % within a block"
    )
    pairs = [
        (one, next(arm for arm in arms if arm not in (one, other)), other)
        for one, other in combinations(arms, 2)
    ]
    one_family = verdicts(visits, arms)
    alone = [verdict for pair in pairs for verdict in verdicts(visits, pair)]
    wrong = (Verdict.FASTER, Verdict.SLOWER)
    print(f"  equal, one family: {_share(one_family, wrong)}; any two: {_share(alone, wrong)}")
    for factor, right in ((PLANTED, Verdict.SLOWER), (1 / PLANTED, Verdict.FASTER)):
        found = [verdict for pair in pairs for verdict in verdicts(visits, pair, factor)]
        print(f"  {right.value} by 2 %: {_share(found, (right,))} found")


def _share(given: list[Verdict], asked: tuple[Verdict, ...]) -> str:
    count = sum(verdict in asked for verdict in given)
    return f"{count} of {len(given)} ({100 * count / len(given):.1f} %)"


def main() -> None:
    """Measure or read the visits, and print the verdicts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", default="softmax 8192 x 4096")
    parser.add_argument("--arms", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--read", type=Path, nargs="+")
    arguments = parser.parse_args()
    if arguments.read:
        for file in arguments.read:
            recorded = json.loads(file.read_text())
            report(recorded["kernel"], recorded["durations_ns"])
        return
    visits = measured(arguments.kernel, arguments.arms, arguments.blocks)
    if arguments.out:
        arguments.out.write_text(json.dumps({"kernel": arguments.kernel, "durations_ns": visits}))
    report(arguments.kernel, visits)


if __name__ == "__main__":
    main()
