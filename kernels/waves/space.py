"""Kernels and grids of the wave experiment: what is legal, and what to compile; no torch.

A variant is `{blocks_per_sm: …, chains: …}` and may have a `block_size`. A problem is
`{waves: …}`: how often the grid shall fill the GPU. How many blocks that are is known only where
the number of multiprocessors is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from profiler.kernels.recipe import Recipe

Params = Mapping[str, str | int | float | bool | None]

DEFAULTS: Mapping[str, int] = {"block_size": 128, "blocks_per_sm": 1, "chains": 1}
CHOICES: Mapping[str, tuple[int, ...]] = {
    "block_size": (64, 128, 256, 512),
    "blocks_per_sm": (1, 2, 4, 8, 16),
    "chains": (1, 2, 4, 8),
}
"""Threads of a block, blocks that fit on a multiprocessor, independent chains of a thread."""

WORK = 128 * 49152
"""Multiply-adds of a multiprocessor in one full wave, whatever the variant is: those with more
or wider blocks do less in each thread. With one block of 128 threads and one chain, a wave takes
4 cycles for each of 49152 steps, about 0.1 ms."""

MAX_WAVES = 64
_MAX_THREADS = 2048
"""Of a multiprocessor: CUDA C++ programming guide, compute capability 8.0 and 9.0."""

_SOURCE = Path(__file__).parent / "src" / "waves.cu"


def tuning(params: Params) -> dict[str, int]:
    """All parameters of a variant; ValueError where `check_variant` would give a reason."""
    reason = check_variant(params)
    if reason is not None:
        raise ValueError(reason)
    return {name: _integer(params.get(name, default)) for name, default in DEFAULTS.items()}


def steps_of(params: Params) -> int:
    """Steps of each chain of a thread."""
    values = tuning(params)
    return WORK // math.prod(values.values())


def waves_of(problem: Params) -> float:
    """Number of waves of a problem; ValueError where `check_problem` would give a reason."""
    reason = check_problem(problem)
    if reason is not None:
        raise ValueError(reason)
    return float(problem["waves"] or 0)


def blocks_of(waves: float, blocks_per_wave: int) -> int:
    """Number of blocks of a grid, rounded away from the nearest whole wave.

    So a grid that shall be just above or just below a whole wave is that on a small GPU as well.
    """
    # Rounded first, so that 0.1 * 30 is 3 blocks and not 4.
    exact = round(waves * blocks_per_wave, 6)
    is_above = waves - math.floor(waves) < 0.5
    return max(1, math.ceil(exact) if is_above else math.floor(exact))


def variant_name(params: Params) -> str:
    """Name `4x128-c1`: blocks per multiprocessor and their threads, and chains of each thread."""
    values = {**DEFAULTS, **params}
    return f"{values['blocks_per_sm']}x{values['block_size']}-c{values['chains']}"


def check_variant(params: Params) -> str | None:
    """Reason why there is no such kernel, or None."""
    for name, value in params.items():
        if name not in DEFAULTS:
            return f"{name} is no parameter of the kernel; they are {', '.join(DEFAULTS)}"
        # bool is an int in Python: `true` would pass as 1.
        if isinstance(value, bool) or value not in CHOICES[name]:
            return f"{name} must be one of {', '.join(map(str, CHOICES[name]))}, not {value!r}"
    values = {**DEFAULTS, **params}
    threads = _integer(values["block_size"]) * _integer(values["blocks_per_sm"])
    if threads > _MAX_THREADS:
        return f"{threads} threads are more than the {_MAX_THREADS} of a multiprocessor"
    return None


def check_problem(params: Params) -> str | None:
    """Reason why this is no number of waves, or None."""
    for name in params:
        if name != "waves":
            return f"{name} is no parameter of a grid; it has only waves"
    value = params.get("waves")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"waves must be a number, not {value!r}"
    if not 0 < value <= MAX_WAVES:
        return f"waves must be above 0 and at most {MAX_WAVES}, not {value!r}"
    return None


def recipe(params: Params) -> Recipe:
    """Recipe of a variant: everything about a variant is in its machine code."""
    return Recipe(
        sources=(_SOURCE.resolve(),),
        defines={name.upper(): value for name, value in tuning(params).items()},
    )


def _integer(value: str | float | bool | None) -> int:
    if not isinstance(value, int):
        raise TypeError(f"must be a whole number, not {value!r}")
    return value
