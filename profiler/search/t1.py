"""T1: a tuning problem in JSON, in the form of the FAIR benchmark hub and kernel_tuner.

Lists of values are written as Python text there; no `eval`: a list or tuple, `range(…)`,
`list(range(…))`, `[2**i for i in range(6)]`, and sums of them. Items are expressions
of `profiler/kernels/arithmetic.py`. Errors name the field of the file.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import ParseError, nearest_file
from profiler.kernels.arithmetic import MAX_CHARACTERS, ExpressionError, parse
from profiler.outside_text import safe_values
from profiler.parse.bounded_files import read_content
from profiler.search.space import Parameter, SearchSpace, Value, constrained_space

MAX_BYTES = 16 * 2**20
MAX_PARAMETERS = 200
MAX_CONDITIONS = 10_000
_TYPES: Mapping[str, type] = {"bool": bool, "int": int, "float": float, "string": str}
_VALUE_FORMS = (
    "Values are a list, range(…), list(range(…)), [2**i for i in range(6)] or a sum of these; "
    "texts stand in quotes, and the boolean values are True and False."
)
_CONDITION_FORMS = (
    "Conditions have numbers, texts, parameters, + - * / // % **, comparisons, in [1, 2], and, or, "
    "not, a if b else c, min, max and abs."
)


@dataclass(frozen=True)
class TuningProblem:
    """A tuning problem of a T1 file: name, space, and the texts of its conditions."""

    name: str
    space: SearchSpace
    conditions: tuple[str, ...] = ()


def read_t1(path: Path) -> TuningProblem:
    """Read a T1 file, compressed by gzip or not; raises ParseError with the field that is wrong."""
    document = read_json(path, MAX_BYTES)
    try:
        return _problem(document, path.name)
    except (ParseError, ExpressionError) as error:
        remedy = error.remedy if isinstance(error, ParseError) else None
        raise ParseError(f"{path}: {error.args[0]}", remedy=remedy) from None


def _problem(document: Any, file_name: str) -> TuningProblem:
    section = mapping_of(mapping_of(document, "T1").get("ConfigurationSpace"), "ConfigurationSpace")
    items = list_of(section.get("TuningParameters"), "TuningParameters")
    if not 1 <= len(items) <= MAX_PARAMETERS:
        raise ParseError(f"TuningParameters: {len(items)}, and there may be 1 to {MAX_PARAMETERS}")
    parameters = [_parameter(item, number) for number, item in enumerate(items)]
    if len({parameter.name for parameter in parameters}) < len(parameters):
        raise ParseError("TuningParameters: a name stands there twice")
    conditions = list_of(section.get("Conditions", []), "Conditions")
    if len(conditions) > MAX_CONDITIONS:
        raise ParseError(f"Conditions: {len(conditions)} are more than {MAX_CONDITIONS}")
    texts = tuple(_condition(item, f"Conditions[{n}]") for n, item in enumerate(conditions))
    general = document.get("General")
    name = general.get("BenchmarkName") if isinstance(general, Mapping) else None
    return TuningProblem(
        name=name if isinstance(name, str) else file_name,
        space=constrained_space(parameters, [parse(text) for text in texts]),
        conditions=texts,
    )


def _condition(item: Any, place: str) -> str:
    """Text of a condition; raises ParseError where it is no arithmetic."""
    text = text_of(mapping_of(item, place).get("Expression"), f"{place}.Expression")
    try:
        parse(text)
    except ExpressionError as error:
        raise ParseError(f"{place} '{text[:80]}': {error}", remedy=_CONDITION_FORMS) from None
    return text


def _parameter(item: Any, number: int) -> Parameter:
    place = f"TuningParameters[{number}]"
    mapping = mapping_of(item, place)
    name = text_of(mapping.get("Name"), f"{place}.Name")
    values = mapping.get("Values")
    try:
        value_list = (
            parse_values(values) if isinstance(values, str) else _plain_values(values, name)
        )
    except ExpressionError as error:
        raise ParseError(f"{place} '{name}': Values: {error}", remedy=_VALUE_FORMS) from None
    return Parameter.of(name, value_list)


def _plain_values(values: Any, name: str) -> tuple[Value, ...]:
    """Values of a JSON list, which some files have instead of text."""
    value_list = list_of(values, f"Values of '{name}'")
    if not value_list or not all(
        value is None or isinstance(value, str | bool | int | float) for value in value_list
    ):
        raise ParseError(f"Values of '{name}': no list of numbers and texts")
    return tuple(value_list)


def t1_document(problem: TuningProblem) -> dict[str, Any]:
    """T1 document of a problem, without kernel and arguments."""
    return {
        "General": {"BenchmarkName": problem.name, "OutputFormat": "JSON"},
        "ConfigurationSpace": {
            "TuningParameters": [
                {
                    "Name": parameter.name,
                    "Type": _type_name(parameter.values),
                    "Values": repr(list(parameter.values)),
                }
                for parameter in problem.space.parameters
            ],
            "Conditions": [
                {"Expression": text, "Parameters": sorted(parse(text).names)}
                for text in problem.conditions
            ],
        },
        "KernelSpecification": {"BenchmarkName": problem.name, "KernelName": problem.name},
    }


def _type_name(values: Sequence[Value]) -> str:
    for name, of_type in _TYPES.items():
        if all(
            isinstance(value, of_type) and (of_type is bool or not isinstance(value, bool))
            for value in values
        ):
            return name
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return "float" if numbers and all(math.isfinite(float(v or 0)) for v in values) else "string"


MAX_VALUES = 10_000
"""Most values of a parameter."""
MAX_LIST_CHARACTERS = 100_000


def parse_values(text: str) -> tuple[Value, ...]:
    """Values of a list in text; raises ExpressionError for any other text."""
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
    bounds = [parse(ast.unparse(argument)).whole_number({}) for argument in arguments]
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


# ---- JSON files of others, read within limits ----------------------------------------------------


def read_json(path: Path, limit: int) -> Any:
    """Content of a JSON file, compressed by gzip or not, its texts made safe.

    Raises ParseError where it cannot be read, is no JSON or holds more than `limit` bytes.
    """
    try:
        content = read_content(path, limit)
        return safe_values(json.loads(content.decode("utf-8"), parse_constant=_refuse))
    except OSError as error:
        hint = nearest_file(path) if not path.exists() else ""
        raise ParseError(f"{path}: {error.strerror or error}{hint}") from None
    except RecursionError:
        raise ParseError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise ParseError(f"{path}: is no JSON: {str(error)[:200].partition(';')[0]}") from None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number of JSON")


def mapping_of(value: Any, place: str) -> Mapping[str, Any]:
    """A value that is an object; raises ParseError for any other."""
    if not isinstance(value, Mapping):
        raise ParseError(f"{place}: an object is missing")
    return value


def list_of(value: Any, place: str) -> list[Any]:
    """A value that is a list; raises ParseError for any other."""
    if not isinstance(value, list):
        raise ParseError(f"{place}: a list is missing")
    return value


def text_of(value: Any, place: str) -> str:
    """A value that is a text; raises ParseError for any other."""
    if not isinstance(value, str) or not value:
        raise ParseError(f"{place}: a text is missing")
    return value
