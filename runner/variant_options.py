"""Options of the decorator of a variant beside its parameters; standard library only."""

from __future__ import annotations

import ast
import inspect
import linecache
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Function = Callable[..., Any]
_PLAIN = (str, int, float, bool, list, tuple)


class ExperimentError(Exception):
    """An experiment is incomplete, or an option or value is wrong; the message says which."""


@dataclass(frozen=True)
class VariantOptions:
    """Options of a variant, each with the value that changes nothing as its default."""

    setup: bool = False
    """Whether a call returns the launch, instead of making it."""
    in_place: bool = False
    """Whether a launch writes its inputs, which are then restored before each."""
    check: Function | None = None
    """Tells whether a result is right, in place of the reference."""
    tolerance: Mapping[str, Any] | None = None
    when: str | Function | None = None
    """Condition on the parameters; the variant is not applicable where it is false."""
    env: Mapping[str, Any] | None = None
    """Variables of the process that measures it."""
    tags: str | Iterable[str] = ()
    trust: str = ""
    """Why it is right although its numbers look implausible."""
    outer_values: Mapping[str, Any] = field(init=False, repr=False, compare=False)
    """Values of names outside of `when` as it was given: in a loop they are others later."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "outer_values", _outer_values(self.when))
        for key in ("setup", "in_place"):
            if not isinstance(getattr(self, key), bool):
                raise ExperimentError(f"{key}= must be True or False, not {getattr(self, key)!r}")
        if not (self.check is None or callable(self.check)):
            raise ExperimentError(f"check= must be a function, not {self.check!r}")
        if not isinstance(self.tolerance, Mapping | None):
            raise ExperimentError(
                "tolerance= must be a mapping such as {'relative': 1e-2} or "
                f"{{'float16': {{'absolute': 1e-3}}}}, not {self.tolerance!r}"
            )
        if not isinstance(self.env, Mapping | None):
            raise ExperimentError(
                f"env= must be a mapping such as {{'NVIDIA_TF32_OVERRIDE': '1'}}, not {self.env!r}"
            )
        if not (self.when is None or isinstance(self.when, str) or callable(self.when)):
            raise ExperimentError(f"when= must be a function or a text, not {self.when!r}")
        if not isinstance(self.trust, str):
            raise ExperimentError(
                "trust= must say why the variant is right although it looks implausible, not "
                f"{self.trust!r}"
            )

    def spec_keys(self) -> dict[str, Any]:
        """Options that are given, as keys of a variant in an experiment file."""
        tags = [self.tags] if isinstance(self.tags, str) else list(self.tags)
        return {
            **({"when": self._condition()} if self.when is not None else {}),
            **({"tolerance": dict(self.tolerance)} if self.tolerance is not None else {}),
            **({"env": dict(self.env)} if self.env else {}),
            **({"tags": tags} if tags else {}),
            **({"trust": True, "reason": self.trust} if self.trust else {}),
        }

    def _condition(self) -> str:
        """Text of `when` in an experiment file: of a function, the expression that it returns.

        Names of its file are replaced by their plain values.
        """
        if isinstance(self.when, str):
            return self.when
        body = None if self.when is None else _returned_expression(self.when)
        if body is None:
            raise ExperimentError(
                "when= must be one expression over parameters, such as `lambda n: n % 128 == 0`: "
                "it is asked where the experiment is planned"
            )
        values = {**_outer_values(self.when), **self.outer_values}
        return ast.unparse(_NameReplacer(values).visit(body))


OPTIONS = frozenset(key for key, part in VariantOptions.__dataclass_fields__.items() if part.init)


def _outer_values(function: str | Function | None) -> dict[str, Any]:
    """Values that names outside of a Python function have now; empty for anything else."""
    if not inspect.isfunction(function):
        return {}
    try:
        closure = inspect.getclosurevars(function)
    except ValueError:  # a name of the function around it has no value yet
        return {}
    return {**closure.globals, **closure.nonlocals}


def _returned_expression(function: Function) -> ast.expr | None:
    """The expression of a lambda, or of a function that only returns; None for any other."""
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    try:
        tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return None
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Lambda | ast.FunctionDef):
            continue
        arguments = [a.arg for a in (*node.args.args, *node.args.kwonlyargs)]
        if node.lineno != code.co_firstlineno or tuple(arguments) != names:
            continue
        if isinstance(node, ast.Lambda):
            return node.body
        *before, last = node.body
        if isinstance(last, ast.Return) and all(map(_is_text, before)):
            return last.value
    return None


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _NameReplacer(ast.NodeTransformer):
    """Replaces names by their plain values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._values.get(node.id)
        if not isinstance(value, _PLAIN):
            return node
        return ast.parse(repr(value), mode="eval").body
