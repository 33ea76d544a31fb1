"""Small frames for the tests of `profiler.analyse`."""

from __future__ import annotations

from typing import NamedTuple

import pandas as pd

from profiler.model import Cell, Problem, Variant, cell_id
from profiler.runner.protocol import range_name


class Range(NamedTuple):
    """What samples need of a parsed NVTX range."""

    domain: str
    name: str


def ours(cell, block, arm=0):
    """The ranges around a launch inside a visit."""
    return (Range("", "outer"), Range("profiler", range_name(cell, block, arm)))


def launch(nvtx, kernel="k", **raw):
    """One launch; raw names with `__` and without a roll-up get `.sum`."""
    values = {name if name.startswith("launch__") else f"{name}.sum": raw[name] for name in raw}
    shape = {"grid_size": "(8, 1, 1)", "block_size": "(128, 1, 1)"}
    return {"id": 0, "kernel": kernel, "nvtx": nvtx, **shape, **values}


def make_cell(variant, problem="p"):
    """A cell whose ids are its names."""
    first, second = Variant(variant, variant, label=variant), Problem(problem, problem)
    return Cell(cell_id(first, second), first, second)


def samples_of(values, metric="duration_ns", *, collector="ncu", kind="timing", arm=0):
    """One sample per block; keys are cell ids."""
    rows = [
        {
            "session": "s",
            "collector": collector,
            "kind": kind,
            "cell": cell,
            "block": block,
            "arm": arm,
            "repeat": 0,
            "kernels": 1.0 if collector == "ncu" else float("nan"),
            "kernel_names": "k",
            metric: value,
        }
        for cell, blocks in values.items()
        for block, value in enumerate(blocks)
    ]
    return pd.DataFrame(rows)
