"""Variants of one program: copies of it, and runs of a few percent more iterations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from profiler.kernels.recipe import Recipe

THREADS = 256
KERNELS = ("compute", "memory", "cache")


def variant_name(params: Mapping[str, Any]) -> str:
    """`copy 2`, `5 % more`."""
    extra = params["extra_pct"]
    return f"{extra} % more" if extra else f"copy {params['copy']}"


def check_problem(params: Mapping[str, Any]) -> str | None:
    """Reason why a loop cannot be lengthened by whole percents, or is unknown."""
    if params["kernel"] not in KERNELS:
        return f"kernel must be one of {', '.join(KERNELS)}"
    if params["iterations"] % 100:
        return "iterations must be a multiple of 100, so that a percent of them is a whole number"
    return None


def recipe(params: Mapping[str, Any]) -> Recipe:
    """One library for all: the iterations are an argument."""
    del params
    return Recipe(sources=(Path(__file__).with_name("loops.cu"),))
