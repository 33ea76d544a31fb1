"""Parts of an external command: what it does at one size after another, told apart."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    model_validator,
)

from profiler.model import OrderedParts, RangeParts
from profiler.outside_text import bounded_pattern
from profiler.planning.spec.values import (
    PARAMETER_NAME,
    Name,
    Natural,
    Positive,
    SpecModel,
    Values,
    did_you_mean,
    wrong,
)

ALL_RANGES = "nvtx"
"""Short for all ranges of the default domain."""
_EXAMPLE = "such as `size: [128, 256]`"


def _check_pattern(value: str) -> str:
    expression = value.removeprefix("regex:")
    try:
        bounded_pattern(expression.rpartition("@")[2])
    except ValueError as error:
        raise wrong(str(error)) from error
    return expression


class Parts(SpecModel):
    """Parts of a program by the order of its launches, or by its own NVTX ranges."""

    model_config = ConfigDict(extra="allow")
    _SHORT_FORM: ClassVar[dict[str, Any]] = {"const": ALL_RANGES}

    __pydantic_extra__: dict[str, Values] = Field(init=False)
    launches: Positive | None = Field(
        default=None,
        description="By order: matching launches of each part, the same number for all.",
    )
    ranges: Annotated[Name, AfterValidator(_check_pattern)] | None = Field(
        default=None,
        description="By NVTX: regular expression of the names of push/pop ranges that tell parts "
        "apart, `domain@…` for another domain than the default one. `parts: nvtx` is short for "
        "all of the default domain.",
    )
    kernels: Positive | None = Field(
        default=None,
        description="By NVTX: launches in one range. Default: all launches that follow on one "
        "another in ranges of the same names.",
    )
    skip: Natural = Field(
        default=0,
        description="Launches at the beginning of each part (by NVTX: ranges of each name) that "
        "are left out.",
    )
    take: Positive | None = Field(
        default=None,
        description="Launches (by NVTX: ranges) after those that are samples. Default: the rest.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: object) -> object:
        if value == ALL_RANGES:
            return {"ranges": ".*"}
        if isinstance(value, str):
            raise wrong(f"must be `{ALL_RANGES}` or a mapping{did_you_mean(value, [ALL_RANGES])}")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.ranges is not None:
            others = [*self._axes, *(["launches"] if self.launches else [])]
            if others:
                raise wrong(f"parts by ranges have no {' and no '.join(others)}")
            return self
        if self.kernels is not None:
            raise wrong("kernels belongs to parts by ranges; by order, each launch is a sample")
        self._check_axis()
        if self.launches is None:
            raise wrong("launches is missing: how many launches the program makes for each value")
        if self.skip + (self.take or 1) > self.launches:
            raise wrong(
                f"skip and take need {self.skip + (self.take or 1)} launches of each part, which "
                f"has {self.launches}"
            )
        return self

    @property
    def _axes(self) -> tuple[str, ...]:
        return tuple(self.__pydantic_extra__)

    def _check_axis(self) -> None:
        """Raise where there is not one parameter with distinct values."""
        axes = self._axes
        fields = type(self).model_fields
        if not axes:
            raise wrong(f"needs a parameter with its values in the program's order, {_EXAMPLE}")
        if len(axes) > 1:
            hints = [did_you_mean(axis, fields) for axis in axes]
            close = next((hint for hint in hints if hint.startswith("; did")), "")
            raise wrong(f"has one parameter, {_EXAMPLE}, not {' and '.join(axes)}{close}")
        if not PARAMETER_NAME.fullmatch(axes[0]):
            raise wrong(
                f"a parameter's name is made of the characters A-Z a-z 0-9 _, not {axes[0]!r}"
            )
        values = self.__pydantic_extra__[axes[0]]
        if len({(type(value), value) for value in values}) < len(values):
            raise wrong(f"{axes[0]} has a value twice; each is a part of its own")

    @property
    def axis(self) -> str | None:
        """Parameter that parts by order differ in."""
        return self._axes[0] if self.ranges is None else None

    def reading(self) -> OrderedParts | RangeParts:
        """How launches are sorted into parts."""
        if self.ranges is not None:
            return RangeParts(self.ranges, self.kernels, self.skip, self.take)
        axis, launches = self._axes[0], self.launches or 0
        return OrderedParts(
            axis=axis,
            values=self.__pydantic_extra__[axis],
            launches=launches,
            skip=self.skip,
            take=self.take or launches - self.skip,
        )
