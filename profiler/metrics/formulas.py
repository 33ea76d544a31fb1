"""Formulas of derived metrics as data: arithmetic over metrics, facts of a cell and of the GPU.

`analyse/metric_values.py` evaluates them over whole columns; here they are only written:
`metric("cycles") / metric("duration_ns")`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Origin(StrEnum):
    """Source of the value of a quantity."""

    SAMPLE = "sample"
    """A metric of the same sample."""
    VISIT = "visit"
    """A metric of the same visit, in whichever session of the same kind measured it."""
    CELL = "cell"
    """A field of `CellFacts`, which the workload states."""
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
            return f"{self.sign}({', '.join(map(_part_text, self.parts))})"
        left, right = self.parts
        binds_right = self.sign == "**"
        left_needs_brackets = _binding_strength(left) < _binding_strength(self) + binds_right
        left_text = f"({_part_text(left)})" if left_needs_brackets else _part_text(left)
        right_text = (
            f"({_part_text(right)})"
            if _binding_strength(right) <= _binding_strength(self)
            else _part_text(right)
        )
        return f"{left_text} {_SIGN_TEXTS.get(self.sign, self.sign)} {right_text}"

    def quantities(self) -> Iterator[Formula]:
        """Every quantity of the formula, from left to right."""
        if not self.sign:
            yield self
        for part in self.parts:
            if isinstance(part, Formula):
                yield from part.quantities()


EXTREMES = ("max", "min")
_OWNERS = {Origin.CELL: "cell.", Origin.GPU: "gpu."}
_SIGN_TEXTS = {"*": "·", "/": "÷"}
_ADDITIVE, _MULTIPLICATIVE, _POWER, _ATOM = range(4)


def _part_text(part: Formula | float) -> str:
    return str(part) if isinstance(part, Formula) else f"{part:,.15g}"


def _binding_strength(part: Formula | float) -> int:
    """Binding strength of a formula's operator: a weaker part needs brackets."""
    sign = part.sign if isinstance(part, Formula) else ""
    ranks = {"+": _ADDITIVE, "-": _ADDITIVE, "*": _MULTIPLICATIVE, "/": _MULTIPLICATIVE}
    return _POWER if sign == "**" else ranks.get(sign, _ATOM)


def metric(name: str) -> Formula:
    """A metric of the catalogue from the same sample, collected with the formula's metric."""
    return Formula("", name=name)


def metric_of_visit(name: str) -> Formula:
    """A metric that may lie in another session of the same visit and kind.

    For parts that ncu does not collect in one pass, but in separate sessions.
    """
    return Formula("", name=name, origin=Origin.VISIT)


def cell_fact(field: str) -> Formula:
    """A fact that the workload states for a cell: a field of `CellFacts`."""
    return Formula("", name=field, origin=Origin.CELL)


def gpu_fact(field: str) -> Formula:
    """A fact of the GPU: a field of `Environment`."""
    return Formula("", name=field, origin=Origin.GPU)


def needed_metrics(formula: Formula | None) -> tuple[str, ...]:
    """Names of the metrics in a formula, each once."""
    if formula is None:
        return ()
    measured = (Origin.SAMPLE, Origin.VISIT)
    names = (part.name for part in formula.quantities() if part.origin in measured)
    return tuple(dict.fromkeys(names))
