"""Variants that a loop makes of one function, by `functools.partial`, for shapes of a table."""

from dataclasses import dataclass
from functools import partial

import torch

import profiler


@dataclass(frozen=True)
class Config:
    rows: int
    stages: int = 1


CONFIGS = [Config(8), Config(16), Config(16, stages=2)]
SHAPES = {"small": (64, 128), "odd": (65, 129)}
sums = profiler.Experiment("variants-of-a-loop", problems={"shape": [*SHAPES]})


@sums.inputs
def inputs(shape):
    return torch.randn(SHAPES[shape]).square()


def tiled(config, x):
    parts = [part.sum(0) for part in x.split(config.rows)]
    for _ in range(config.stages - 1):
        parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)]
    return torch.stack(parts).sum(0)


sums.variant(baseline=True, name="torch")(partial(torch.sum, dim=0))
for config in CONFIGS:
    sums.variant(name=f"tiled-{config.rows}-{config.stages}")(partial(tiled, config))
