"""Conditions of a space: which combinations of values are valid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from profiler.errors import ParseError
from profiler.kernels.arithmetic import Arithmetic, ExpressionError
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
