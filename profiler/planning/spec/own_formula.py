"""A metric that an experiment file defines."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from profiler.kernels.arithmetic import ExpressionError
from profiler.metrics.own import OwnMetric, parse_formula
from profiler.metrics.queries import is_known
from profiler.planning.spec.values import ParameterName, SpecModel, Text, check_scalar, wrong


class OwnFormula(SpecModel):
    """A metric of your own: arithmetic on metrics of the catalogue."""

    name: ParameterName = Field(description="What it is called; no metric has this name yet.")
    formula: Text = Field(
        description="Numbers, metrics of the catalogue, `+ - * / **`, brackets, `min`, `max`: "
        '`"dram_read_bytes / flops"`. What it needs is measured.'
    )
    unit: Annotated[str, StringConstraints(max_length=20), AfterValidator(check_scalar)] = Field(
        default="", description="As pages show it: `B/FLOP`. Nothing is converted."
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        """`{bytes_per_flop: "dram_read_bytes / flops"}` is short for a name and a formula."""
        if isinstance(value, dict) and len(value) == 1 and not {"name", "formula"} & set(value):
            ((name, formula),) = value.items()
            return {"name": name, "formula": formula}
        return value

    @field_validator("name")
    @classmethod
    def _new(cls, value: str) -> str:
        if is_known(value):
            raise wrong(f"'{value}' is a name of the catalogue")
        return value

    @field_validator("formula")
    @classmethod
    def _arithmetic(cls, value: str) -> str:
        try:
            parse_formula(value)
        except ExpressionError as error:
            raise wrong(str(error)) from error
        return value

    @property
    def metric(self) -> OwnMetric:
        """The metric that it defines."""
        return OwnMetric(self.name, parse_formula(self.formula), self.unit)
