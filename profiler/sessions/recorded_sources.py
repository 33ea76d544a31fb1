"""What a run keeps of its sources: digests of files and variants, and the text for a diff."""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from profiler.model import Cell
from profiler.planning.python_files import definitions, is_experiment
from profiler.planning.spec import CommandWorkload, Experiment, ModuleWorkload
from profiler.run_folder.folder import Sources
from profiler.runner.experiment import FUNCTION
from profiler.runner.protocol import file_digest
from profiler.sessions.sources import by_name, imported_hash, own_files, source_files

_MOST_TEXT = 256 * 1024
"""Bytes of a file of which the text is kept: sources are shorter."""


def recorded_sources(
    experiment: Experiment, base: Path, cells: Sequence[Cell]
) -> tuple[Sources, dict[str, str]]:
    """Digests of an experiment's own files and of its variants, and the text of these files.

    `base` is the folder of the spec. Variants have digests where one can tell what each is made
    of: functions of a Python experiment, and programs.
    """
    workload = experiment.workload
    if isinstance(workload, CommandWorkload):
        return _of_programs(workload, experiment, base, cells)
    files = own_files(workload, base, cells)
    texts = _texts(files)
    variants = {}
    if isinstance(workload, ModuleWorkload):
        file = Path(workload.target(base))
        text = next((texts.get(name) for name, own in files.items() if own == file), None)
        variants = _function_digests(file, text, cells)
    return Sources(_digests(files), variants), texts


def _of_programs(
    workload: CommandWorkload, experiment: Experiment, base: Path, cells: Sequence[Cell]
) -> tuple[Sources, dict[str, str]]:
    """Sources of an external command, whose variants are made of programs and what they need."""
    of_variant: dict[str, set[Path]] = {}
    for cell in cells:
        files = {file.resolve() for file in source_files(experiment, base, cell)}
        of_variant.setdefault(cell.variant.id, set()).update(files)
    named = by_name(set().union(*of_variant.values()), workload.folder(base))
    digests = _digests(named)
    parts = {
        variant: sorted(f"{name} {digests[name]}" for name, file in named.items() if file in files)
        for variant, files in of_variant.items()
    }
    variants = {variant: _hash("\n".join(lines)) for variant, lines in parts.items()}
    return Sources(digests, variants), _texts(named)


def _digests(files: Mapping[str, Path]) -> dict[str, str]:
    return {name: file_digest(file) for name, file in files.items()}


def _texts(files: Mapping[str, Path]) -> dict[str, str]:
    return {name: text for name, file in files.items() if (text := _text(file)) is not None}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(file: Path) -> str | None:
    """Text of a source file; None of a program, or of a file that is not there."""
    try:
        if file.stat().st_size > _MOST_TEXT:
            return None
        text = file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def _function_digests(file: Path, text: str | None, cells: Sequence[Cell]) -> dict[str, str]:
    """Digest of each variant of a Python experiment; none of any other workload."""
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError):  # the runner will say so
        return {}
    if not is_experiment(tree):
        return {}
    functions = {cell.variant.id: str(cell.variant.params.get(FUNCTION)) for cell in cells}
    digests = {
        name: _hash(source + imported_hash(source, file))
        for name, source in function_sources(tree, tuple(set(functions.values()))).items()
    }
    return {variant: digests[function] for variant, function in functions.items()}


_SHARED_ROLES = frozenset({"inputs", "outputs"})
"""Decorators of an experiment that mark what the launches of all variants get."""


def function_sources(tree: ast.Module, functions: Sequence[str]) -> dict[str, str]:
    """Source of each function by name: its own, and all that it uses of the file, imports too.

    Without comments, and without the decorators of the experiment. The functions that make inputs
    and outputs count as used, and so do statements that bind no name, because they act on all. A
    function that is not found has the source of the whole file.
    """
    file = _File(tree)
    return {name: file.source_of(name) for name in functions}


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

    def source_of(self, function: str) -> str:
        starts = list(self._marked(lambda role, name: role == "variant" and name == function))
        if not starts:
            return ast.unparse(self._tree)
        shared = self._marked(lambda role, _: role in _SHARED_ROLES)
        waiting = [*starts, *shared, *self._acting_on_all()]
        used: dict[ast.stmt, None] = {}
        while waiting:
            statement = waiting.pop()
            if statement not in used:
                used[statement] = None
                waiting += self._used_by(statement)
        in_order = sorted(used, key=lambda statement: statement.lineno)
        return "\n".join(ast.unparse(self._plain(statement)) for statement in in_order)

    def _marked(self, wanted: Callable[[str, str], bool]) -> Iterator[ast.stmt]:
        """Statements with a function of the experiment, by its role and name."""
        for statement in self._tree.body:
            if any(wanted(role, name) for role, name in self._roles(statement)):
                yield statement

    def _roles(self, statement: ast.stmt) -> Iterator[tuple[str, str]]:
        """Role and name of each function that a statement gives to the experiment.

        Without a `profiler.Experiment` they are the functions of the file, by their names.
        """
        plain_name = statement.name if isinstance(statement, ast.FunctionDef) else ""
        if plain_name and not self._experiments:
            yield plain_name if plain_name in _SHARED_ROLES else "variant", plain_name
        for node in ast.walk(statement):
            if not isinstance(node, ast.Attribute) or not self._is_experiment(node.value):
                continue
            yield node.attr, plain_name
            for call in ast.walk(statement):
                if isinstance(call, ast.Call) and call.func is node:
                    yield from ((node.attr, name) for name in _given_name(call))

    def _acting_on_all(self) -> Iterator[ast.stmt]:
        """Statements that bind no name of the file and mark no function: settings, say."""
        bound = {id(s) for statements in self._statements.values() for s in statements}
        for statement in self._tree.body:
            if id(statement) in bound or _is_text(statement) or _is_script(statement):
                continue
            if not any(True for _ in self._roles(statement)):
                yield statement

    def _used_by(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        for node in ast.walk(self._plain(statement)):
            if isinstance(node, ast.Name) and node.id not in self._experiments:
                yield from self._statements.get(node.id, ())

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


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_script(statement: ast.stmt) -> bool:
    """Whether it is `if __name__ == "__main__"`, which no measuring process runs."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )
