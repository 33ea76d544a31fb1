"""Conditions of a space whose valid configurations are known one by one, as T1 wants them.

What excludes a configuration in an experiment is a rule or a Python function. Read off from the
valid configurations are the combinations of two values, then of three, that none of them has; what
these still let pass is excluded configuration by configuration.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from profiler.errors import UsageError
from profiler.kernels.arithmetic import ExpressionError, parse
from profiler.search.conditions import constrained_space
from profiler.search.space import Parameter, SearchSpace

MAX_EXCLUDED_ONE_BY_ONE = 2_000


def derived_conditions(space: SearchSpace) -> tuple[str, ...]:
    """Conditions that hold for the configurations of a space and for no others.

    Raises UsageError where that takes too many of them.
    """
    texts: list[str] = []
    for width in (2, 3):
        larger = _space_of(space.parameters, texts)
        if len(larger) == len(space):
            return tuple(texts)
        for numbers in itertools.combinations(space.free, width):
            texts += _missing_combinations(space, larger, numbers)
    larger = _space_of(space.parameters, texts)
    return (*texts, *_single_exclusions(space, larger))


def _space_of(parameters: Sequence[Parameter], texts: Sequence[str]) -> SearchSpace:
    try:
        return constrained_space(parameters, [parse(text) for text in texts])
    except ExpressionError as error:
        raise UsageError(f"The space has no short conditions: {error}") from None


def _missing_combinations(
    space: SearchSpace, larger: SearchSpace, numbers: Sequence[int]
) -> Iterator[str]:
    """Conditions on some parameters, where a larger space has combinations that this one lacks."""
    valid = {tuple(row) for row in np.unique(space.codes[:, numbers], axis=0).tolist()}
    allowed = {tuple(row) for row in np.unique(larger.codes[:, numbers], axis=0).tolist()}
    if valid == allowed:
        return
    *first, last = (space.parameters[number] for number in numbers)
    lasts_by_heads: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for row in valid:
        lasts_by_heads[row[:-1]].add(row[-1])
    missing_heads = {tuple(row[:-1]) for row in allowed - valid}
    for head in sorted(missing_heads):
        others = [
            f"{parameter.name} != {parameter.values[code]!r}"
            for parameter, code in zip(first, head, strict=True)
        ]
        values = [last.values[code] for code in sorted(lasts_by_heads.get(head, ()))]
        yield " or ".join([*others, *([f"{last.name} in {values!r}"] if values else [])])


def _single_exclusions(space: SearchSpace, larger: SearchSpace) -> tuple[str, ...]:
    excluded = len(larger) - len(space)
    if excluded > MAX_EXCLUDED_ONE_BY_ONE:
        raise UsageError(
            f"{excluded} configurations are excluded by conditions on more than three parameters, "
            f"and T1 would list each; at most {MAX_EXCLUDED_ONE_BY_ONE} are."
        )
    texts = []
    for configuration in range(len(larger) if excluded else 0):
        params = larger.params(configuration)
        if space.find(params) is None:
            free = (space.parameters[number].name for number in space.free)
            texts.append(" or ".join(f"{name} != {params[name]!r}" for name in free))
    return tuple(texts)
