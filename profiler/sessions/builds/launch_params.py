"""Finds parameters of a variant that do not change its recipe, and so act only at launch.

Two variants with equal machine code are the same program only where these are equal, too: a grid
size or a number of stages that is handed to the launcher makes another program of the same code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from profiler.errors import ProfilerError
from profiler.kernels.recipe import Recipe
from profiler.model import Params, Variant

_ABSENT = object()
"""Stands for a parameter that a variant does not have."""


def launch_params(
    variants: Sequence[Variant], recipe: Callable[[Params], Recipe | None]
) -> dict[str, Params]:
    """Parameters by variant id whose other values in the plan give the same recipe.

    Found by trying: a parameter acts at compile time where some value that it has elsewhere in the
    plan gives another recipe. Combinations that the workload refuses say nothing.
    """
    values = _values(variants)
    return {
        variant.id: {
            name: value
            for name, value in variant.params.items()
            if not _compiled(variant.params, name, values[name], recipe)
        }
        for variant in variants
    }


def _values(variants: Iterable[Variant]) -> Mapping[str, list[Any]]:
    """Distinct values of each parameter in the plan; `_ABSENT` where a variant lacks it."""
    variants = tuple(variants)
    names = dict.fromkeys(name for variant in variants for name in variant.params)
    values: dict[str, list[Any]] = {name: [] for name in names}
    for variant in variants:
        for name, seen in values.items():
            value = variant.params.get(name, _ABSENT)
            if not any(_same(value, other) for other in seen):
                seen.append(value)
    return values


def _same(left: object, right: object) -> bool:
    """Equal and of one type: `1`, `1.0` and `true` are different parameters."""
    return type(left) is type(right) and left == right


def _compiled(
    params: Params, name: str, values: Iterable[object], recipe: Callable[[Params], Recipe | None]
) -> bool:
    unchanged = recipe(params)
    return any(
        other != unchanged
        for other in (_tried(params, name, value, recipe) for value in values)
        if other is not _ABSENT
    )


def _tried(
    params: Params, name: str, value: object, recipe: Callable[[Params], Recipe | None]
) -> object:
    """Recipe with another value of one parameter; `_ABSENT` where the workload refuses it."""
    changed: dict[str, Any] = {key: param for key, param in params.items() if key != name}
    if value is not _ABSENT:
        changed[name] = value
    try:
        return recipe(changed)
    except ProfilerError:
        return _ABSENT
