"""Sources that a run keeps: digests of files and variants, and the text for a diff."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from profiler.model import Cell
from profiler.planning.function_sources import function_sources
from profiler.planning.python_files import is_experiment
from profiler.planning.spec import CommandWorkload, Experiment, ModuleWorkload
from profiler.run_folder.folder import Sources
from profiler.runner.protocol import file_digest
from profiler.sessions.sources import (
    by_name,
    function_name,
    hash_text,
    imported_hash,
    own_files,
    source_files,
)

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
        return _program_sources(workload, experiment, base, cells)
    files = own_files(workload, base, cells)
    texts = _texts(files)
    variants = {}
    if isinstance(workload, ModuleWorkload):
        file = Path(workload.target(base))
        text = next((texts.get(name) for name, path in files.items() if path == file), None)
        variants = _function_digests(file, text, cells)
    return Sources(_digests(files), variants), texts


def _program_sources(
    workload: CommandWorkload, experiment: Experiment, base: Path, cells: Sequence[Cell]
) -> tuple[Sources, dict[str, str]]:
    """Sources of an external command, whose variants are made of programs and dependencies."""
    of_variant: dict[str, set[Path]] = {}
    for cell in cells:
        files = {file.resolve() for file in source_files(experiment, base, cell)}
        of_variant.setdefault(cell.variant.id, set()).update(files)
    files_by_name = by_name(set().union(*of_variant.values()), workload.folder(base))
    digests = _digests(files_by_name)
    parts = {
        variant: sorted(
            f"{name} {digests[name]}" for name, file in files_by_name.items() if file in files
        )
        for variant, files in of_variant.items()
    }
    variants = {variant: hash_text("\n".join(lines)) for variant, lines in parts.items()}
    return Sources(digests, variants), _texts(files_by_name)


def _digests(files: Mapping[str, Path]) -> dict[str, str]:
    return {name: file_digest(file) for name, file in files.items()}


def _texts(files: Mapping[str, Path]) -> dict[str, str]:
    return {name: text for name, file in files.items() if (text := _text(file)) is not None}


def _text(file: Path) -> str | None:
    """Text of a source file; None for a program or a missing file."""
    try:
        if file.stat().st_size > _MOST_TEXT:
            return None
        text = file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def _function_digests(file: Path, text: str | None, cells: Sequence[Cell]) -> dict[str, str]:
    """Digest by variant id of a Python experiment; empty for any other workload."""
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError):  # the runner will say so
        return {}
    if not is_experiment(tree):
        return {}
    functions = {cell.variant.id: function_name(cell) for cell in cells}
    digests = {
        name: hash_text(source + imported_hash(source, file))
        for name, source in function_sources(tree, tuple(set(functions.values()))).items()
    }
    return {variant: digests[function] for variant, function in functions.items()}
