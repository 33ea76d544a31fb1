"""Made-up tuning spaces, on which the portfolio was developed: none is taken from a real kernel.

The logarithm of a time is a sum of effects of single parameters (smooth over ordered values, with
cliffs), of pairs of them, and of a little of each configuration alone; some configurations fail.
Constraints bound products of parameters, as thread counts and shared memory do.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from profiler.search.space import SearchSpace, Value

LADDERS: tuple[tuple[Value, ...], ...] = (
    (1, 2, 4, 8, 16, 32),
    (32, 64, 96, 128, 160, 192, 224, 256),
    (16, 32, 64, 128),
    (1, 2, 3, 4),
    (1, 2, 4, 8),
    (0, 1),
    (0, 1),
    ("row", "column", "tiled"),
)


def landscape(seed: int) -> tuple[SearchSpace, NDArray[np.float64]]:
    """A space, and the time of each configuration; infinity where it fails."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(6, 10))
    values = [LADDERS[i] for i in rng.integers(0, len(LADDERS), count)]
    names = [f"p{i}" for i in range(count)]
    bounded = rng.choice(count, 3, replace=False)
    sizes = [len(v) for v in values]
    grid = np.array(list(itertools.product(*(range(size) for size in sizes))), dtype=np.int32)
    heights = sum(grid[:, i] / (sizes[i] - 1) for i in bounded)
    grid = grid[(heights <= 2.1) & (heights >= 0.3)]
    if len(grid) > 30_000:
        grid = grid[rng.random(len(grid)) < 30_000 / len(grid)]
    space = SearchSpace.of_configurations(
        [
            {name: v[code] for name, v, code in zip(names, values, codes, strict=True)}
            for codes in grid.tolist()
        ]
    )
    return space, _times(space, rng)


def _times(space: SearchSpace, rng: np.random.Generator) -> NDArray[np.float64]:
    codes = space.codes
    sizes = [len(parameter.values) for parameter in space.parameters]
    weights = rng.exponential(0.25, len(sizes))
    logs = np.zeros(len(codes))
    for column, (size, weight) in enumerate(zip(sizes, weights, strict=True)):
        logs += weight * _effect(size, rng)[codes[:, column]]
    for left, right in itertools.combinations(range(len(sizes)), 2):
        table = np.outer(_effect(sizes[left], rng), _effect(sizes[right], rng))
        weight = 0.5 * np.sqrt(weights[left] * weights[right]) * rng.exponential(1.0)
        logs += weight * table[codes[:, left], codes[:, right]]
    # An occupancy-like cliff: one more step of a resource, and one fewer block fits.
    resource = (codes / np.array(sizes)) @ rng.exponential(1.0, len(sizes))
    logs += 0.15 * np.floor(4 * resource / resource.max()) * rng.choice((-1.0, 1.0))
    # The median takes 1.2 to 4 times as long as the best, as in published spaces.
    logs *= rng.uniform(0.08, 0.5) / logs.std()
    logs += rng.normal(0.0, 0.02, len(codes))
    times = np.exp(logs - logs.min())
    times[rng.random(len(codes)) < 0.05 * (resource > np.quantile(resource, 0.7))] = np.inf
    return times


def _effect(size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A smooth curve over the values of a parameter, of standard deviation 1."""
    steps = rng.normal(size=size).cumsum() + rng.normal() * np.linspace(-1, 1, size) * size / 3
    centred = steps - steps.mean()
    scaled: NDArray[np.float64] = centred / max(centred.std(), 1e-9)
    return scaled
