"""Evaluates expressions over tensors, parsed by `torch_syntax`."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from profiler.kernels.arithmetic import (
    COMPARISONS,
    OPERATORS,
    SIGNS,
    ExpressionError,
    value_named,
)
from profiler.kernels.cuda_file.torch_syntax import TorchSyntax, function_named

Values = Mapping[str, Any]
Evaluate = Callable[[Values], Any]
"""Function from values by name to the value of an expression."""

_MODULES = {"torch": torch, "torch.nn.functional": torch.nn.functional}

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    **OPERATORS,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
}
_FACTORIES = frozenset({"arange", "eye", "full", "linspace", "ones", "zeros"})
"""Functions whose results go to the device of the tensors, which no expression names."""
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {**SIGNS, ast.Invert: operator.invert}


def compiled(syntax: TorchSyntax) -> Evaluate:
    """Function that evaluates an expression, compiled by one walk over its tree."""
    return _compile(syntax.root)


def _compile(node: ast.expr) -> Evaluate:  # noqa: PLR0911 - one line for each kind of node
    match node:
        case ast.Constant(value=value):
            return lambda _: value
        case ast.Name(id=name):
            return lambda values: value_named(name, values)
        case ast.Attribute(value=ast.Name(id="torch"), attr=dtype):
            return lambda _: getattr(torch, dtype)
        case ast.Attribute(value=inner, attr=attribute):
            owner = _compile(inner)
            return lambda values: getattr(owner(values), attribute)
        case ast.Call():
            return _compile_call(node)
        case ast.Tuple(elts=items):
            parts = [_compile(item) for item in items]
            return lambda values: tuple(part(values) for part in parts)
        case ast.List(elts=items):
            parts = [_compile(item) for item in items]
            return lambda values: [part(values) for part in parts]
    return _compile_operator(node)


def _compile_operator(node: ast.expr) -> Evaluate:
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            combine, first, second = _BINARY[type(op)], _compile(left), _compile(right)
            return lambda values: combine(first(values), second(values))
        case ast.UnaryOp(op=op, operand=operand):
            change, inner = _UNARY[type(op)], _compile(operand)
            return lambda values: change(inner(values))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            combine, first, second = COMPARISONS[type(op)], _compile(left), _compile(right)
            return lambda values: combine(first(values), second(values))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            condition, then, otherwise = _compile(test), _compile(body), _compile(orelse)
            return lambda values: then(values) if condition(values) else otherwise(values)
        case ast.Subscript(value=inner, slice=index):
            owner, place = _compile(inner), _compile_index(index)
            return lambda values: owner(values)[place(values)]
    raise ExpressionError(f"'{ast.unparse(node)}' is not allowed in an expression")


def _compile_index(node: ast.expr) -> Evaluate:
    match node:
        case ast.Slice(lower=lower, upper=upper, step=step):
            ends = [_compile(end) if end is not None else None for end in (lower, upper, step)]
            return lambda values: slice(*(end and end(values) for end in ends))
        case ast.Tuple(elts=items):
            parts = [_compile_index(item) for item in items]
            return lambda values: tuple(part(values) for part in parts)
    return _compile(node)


def _compile_call(node: ast.Call) -> Evaluate:
    arguments = [_compile(argument) for argument in node.args]
    keywords = {str(keyword.arg): _compile(keyword.value) for keyword in node.keywords}
    function_and_module = function_named(node.func)
    if function_and_module is None:
        assert isinstance(node.func, ast.Attribute)  # noqa: S101 - the syntax was checked
        return _method(_compile(node.func.value), node.func.attr, arguments, keywords)
    module, name = function_and_module
    function = getattr(_MODULES[module], name)
    if module == "torch" and name in _FACTORIES:
        return lambda values: function(
            *(argument(values) for argument in arguments),
            **{key: value(values) for key, value in keywords.items()},
            device=_device_of(values),
        )
    return lambda values: function(
        *(argument(values) for argument in arguments),
        **{key: value(values) for key, value in keywords.items()},
    )


def _method(
    owner: Evaluate, name: str, arguments: list[Evaluate], keywords: Mapping[str, Evaluate]
) -> Evaluate:
    def call(values: Values) -> Any:
        tensor = owner(values)
        if not isinstance(tensor, torch.Tensor | torch.Size):
            raise ExpressionError(f".{name}() is no method of {type(tensor).__name__}")
        return getattr(tensor, name)(
            *(argument(values) for argument in arguments),
            **{key: value(values) for key, value in keywords.items()},
        )

    return call


def _device_of(values: Values) -> torch.device | None:
    """Device of the tensors among values; None without tensors."""
    tensors = (value for value in values.values() if isinstance(value, torch.Tensor))
    return next((tensor.device for tensor in tensors), None)
