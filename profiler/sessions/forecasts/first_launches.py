"""What first launches take beyond others, by the source of a workload, which is not run."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from profiler.model import Cell
from profiler.planning.function_sources import function_sources
from profiler.planning.spec import Experiment
from profiler.sessions.sources import function_name, parted_file

COMPILED_S, COMPILED_AGAIN_S = 5.0, 0.8
"""Seconds until torch's compiler is loaded and has compiled once, and each further time: 4.4 to 5.9
and 0.5 to 1.5 in seven recordings of libraries on an H200."""
IMPORTED_S = 5.0
"""Seconds of a library that a function imports, with its first launch: 4.4 to 8.3 there, of which
0.4 to 2.6 are Triton's first kernel."""

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


def first_launch_seconds(experiment: Experiment, base: Path, cells: Sequence[Cell]) -> float:
    """Seconds in which first launches of these cells import libraries and compile by torch.

    Of a Python experiment by what its functions say; 0 of other workloads, and of one that is not
    there, which the run will say. `base`: folder of the spec.
    """
    parted = None
    with suppress(ImportError):
        parted = parted_file(experiment.workload, base)
    if parted is None:
        return 0.0
    names = {cell.id: function_name(cell) for cell in cells}
    sources = function_sources(parted[1], set(names.values()))
    trees = {name: ast.parse(source) for name, source in sources.items()}
    compiling = {name for name, tree in trees.items() if _compiles(tree)}
    compiled = sum(name in compiling for name in names.values())
    libraries = {library for tree in trees.values() for library in _imported_late(tree)}
    libraries -= {*_imports(parted[1].body), *sys.stdlib_module_names}
    compiled_s = COMPILED_S + (compiled - 1) * COMPILED_AGAIN_S if compiled else 0.0
    return compiled_s + len(libraries) * IMPORTED_S


def _compiles(tree: ast.Module) -> bool:
    """Whether `torch.compile` stands there."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "compile"
        and isinstance(node.value, ast.Name)
        and node.value.id == "torch"
        for node in ast.walk(tree)
    )


def _imported_late(tree: ast.Module) -> Iterator[str]:
    """Packages that functions import."""
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTIONS):
            yield from _imports(ast.walk(node))


def _imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Top-level packages of imports among some nodes."""
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module.partition(".")[0]
