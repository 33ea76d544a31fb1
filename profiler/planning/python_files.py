"""Definitions of a Python file, by its syntax tree: the file itself is not run."""

from __future__ import annotations

import ast
import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from profiler.errors import SpecError, close_hint
from profiler.runner.experiment import (
    ALMOST,
    FUNCTION,
    MODEL,
    MODEL_INPUTS,
    NEW_MODEL,
    ROLES,
    called_otherwise,
    callers_by_name,
    helper_notes,
    takes_nothing,
)
from profiler.runner.import_path import syntax_excerpt

Parameters = Sequence[str]


def function_faults(
    file: Path, needed: Mapping[str, Parameters], one_needed: Mapping[str, Parameters]
) -> Iterator[str]:
    """Sentences on functions that a file lacks, or that take other arguments.

    Parameters by name of the needed functions; of `one_needed` one is enough. A file that is an
    experiment itself needs none of them.
    """
    try:
        tree = _tree(file, file.name)
    except SpecError as error:
        yield error.message
        return
    if is_experiment(tree):
        return
    defined = dict(definitions(tree.body))
    if not _is_open(tree):
        yield from _missing_functions(file, defined, needed, one_needed)
    for name, parameters in {**needed, **one_needed}.items():
        node = defined.get(name)
        if isinstance(node, ast.FunctionDef) and not _accepts_arguments(node.args, len(parameters)):
            called = f"{name}({', '.join(parameters)})"
            yield f"{file.name}:{node.lineno}: {name} is called as {called}, which it does not take"


def unread_names(file: Path, optional: Sequence[str]) -> Iterator[str]:
    """Sentences on unread names that are almost the name of an optional function.

    An optional name that is absent is no fault, so that without these a slip goes unnoticed:
    `tolerances` in place of `TOLERANCES` leaves the default ones in force.
    """
    try:
        tree = _tree(file, file.name)
    except SpecError:
        return  # `function_faults` says it
    if is_experiment(tree) or _is_open(tree):
        return
    defined = dict(definitions(tree.body))
    loaded_names = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    absent = {name.lower(): name for name in optional if name not in defined}
    for name, node in defined.items():
        close = difflib.get_close_matches(name.lower(), absent, n=1, cutoff=ALMOST)
        if close and name not in loaded_names and not isinstance(node, ast.Import | ast.ImportFrom):
            yield (
                f"{file.name}:{node.lineno}: nothing reads '{name}'; "
                f"did you mean '{absent[close[0]]}'?"
            )


def _tree(file: Path, display_name: str) -> ast.Module:
    """Syntax tree of a file; raises SpecError with the `display_name`."""
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        text = f"{display_name}{line}: not valid Python: {reason}{syntax_excerpt(error)}"
        raise SpecError(text) from error
    except OSError as error:
        raise SpecError(f"{display_name}: cannot be read: {error.strerror}") from error


def is_experiment(tree: ast.Module) -> bool:
    """Whether a file is an experiment of functions, or a task of KernelBench."""
    is_task = {MODEL, MODEL_INPUTS} <= dict(definitions(tree.body)).keys()
    return is_task or has_functions(tree)


def has_functions(tree: ast.Module) -> bool:
    """Whether a file calls `Experiment`, or makes inputs as an experiment of functions does."""
    inputs = dict(definitions(tree.body)).get("inputs")
    if isinstance(inputs, ast.FunctionDef | ast.AsyncFunctionDef):
        return True
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        (isinstance(called, ast.Name) and called.id == "Experiment")
        or (isinstance(called, ast.Attribute) and called.attr == "Experiment")
        for called in calls
    )


def _missing_functions(
    file: Path,
    defined: Mapping[str, ast.AST],
    needed: Mapping[str, Parameters],
    one_needed: Mapping[str, Parameters],
) -> Iterator[str]:
    for name, parameters in needed.items():
        if name not in defined:
            yield f"{_no_function(file, name, parameters)}{close_hint(name, defined)}"
    if one_needed and not one_needed.keys() & defined.keys():
        (first, parameters), *alternatives = one_needed.items()
        tail = "".join(
            f" and no {name}({', '.join(parameter_names)})"
            for name, parameter_names in alternatives
        )
        yield f"{_no_function(file, first, parameters)}{tail}{close_hint(first, defined)}"


def _no_function(file: Path, name: str, parameters: Parameters) -> str:
    return f"{file.name} has no function {name}({', '.join(parameters)})"


def definitions(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Names bound at the top of a file, in branches of `if` and `try` too, and their statements."""
    for node in body:
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                yield name, node
            case ast.Import(names=aliases):
                yield from ((a.asname or a.name.partition(".")[0], node) for a in aliases)
            case ast.ImportFrom(names=aliases):
                yield from ((alias.asname or alias.name, node) for alias in aliases)
            case ast.Assign() | ast.AnnAssign():
                yield from _assigned(node)
            case ast.If() | ast.Try() | ast.With():
                yield from definitions(_nested_blocks(node))


def _assigned(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[str, ast.stmt]]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from ((n.id, node) for n in ast.walk(target) if isinstance(n, ast.Name))


def _nested_blocks(node: ast.If | ast.Try | ast.With) -> list[ast.stmt]:
    if isinstance(node, ast.With):
        return node.body
    if isinstance(node, ast.If):
        return [*node.body, *node.orelse]
    handlers = [statement for handler in node.handlers for statement in handler.body]
    return [*node.body, *handlers, *node.orelse, *node.finalbody]


def _is_open(tree: ast.Module) -> bool:
    """Whether names may come from elsewhere: a star import, `__getattr__` or `globals`."""
    stars = (
        alias.name == "*"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
    has_dynamic_names = "__getattr__" in dict(definitions(tree.body)) or "globals" in {
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
    }
    return has_dynamic_names or any(stars)


def _accepts_arguments(arguments: ast.arguments, count: int) -> bool:
    """Whether a function accepts `count` positional arguments."""
    places = len(arguments.posonlyargs) + len(arguments.args)
    required = places - len(arguments.defaults)
    named_only = any(default is None for default in arguments.kw_defaults)
    count_fits = required <= count and (count <= places or arguments.vararg is not None)
    return count_fits and not named_only


@dataclass(frozen=True)
class PublicFunction:
    """A function at the top of a file, without a decorator; or a class of an answer."""

    name: str
    line: int
    note: str
    """First line of its docstring; empty without one."""
    grid: Mapping[str, Sequence[Any]]
    """Parameters whose defaults are lists: a value for each variant."""

    def variants(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Name and parameters of each variant, as in an experiment of functions."""
        for values in itertools.product(*self.grid.values()):
            params = dict(zip(self.grid, values, strict=True))
            name = " ".join([self.name, *(f"{key}={value}" for key, value in params.items())])
            yield name, {FUNCTION: self.name, **params}


def public_functions(file: Path) -> tuple[PublicFunction, ...]:
    """Functions of a file that may be variants; raises SpecError for invalid Python.

    Those with decorators are left out (kernels of Triton), those whose names begin with an
    underscore, helpers (`takes_nothing`, `called_otherwise`), and those that an experiment takes
    for something else.
    """
    body = _tree(file, str(file)).body
    helpers = called_otherwise(body)
    return tuple(
        _public_function(node)
        for name, node in definitions(body)
        if isinstance(node, ast.FunctionDef)
        and not (name.startswith("_") or node.decorator_list or name in ROLES or name in helpers)
        and not takes_nothing(node)
    )


def new_models(file: Path) -> tuple[PublicFunction, ...]:
    """Classes of a file that answer a task of KernelBench; raises SpecError for invalid Python."""
    return tuple(
        PublicFunction(name, node.lineno, _first_line(node), {})
        for name, node in definitions(_tree(file, str(file)).body)
        if isinstance(node, ast.ClassDef) and name.startswith(NEW_MODEL)
    )


def candidate_notes(file: Path) -> Iterator[str]:
    """Sentences on functions of a file that may not be meant to be judged, or to be left out.

    Of decorated ones those that nothing in the file uses, as a kernel or helper is.
    """
    tree = _tree(file, str(file))
    functions = [node for _, node in definitions(tree.body) if isinstance(node, ast.FunctionDef)]
    judged = {function.name for function in public_functions(file)}
    yield from helper_notes(callers_by_name(tree.body), judged)
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for node in functions:
        if node.decorator_list and node.name not in read:
            yield f"{file.name}:{node.lineno}: {node.name} is not judged: it has a decorator."


def _public_function(node: ast.FunctionDef) -> PublicFunction:
    places = (*node.args.posonlyargs, *node.args.args)
    with_defaults = places[len(places) - len(node.args.defaults) :]
    defaults = [
        *zip(with_defaults, node.args.defaults, strict=True),
        *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True),
    ]
    grid = {
        arg.arg: [element.value for element in value.elts if isinstance(element, ast.Constant)]
        for arg, value in defaults
        if isinstance(value, ast.List)
    }
    return PublicFunction(node.name, node.lineno, _first_line(node), grid)


def _first_line(node: ast.FunctionDef | ast.ClassDef) -> str:
    """First line of a docstring; empty without one."""
    return (ast.get_docstring(node) or "").partition("\n")[0]
