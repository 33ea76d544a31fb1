"""How often `profiler compare` is wrong between two runs, on times whose truth is known.

Two runs of one experiment: a baseline and 29 variants at one problem. A run shifts all of its
durations together (clock, temperature), and each kernel a little by itself (where its memory came
to lie): no block of the run can tell either. Visits have a long right tail, and one in twenty takes
longer. One variant is slower by a known factor in the newer run, all others did not change.

    python benchmarks/between_runs.py [--trials N]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from profiler.analyse.between_runs import (
    compare_runs,
    control_floors,
    shift_tails,
)
from profiler.model import Verdict

SEED = 20260101
VARIANTS = 30
SCATTER = 0.005
"""Of one visit, relative: that of kernels of 10 to 1000 µs in the recordings of an H200."""
RUN_SHIFT = 0.01
"""Standard deviation of what a run does to all kernels alike."""
LAYOUTS = (0.0, 0.002, 0.01)
"""Standard deviation of what a run does to one kernel."""
SPIKE_SHARE, SPIKE_SIZE = 0.05, 0.05
EFFECTS = (0.0, 0.02, 0.03, 0.05)
BLOCKS = (8, 16)
ALPHA = 0.05


def run(generator: np.random.Generator, blocks: int, layout: float) -> np.ndarray:
    """Logarithms of the durations of one run, (VARIANTS, blocks); the first row is the baseline."""
    shape = (VARIANTS, blocks)
    noise = SCATTER * stats.skewnorm.rvs(4, size=shape, random_state=generator)
    spikes = (generator.uniform(size=shape) < SPIKE_SHARE) * generator.exponential(
        SPIKE_SIZE, shape
    )
    shifts = generator.normal(0, layout, (VARIANTS, 1)) if layout else 0.0
    return noise + spikes + shifts + generator.normal(0, RUN_SHIFT)


def trial(generator: np.random.Generator, blocks: int, layout: float, effect: float) -> dict:
    """Verdict of the changed variant; shares of wrong ones of the rest, and of a plain test."""
    older, newer = run(generator, blocks, layout), run(generator, blocks, layout)
    newer[1] += np.log1p(effect)
    less, greater = shift_tails(newer[2:], older[2:])
    names = [f"v{number}" for number in range(1, VARIANTS)]
    frames = [
        pd.DataFrame({"cell": np.repeat(names, blocks), "log_value": (side[1:] - side[0]).ravel()})
        for side in (older, newer)
    ]
    cells = pd.DataFrame({"variant": names, "problem": "p", "clock_floor": 0.0}, index=names)
    ratios = compare_runs(*frames, cells)["ratio"]
    # The edited kernel is no control: its program is another.
    cells = cells.assign(shift=np.log(ratios), control=np.array(names) != "v1")
    cells["control_floor"] = control_floors(cells)
    verdicts = compare_runs(*frames, cells)["verdict"]
    rest = verdicts.iloc[1:]
    return {
        "changed": verdicts.iloc[0],
        "wrong": float(rest.isin([Verdict.FASTER, Verdict.SLOWER]).mean()),
        "plain wrong": float((np.minimum(less, greater) < ALPHA / 2).mean()),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    trials = parser.parse_args().trials
    generator = np.random.default_rng(SEED)
    rows = []
    for layout in LAYOUTS:
        for blocks in BLOCKS:
            for effect in EFFECTS:
                results = pd.DataFrame(
                    [trial(generator, blocks, layout, effect) for _ in range(trials)]
                )
                counts = results["changed"].astype(str).value_counts(normalize=True)
                rows.append(
                    {
                        "own shift": f"{layout:.1%}",
                        "blocks": blocks,
                        "slower by": f"{effect:.0%}",
                        **{name.value: counts.get(name.value, 0.0) for name in list(Verdict)[:4]},
                        "unchanged called different": results["wrong"].mean(),
                        "the same without control and margin": results["plain wrong"].mean(),
                    }
                )
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda value: f"{value:.3f}"))


if __name__ == "__main__":
    main()
