"""The key of a cell: a hash of everything that could change its numbers.

Resume uses a sample only where the key of its cell is still the same, so that an edited kernel, a
new driver or another tolerance measures that cell again and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from profiler.model import BuildResult, Cell, Environment
from profiler.spec import CommandWorkload, Experiment, ModuleWorkload

_MACHINE_FIELDS = ("gpu", "gpu_uuid", "driver", "ncu", "torch", "python")


def hash_files(files: Sequence[Path]) -> str:
    """Hash of the names (without folders) and contents of some files, in sorted order."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0")
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def cell_keys(
    cells: Sequence[Cell],
    *,
    experiment: Experiment,
    builds: Mapping[str, BuildResult],
    environment: Environment,
    sources: str,
) -> dict[str, str]:
    """Key of every cell.

    `builds` by variant id; `sources` is the hash of the workload's and the runner's own files.
    How many blocks are measured is not part of the key: more blocks add to the old ones.
    """
    collect = experiment.collect
    shared = {
        "machine": {name: getattr(environment, name) for name in _MACHINE_FIELDS},
        "sources": sources,
        "workload": experiment.workload.model_dump(mode="json"),
        "collect": collect.model_dump(mode="json", exclude={"blocks", "counter_samples"}),
        "tolerance": {k: v.model_dump(mode="json") for k, v in experiment.tolerance.items()},
    }
    return {cell.id: _key(cell, builds.get(cell.variant.id), shared) for cell in cells}


def _key(cell: Cell, build: BuildResult | None, shared: Mapping[str, object]) -> str:
    document = {
        **shared,
        "variant": dict(cell.variant.params),
        "name": cell.variant.name,
        "problem": dict(cell.problem.params),
        "binary": (build.code_hash or build.recipe_hash) if build else None,
    }
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def source_files(experiment: Experiment, base: Path) -> tuple[Path, ...]:
    """The files whose change could change a number: the workload and the runner, or the program.

    `base` is the folder of the spec. CUDA sources are not among them: they are in the hash of each
    variant's machine code.
    """
    workload = experiment.workload
    if isinstance(workload, CommandWorkload):
        program = workload.folder(base) / workload.command[0]
        return (program,) if program.is_file() else ()
    runner = Path(__file__).resolve().parent.parent / "runner"
    return (*runner.glob("*.py"), *_workload_files(workload, base))


def _workload_files(workload: ModuleWorkload, base: Path) -> tuple[Path, ...]:
    target = workload.target(base)
    if target.endswith(".py"):
        return (Path(target),)
    spec = find_spec(target)
    return (Path(spec.origin),) if spec is not None and spec.origin is not None else ()
