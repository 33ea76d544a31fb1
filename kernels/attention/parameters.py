"""Parameters of a variant: their types, and the legal configurations of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

Value = str | int | float | bool | None
Params = Mapping[str, Value]


@dataclass(frozen=True)
class Configuration:
    """Fields that the configurations of all attention kernels share.

    `dtype` is one of `attention.problem.DTYPES`, `d_head` is in elements.
    """

    dtype: str = "BF16"
    d_head: int = 128

    def params(self) -> dict[str, Value]:
        """All fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


Config = TypeVar("Config", bound=Configuration)


@dataclass(frozen=True)
class LegalFields(Generic[Config]):
    """Legal values of the fields of a kernel's configurations, alone and together."""

    config: type[Config]
    dtypes: Sequence[str]
    """Values of the field `dtype`."""
    flags: Container[str]
    """Fields that are true or false."""
    choices: Mapping[str, Sequence[int]]
    """Values that a size may take, by field."""
    checks: Sequence[Callable[[Config], str | None]]
    """Reasons why a combination is illegal; the first that there is counts."""
    check_value: Callable[[str, Value], str | None] = lambda _name, _value: None
    """Further reason why a field cannot have a value."""

    def make(self, params: Params) -> Config:
        """Configuration of named fields; the others have their defaults.

        Raises ValueError with the reason where there is no such field, or the combination is
        illegal.
        """
        reason = self.refusal(params)
        if reason is not None:
            raise ValueError(reason)
        return self._configuration(params)

    def refusal(self, params: Params) -> str | None:
        """First reason why fields make no legal configuration, or None."""
        refusals = filter(None, map(self._wrong_value, params.keys(), params.values()))
        reason = next(refusals, None)
        if reason is not None:
            return reason
        config = self._configuration(params)
        return next((fault for check in self.checks if (fault := check(config)) is not None), None)

    def _configuration(self, params: Params) -> Config:
        return self.config(**params)  # type: ignore[arg-type]  # `refusal` looks at every value

    def _wrong_value(self, name: str, value: Value) -> str | None:
        names = [field.name for field in fields(self.config)]
        if name not in names:
            return f"{name} is no field of a configuration; they are {', '.join(names)}"
        if name == "dtype" and value not in self.dtypes:
            return f"dtype must be one of {', '.join(self.dtypes)}, not {value!r}"
        if name in self.flags and not isinstance(value, bool):
            return f"{name} must be true or false, not {value!r}"
        # bool is an int in Python: `true` would pass as 1.
        choices = self.choices.get(name)
        if choices is not None and (isinstance(value, bool) or value not in choices):
            return f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}"
        return self.check_value(name, value)
