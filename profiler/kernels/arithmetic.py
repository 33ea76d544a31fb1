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
"""Function from values by name to the value of an expression."""

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
    """A text is no arithmetic, or has no value; the message has the reason."""


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
"""Most digits of a whole number: longer ones are beyond every float."""


@dataclass(frozen=True)
class Arithmetic:
    """A parsed text; its value depends on the values of its names."""

    text: str
    names: frozenset[str]
    _evaluate: Evaluate = field(repr=False, compare=False)

    def value(self, values: Mapping[str, Value]) -> Value:
        """Value of the text; raises ExpressionError for a name without a value, or no result.

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
        """Value as a finite number, true as 1; raises ExpressionError for any other value."""
        value = self.value(values)
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ExpressionError(
                f"'{self.text}' is {_shown(value)}, which is no number{_calculation_hint(value)}"
            )
        return int(value) if isinstance(value, bool) else value

    def whole_number(self, values: Mapping[str, Value]) -> int:
        """Value as a whole number; raises ExpressionError for any other value."""
        value = self.number(values)
        if value != int(value):
            raise ExpressionError(
                f"'{self.text}' is {value:g}, which is no whole number; // and ceil_div give one"
            )
        return int(value)


def parse(source: str | float) -> Arithmetic:
    """Arithmetic of a number or a text; raises ExpressionError for any other text."""
    text = str(source).strip()
    if not text:
        raise ExpressionError("is empty")
    names: set[str] = set()
    evaluate = _compiled_node(syntax_tree(text, "arithmetic"), names)
    return Arithmetic(text, frozenset(names), evaluate)


def syntax_tree(text: str, kind: str, *, most_characters: int = MAX_CHARACTERS) -> ast.expr:
    """Syntax tree of one expression; nothing in it is evaluated.

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


def unknown_name(name: str, values: Mapping[str, Value]) -> str:
    """Sentence on a name without a value, with the closest name that has one."""
    close = get_close_matches(name, values, n=1)
    if close:
        return f"there is no '{name}'; did you mean '{close[0]}'?"
    return f"there is no '{name}'; known: {', '.join(sorted(values)) or 'none'}"


def _compiled_node(  # noqa: C901, PLR0911 - one for each kind
    node: ast.expr, names: set[str]
) -> Evaluate:
    """Function that evaluates a node; its names are added to `names`.

    Raises ExpressionError for a node that is no arithmetic.
    """
    match node:
        case ast.Constant(value=str() | int() | float() as constant):
            return lambda _: constant
        case ast.Name(id="true" | "false"):  # as YAML and C++ write them
            return lambda _: node.id == "true"
        case ast.Name(id=name):
            names.add(name)
            return lambda values: value_named(name, values)
        case ast.Call():
            function, arguments = _function(node), [_argument(part, names) for part in node.args]
            return lambda values: _function_value(function, [part(values) for part in arguments])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            holds, then, otherwise = (_compiled_node(part, names) for part in (test, body, orelse))
            return lambda values: (then if holds(values) else otherwise)(values)
        case ast.BinOp(left=left, op=combination, right=right) if type(combination) in OPERATORS:
            first, second = _compiled_node(left, names), _compiled_node(right, names)
            return lambda values: _operation_value(combination, first(values), second(values))
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in SIGNS:
            value = _compiled_node(operand, names)
            return lambda values: _signed(sign, value(values))
        case ast.BoolOp(op=junction, values=operands):
            parts = [_compiled_node(operand, names) for operand in operands]
            return lambda values: _deciding_value(parts, isinstance(junction, ast.Or), values)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(
            type(op) in COMPARISONS for op in ops
        ):
            parts = [_compiled_node(part, names) for part in (left, *others)]
            return lambda values: _comparison_holds(ops, parts, values)
        case ast.Compare(
            left=left, ops=[within], comparators=[ast.List(elts=members) | ast.Tuple(elts=members)]
        ) if type(within) in MEMBERSHIPS:
            value, parts = (
                _compiled_node(left, names),
                [_compiled_node(part, names) for part in members],
            )
            return lambda values: MEMBERSHIPS[type(within)](
                value(values), [part(values) for part in parts]
            )
    raise ExpressionError(
        f"'{ast.unparse(node)}' is no arithmetic: there are + - * / // % **, comparisons, and, or, "
        f"not, a if b else c, {', '.join(sorted(FUNCTIONS))}"
    )


def _argument(node: ast.expr, names: set[str]) -> Evaluate:
    """Function that evaluates a call's argument; a dtype stands for itself."""
    if isinstance(node, ast.Name) and node.id in SIZES:
        return lambda _: node.id
    return _compiled_node(node, names)


def _function(node: ast.Call) -> str:
    """Name of the called function."""
    name = ast.unparse(node.func)
    if name not in FUNCTIONS:
        raise ExpressionError(f"no function '{name}'; there are {', '.join(sorted(FUNCTIONS))}")
    if node.keywords or not node.args:
        raise ExpressionError(f"{name} takes values in order, without names")
    return name


def value_named(name: str, values: Mapping[str, Any]) -> Any:
    """Value of a name; raises ExpressionError for a name without a value."""
    if name not in values:
        raise ExpressionError(unknown_name(name, values))
    return values[name]


def _function_value(name: str, arguments: Sequence[Value]) -> Value:
    try:
        return FUNCTIONS[name](*arguments)
    except TypeError:
        argument_text = ", ".join(map(_shown, arguments))
        raise ExpressionError(
            f"{name}({argument_text}) has no value: too few, or no numbers"
        ) from None


def _operation_value(op: ast.operator, first: Value, second: Value) -> Value:
    if any(isinstance(side, str) or side is None for side in (first, second)):
        raise ExpressionError(
            f"cannot calculate with {_shown(first)} and {_shown(second)}"
            f"{_calculation_hint(first) or _calculation_hint(second)}"
        )
    if isinstance(op, ast.Pow) and _bits(first) * abs(second) > MAX_BITS:  # type: ignore[arg-type]
        raise ExpressionError(f"{first} ** {second} is too large")
    result = OPERATORS[type(op)](first, second)
    if _bits(result) > MAX_BITS or isinstance(result, complex):
        raise ExpressionError(f"a result of {first} and {second} is too large, or no number")
    return result


def _shown(value: Value) -> str:
    """A value as an experiment file writes it."""
    return "null" if value is None else repr(value)


def _calculation_hint(value: Value) -> str:
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


def _deciding_value(parts: Sequence[Evaluate], decides: bool, values: Mapping[str, Value]) -> Value:
    """Value of the first part whose truth decides, else of the last: `x or 1` is no boolean."""
    for part in parts:
        value = part(values)
        if bool(value) is decides:
            break
    return value


def _comparison_holds(
    ops: Sequence[ast.cmpop], parts: Sequence[Evaluate], values: Mapping[str, Value]
) -> bool:
    """Whether every comparison of a chain holds between its neighbouring values."""
    previous = parts[0](values)
    for op, part in zip(ops, parts[1:], strict=True):
        following = part(values)
        try:
            holds = COMPARISONS[type(op)](previous, following)
        except TypeError:
            raise ExpressionError(
                f"cannot compare {_shown(previous)} with {_shown(following)}"
            ) from None
        if not holds:
            return False
        previous = following
    return True
