"""Formulas of derived metrics as data: arithmetic over metrics, facts of a cell and of the GPU.

`analyse/derived.py` evaluates them, over whole columns; here stands only what they say:
`metric("cycles") / metric("duration_ns")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Where the value of a quantity comes from."""

    SAMPLE = "sample"
    """A metric of the same sample."""
    VISIT = "visit"
    """A metric of the same visit, in whichever session of the same kind measured it."""
    CELL = "cell"
    """A field of `CellStatus`: what the workload states."""
    GPU = "gpu"
    """A field of `Environment`."""


class Formula:
    """Arithmetic over quantities and numbers. A quotient by 0 is missing."""

    def __add__(self, other: Formula | float) -> Operation:
        return Operation("+", self, _formula(other))

    def __sub__(self, other: Formula | float) -> Operation:
        return Operation("-", self, _formula(other))

    def __mul__(self, other: Formula | float) -> Operation:
        return Operation("*", self, _formula(other))

    def __truediv__(self, other: Formula | float) -> Operation:
        return Operation("/", self, _formula(other))

    def __rmul__(self, other: float) -> Operation:
        return Operation("*", Number(other), self)

    def quantities(self) -> Iterator[Quantity]:
        """Every quantity in it, as written from left to right."""
        yield from ()


@dataclass(frozen=True)
class Number(Formula):
    """A constant."""

    value: float

    def __str__(self) -> str:
        return f"{self.value:,.15g}"


@dataclass(frozen=True)
class Quantity(Formula):
    """A value with a name: a metric, or a fact of the cell or the GPU."""

    name: str
    origin: Origin = Origin.SAMPLE

    def __str__(self) -> str:
        owners = {Origin.CELL: "cell.", Origin.GPU: "gpu."}
        return f"{owners.get(self.origin, '')}{self.name}"

    def quantities(self) -> Iterator[Quantity]:
        """Itself."""
        yield self


@dataclass(frozen=True)
class Operation(Formula):
    """Two formulas and one of the signs `+ - * / **` between them."""

    sign: str
    left: Formula
    right: Formula

    def __str__(self) -> str:
        binds_right = self.sign == "**"
        weaker = _rank(self.left) < _rank(self) + binds_right
        left = f"({self.left})" if weaker else f"{self.left}"
        right = f"({self.right})" if _rank(self.right) <= _rank(self) else f"{self.right}"
        return f"{left} {_SHOWN.get(self.sign, self.sign)} {right}"

    def quantities(self) -> Iterator[Quantity]:
        """Quantities of the left side, then of the right."""
        yield from self.left.quantities()
        yield from self.right.quantities()


@dataclass(frozen=True)
class Extreme(Formula):
    """The smallest (`min`) or largest (`max`) of several formulas."""

    name: str
    parts: tuple[Formula, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parts))})"

    def quantities(self) -> Iterator[Quantity]:
        """Quantities of the parts, in their order."""
        for part in self.parts:
            yield from part.quantities()


_SHOWN = {"*": "·", "/": "÷"}
_ADDITIVE, _MULTIPLICATIVE, _POWER, _ATOM = range(4)


def _rank(formula: Formula) -> int:
    """How strongly the parts of a formula hold together: the weaker needs brackets."""
    if not isinstance(formula, Operation):
        return _ATOM
    if formula.sign == "**":
        return _POWER
    return _ADDITIVE if formula.sign in "+-" else _MULTIPLICATIVE


def _formula(operand: Formula | float) -> Formula:
    return operand if isinstance(operand, Formula) else Number(operand)


def metric(name: str) -> Quantity:
    """A metric of the catalogue, from the same sample; it is collected where this is asked for."""
    return Quantity(name)


def metric_of_visit(name: str) -> Quantity:
    """A metric that may lie in another session of the same visit and kind.

    For parts that ncu does not collect in one pass, in sessions of their own.
    """
    return Quantity(name, Origin.VISIT)


def stated(field: str) -> Quantity:
    """What the workload states for a cell: a field of `CellStatus`."""
    return Quantity(field, Origin.CELL)


def of_gpu(field: str) -> Quantity:
    """What is known of the GPU: a field of `Environment`."""
    return Quantity(field, Origin.GPU)


def needed_metrics(formula: Formula | None) -> tuple[str, ...]:
    """Names of the metrics that a formula is computed from, each once."""
    if formula is None:
        return ()
    measured = (Origin.SAMPLE, Origin.VISIT)
    names = (part.name for part in formula.quantities() if part.origin in measured)
    return tuple(dict.fromkeys(names))
