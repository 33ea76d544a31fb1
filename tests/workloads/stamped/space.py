"""Variants by the source that they are built of, and the GPU they need; `torch` needs none."""

from pathlib import Path

from profiler.kernels.recipe import Recipe


def recipe(params):
    if params["source"] == "torch":
        return None
    source = Path(__file__).resolve().parent / f"{params['source']}.cu"
    return Recipe((source,), arch=params.get("arch"))
