"""How often `profiler compare` is wrong between two runs, on times whose truth is known.

Two runs of one experiment: a baseline and 29 variants at one problem. A run shifts all of its
durations together (clock, temperature), and each kernel a little by itself (where its memory came
to lie): no block of the run can tell either. Visits have a long right tail, and one in twenty takes
longer. One variant is slower by a known factor in the newer run, all others did not change; or all
but three were built from other code, so that too few unchanged programs tell what runs do.

    python benchmarks/between_runs.py [--trials N]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from profiler.analyse.between_runs import (
    compare_runs,
    control_floors,
    estimate_ratios,
    shift_tails,
    with_prior,
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
SHORT_NS, LONG_NS = 20e3, 200e3
SESSION_SDS = {SHORT_NS: (0.004, 0.006, 0.01), LONG_NS: (0.001, 0.002)}
"""Deviations of a ratio between sessions, by duration; the prior is 0.6 % and 0.1 %."""
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


@dataclass(frozen=True)
class Setting:
    """What one trial is about."""

    blocks: int
    layout: float
    effect: float
    controls: int = VARIANTS
    """How many of the variants are known to be unchanged; the slowed one never is."""
    duration_ns: float = LONG_NS


def trial(generator: np.random.Generator, setting: Setting) -> dict:
    """Verdict of the changed variant; what is said of the rest, and by a plain test."""
    blocks, duration_ns = setting.blocks, setting.duration_ns
    older, newer = (run(generator, blocks, setting.layout) for _ in range(2))
    newer[1] += np.log1p(setting.effect)
    less, greater = shift_tails(newer[2:], older[2:])
    names = [f"v{number}" for number in range(1, VARIANTS)]
    frames = [
        pd.DataFrame({"cell": np.repeat(names, blocks), "log_value": (side[1:] - side[0]).ravel()})
        for side in (older, newer)
    ]
    cells = pd.DataFrame(
        {"variant": names, "problem": "p", "clock_floor": 0.0, "shorter_ns": duration_ns},
        index=names,
    )
    estimates = estimate_ratios(*frames, cells.index)
    # The edited kernel is no control: its program is another.
    unchanged = (np.arange(len(names)) > 0) & (np.arange(len(names)) <= setting.controls)
    cells = cells.assign(
        shift=np.log(estimates["ratio"]), error=estimates["error"], control=unchanged
    )
    told = control_floors(cells)
    known = with_prior(told, np.full(len(cells), duration_ns))
    rows = compare_runs(*frames, cells.join(known))
    before = compare_runs(*frames, cells.join(told[["control_floor"]]))
    return {
        "changed": rows["verdict"].iloc[0],
        "wrong": _wrong(rows.iloc[1:]),
        "covers": _covers(rows.iloc[1:]),
        "changed before": before["verdict"].iloc[0],
        "wrong before": _wrong(before.iloc[1:]),
        "covers before": _covers(before.iloc[1:]),
        "plain wrong": float((np.minimum(less, greater) < ALPHA / 2).mean()),
    }


def _wrong(equals: pd.DataFrame) -> float:
    return float(equals["verdict"].isin([Verdict.FASTER, Verdict.SLOWER]).mean())


def _covers(equals: pd.DataFrame) -> float:
    return float(((equals["ratio_low"] <= 1) & (equals["ratio_high"] >= 1)).mean())


def few_controls(generator: np.random.Generator, trials: int) -> pd.DataFrame:
    """Three unchanged programs: without what other runs tell of sessions, and with it."""
    rows = []
    for duration, sds in SESSION_SDS.items():
        for sd in sds:
            shown = {"duration": f"{duration / 1e3:.0f} us", "deviation": f"{sd:.1%}"}
            for effect in (0.02, 0.03, 0.05):
                setting = Setting(8, sd / np.sqrt(2), effect, 3, duration)
                results = pd.DataFrame([trial(generator, setting) for _ in range(trials)])
                for name in ("wrong", "covers"):
                    if f"{name} before" not in shown:
                        shown[f"{name} before"] = results[f"{name} before"].mean()
                        shown[name] = results[name].mean()
                for name in ("changed before", "changed"):
                    shown[
                        f"{effect:.0%} found, {name.removeprefix('changed').strip() or 'now'}"
                    ] = (results[name] == Verdict.SLOWER).mean()
            rows.append(shown)
    return pd.DataFrame(rows)


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
                    [trial(generator, Setting(blocks, layout, effect)) for _ in range(trials)]
                )
                counts = results["changed"].astype(str).value_counts(normalize=True)
                rows.append(
                    {
                        "own shift": f"{layout:.1%}",
                        "blocks": blocks,
                        "slower by": f"{effect:.0%}",
                        **{name.value: counts.get(name.value, 0.0) for name in list(Verdict)[:4]},
                        "unchanged called different": results["wrong"].mean(),
                        "intervals with the truth, before": results["covers before"].mean(),
                        "and now": results["covers"].mean(),
                        "the same without control and margin": results["plain wrong"].mean(),
                    }
                )
    for table in (pd.DataFrame(rows), few_controls(generator, trials)):
        print(table.to_string(index=False, float_format=lambda value: f"{value:.3f}"), end="\n\n")


if __name__ == "__main__":
    main()
