"""Conditions of a space: which combinations are valid, and those that T1 wants for such.

What excludes a configuration in an experiment is a rule or a Python function. Read off from the
valid configurations are the combinations of two values, then of three, that none of them has; what
these still let pass is excluded configuration by configuration.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from profiler.errors import ParseError, UsageError
from profiler.kernels.arithmetic import Arithmetic, ExpressionError, parse
from profiler.search.space import MAX_CONFIGURATIONS, Codes, Parameter, SearchSpace

MAX_PARTIAL = 5_000_000
"""Most combinations of the first parameters that may be kept on the way."""
MAX_EVALUATIONS = 2_000_000
"""Most combinations of values for which a condition is evaluated."""
MAX_ALL_EVALUATIONS = 10_000_000
"""Most evaluations for all conditions of a space together: some ten seconds."""


def constrained_space(
    parameters: Sequence[Parameter], conditions: Sequence[Arithmetic]
) -> SearchSpace:
    """Space of all combinations for which every condition holds.

    A combination for which a condition has no value (a division by zero) is not valid. Raises
    ParseError where a condition names no parameter of the space or never has a value, where
    nothing is valid, and beyond the limits.
    """
    _require_names(parameters, conditions)
    codes: Codes = np.zeros((1, 0), dtype=np.int32)
    waiting = list(conditions)
    left = MAX_ALL_EVALUATIONS
    for number, parameter in enumerate(parameters, start=1):
        codes = _with_column(codes, len(parameter.values))
        assigned = {p.name for p in parameters[:number]}
        ready = [condition for condition in waiting if condition.names <= assigned]
        waiting = [condition for condition in waiting if condition not in ready]
        for condition in ready:
            holds, evaluations = _holds(condition, parameters, codes)
            codes, left = codes[holds], left - evaluations
            if left < 0:
                raise ParseError(
                    f"its {len(conditions)} conditions would be evaluated more than "
                    f"{MAX_ALL_EVALUATIONS} times "
                    "(limit MAX_ALL_EVALUATIONS in profiler/search/conditions)"
                )
    if len(codes) == 0:
        raise ParseError("no combination of values meets every condition")
    if len(codes) > MAX_CONFIGURATIONS:
        raise ParseError(
            f"{len(codes)} valid configurations are more than {MAX_CONFIGURATIONS} "
            "(limit MAX_CONFIGURATIONS in profiler/search/space)"
        )
    return SearchSpace(parameters, codes)


def _require_names(parameters: Sequence[Parameter], conditions: Sequence[Arithmetic]) -> None:
    names = {parameter.name for parameter in parameters}
    for condition in conditions:
        for name in sorted(condition.names - names):
            raise ParseError(f"'{condition.text}': there is no parameter '{name}'")


def _with_column(codes: Codes, count: int) -> Codes:
    if len(codes) * count > MAX_PARTIAL:
        raise ParseError(
            f"the first {codes.shape[1] + 1} parameters have more than {MAX_PARTIAL} combinations "
            "(limit MAX_PARTIAL in profiler/search/conditions)",
            remedy="Name the parameters that a condition binds first.",
        )
    column = np.tile(np.arange(count, dtype=np.int32), len(codes))
    return np.column_stack([np.repeat(codes, count, axis=0), column])


def _holds(
    condition: Arithmetic, parameters: Sequence[Parameter], codes: Codes
) -> tuple[NDArray[np.bool_], int]:
    """Whether a condition holds for each row, and how often it was evaluated.

    That is once for each combination of its names.
    """
    used = [i for i in range(codes.shape[1]) if parameters[i].name in condition.names]
    if len(codes) == 0:
        return np.zeros(0, dtype=bool), 0
    keys = np.zeros(len(codes), dtype=np.int64)
    for i in used:
        keys = keys * len(parameters[i].values) + codes[:, i]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) > MAX_EVALUATIONS:
        raise ParseError(
            f"'{condition.text}' would be evaluated more than {MAX_EVALUATIONS} times "
            "(limit MAX_EVALUATIONS in profiler/search/conditions)"
        )
    combinations = codes[first][:, used].tolist()
    columns = [(parameters[i].name, parameters[i].values) for i in used]
    results: list[bool] = []
    error: ExpressionError | None = None
    valued = 0
    for combination in combinations:
        row = {name: v[code] for (name, v), code in zip(columns, combination, strict=True)}
        try:
            results.append(bool(condition.value(row)))
            valued += 1
        except ExpressionError as failure:
            results.append(False)
            error = failure
    if error is not None and not valued:
        raise ParseError(f"condition {error}")
    return np.array(results, dtype=bool)[inverse], len(results)


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
