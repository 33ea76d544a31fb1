"""The kinds of value that an experiment file is made of, and their checks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    Strict,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError

from profiler.errors import close_hint
from profiler.planning.spec.source import kind_of

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
PARAMETER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LARGEST_INTEGER = 2**63 - 1
SCALAR_SCHEMA: dict[str, Any] = {"type": ["string", "number", "boolean", "null"]}


def wrong(message: str) -> PydanticCustomError:
    """A validation error whose message reaches the user as it is."""
    # Braces would be read as places for a context.
    return PydanticCustomError("wrong", "{message}", {"message": message})


MOST_NAMED = 12
"""Candidates that a message names at most."""


def did_you_mean(text: object, candidates: Iterable[str]) -> str:
    """`; did you mean 'blocks'?`, or without a close candidate at most MOST_NAMED of them."""
    names = sorted(set(candidates))
    if hint := close_hint(text, names):
        return hint
    further_count = len(names) - MOST_NAMED
    tail = [f"and {further_count} more"] if further_count > 0 else []
    return f"; known: {', '.join((*names[:MOST_NAMED], *tail))}" if names else ""


def check_scalar(value: object) -> object:
    """Refuse a value that is not one plain, finite, printable scalar."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str) and _CONTROL.search(value):
        raise wrong("must not contain control characters")
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        raise wrong("must fit in 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong("must be a finite number")
    if not isinstance(value, str | int | float):
        raise wrong(
            f"must be a single value (text, number, true or false, null), not {kind_of(value)}"
        )
    return value


def _check_parameter_name(value: object) -> object:
    if not isinstance(value, str) or not PARAMETER_NAME.fullmatch(value):
        cut = isinstance(value, str) and re.search(r"[)>\]]$", value) is not None
        hint = "; inside of braces YAML ends a value at a comma: put it in quotes" if cut else ""
        raise wrong(
            f"a parameter's name is made of the characters A-Z a-z 0-9 _, not {value!r}{hint}"
        )
    return value


def check_text(value: str) -> str:
    """Refuse control characters other than line breaks and tabs."""
    if _CONTROL.search(value.replace("\n", " ").replace("\t", " ")):
        raise wrong("must not contain control characters")
    return value


def as_list(value: object) -> object:
    """A single value is short for a list of one."""
    return value if isinstance(value, list | tuple) else [value]


def unique(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Refuse a list with duplicates."""
    for index, value in enumerate(values):
        if value in values[:index]:
            raise wrong(f"{value!r} is in the list twice")
    return values


class OrSingle:
    """Schema annotation: a single value is accepted in place of a list of one."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Accept what the list holds, beside the list."""
        schema = handler(core_schema)
        return {"anyOf": [schema["items"], schema]}


Scalar = Annotated[
    str | int | float | bool | None, PlainValidator(check_scalar), WithJsonSchema(SCALAR_SCHEMA)
]
ParameterName = Annotated[
    str,
    PlainValidator(_check_parameter_name),
    WithJsonSchema({"type": "string", "pattern": f"^{PARAMETER_NAME.pattern}$"}),
]
Text = Annotated[str, AfterValidator(check_text)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(check_scalar)]
MAX_COUNT = 1_000_000
"""Most blocks, launches or repeats that may be asked for: at 1 µs each, a visit of a second."""
Positive = Annotated[int, Strict(), Field(ge=1, le=MAX_COUNT)]
Natural = Annotated[int, Strict(), Field(ge=0, le=MAX_COUNT)]
Bound = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Values = Annotated[tuple[Scalar, ...], Field(min_length=1), BeforeValidator(as_list), OrSingle()]
Grid = Annotated[dict[ParameterName, Values], Field(min_length=1)]
Names = Annotated[tuple[Name, ...], BeforeValidator(as_list), AfterValidator(unique), OrSingle()]


def _is_section(field: FieldInfo) -> bool:
    """Whether a field is a mapping or a list that may be left out."""
    default = field.get_default(call_default_factory=True)
    return isinstance(default, dict | tuple | BaseModel)


class SpecModel(BaseModel):
    """A mapping of the file: unknown keys are refused, nothing changes after reading."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    _SHORT_FORM: ClassVar[dict[str, Any] | None] = None
    """JSON Schema of what is short for the mapping; None: nothing is."""

    @model_validator(mode="before")
    @classmethod
    def _without_empty_sections(cls, value: object) -> object:
        """The mapping without optional mappings and lists that are empty.

        To YAML a key whose lines are all comments has the value null.
        """
        if not isinstance(value, dict) or None not in value.values():
            return value
        sections = {name for name, field in cls.model_fields.items() if _is_section(field)}
        return {key: v for key, v in value.items() if v is not None or key not in sections}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = handler(core_schema)
        if cls._SHORT_FORM is not None:
            mapping = handler.resolve_ref_schema(schema)
            long_form = dict(mapping)
            mapping.clear()
            mapping["anyOf"] = [cls._SHORT_FORM, long_form]
        return schema
