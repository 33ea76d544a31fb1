"""What each function of a Python experiment is made of, by the syntax tree of its file.

The file itself is not run. What cannot be told from names counts for every function: statements
that may act on all when the file is imported, and the whole file where names are looked up by text.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Sequence

from profiler.planning.python_files import definitions
from profiler.runner.experiment import ROLES

_VARIANT, _BASELINE = "variant", "baseline"
_INPUT_ROLES = frozenset({"inputs", "outputs"})
"""Roles of the functions that make what the launches of all variants get."""
_MAKES_KERNELS = frozenset(
    {"autotune", "compile", "Config", "heuristics", "jit", "kernel", "load_inline", "njit"}
    | {"prim_func", "RawKernel", "RawModule"}
)
_HARMLESS = _MAKES_KERNELS | (
    {"bool", "dict", "float", "frozenset", "int", "len", "list", "max", "min", "range", "set"}
    | {"sorted", "str", "tuple", "zip", "Experiment"}
    | {"cache", "contextmanager", "dataclass", "inference_mode", "lru_cache", "no_grad", "wraps"}
)
"""Functions that act on nothing but what they are given, by the last part of their names."""
_LOOKS_UP = frozenset({"eval", "exec", "globals", "vars"})
"""Functions by which a file can use a name that stands nowhere in it."""


def function_sources(tree: ast.Module, functions: Iterable[str]) -> dict[str, str]:
    """Source of each function by name: its own, and all that it uses of the file, imports too.

    Without comments, and without the decorators of the experiment. The functions that make inputs
    and outputs count as used, and so do statements that may act on all. A function that is not
    found has the source of the whole file.
    """
    file = _File(tree)
    return {name: file.source_of(name) for name in functions}


def measured_sources(tree: ast.Module, functions: Iterable[str]) -> dict[str, str]:
    """All of a file that could change what is measured of each function, by the function's name.

    That is its source as `function_sources` gives it, with its decorators (their options say how
    it is launched and checked), all functions of the experiment that are no variants, the baseline,
    whose results others are compared with, and all imports.
    """
    file = _File(tree)
    return {name: file.measured_with(name) for name in functions}


class _File:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._statements: dict[str, list[ast.stmt]] = {}
        for name, statement in definitions(tree.body):
            self._statements.setdefault(name, []).append(statement)
        self._experiments = {
            name
            for name, statements in self._statements.items()
            if any(_makes_experiment(statement) for statement in statements)
        }
        self._roles = {statement: tuple(self._roles_of(statement)) for statement in tree.body}

    # ---- the two answers ----

    def source_of(self, function: str) -> str:
        """See `function_sources`."""
        starts = self._variants(function)
        shared = self._marked(lambda role, _: role in _INPUT_ROLES)
        used = self._used_from([*starts, *shared, *self._acting_on_all()], self._plain)
        return self._text(used, self._plain) if starts else ast.unparse(self._tree)

    def measured_with(self, function: str) -> str:
        """See `measured_sources`."""
        starts = self._variants(function)
        if not starts or self._looks_names_up():
            return ast.unparse(self._tree)
        shared = self._marked(lambda role, _: role in ROLES)
        imports = (node for node in self._tree.body if isinstance(node, _IMPORTS))
        everything = [*starts, *shared, *self._baselines(), *imports, *self._acting_on_all()]
        return self._text(self._used_from(everything, _as_it_is), _as_it_is)

    # ---- which statements ----

    def _variants(self, function: str) -> list[ast.stmt]:
        return list(self._marked(lambda role, name: role == _VARIANT and name == function))

    def _baselines(self) -> Iterator[ast.stmt]:
        """Variants that are called the baseline, and the first, which is it without such a one."""
        variants = list(self._marked(lambda role, _: role == _VARIANT))
        yield from variants[:1]
        for statement in variants:
            named = getattr(statement, "name", "") == _BASELINE
            if named or any(
                keyword.arg == _BASELINE
                for node in ast.walk(statement)
                if isinstance(node, ast.Call)
                for keyword in node.keywords
            ):
                yield statement

    def _marked(self, wanted: Callable[[str, str], bool]) -> Iterator[ast.stmt]:
        """Statements with a function of the experiment, by its role and name."""
        for statement, roles in self._roles.items():
            if any(wanted(role, name) for role, name in roles):
                yield statement

    def _roles_of(self, statement: ast.stmt) -> Iterator[tuple[str, str]]:
        """Role and name of each function that a statement gives to the experiment.

        Without a `profiler.Experiment` they are the functions of the file, by their names.
        """
        plain_name = statement.name if isinstance(statement, ast.FunctionDef) else ""
        if plain_name and not self._experiments:
            yield plain_name if plain_name in ROLES else _VARIANT, plain_name
        for node in ast.walk(statement):
            if not isinstance(node, ast.Attribute) or not self._is_experiment(node.value):
                continue
            yield node.attr, plain_name
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and call.func is node:
                    yield from ((node.attr, name) for name in _given_name(call))

    def _acting_on_all(self) -> Iterator[ast.stmt]:
        """Statements that may do more than bind a name of the file: settings, say."""
        for statement in self._tree.body:
            if not _is_script(statement) and any(map(self._acts, _run_on_import(statement))):
                yield statement

    def _acts(self, node: ast.AST) -> bool:
        """Whether what runs on import may act on more than the name that it is bound to."""
        if isinstance(node, ast.stmt):
            return True
        return any(
            (isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store))
            or (isinstance(part, ast.Call) and not self._is_harmless(part.func))
            for part in _walk_outside_lambdas(node)
        )

    def _is_harmless(self, called: ast.expr) -> bool:
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name in _HARMLESS or self._is_experiment(_root(called))

    def _looks_names_up(self) -> bool:
        return any(
            (isinstance(node, ast.Name) and node.id in _LOOKS_UP)
            or (isinstance(node, ast.Attribute) and node.attr == "modules")
            for node in ast.walk(self._tree)
        )

    # ---- what they use ----

    def _used_from(self, starts: Iterable[ast.stmt], shown: _Shown) -> dict[ast.stmt, None]:
        """The statements, and all that they use of the file."""
        waiting, used = list(starts), dict[ast.stmt, None]()
        while waiting:
            statement = waiting.pop()
            if statement not in used:
                used[statement] = None
                waiting += self._used_by(shown(statement))
        return used

    def _used_by(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id not in self._experiments:
                yield from self._statements.get(node.id, ())

    def _text(self, statements: Iterable[ast.stmt], shown: _Shown) -> str:
        in_order = sorted(statements, key=lambda statement: statement.lineno)
        return "\n".join(ast.unparse(shown(statement)) for statement in in_order)

    def _plain(self, statement: ast.stmt) -> ast.stmt:
        """A statement without the decorators of the experiment."""
        if not isinstance(statement, ast.FunctionDef):
            return statement
        plain = copy.copy(statement)
        plain.decorator_list = [
            decorator
            for decorator in statement.decorator_list
            if not self._is_experiment(_root(decorator))
        ]
        return plain

    def _is_experiment(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._experiments


_Shown = Callable[[ast.stmt], ast.stmt]
"""A statement as it counts: whole, or without some of its decorators."""
_IMPORTS = ast.Import | ast.ImportFrom


def _as_it_is(statement: ast.stmt) -> ast.stmt:
    return statement


def _run_on_import(statement: ast.stmt) -> Sequence[ast.AST]:
    """What of a statement runs when its file is imported, but for the binding of names.

    The body of a function does not; that of a class hardly ever does more.
    """
    match statement:
        case ast.Import() | ast.ImportFrom():
            return ()
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            defaults = (*statement.args.defaults, *filter(None, statement.args.kw_defaults))
            return (*map(_called, statement.decorator_list), *defaults)
        case ast.ClassDef():
            return (*map(_called, statement.decorator_list), *statement.bases)
        case ast.Assign() | ast.AnnAssign() | ast.Expr():
            return tuple(ast.iter_child_nodes(statement))
        case _:
            return (statement,)


def _called(decorator: ast.expr) -> ast.expr:
    """A decorator as the call that it is."""
    return decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])


def _walk_outside_lambdas(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _walk_outside_lambdas(child)


def _root(node: ast.expr) -> ast.expr:
    """`e` of `e.variant(...)`."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node


def _given_name(call: ast.Call) -> Iterator[str]:
    for keyword in call.keywords:
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant):
            yield str(keyword.value.value)


def _makes_experiment(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call):
        return False
    called = value.func
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name == "Experiment"


def _is_script(statement: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__"`, which no measuring process runs."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )
