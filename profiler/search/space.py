"""Search space: parameters, and every valid configuration, known before anything is proposed.

A configuration is the number of its row in `SearchSpace.codes`; a code is the position of a value
among the values of its parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiler.errors import UsageError
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
        """Distance of each value to that of a code: 0 to 1."""
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
        """Space of these configurations and no others; each has the same parameters.

        Raises UsageError where a configuration lacks a parameter of another, or there is none.
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
        """The configuration with these parameters; None where it is not valid."""
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
            others = np.delete(np.arange(len(self.parameters[i].values)), codes[i])
            steps.append((others - codes[i]) * self._strides[i])
        return self._valid(self._keys[configuration] + np.concatenate(steps))

    def _valid(self, keys: NDArray[np.int64]) -> Configurations:
        """Configurations of those keys that are valid."""
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
