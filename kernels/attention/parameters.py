"""Parameters of a variant: their types, and whether a configuration can have them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

Value = str | int | float | bool | None
Params = Mapping[str, Value]


@dataclass(frozen=True)
class Fields:
    """Fields of a configuration, and the values that some of them may take."""

    names: Sequence[str]
    dtypes: Sequence[str]
    """Values of the field `dtype`."""
    flags: Container[str]
    """Fields that are true or false."""
    choices: Mapping[str, Sequence[int]]
    """Values that a size may take, by field."""


def wrong_value(name: str, value: Value, fields: Fields) -> str | None:
    """Why a configuration cannot have this parameter; None where it can."""
    if name not in fields.names:
        return f"{name} is no field of a configuration; they are {', '.join(fields.names)}"
    if name == "dtype" and value not in fields.dtypes:
        return f"dtype must be one of {', '.join(fields.dtypes)}, not {value!r}"
    if name in fields.flags and not isinstance(value, bool):
        return f"{name} must be true or false, not {value!r}"
    # bool is an int in Python: `true` would pass as 1.
    choices = fields.choices.get(name)
    if choices is not None and (isinstance(value, bool) or value not in choices):
        return f"{name} must be one of {', '.join(map(str, choices))}, not {value!r}"
    return None
