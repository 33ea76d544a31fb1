"""Metrics of a user: a name, a formula over the catalogue, written as text, and a unit.

`parse_formula` makes of the text what the catalogue's own derived metrics have (`Formula`), so that
one evaluator computes both, over whole columns (`analyse/metric_values.py`).
`profiler/kernels/arithmetic.py` reads the text; its own evaluator gives one number and knows no
missing ones. Only what stands in `_formula` is understood.
"""

from __future__ import annotations

import ast
import difflib
import math

from profiler.kernels.arithmetic import ExpressionError, syntax_tree
from profiler.metrics.catalogue import CATALOGUE, Metric, PassClass
from profiler.metrics.formulas import (
    EXTREMES,
    Formula,
    metric,
    stated,
)

MAX_CHARACTERS = 500
_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Pow: "**",
}


def own_metric(name: str, formula: str, unit: str = "") -> Metric:
    """The metric that an experiment file defines; raises ExpressionError as `parse_formula`."""
    parsed = parse_formula(formula)
    return Metric(
        name=name,
        label=name,
        unit=unit,
        pass_class=PassClass.DERIVED,
        definition=f"Defined by the experiment file: {parsed}.",
        source="experiment file",
        formula=parsed,
    )


def parse_formula(text: str) -> Formula:
    """Formula that a text says; raises ExpressionError where it is no arithmetic on metrics.

    Numbers, names of the catalogue, `+ - * / **`, brackets, `min` and `max`.
    """
    formula = _formula(syntax_tree(text, "formula", most_characters=MAX_CHARACTERS))
    if not isinstance(formula, Formula) or next(formula.quantities(), None) is None:
        raise ExpressionError("names no metric")
    return formula


def _formula(node: ast.expr) -> Formula | float:
    match node:
        case ast.Constant(value=int() | float() as value) if _is_number(value):
            return float(value)
        case ast.Name(id=name):
            return _quantity(name)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SIGNS:
            return Formula(_SIGNS[type(op)], (_formula(left), _formula(right)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return Formula("*", (-1.0, _formula(operand)))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _formula(operand)
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in EXTREMES:
            if len(parts) < 2:
                raise ExpressionError(f"{name} takes two values or more")
            return Formula(name, tuple(map(_formula, parts)))
    raise ExpressionError(
        f"'{ast.unparse(node)}' is not arithmetic; there are numbers, metrics, + - * / **, min "
        "and max"
    )


def _is_number(value: float) -> bool:
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False


def _quantity(name: str) -> Formula:
    """The quantity of a name: measured, or stated by the workload."""
    entry = CATALOGUE.get(name)
    if entry is None:
        close = difflib.get_close_matches(name, CATALOGUE, n=1)
        hint = f"did you mean '{close[0]}'?" if close else "docs/metrics.md lists them"
        raise ExpressionError(f"there is no metric '{name}'; {hint}")
    return stated(entry.fact or name) if entry.source == "runner" else metric(name)
