"""Lists of values written as Python text, as T1 files have them; no `eval`.

A list or tuple, `range(…)`, `list(range(…))`, `[2**i for i in range(6)]`, and sums of them. What
stands inside is `profiler/kernels/arithmetic.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from profiler.kernels.arithmetic import MAX_CHARACTERS, ExpressionError, parse
from profiler.search.space import Value

MAX_VALUES = 10_000
"""Most values of a parameter."""
MAX_LIST_CHARACTERS = 100_000


def parse_values(text: str) -> tuple[Value, ...]:
    """Values of a list in text; raises ExpressionError for anything else."""
    if len(text) > MAX_LIST_CHARACTERS:
        raise ExpressionError(f"has more than {MAX_LIST_CHARACTERS} characters")
    try:
        root = ast.parse(text.strip(), mode="eval").body
        values = _list(root)
    except (SyntaxError, RecursionError, MemoryError, ValueError) as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"'{_short(text)}' is no list of values") from None
    if not values:
        raise ExpressionError("has no values")
    return values


def _list(node: ast.expr) -> tuple[Value, ...]:
    match node:
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            values = tuple(_element(element, {}) for element in elements)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            values = (*_list(left), *_list(right))
        case ast.Call(func=ast.Name(id="range"), args=arguments, keywords=[]):
            values = _range(arguments)
        case ast.Call(func=ast.Name(id="list"), args=[argument], keywords=[]):
            values = _list(argument)
        case ast.ListComp(elt=element, generators=[generator]):
            values = _comprehension(element, generator)
        case _:
            raise ExpressionError(f"'{_short(ast.unparse(node))}' is no list of values")
    if len(values) > MAX_VALUES:
        raise ExpressionError(f"has more than {MAX_VALUES} values")
    return values


def _range(arguments: list[ast.expr]) -> tuple[Value, ...]:
    bounds = [parse(ast.unparse(argument)).whole({}) for argument in arguments]
    if not 1 <= len(bounds) <= 3 or (len(bounds) == 3 and bounds[2] == 0):
        raise ExpressionError("range takes start, end and a step that is not 0")
    numbers = range(*bounds)
    if len(numbers[: MAX_VALUES + 1]) > MAX_VALUES:
        raise ExpressionError(f"has more than {MAX_VALUES} values")
    return tuple(numbers)


def _comprehension(element: ast.expr, generator: ast.comprehension) -> tuple[Value, ...]:
    if not isinstance(generator.target, ast.Name) or generator.is_async:
        raise ExpressionError("a list has one name in its 'for'")
    name = generator.target.id
    conditions = [parse(ast.unparse(condition)) for condition in generator.ifs]
    rows: list[Mapping[str, Value]] = [{name: value} for value in _list(generator.iter)]
    return tuple(
        _element(element, row)
        for row in rows
        if all(condition.value(row) for condition in conditions)
    )


def _element(node: ast.expr, row: Mapping[str, Value]) -> Value:
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    return parse(ast.unparse(node)).value(row)


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS // 10 else f"{text[: MAX_CHARACTERS // 10]}…"
