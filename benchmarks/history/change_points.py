"""Which change points are found in 60 runs with recorded drift, and which where nothing changed.

A step of 1, 2 or 5 %, up or down, is planted among the runs of a cell, at least 5 runs from either
end. The noise is that of runs of one experiment on other cards and days (`drift.csv`, which
`drift.py` makes): for kernels above 50 us each series draws from the residuals of one cell in 7
runs of FlashAttention's 492 (7 H200s, 20 to 25 November 2026), with the error that its blocks show
on top; for shorter ones from those of all softmax kernels in two runs, each with the error of its
cell. A mean is that of a variant over several problems: what the two runs differ by is independent
from problem to problem. Found: a change within two runs of the truth. False: any change in a series
without one.

    pip install --target FOLDER --no-deps apache-otava asv asv_runner json5 tabulate ruptures
    PYTHONPATH=FOLDER python benchmarks/history/change_points.py [--series N] [--runs N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from profiler.analyse.intervals import session_sds
from profiler.history.trends import changes_of

HERE = Path(__file__).parent
SEED = 20261128
EFFECTS = (0.01, 0.02, 0.05)
NEAR = 2
SHORT_NS = 50e3

Method = Callable[[np.ndarray, np.ndarray], Sequence[int]]
"""Series and the errors of its numbers -> first runs of new levels."""


def residuals(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Of each cell, what its runs stray from their mean by (cells, runs), and the blocks' error."""
    table = rows.pivot(index="cell", columns="created", values="log_ratio").dropna()
    table = table[(table.abs() > 0).any(axis=1)]  # without the baseline
    errors = rows.groupby("cell")["error"].median().reindex(table.index).fillna(0.0)
    runs = table.shape[1]
    strays = table.sub(table.mean(axis=1), axis=0) * np.sqrt(runs / (runs - 1))
    return strays.to_numpy(), errors.to_numpy()


class Noise:
    """Draws series of one class of durations: logarithms of ratios, and the errors of each."""

    def __init__(
        self, rows: pd.DataFrame, duration_ns: float, *, own: bool, cells: int = 1
    ) -> None:
        self.strays, self.errors = residuals(rows)
        self.floor = session_sds(np.array([duration_ns]))[0]
        self.own = own
        self.cells = cells

    def draw(self, generator: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
        """`runs` ratios of a kernel that did not change; of several problems their mean."""
        drawn = [self._one(generator, runs) for _ in range(self.cells)]
        series = np.mean([values for values, _ in drawn], axis=0)
        errors = np.hypot.reduce([errors for _, errors in drawn]) / self.cells
        return series, np.fmax(errors, self.floor / np.sqrt(self.cells))

    def _one(self, generator: np.random.Generator, runs: int) -> tuple[np.ndarray, np.ndarray]:
        if self.own:
            cell = generator.integers(len(self.strays))
            errors = np.full(runs, self.errors[cell])
            return generator.choice(self.strays[cell], runs) + generator.normal(0, errors), errors
        places = generator.integers(self.strays.size, size=runs)
        return self.strays.ravel()[places], self.errors[places // self.strays.shape[1]]


def noises() -> dict[str, Noise]:
    """By class of durations."""
    drift = pd.read_csv(HERE / "drift.csv")
    softmax = drift[drift["experiment"] == "softmax"]
    short = softmax.groupby("cell")["duration_ns"].transform("median") < SHORT_NS
    above = Noise(drift[drift["experiment"] == "autotune"], 200e3, own=True)
    below = {n: Noise(softmax[short], 20e3, own=False, cells=n) for n in (1, 2, 3, 5)}
    return {"above 50 us": above} | {
        f"below 50 us{f', mean of {count}' if count > 1 else ''}": noise
        for count, noise in below.items()
    }


def methods() -> dict[str, Method]:
    """Ours, and those of the libraries that are here."""

    def ours(series: np.ndarray, errors: np.ndarray) -> Sequence[int]:
        (changes,) = changes_of(series[np.newaxis], errors[np.newaxis], range(len(series)))
        return [change.first for change in changes]

    found: dict[str, Method] = {"profiler": ours}
    if find_spec("asv") is not None:
        from asv.step_detect import detect_steps  # noqa: PLC0415 - as far as it is here

        found["asv"] = lambda series, _: [
            step[0] for step in detect_steps(np.exp(series).tolist())[1:]
        ]
    if find_spec("otava") is not None:
        from otava.analysis import compute_change_points  # noqa: PLC0415 - as far as it is here

        def otava(level: float) -> Method:
            return lambda series, _: [
                point.index
                for point in compute_change_points(np.exp(series).tolist(), max_pvalue=level)[0]
            ]

        found |= {f"otava, p < {level:g}": otava(level) for level in (1e-3, 1e-4, 1e-5)}
    if find_spec("ruptures") is not None:
        from ruptures import Pelt  # noqa: PLC0415 - as far as it is here

        def pelt(series: np.ndarray, _: np.ndarray) -> Sequence[int]:
            differences = np.abs(np.diff(series))
            scaled = series / (1.4826 * np.median(differences) / np.sqrt(2))
            fit = Pelt(model="l2", min_size=3, jump=1).fit(scaled.reshape(-1, 1))
            return fit.predict(pen=3 * np.log(len(series)))[:-1]

        found["ruptures, PELT with L2"] = pelt
    return found


def judge(method: Method, noise: Noise, series: int, runs: int) -> dict:
    """Shares of steps found, and of series with a false one."""
    generator = np.random.default_rng(SEED)
    started = time.perf_counter()
    false = [len(method(*noise.draw(generator, runs))) > 0 for _ in range(2 * series)]
    row = {"false in 100 series": 100 * np.mean(false)}
    elsewhere = []
    edge = min(5, runs // 3)
    for effect in EFFECTS:
        found = []
        for _ in range(series):
            values, errors = noise.draw(generator, runs)
            truth = generator.integers(edge, runs - edge + 1)
            values[truth:] += np.log1p(effect) * generator.choice([-1, 1])
            distances = [abs(point - truth) for point in method(values, errors)]
            found.append(any(distance <= NEAR for distance in distances))
            elsewhere.append(any(distance > NEAR for distance in distances))
        row[f"{effect:.0%} found"] = 100 * np.mean(found)
    row["another beside a step"] = 100 * np.mean(elsewhere)
    row["ms a series"] = (time.perf_counter() - started) / (5 * series) * 1e3
    return row


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=500)
    parser.add_argument("--runs", type=int, default=60)
    arguments = parser.parse_args()
    rows = [
        {"kernels": kernels, "method": name}
        | judge(method, noise, arguments.series, arguments.runs)
        for kernels, noise in noises().items()
        for name, method in methods().items()
    ]
    print(pd.DataFrame(rows).to_string(index=False, float_format=lambda value: f"{value:.1f}"))


if __name__ == "__main__":
    main()
