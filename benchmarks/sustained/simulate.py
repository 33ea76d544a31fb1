"""How often verdicts on launches back to back are wrong, by the project's own statistics.

    python benchmarks/sustained/simulate.py [--pairs 1000] [--blocks 8]

Blocks in random order, the baseline twice in each. A visit has the noise of its span, what is
left of the heat of the visit before, a drift of the GPU, and one in twenty is disturbed. Prints the
share of wrong verdicts on pairs of equals, and of planted differences of 2 % that are found.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from profiler.analyse.judge import TIME_COLUMNS, Judge
from profiler.model import Verdict

NOISES = (0.0005, 0.001, 0.002, 0.004)
"""Relative standard deviation of the duration of a visit."""
DURATIONS_NS = (1e5, 1e6, 1e7)
CARRIED = 0.002
"""What is left at most of the heat of the visit before, relative to the duration."""
DRIFT = 0.005
"""Most that the GPU drifts over a session."""
DISTURBED, BY = 0.05, 0.01
"""Share of visits that are disturbed, and the mean by which."""


def durations(
    random: np.random.Generator, pairs: int, blocks: int, noise: float, effect: float
) -> np.ndarray:
    """Relative durations (pairs, blocks, 3): baseline, baseline again, variant."""
    order = np.argsort(random.random((pairs, blocks, 3)), axis=2)
    place = np.argsort(order, axis=2)
    when = (3 * np.arange(blocks)[None, :, None] + place) / (3 * blocks)
    logs = np.array([0.0, 0.0, np.log1p(effect)])[None, None, :] + np.zeros_like(when)
    logs = logs + random.uniform(-DRIFT, DRIFT, (pairs, 1, 1)) * when
    hot = random.uniform(-CARRIED, CARRIED, (pairs, 1, 1)) * (place == 0)
    is_disturbed = random.random(logs.shape) < DISTURBED
    disturbed = is_disturbed * random.exponential(BY, logs.shape)
    return np.exp(logs + hot + disturbed + random.normal(0, noise, logs.shape))


def verdicts(relative: np.ndarray, nanoseconds: float) -> pd.Series:
    """Verdict on the variant of each pair."""
    pairs, blocks, _ = relative.shape
    rows = [
        (f"{variant}{pair}", variant, str(pair), block, arm, nanoseconds * value, np.nan, 1.0)
        for pair in range(pairs)
        for block in range(blocks)
        for (variant, arm), value in zip(
            (("a", 0), ("a", 1), ("b", 0)), relative[pair, block], strict=True
        )
    ]
    judge = Judge(pd.DataFrame(rows, columns=list(TIME_COLUMNS)), "a")
    return judge.compare((f"b{pair}", f"a{pair}") for pair in range(pairs))["verdict"]


def main() -> None:
    """Print a row for each noise and duration."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--blocks", type=int, default=8)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    print("| noise of a visit | duration | wrong of equals | 2 % slower found | 2 % faster found |")
    print("|---|---|---|---|---|")
    for noise in NOISES:
        for nanoseconds in DURATIONS_NS:
            shares = []
            for effect, is_hit in (
                (0.0, lambda v: v.isin([Verdict.FASTER, Verdict.SLOWER])),
                (0.02, lambda v: v == Verdict.SLOWER),
                (-0.02, lambda v: v == Verdict.FASTER),
            ):
                relative = durations(random, arguments.pairs, arguments.blocks, noise, effect)
                shares.append(100 * float(is_hit(verdicts(relative, nanoseconds)).mean()))
            words = " | ".join(f"{share:.1f} %" for share in shares)
            print(f"| {100 * noise:.2f} % | {nanoseconds / 1e6:g} ms | {words} |", flush=True)


if __name__ == "__main__":
    main()
