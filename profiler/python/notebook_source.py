"""A Python file of an experiment whose functions stand in cells of a notebook."""

from __future__ import annotations

import ast
import inspect
import symtable
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from profiler.errors import UsageError
from profiler.runner.experiment import Experiment, Function, json_value

_HEAD = "# Written from the cells of a notebook: what is edited here is lost."
_WRAPPED = ("__wrapped__", "fn", "py_func")
"""Attributes in which decorators keep the decorated function: functools, Triton, Numba."""
_REMEDY = (
    "Put the experiment and what it uses into a file of its own, and import that in the notebook."
)


def notebook_source(experiment: Experiment) -> str:
    """Source of a file that makes the same experiment.

    The file has the imports, the functions of the experiment as they stand in their cells, and all
    functions, classes and plain values of the notebook that they use. Raises UsageError for a used
    value of another kind.
    """
    source = _Source(experiment)
    for function in functions_of(experiment):
        source.add_function(function)
    _require_all_marks(experiment)
    return source.text()


def functions_of(experiment: Experiment) -> Iterator[Function]:
    """Functions that are marked for an experiment, once for each mark."""
    yield from experiment.functions.values()
    yield from (v.function for v in experiment.variants.values() for _ in v.uses)


def _require_all_marks(experiment: Experiment) -> None:
    """Raise UsageError for a function that the experiment has more often than its source marks it.

    What a loop, a factory or a call marks would be missing in the file.
    """
    for source, count in Counter(map(_source_of, functions_of(experiment))).items():
        statement = ast.parse(source).body[0]
        written = sum(
            isinstance(node, ast.Name) and experiment.namespace.get(node.id) is experiment
            for part in getattr(statement, "decorator_list", [statement])
            for node in ast.walk(part)
        )
        if count != written:
            name = getattr(statement, "name", "a lambda")
            raise UsageError(
                f"'{name}' is marked for {experiment.name} by a loop or a call (marks: {count}, of "
                f"decorators: {written}), which would be in no file.",
                remedy="Mark functions of cells by decorators: @e.variant(pieces=[2, 4]).",
            )


class _Source:
    """Definitions of a file, each after the definitions that it uses."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._imports: dict[str, None] = {}
        self._definitions: list[str] = []
        self._added_names: set[str] = set()
        self._globals: Mapping[str, Any] = experiment.namespace

    def text(self) -> str:
        parts = [_HEAD, "\n".join(["import profiler", *self._imports]), *self._definitions]
        return "\n\n".join(parts) + "\n"

    def add_function(self, function: Any) -> None:
        """Add a function or class with its decorators, after the definitions that it uses."""
        source = _source_of(function)
        code = getattr(_plain_function(function), "__code__", None)
        if outer := getattr(code, "co_freevars", ()):
            raise _unwritable(outer[0], "is a name of the function around them")
        names = _global_names(symtable.symtable(source, "<cell>", "exec")) & self._globals.keys()
        for name in sorted(names - self._added_names):
            if not name.startswith("__"):
                self._added_names.add(name)
                self._add_name(name, self._globals[name])
        if source not in self._definitions:
            self._definitions.append(source)

    def _add_name(self, name: str, value: Any) -> None:
        if value is self._experiment:
            self._definitions.append(f"{name} = {_construction(value)}")
        elif isinstance(value, ModuleType):
            self._imports[_import(name, value)] = None
        elif _is_literal(value):
            self._definitions.append(f"{name} = {value!r}")
        elif type(value).__module__ == "torch" and repr(value).startswith("torch."):  # a dtype
            self._imports["import torch"] = None
            self._definitions.append(f"{name} = {value!r}")
        elif not _is_of_notebook(_plain_function(value), self._globals):
            self._imports[_import_from(name, value)] = None
        elif _plain_function(value).__name__ == name:
            self.add_function(value)
        else:
            raise _unwritable(name, "is another name of a function")


def _is_literal(value: Any) -> bool:
    """Whether `repr` of a value is a literal of it: numbers, texts, lists, mappings of such."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError, TypeError):
        return False


def _import_from(name: str, value: Any) -> str:
    """Import statement of a value that a module defines at its top level."""
    module, own_name = (getattr(value, key, None) for key in ("__module__", "__qualname__"))
    if module in (None, "__main__") or not own_name or "." in own_name:
        raise _unwritable(name, f"is of type {type(value).__name__}")
    return f"from {module} import {own_name} as {name}"


def _unwritable(name: str, reason: str) -> UsageError:
    return UsageError(
        f"'{name}', which the functions use, {reason} in the notebook: it cannot be written to the "
        "file that is measured.",
        remedy=_REMEDY,
    )


def _construction(experiment: Experiment) -> str:
    problems = {} if experiment.problems is None else {"problems": experiment.problems}
    fields = json_value({**problems, **experiment.fields}, "Experiment")
    arguments = [f"{key}={value!r}" for key, value in fields.items()]
    return f"profiler.Experiment({', '.join([repr(experiment.name), *arguments])})"


def _import(name: str, module: ModuleType) -> str:
    has_own_name = module.__name__ == name
    return f"import {name}" if has_own_name else f"import {module.__name__} as {name}"


def _global_names(table: symtable.SymbolTable) -> set[str]:
    """Names that code takes from its module, in decorators, defaults and nested scopes too."""
    module = table.get_type() == "module"
    symbols = table.get_symbols()
    names = {s.get_name() for s in symbols if (s.is_referenced() if module else s.is_global())}
    return names.union(*map(_global_names, table.get_children()))


def _plain_function(value: Any) -> Any:
    """The function or class below decorators; None where there is none."""
    for _ in range(8):
        if inspect.isfunction(value) or inspect.isclass(value):
            return value
        inner = next((getattr(value, key, None) for key in _WRAPPED if hasattr(value, key)), None)
        if inner is None:
            return None
        value = inner
    return None


def _is_of_notebook(function: Callable[..., Any] | None, notebook: Mapping[str, Any]) -> bool:
    return getattr(function, "__module__", None) == notebook.get("__name__")


def _source_of(function: Any) -> str:
    try:
        source = textwrap.dedent(inspect.getsource(_plain_function(function))).strip()
        ast.parse(source)
        return source
    except (OSError, TypeError, SyntaxError) as error:
        name = getattr(function, "__name__", repr(function))
        raise UsageError(f"{name}: its source cannot be read: {error}", remedy=_REMEDY) from error
