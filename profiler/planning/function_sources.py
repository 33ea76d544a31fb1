"""Source parts of each function of a Python experiment, by the syntax tree of its file.

The file itself is not run. What cannot be told from names counts for every function: statements
that may act on all when the file is imported, and the whole file where names are looked up by text.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator

from profiler.planning.python_files import definitions
from profiler.runner.experiment import ROLES

_VARIANT, _BASELINE = "variant", "baseline"
_INPUT_ROLES = frozenset({"inputs", "outputs"})
"""Roles of the functions that make the inputs of all variants' launches."""
_MAKES_KERNELS = frozenset(
    {"autotune", "compile", "Config", "heuristics", "jit", "kernel", "load_inline", "njit"}
    | {"prim_func", "RawKernel", "RawModule"}
)
_HARMLESS_IMPORTS = _MAKES_KERNELS | (
    {"abstractmethod", "auto", "cache", "cached_property", "contextmanager", "dataclass", "field"}
    | {"inference_mode", "lru_cache", "namedtuple", "no_grad", "partial", "TypeVar", "wraps"}
    | {"Experiment"}
)
"""Functions that act on their arguments only, by the last part of their names."""
_HARMLESS_BUILTINS = frozenset(
    {"bool", "classmethod", "dict", "float", "frozenset", "int", "len", "list", "max", "min"}
    | {"property", "range", "set", "sorted", "staticmethod", "str", "tuple", "zip"}
)
_HARMLESS_BASES = frozenset(
    {"ABC", "Enum", "Exception", "Flag", "Function", "Generic", "IntEnum", "IntFlag", "Module"}
    | {"NamedTuple", "object", "Protocol", "StrEnum", "Structure", "type", "TypedDict"}
)
"""Classes that register no subclasses, by the last part of their names."""
_CHANGES = frozenset(
    {"add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem"}
    | {"remove", "reverse", "set", "setdefault", "sort", "update"}
)
"""Methods that change their object; torch's end with an underscore."""
_LOOKS_UP = frozenset(
    {"eval", "exec", "globals", "locals", "vars", "modules", "import_module", "__import__"}
    | {"f_globals", "f_locals", "__globals__", "__main__"}
)
"""Names by which a file can use a name that it does not contain."""
_LOOKED_UP_ATTRIBUTES = _LOOKS_UP - {"eval", "exec", "globals", "locals", "vars"}
"""Those names that count as attributes, too: `model.eval()` does not."""


def function_sources(tree: ast.Module, functions: Iterable[str]) -> dict[str, str]:
    """Source by function name: its own, and all statements of the file that it uses.

    Without comments, and without the decorators of the experiment. The functions that make inputs
    and outputs count as used, and so do statements that may act on all. A function that is not
    found has the source of the whole file.
    """
    file = _File(tree)
    return {name: file.source_of(name) for name in functions}


def measured_sources(tree: ast.Module, functions: Iterable[str]) -> dict[str, str]:
    """Source by function name of all statements that could change its measurements.

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
        self._used_names = {
            statement: {*_names_in(self._without_decorators(statement))} for statement in tree.body
        }
        for statement in tree.body:
            for name in _changed_names(statement):
                if name in self._statements and not self._is_imported(name):
                    self._statements[name].append(statement)
        if ast.get_docstring(tree) is not None:
            self._statements["__doc__"] = tree.body[:1]

    # ---- the two answers ----

    def source_of(self, function: str) -> str:
        """See `function_sources`."""
        starts = self._variants(function)
        shared = self._statements_with(lambda role, _: role in _INPUT_ROLES)
        used_statements = self._used_from(
            [*starts, *shared, *self._acting_on_all()], self._without_decorators
        )
        return (
            self._source_text(used_statements, self._without_decorators)
            if starts
            else ast.unparse(self._tree)
        )

    def measured_with(self, function: str) -> str:
        """See `measured_sources`."""
        starts = self._variants(function)
        if not starts or self._looks_names_up():
            return ast.unparse(self._tree)
        shared = self._statements_with(lambda role, _: role in ROLES)
        imports = (node for node in self._tree.body if isinstance(node, _IMPORTS))
        starting_statements = [
            *(*starts, *shared, *self._baselines(), *imports, *self._values_of_parameters()),
            *self._acting_on_all(),
        ]
        return self._source_text(self._used_from(starting_statements, _unreduced), _unreduced)

    # ---- which statements ----

    def _variants(self, function: str) -> list[ast.stmt]:
        return list(self._statements_with(lambda role, name: role == _VARIANT and name == function))

    def _baselines(self) -> Iterator[ast.stmt]:
        """Variants marked as the baseline, and first variants: the baseline where none is marked.

        The first of each experiment; where functions are variants by their names, also all
        statements before the first: it may be a function that a call has made.
        """
        variants = list(self._statements_with(lambda role, _: role == _VARIANT))
        for experiment in self._experiments:
            of_experiment = (node for node in variants if experiment in _names_in(node))
            yield from itertools.islice(of_experiment, 1)
        if not self._experiments and variants:
            yield from self._tree.body[: self._tree.body.index(variants[0]) + 1]
        for statement in variants:
            has_baseline_name = getattr(statement, "name", "") == _BASELINE
            if has_baseline_name or any(
                keyword.arg == _BASELINE
                for node in ast.walk(statement)
                if isinstance(node, ast.Call)
                for keyword in node.keywords
            ):
                yield statement

    def _values_of_parameters(self) -> Iterator[ast.stmt]:
        """Functions and classes that may be values of problems, used where experiments are made.

        Functions that are only called there are not: the problems that they list are cells.
        """
        waiting = [node for name in self._experiments for node in self._statements[name]]
        visited = set(waiting)
        while waiting:
            statement = waiting.pop()
            called = {node.func for node in ast.walk(statement) if isinstance(node, ast.Call)}
            for name in ast.walk(statement):
                if not isinstance(name, ast.Name) or name.id in self._experiments:
                    continue
                for bound in self._statements.get(name.id, ()):
                    if isinstance(bound, _DEFINITIONS) and name not in called:
                        yield bound
                    elif bound not in visited:
                        visited.add(bound)
                        waiting.append(bound)

    def _statements_with(self, matches: Callable[[str, str], bool]) -> Iterator[ast.stmt]:
        """Statements with a function of the experiment whose role and name match."""
        for statement, roles in self._roles.items():
            if any(matches(role, name) for role, name in roles):
                yield statement

    def _roles_of(self, statement: ast.stmt) -> Iterator[tuple[str, str]]:
        """Role and name of each function that a statement gives to the experiment.

        Without a `profiler.Experiment` they are the functions of the file, by their names.
        """
        plain_name = statement.name if isinstance(statement, ast.FunctionDef) else ""
        if plain_name and not self._experiments and not plain_name.startswith("_"):
            yield plain_name if plain_name in ROLES else _VARIANT, plain_name
        for node in ast.walk(statement):
            if not isinstance(node, ast.Attribute) or not self._is_experiment(node.value):
                continue
            yield node.attr, plain_name
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and call.func is node:
                    yield from ((node.attr, name) for name in _given_name(call))

    def _acting_on_all(self) -> Iterator[ast.stmt]:
        """Statements that may do more than bind a name of the file, such as settings."""
        for statement in self._tree.body:
            if not _is_script(statement) and (
                self._acts_on_import(statement) or self._may_be_registered(statement)
            ):
                yield statement

    def _acts_on_import(self, statement: ast.stmt) -> bool:
        """Whether a statement may do more than bind its names when its file is imported."""
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                return False
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                defaults = (*statement.args.defaults, *filter(None, statement.args.kw_defaults))
                run = (*map(_as_call, statement.decorator_list), *defaults)
                return statement.name == "__getattr__" or any(map(self._may_act, run))
            case ast.ClassDef():
                return self._class_acts(statement)
            case ast.Assign() | ast.AnnAssign():
                return any(map(self._may_act, ast.iter_child_nodes(statement)))
            case ast.Expr(value=ast.Call(func=called) as call):
                return not self._is_decorator(called) or self._may_act(call)
            case _:
                return True

    def _class_acts(self, statement: ast.ClassDef) -> bool:
        run = (*map(_as_call, statement.decorator_list), *statement.bases)
        return (
            bool(statement.keywords)
            or any(map(self._may_act, run))
            or not all(map(self._is_harmless_base, statement.bases))
            or any(map(self._acts_on_import, statement.body))
        )

    def _may_be_registered(self, statement: ast.stmt) -> bool:
        """Whether a call or a base class may have registered a definition that no name uses."""
        bound = {name for name, _ in definitions([statement])} - self._experiments
        if self._roles[statement] or not bound or not _gives_away(statement):
            return False
        other_used_names = (
            names for user, names in self._used_names.items() if user is not statement
        )
        return not any(bound & names for names in other_used_names)

    def _may_act(self, node: ast.AST) -> bool:
        """Whether an expression may act on more than the name it is bound to."""
        return any(
            isinstance(part, ast.NamedExpr)
            or (isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store))
            or (isinstance(part, ast.Call) and not self._is_harmless(part))
            for part in _walk_outside_lambdas(node)
        )

    def _is_harmless(self, call: ast.Call) -> bool:
        called = call.func
        if self._is_decorator(called):
            return True
        root = getattr(_root(called), "id", "")
        if root in self._statements and not self._is_imported(root):
            return False
        if isinstance(called, ast.Name) and called.id in _HARMLESS_BUILTINS:
            return not any(keyword.arg == "key" for keyword in call.keywords)
        return _last_part(called) in _HARMLESS_IMPORTS

    def _is_harmless_base(self, base: ast.expr) -> bool:
        """Whether a base class registers no subclasses, or is defined in the file.

        Who uses a class of the file uses those below it, too (`_changed_names`).
        """
        base = base.value if isinstance(base, ast.Subscript) else base
        of_file = isinstance(base, ast.Name) and any(
            isinstance(node, ast.ClassDef) for node in self._statements.get(base.id, ())
        )
        return of_file or isinstance(base, ast.Call) or _last_part(base) in _HARMLESS_BASES

    def _is_imported(self, name: str) -> bool:
        return all(isinstance(node, _IMPORTS) for node in self._statements[name])

    def _is_decorator(self, called: ast.expr) -> bool:
        """Whether a callee is `e.variant`, `e.inputs` or the like, or their result."""
        while isinstance(called, ast.Call):
            called = called.func
        return (
            isinstance(called, ast.Attribute)
            and called.attr in (*ROLES, _VARIANT)
            and self._is_experiment(called.value)
        )

    def _looks_names_up(self) -> bool:
        return any(
            (isinstance(node, ast.Name) and node.id in _LOOKS_UP)
            or (isinstance(node, ast.Attribute) and node.attr in _LOOKED_UP_ATTRIBUTES)
            or (isinstance(node, ast.Import | ast.ImportFrom) and _imports_a_look_up(node))
            for node in ast.walk(self._tree)
        )

    # ---- what they use ----

    def _used_from(self, starts: Iterable[ast.stmt], reduce: _Reduction) -> dict[ast.stmt, None]:
        """The statements, and all statements of the file that they use."""
        waiting, used_statements = list(starts), dict[ast.stmt, None]()
        while waiting:
            statement = waiting.pop()
            if statement not in used_statements:
                used_statements[statement] = None
                waiting += self._used_by(reduce(statement))
        return used_statements

    def _used_by(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        for name in _names_in(statement):
            if name not in self._experiments:
                yield from self._statements.get(name, ())

    def _source_text(self, statements: Iterable[ast.stmt], reduce: _Reduction) -> str:
        in_order = sorted(statements, key=lambda statement: statement.lineno)
        return "\n".join(ast.unparse(reduce(statement)) for statement in in_order)

    def _without_decorators(self, statement: ast.stmt) -> ast.stmt:
        """A statement without the decorators of the experiment."""
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
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


_Reduction = Callable[[ast.stmt], ast.stmt]
"""A statement as it counts: whole, or without some of its decorators."""
_IMPORTS = ast.Import | ast.ImportFrom
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _unreduced(statement: ast.stmt) -> ast.stmt:
    return statement


def _as_call(decorator: ast.expr) -> ast.expr:
    """A decorator as a call, also where it is written without parentheses."""
    return decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])


def _walk_outside_lambdas(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _walk_outside_lambdas(child)


def _names_in(statement: ast.AST) -> Iterator[str]:
    """Names that a statement uses, and its texts, which may be looked up as names."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _changed_names(statement: ast.stmt) -> Iterator[str]:
    """Names of the file whose value a statement may change at any time without binding them.

    By `global`, by an assignment to an attribute or an element, by a method that changes what it is
    called of, by `out=`; and base classes, which may know the classes below them.
    """
    for node in ast.walk(statement):
        match node:
            case ast.Global(names=names):
                yield from names
            case ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield _root_name(node)
            case ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield _root_name(node)
            case ast.AugAssign(target=target):
                yield _root_name(target)
            case ast.Call(func=ast.Attribute(attr=attr) as method, keywords=keywords):
                if attr in _CHANGES or attr.endswith("_"):
                    yield _root_name(method)
                yield from (_root_name(k.value) for k in keywords if k.arg == "out")
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[changed, *_]):
                yield _root_name(changed)
            case ast.ClassDef(bases=bases):
                yield from map(_root_name, bases)


def _root_name(node: ast.expr) -> str:
    """`a` of `a.b[c].d`; empty where the expression begins with no name."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _last_part(called: ast.expr) -> str:
    """`c` of `a.b.c`."""
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _gives_away(statement: ast.stmt) -> bool:
    """Whether a statement may hand its bound value to a function or another class."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return bool(statement.decorator_list)
        case ast.ClassDef():
            return bool(statement.decorator_list or statement.bases)
        case ast.Assign() | ast.AnnAssign():
            return any(isinstance(node, ast.Call) for node in ast.walk(statement))
        case _:
            return False


def _imports_a_look_up(node: ast.Import | ast.ImportFrom) -> bool:
    return any(alias.name in _LOOKED_UP_ATTRIBUTES for alias in node.names)


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
    return isinstance(value, ast.Call) and _last_part(value.func) == "Experiment"


def _is_script(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__"`, which no measuring process runs."""
    match statement:
        case ast.If(
            test=ast.Compare(
                left=ast.Name(id="__name__"),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value="__main__")],
            ),
            orelse=[],
        ):
            return True
        case _:
            return False
