"""Search space: parameters, and every valid configuration, known before anything is proposed.

A configuration is the number of its row in `SearchSpace.codes`; a code is the position of a value
among the values of its parameter.

Conditions say which combinations are valid, and T1 needs conditions for every space. In an
experiment, rules and Python functions exclude configurations. Their conditions are derived from the
valid configurations: the combinations of two values, then of three, that no configuration has;
other excluded configurations get a condition each.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.errors import ParseError, UsageError
from profiler.kernels.arithmetic import Arithmetic, ExpressionError, parse
from profiler.model import Params

Value = str | int | float | bool | None
Codes = NDArray[np.int32]
Configurations = NDArray[np.int64]

MAX_CONFIGURATIONS = 1_000_000
"""Most valid configurations of a space; the largest of the FAIR benchmark hub has 349,853."""
MAX_COMBINATIONS = 2**62
"""Most combinations of all values: each has a key of 64 bits."""


@dataclass(frozen=True)
class Parameter:
    """A name and its distinct values; numbers in ascending order."""

    name: str
    values: tuple[Value, ...]

    @classmethod
    def of(cls, name: str, values: Iterable[Value]) -> Parameter:
        """Parameter with each value once; 1 and true are two values, 1 and 1.0 are one."""
        distinct = tuple({value_key(value): value for value in values}.values())
        if _are_numbers(distinct):
            distinct = tuple(sorted(distinct))  # type: ignore[type-var]
        return cls(name, distinct)

    @property
    def is_ordered(self) -> bool:
        """Whether the values are numbers, so that near codes are near values."""
        return _are_numbers(self.values)

    @property
    def factors_of_two(self) -> NDArray[np.int64] | None:
        """How often 2 divides each value; None unless they are more than two positive integers."""
        numbers = [value for value in self.values if isinstance(value, int | float)]
        if not self.is_ordered or len(numbers) <= 2:
            return None
        if not all(float(number).is_integer() and number > 0 for number in numbers):
            return None
        return np.array([(int(n) & -int(n)).bit_length() - 1 for n in numbers], dtype=np.int64)

    def distances(self, code: int) -> NDArray[np.float32]:
        """Distance of each value to the value of a code: 0 to 1."""
        positions = np.arange(len(self.values))
        if not self.is_ordered:
            distances = np.asarray(positions != code, dtype=np.float32)
        else:
            steps = np.abs(positions - code)
            distances = np.asarray(steps / max(len(self.values) - 1, 1), dtype=np.float32)
        return distances


def _are_numbers(values: Iterable[Value]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def value_key(value: Value) -> tuple[bool, Value]:
    """Identity of a value: unlike in Python, true is not 1."""
    return isinstance(value, bool), value


class SearchSpace:
    """Every valid configuration, indexed by the values of its parameters."""

    def __init__(self, parameters: Sequence[Parameter], codes: Codes) -> None:
        self.parameters = tuple(parameters)
        counts = [len(parameter.values) for parameter in self.parameters]
        self._strides = _strides(counts)
        keys = codes.astype(np.int64) @ self._strides
        self.codes: Codes = codes[np.argsort(keys, kind="stable")]
        self._keys = np.sort(keys)
        self._code_of_value = [
            {value_key(value): code for code, value in enumerate(parameter.values)}
            for parameter in self.parameters
        ]
        self.free = tuple(i for i, count in enumerate(counts) if count > 1)
        """Numbers of the parameters that have more than one value."""

    @classmethod
    def of_configurations(cls, configurations: Sequence[Params]) -> SearchSpace:
        """Space of exactly these configurations; each has the same parameters.

        Raises UsageError where a configuration lacks a parameter of another, and for an
        empty sequence.
        """
        if not configurations:
            raise UsageError("A search needs at least one configuration.")
        names = tuple(configurations[0])
        for params in configurations:
            if set(params) != set(names):
                differing = ", ".join(sorted(set(params) ^ set(names)))
                raise UsageError(
                    f"A search needs the same parameters in every configuration: {differing}."
                )
        parameters = [Parameter.of(name, (p[name] for p in configurations)) for name in names]
        positions = {p.name: {value_key(v): i for i, v in enumerate(p.values)} for p in parameters}
        codes = np.array(
            [
                [codes_of[value_key(params[name])] for name, codes_of in positions.items()]
                for params in configurations
            ],
            dtype=np.int32,
        )
        return cls(parameters, np.unique(codes.reshape(-1, len(names)), axis=0))

    def __len__(self) -> int:
        return len(self.codes)

    def params(self, configuration: int) -> dict[str, Value]:
        """Parameters of a configuration by name."""
        return {
            parameter.name: parameter.values[code]
            for parameter, code in zip(self.parameters, self.codes[configuration], strict=True)
        }

    def find(self, params: Mapping[str, Value]) -> int | None:
        """Number of the configuration with these parameters; None for an invalid one."""
        codes = []
        for parameter, code_of_value in zip(self.parameters, self._code_of_value, strict=True):
            code = code_of_value.get(value_key(params.get(parameter.name)))
            if code is None or parameter.name not in params:
                return None
            codes.append(code)
        matches = self._valid(np.array([np.array(codes, dtype=np.int64) @ self._strides]))
        return int(matches[0]) if len(matches) else None

    def neighbours(self, configuration: int) -> Configurations:
        """Valid configurations that differ in the value of one parameter."""
        codes = self.codes[configuration]
        steps = [np.empty(0, dtype=np.int64)]
        for i in self.free:
            other_codes = np.delete(np.arange(len(self.parameters[i].values)), codes[i])
            steps.append((other_codes - codes[i]) * self._strides[i])
        return self._valid(self._keys[configuration] + np.concatenate(steps))

    def _valid(self, keys: NDArray[np.int64]) -> Configurations:
        """Configurations of the valid keys."""
        places = np.searchsorted(self._keys, keys)
        places[places == len(self._keys)] = 0
        valid: Configurations = places[self._keys[places] == keys]
        return valid


def _strides(counts: Sequence[int]) -> NDArray[np.int64]:
    """Weight of each parameter's code in a key; raises UsageError where keys do not suffice."""
    strides, product = [], 1
    for count in reversed(counts):
        strides.append(product)
        product *= count
    if product > MAX_COMBINATIONS:
        raise UsageError(
            f"The parameters of the space have {product:.1e} combinations, more than 2**62 "
            "(limit MAX_COMBINATIONS in profiler/search/space)."
        )
    return np.array(strides[::-1], dtype=np.int64)


# ---- conditions ----------------------------------------------------------------------------------

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
    pending_conditions = list(conditions)
    evaluations_left = MAX_ALL_EVALUATIONS
    for number, parameter in enumerate(parameters, start=1):
        codes = _with_column(codes, len(parameter.values))
        assigned = {p.name for p in parameters[:number]}
        ready_conditions = [
            condition for condition in pending_conditions if condition.names <= assigned
        ]
        pending_conditions = [
            condition for condition in pending_conditions if condition not in ready_conditions
        ]
        for condition in ready_conditions:
            holds, evaluations = _holds(condition, parameters, codes)
            codes, evaluations_left = codes[holds], evaluations_left - evaluations
            if evaluations_left < 0:
                raise ParseError(
                    f"its {len(conditions)} conditions would be evaluated more than "
                    f"{MAX_ALL_EVALUATIONS} times "
                    "(limit MAX_ALL_EVALUATIONS in profiler/search/space)"
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
            "(limit MAX_PARTIAL in profiler/search/space)",
            remedy="Name the parameters that a condition binds first.",
        )
    column = np.tile(np.arange(count, dtype=np.int32), len(codes))
    return np.column_stack([np.repeat(codes, count, axis=0), column])


def _holds(
    condition: Arithmetic, parameters: Sequence[Parameter], codes: Codes
) -> tuple[NDArray[np.bool_], int]:
    """Whether a condition holds for each row, and its number of evaluations.

    It is evaluated once for each combination of its names' values.
    """
    used_parameters = [i for i in range(codes.shape[1]) if parameters[i].name in condition.names]
    if len(codes) == 0:
        return np.zeros(0, dtype=bool), 0
    keys = np.zeros(len(codes), dtype=np.int64)
    for i in used_parameters:
        keys = keys * len(parameters[i].values) + codes[:, i]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    if len(first) > MAX_EVALUATIONS:
        raise ParseError(
            f"'{condition.text}' would be evaluated more than {MAX_EVALUATIONS} times "
            "(limit MAX_EVALUATIONS in profiler/search/space)"
        )
    combinations = codes[first][:, used_parameters].tolist()
    columns = [(parameters[i].name, parameters[i].values) for i in used_parameters]
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
    """Conditions that hold exactly for the configurations of a space.

    Raises UsageError where that takes too many conditions.
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
    """Conditions on parameters (`numbers`) that exclude combinations of a larger space."""
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
        inequalities = [
            f"{parameter.name} != {parameter.values[code]!r}"
            for parameter, code in zip(first, head, strict=True)
        ]
        values = [last.values[code] for code in sorted(lasts_by_heads.get(head, ()))]
        yield " or ".join([*inequalities, *([f"{last.name} in {values!r}"] if values else [])])


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
