"""Softmax variants and problems: what is legal, and what to compile for each; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from profiler.kernels.recipe import Recipe

Params = Mapping[str, str | int | float | bool | None]

WARP = 32
MAX_THREADS_PER_SM = 2048
"""CUDA C++ programming guide, technical specifications: compute capability 8.0 and 9.0."""

DTYPES = ("float16", "float32")

_SOURCES = Path(__file__).parent / "src"

DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "torch": {},
    "torch-naive": {},
    "naive": {"block_size": 256},
    "shared": {"block_size": 256, "vector_width": 1},
    "warp": {"rows_per_block": 4, "vector_width": 1},
    "online": {"block_size": 256, "vector_width": 1},
    "vector": {
        "block_size": 256,
        "rows_per_block": 1,
        "vector_width": 8,
        "min_blocks_per_sm": 1,
    },
}
"""Parameters of each algorithm with their defaults."""

CHOICES: Mapping[str, tuple[int, ...]] = {
    "block_size": (128, 256, 512, 1024),
    "rows_per_block": (1, 2, 4, 8, 16, 32),
    "vector_width": (1, 2, 4, 8),
    "min_blocks_per_sm": (1, 2, 3, 4, 8, 16),
}
"""The values that each parameter may take; threads, rows, elements, blocks."""

_SHORT = {
    "block_size": "b",
    "rows_per_block": "r",
    "vector_width": "v",
    "min_blocks_per_sm": "m",
}


def tuning(params: Params) -> dict[str, int]:
    """Every parameter that acts in the algorithm of `params`, with defaults filled in.

    Raises ValueError where `check_variant` would give a reason.
    """
    reason = check_variant(params)
    if reason is not None:
        raise ValueError(reason)
    defaults = DEFAULTS[str(params["algorithm"])]
    return {name: _integer(params.get(name, default)) for name, default in defaults.items()}


def variant_name(params: Params) -> str:
    """`vector-b256-r4-v8-m2`: block size, rows per block, vector width, minimum of blocks.

    A parameter that was left out of `params` is left out of the name.
    """
    parts = [str(params.get("algorithm"))]
    parts += [f"{short}{params[name]}" for name, short in _SHORT.items() if name in params]
    return "-".join(parts)


def check_variant(params: Params) -> str | None:
    """Reason why this combination cannot act, or None."""
    algorithm = params.get("algorithm")
    if algorithm not in DEFAULTS:
        return f"algorithm must be one of {', '.join(DEFAULTS)}, not {algorithm!r}"
    defaults = DEFAULTS[str(algorithm)]
    for name, value in params.items():
        if name == "algorithm":
            continue
        if name not in defaults:
            return f"{name} has no effect in the algorithm {algorithm}"
        # bool is an int in Python: `true` would pass as 1.
        if isinstance(value, bool) or value not in CHOICES[name]:
            return f"{name} must be one of {', '.join(map(str, CHOICES[name]))}, not {value!r}"
    return _check_vector({**defaults, **params}) if algorithm == "vector" else None


def check_problem(params: Params) -> str | None:
    """Reason why this is no softmax problem, or None."""
    for name in ("rows", "columns"):
        value = params.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            return f"{name} must be a positive whole number, not {value!r}"
    if params.get("dtype") not in DTYPES:
        return f"dtype must be one of {', '.join(DTYPES)}, not {params.get('dtype')!r}"
    return None


def check_cell(variant_params: Params, problem_params: Params) -> str | None:
    """Reason why this variant cannot do this problem, or None."""
    width = tuning(variant_params).get("vector_width", 1)
    columns = _integer(problem_params["columns"])
    if columns % width:
        return f"{columns} columns are no multiple of the vector width {width}"
    return None


def recipe(params: Params) -> Recipe | None:
    """Recipe of a variant: one source, its tuning as definitions; None where torch runs."""
    values = tuning(params)
    if not values:
        return None
    source = _SOURCES / f"{params['algorithm']}.cu"
    return Recipe(
        sources=(source.resolve(),),
        defines={name.upper(): value for name, value in values.items()},
    )


def _check_vector(params: Params) -> str | None:
    block = _integer(params["block_size"])
    threads = block // _integer(params["rows_per_block"])
    if threads < WARP:
        return f"a row would get {threads} threads, less than one warp"
    if block * _integer(params["min_blocks_per_sm"]) > MAX_THREADS_PER_SM:
        return (
            f"min_blocks_per_sm asks for more than {MAX_THREADS_PER_SM} threads per multiprocessor"
        )
    return None


def _integer(value: str | int | float | bool | None) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a whole number, not {value!r}")
    return value
