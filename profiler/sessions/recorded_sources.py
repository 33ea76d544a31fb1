"""What a run keeps of its sources: digests of files and variants, and the text for a diff."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from profiler.model import Cell
from profiler.planning.function_sources import function_sources
from profiler.planning.python_files import makes_experiment
from profiler.planning.spec import CommandWorkload, Experiment, ModuleWorkload
from profiler.run_folder.folder import Sources
from profiler.runner.experiment import FUNCTION
from profiler.runner.protocol import file_digest
from profiler.sessions.sources import hash_files, imported_hash, own_files, source_files

_MOST_TEXT = 256 * 1024
"""Bytes of a file of which the text is kept: sources are shorter."""


def recorded_sources(
    experiment: Experiment, base: Path, cells: Sequence[Cell]
) -> tuple[Sources, dict[str, str]]:
    """Digests of an experiment's own files and of its variants, and the text of these files.

    `base` is the folder of the spec. Variants have digests where one can tell what each is made
    of: functions of a Python experiment, and programs.
    """
    files = own_files(experiment, base, cells)
    digests = {name: file_digest(file) for name, file in files.items()}
    texts = {name: text for name, file in files.items() if (text := _text(file)) is not None}
    return Sources(digests, _variant_digests(experiment, base, cells, texts)), texts


def _text(file: Path) -> str | None:
    """Text of a source file; None of a program, or of a file that is not there."""
    try:
        if file.stat().st_size > _MOST_TEXT:
            return None
        text = file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def _variant_digests(
    experiment: Experiment, base: Path, cells: Sequence[Cell], texts: Mapping[str, str]
) -> dict[str, str]:
    workload = experiment.workload
    if isinstance(workload, CommandWorkload):
        of_variant: dict[str, set[Path]] = {}
        for cell in cells:
            files = of_variant.setdefault(cell.variant.id, set())
            files.update(source_files(experiment, base, cell))
        return {variant: hash_files(files) for variant, files in of_variant.items()}
    if isinstance(workload, ModuleWorkload):
        file = Path(workload.target(base))
        return _function_digests(file, texts.get(file.name), cells)
    return {}


def _function_digests(file: Path, text: str | None, cells: Sequence[Cell]) -> dict[str, str]:
    """Digest of each variant of a Python experiment; none of any other workload."""
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError):  # the runner will say so
        return {}
    if not makes_experiment(tree):
        return {}
    functions = {cell.variant.id: str(cell.variant.params.get(FUNCTION)) for cell in cells}
    digests = {
        name: hashlib.sha256((source + imported_hash(source, file)).encode()).hexdigest()
        for name, source in function_sources(tree, tuple(set(functions.values()))).items()
    }
    return {variant: digests[function] for variant, function in functions.items()}
