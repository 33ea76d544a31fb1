"""Arithmetic over named values, written as text: `ceil_div(columns, 4 * width)`; no `eval`.

Numbers, text, names, `+ - * / // % **`, comparisons, `in [1, 2]`, `and`, `or`, `not`,
`a if b else c`, and a few functions. `/` gives a float, as in Python. Standard library only.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

Value = str | int | float | bool | None
Evaluate = Callable[[Mapping[str, Value]], Value]
"""From the values of names to that of an expression."""

MAX_CHARACTERS = 1000
MAX_DEPTH = 100
"""Levels of a syntax tree: a value takes two calls for each."""
MAX_BITS = 256
"""Longest whole number on the way to a result: `9**9**9` would take the machine's memory."""

SIZES: Mapping[str, int] = {
    **dict.fromkeys(("float64", "int64"), 8),
    **dict.fromkeys(("float32", "int32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16"), 2),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "int8", "uint8", "bool"), 1),
}
"""Bytes of an element, by name of the dtype in torch."""

OPERATORS: Mapping[type[ast.operator], Callable[..., Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[..., bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
MEMBERSHIPS: Mapping[type[ast.cmpop], Callable[..., bool]] = {
    ast.In: lambda value, members: value in members,
    ast.NotIn: lambda value, members: value not in members,
}
SIGNS: Mapping[type[ast.unaryop], Callable[..., Value]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}


class ExpressionError(ValueError):
    """A text is no arithmetic, or has no value; the message says why."""


def _ceil_div(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _size_of(dtype: Value) -> int:
    if not isinstance(dtype, str) or dtype not in SIZES:
        raise ExpressionError(f"size_of({dtype!r}): dtypes are {', '.join(sorted(SIZES))}")
    return SIZES[dtype]


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "abs": abs,
    "ceil_div": _ceil_div,
    "max": max,
    "min": min,
    "size_of": _size_of,
}


_MOST_BITS = 1023
"""A whole number with more is beyond every float."""


@dataclass(frozen=True)
class Arithmetic:
    """A parsed text; its value depends on the values of its names."""

    text: str
    names: frozenset[str]
    _evaluate: Evaluate = field(repr=False, compare=False)

    def value(self, values: Mapping[str, Value]) -> Value:
        """Value of the text; raises ExpressionError where a name has none, or there is no result.

        `values` by name.
        """
        try:
            value = self._evaluate(values)
        except ZeroDivisionError:
            raise ExpressionError(f"'{self.text}' divides by zero") from None
        except OverflowError as error:
            raise ExpressionError(f"'{self.text}': {error}") from None
        if isinstance(value, int) and value.bit_length() > _MOST_BITS:
            raise ExpressionError(f"'{self.text}' is a whole number of {value.bit_length()} bits")
        return value

    def number(self, values: Mapping[str, Value]) -> int | float:
        """Value as a finite number, true as 1; raises ExpressionError where it is none."""
        value = self.value(values)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ExpressionError(
                f"'{self.text}' is {_shown(value)}, which is no number{_worked_out(value)}"
            )
        return int(value) if isinstance(value, bool) else value

    def whole(self, values: Mapping[str, Value]) -> int:
        """Value as a whole number; raises ExpressionError where it is none."""
        value = self.number(values)
        if value != int(value):
            raise ExpressionError(
                f"'{self.text}' is {value:g}, which is no whole number; // and ceil_div give one"
            )
        return int(value)


def parse(given: str | float) -> Arithmetic:
    """Parse a number or a text; raises ExpressionError for anything that is no arithmetic."""
    text = str(given).strip()
    if not text:
        raise ExpressionError("is empty")
    names: set[str] = set()
    evaluate = _compiled(syntax_tree(text, "arithmetic"), names)
    return Arithmetic(text, frozenset(names), evaluate)


def syntax_tree(text: str, kind: str, *, most_characters: int = MAX_CHARACTERS) -> ast.expr:
    """Syntax tree of one expression, of whichever language; nothing in it is evaluated.

    Raises ExpressionError where the text is none (`kind`: the name of what it should be), where it
    is too long, and where it is nested too deeply to be walked.
    """
    if len(text) > most_characters:
        raise ExpressionError(f"has more than {most_characters} characters")
    try:
        root = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise ExpressionError(f"'{text}' is no {kind}: {reason}") from None
    if _levels(root) > MAX_DEPTH:
        raise ExpressionError(f"is nested deeper than {MAX_DEPTH} levels")
    return root


def _levels(root: ast.AST) -> int:
    """Number of levels of a syntax tree."""
    levels, level = 0, [root]
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        levels += 1
    return levels


def unknown_name(name: str, known: Mapping[str, Value]) -> str:
    """Sentence about a name that nothing gives a value, with the closest one that has one."""
    close = get_close_matches(name, known, n=1)
    if close:
        return f"there is no '{name}'; did you mean '{close[0]}'?"
    return f"there is no '{name}'; known: {', '.join(sorted(known)) or 'none'}"


def _compiled(node: ast.expr, names: set[str]) -> Evaluate:  # noqa: PLR0911 - one for each kind
    """Function that gives the value of a node; the names that it uses are added to `names`.

    Raises ExpressionError for what is no arithmetic.
    """
    match node:
        case ast.Constant(value=str() | int() | float() as constant):
            return lambda _: constant
        case ast.Name(id=name):
            names.add(name)
            return lambda values: value_named(name, values)
        case ast.Call():
            function, arguments = _function(node), [_argument(part, names) for part in node.args]
            return lambda values: _called(function, [part(values) for part in arguments])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            holds, then, other = (_compiled(part, names) for part in (test, body, orelse))
            return lambda values: (then if holds(values) else other)(values)
        case ast.BinOp(left=left, op=combination, right=right) if type(combination) in OPERATORS:
            first, second = _compiled(left, names), _compiled(right, names)
            return lambda values: _calculated(combination, first(values), second(values))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in SIGNS:
            value = _compiled(operand, names)
            return lambda values: _signed(sign, value(values))
        case ast.BoolOp(op=junction, values=operands):
            joined = all if isinstance(junction, ast.And) else any
            parts = [_compiled(operand, names) for operand in operands]
            return lambda values: joined(part(values) for part in parts)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in COMPARISONS for op in ops
        ):
            parts = [_compiled(part, names) for part in (left, *others)]
            return lambda values: _compared(ops, parts, values)
        case ast.Compare(
            left=left, ops=[within], comparators=[ast.List(elts=members) | ast.Tuple(elts=members)]
        ) if type(within) in MEMBERSHIPS:
            value, parts = _compiled(left, names), [_compiled(part, names) for part in members]
            return lambda values: MEMBERSHIPS[type(within)](
                value(values), [part(values) for part in parts]
            )
    raise ExpressionError(
        f"'{ast.unparse(node)}' is no arithmetic: there are + - * / // % **, comparisons, and, or, "
        f"not, a if b else c, {', '.join(sorted(FUNCTIONS))}"
    )


def _argument(node: ast.expr, names: set[str]) -> Evaluate:
    """Function that gives the value of a function's argument: a dtype stands for itself."""
    if isinstance(node, ast.Name) and node.id in SIZES:
        return lambda _: node.id
    return _compiled(node, names)


def _function(node: ast.Call) -> str:
    """Name of the function that is called."""
    name = ast.unparse(node.func)
    if name not in FUNCTIONS:
        raise ExpressionError(f"no function '{name}'; there are {', '.join(sorted(FUNCTIONS))}")
    if node.keywords or not node.args:
        raise ExpressionError(f"{name} takes values in order, without names")
    return name


def value_named(name: str, values: Mapping[str, Any]) -> Any:
    """Value of a name; raises ExpressionError where it has none."""
    if name not in values:
        raise ExpressionError(unknown_name(name, values))
    return values[name]


def _called(name: str, arguments: Sequence[Value]) -> Value:
    try:
        return FUNCTIONS[name](*arguments)
    except TypeError:
        shown = ", ".join(map(_shown, arguments))
        raise ExpressionError(f"{name}({shown}) has no value: too few, or no numbers") from None


def _calculated(op: ast.operator, left: Value, right: Value) -> Value:
    if any(isinstance(side, str) or side is None for side in (left, right)):
        raise ExpressionError(
            f"cannot calculate with {_shown(left)} and {_shown(right)}"
            f"{_worked_out(left) or _worked_out(right)}"
        )
    if isinstance(op, ast.Pow) and _bits(left) * abs(right) > MAX_BITS:  # type: ignore[arg-type]
        raise ExpressionError(f"{left} ** {right} is too large")
    result = OPERATORS[type(op)](left, right)
    if _bits(result) > MAX_BITS or isinstance(result, complex):
        raise ExpressionError(f"a result of {left} and {right} is too large, or no number")
    return result


def _shown(value: Value) -> str:
    """A value as an experiment file has it."""
    return "null" if value is None else repr(value)


def _worked_out(value: Value) -> str:
    """Hint for a text such as `2**12` in the place of a number; empty for any other value."""
    try:
        number = parse(value).number({}) if isinstance(value, str) else None
    except ExpressionError:
        return ""
    return "" if number is None else f": values of parameters are not calculated, write {number}"


def _signed(op: ast.unaryop, value: Value) -> Value:
    if not isinstance(op, ast.Not) and (isinstance(value, str) or value is None):
        raise ExpressionError(f"cannot calculate with {_shown(value)}")
    return SIGNS[type(op)](value)


def _bits(value: Value) -> int:
    return value.bit_length() if isinstance(value, int) else 1


def _compared(
    ops: Sequence[ast.cmpop], parts: Sequence[Evaluate], values: Mapping[str, Value]
) -> bool:
    """Whether each value of a chain is to the next as the operator between them says."""
    left = parts[0](values)
    for op, part in zip(ops, parts[1:], strict=True):
        right = part(values)
        try:
            holds = COMPARISONS[type(op)](left, right)
        except TypeError:
            raise ExpressionError(f"cannot compare {_shown(left)} with {_shown(right)}") from None
        if not holds:
            return False
        left = right
    return True
