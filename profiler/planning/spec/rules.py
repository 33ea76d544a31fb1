"""Named rules that leave something out."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from profiler.model import Params
from profiler.planning.spec.values import (
    SCALAR_SCHEMA,
    Name,
    Number,
    ParameterName,
    SpecModel,
    Text,
    Values,
    as_list,
    unique,
    wrong,
)


class Condition(SpecModel):
    """What a parameter must be for a rule to match: all given keys must hold."""

    _SHORT_FORM: ClassVar[dict[str, Any]] = {
        "anyOf": [SCALAR_SCHEMA, {"type": "array", "items": SCALAR_SCHEMA, "minItems": 1}]
    }

    any_of: Values | None = Field(
        default=None, alias="in", description="One of these; a plain value or list is short for it."
    )
    min: Number | None = Field(default=None, description="At least this number.")
    max: Number | None = Field(default=None, description="At most this number.")
    none_of: Values | None = Field(default=None, alias="not", description="None of these.")

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        given = value if isinstance(value, dict) else {"in": value}
        # A list at once: a lone null would read as "no condition".
        return {
            key: as_list(operand) if key in ("in", "not") else operand
            for key, operand in given.items()
        }

    @model_validator(mode="after")
    def _meaningful(self) -> Self:
        if all(operand is None for operand in (self.any_of, self.min, self.max, self.none_of)):
            raise wrong("needs a value, a list, or one of min, max, not")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise wrong("min is larger than max")
        return self

    def holds(self, value: str | int | float | bool | None) -> bool:
        """Whether a parameter's value meets the condition; text is never between numbers."""
        if self.any_of is not None and not any(same(value, allowed) for allowed in self.any_of):
            return False
        if self.none_of is not None and any(same(value, excluded) for excluded in self.none_of):
            return False
        if self.min is None and self.max is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        above = self.min is None or value >= self.min
        return above and (self.max is None or value <= self.max)


def same(left: object, right: object) -> bool:
    """Whether two parameter values are equal; unlike in Python, `true` is not 1."""
    return isinstance(left, bool) == isinstance(right, bool) and left == right


class Rule(SpecModel):
    """A named reason to leave something out; what it removes is counted and shown."""

    name: Name = Field(description="Short name of the rule.")
    when: dict[ParameterName, Condition] = Field(
        min_length=1,
        description="Parameter → condition; all must hold. What does not have the parameter does "
        "not match. `variant` and `problem` stand for the names.",
    )
    reason: Text = Field(default="", description="Why, for whoever reads the page.")

    def matches(self, values: Params) -> bool:
        """Whether every condition holds for these parameters."""
        return all(
            key in values and condition.holds(values[key]) for key, condition in self.when.items()
        )

    @property
    def label(self) -> str:
        """Name and reason in one line."""
        return f"{self.name}: {self.reason}" if self.reason else self.name


def _unique_names(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    unique(tuple(rule.name for rule in rules))
    return rules


Rules = Annotated[tuple[Rule, ...], AfterValidator(_unique_names)]
