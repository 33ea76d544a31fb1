"""Variants by the source that they are built of; `torch` needs none."""

from pathlib import Path

from profiler.kernels.recipe import Recipe


def recipe(params):
    if params["source"] == "torch":
        return None
    return Recipe((Path(__file__).resolve().parent / f"{params['source']}.cu",))
