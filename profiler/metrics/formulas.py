"""Formulas of derived metrics as data: arithmetic over metrics, facts of a cell and of the GPU.

`analyse/metric_values.py` evaluates them, over whole columns; here stands only what they say:
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


@dataclass(frozen=True)
class Formula:
    """A quantity, or arithmetic over formulas and numbers. A quotient by 0 is missing."""

    sign: str
    """One of `+ - * / **` between two parts, `min` or `max` of several; empty of a quantity."""
    parts: tuple[Formula | float, ...] = ()
    name: str = ""
    """Name of a quantity: a metric, or a fact of the cell or the GPU."""
    origin: Origin = Origin.SAMPLE

    def __add__(self, other: Formula | float) -> Formula:
        return Formula("+", (self, other))

    def __sub__(self, other: Formula | float) -> Formula:
        return Formula("-", (self, other))

    def __mul__(self, other: Formula | float) -> Formula:
        return Formula("*", (self, other))

    def __truediv__(self, other: Formula | float) -> Formula:
        return Formula("/", (self, other))

    def __rmul__(self, other: float) -> Formula:
        return Formula("*", (other, self))

    def __str__(self) -> str:
        if not self.sign:
            return f"{_OWNERS.get(self.origin, '')}{self.name}"
        if self.sign in EXTREMES:
            return f"{self.sign}({', '.join(map(_shown, self.parts))})"
        left, right = self.parts
        binds_right = self.sign == "**"
        weaker = _rank(left) < _rank(self) + binds_right
        shown = f"({_shown(left)})" if weaker else _shown(left)
        behind = f"({_shown(right)})" if _rank(right) <= _rank(self) else _shown(right)
        return f"{shown} {_SHOWN.get(self.sign, self.sign)} {behind}"

    def quantities(self) -> Iterator[Formula]:
        """Every quantity in it, as written from left to right."""
        if not self.sign:
            yield self
        for part in self.parts:
            if isinstance(part, Formula):
                yield from part.quantities()


EXTREMES = ("max", "min")
_OWNERS = {Origin.CELL: "cell.", Origin.GPU: "gpu."}
_SHOWN = {"*": "·", "/": "÷"}
_ADDITIVE, _MULTIPLICATIVE, _POWER, _ATOM = range(4)


def _shown(part: Formula | float) -> str:
    return str(part) if isinstance(part, Formula) else f"{part:,.15g}"


def _rank(part: Formula | float) -> int:
    """How strongly the parts of a formula hold together: the weaker needs brackets."""
    sign = part.sign if isinstance(part, Formula) else ""
    ranks = {"+": _ADDITIVE, "-": _ADDITIVE, "*": _MULTIPLICATIVE, "/": _MULTIPLICATIVE}
    return _POWER if sign == "**" else ranks.get(sign, _ATOM)


def metric(name: str) -> Formula:
    """A metric of the catalogue, from the same sample; it is collected where this is asked for."""
    return Formula("", name=name)


def metric_of_visit(name: str) -> Formula:
    """A metric that may lie in another session of the same visit and kind.

    For parts that ncu does not collect in one pass, in sessions of their own.
    """
    return Formula("", name=name, origin=Origin.VISIT)


def stated(field: str) -> Formula:
    """What the workload states for a cell: a field of `CellStatus`."""
    return Formula("", name=field, origin=Origin.CELL)


def of_gpu(field: str) -> Formula:
    """What is known of the GPU: a field of `Environment`."""
    return Formula("", name=field, origin=Origin.GPU)


def needed_metrics(formula: Formula | None) -> tuple[str, ...]:
    """Names of the metrics that a formula is computed from, each once."""
    if formula is None:
        return ()
    measured = (Origin.SAMPLE, Origin.VISIT)
    names = (part.name for part in formula.quantities() if part.origin in measured)
    return tuple(dict.fromkeys(names))
