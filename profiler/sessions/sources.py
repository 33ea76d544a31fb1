"""Source files of a cell: files whose change could change a number."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import profiler
from profiler.collect.programs import find_program
from profiler.errors import SpecError
from profiler.machine.environment import package_version
from profiler.model import Cell
from profiler.parse import runner_journal
from profiler.planning.function_sources import measured_sources
from profiler.planning.plan import command_values
from profiler.planning.python_files import has_functions
from profiler.planning.spec import (
    CommandWorkload,
    CudaWorkload,
    Experiment,
    LoadedSpec,
    ModuleWorkload,
)
from profiler.planning.spec.workloads import Workload, is_file_name
from profiler.run_folder.folder import Attempt
from profiler.runner.experiment import FUNCTION
from profiler.runner.import_path import search_folders
from profiler.runner.protocol import file_digest

_MEASURING = (
    *("runner/*.py", "runner/checks/*.py", "runner/visits/*.py", "runner/capture/*.py"),
    *("runner/cupti/*.py", "runner/cupti/*.cpp"),
    *(f"kernels/{name}.py" for name in ("autotuned", "library", "marks", "references")),
)
"""Files of this package that check, launch, time and count: the runner with what it imports, and
what captured experiments are launched by."""


def hash_files(files: Iterable[Path]) -> str:
    """Hash of the names (without folders) and contents of files, in any order."""
    digest = hashlib.sha256()
    for name, content in sorted((file.name, _hash_file(file)) for file in set(files)):
        digest.update(name.encode() + b"\0")
        digest.update(content)
    return digest.hexdigest()


def _hash_file(file: Path) -> bytes:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def source_hashes(experiment: Experiment, base: Path, cells: Sequence[Cell]) -> dict[str, str]:
    """Hash of the sources of each cell, by cell id; `base` is the folder of the spec.

    Of a Python experiment with functions a cell has the part that could change what is measured of
    its own function; of any other workload, whole files.
    """
    if isinstance(experiment.workload, CommandWorkload):
        files = {cell.id: source_files(experiment, base, cell) for cell in cells}
        hashes = {names: hash_files(names) for names in set(files.values())}
        return {cell: hashes[names] for cell, names in files.items()}
    shared = set(source_files(experiment, base, cells[0])) if cells else set()
    parted = parted_file(experiment.workload, base)
    if parted is None:
        return dict.fromkeys((cell.id for cell in cells), hash_files(shared))
    file, tree = parted
    parts = measured_sources(tree, {function_name(cell) for cell in cells})
    shared_hash = hash_files(shared - {file})
    return {cell.id: shared_hash + hash_text(parts[function_name(cell)]) for cell in cells}


def parted_files(experiment: Experiment, base: Path) -> dict[str, str]:
    """Digest of each file whose parts belong to cells, by its name in journals."""
    parted = parted_file(experiment.workload, base)
    if parted is None:
        return {}
    file = parted[0].resolve()
    return {
        f"{label}:{file.relative_to(folder).as_posix()}": file_digest(file)
        for label, folder in watched_folders(experiment, base).items()
        if file.is_relative_to(folder)
    }


def parted_file(workload: Workload, base: Path) -> tuple[Path, ast.Module] | None:
    """File and syntax tree of a Python experiment with functions; None for other workloads."""
    entry = _entry(workload, base) if isinstance(workload, ModuleWorkload) else None
    if entry is None:
        return None
    try:
        tree = ast.parse(entry.file.read_bytes())
    except (SyntaxError, ValueError, OSError):  # the runner will say so
        return None
    if not has_functions(tree) or _is_imported(entry):
        return None
    return entry.file, tree


def function_name(cell: Cell) -> str:
    """Name of the function of a cell of a Python experiment."""
    return str(cell.variant.params.get(FUNCTION))


def hash_text(text: str) -> str:
    """SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def source_files(experiment: Experiment, base: Path, cell: Cell) -> tuple[Path, ...]:
    """Source files of a workload with its local imports and the runner, or of a program.

    `base` is the folder of the spec. CUDA sources are not among them: they are in the hash of each
    variant's machine code.
    """
    workload = experiment.workload
    if isinstance(workload, CommandWorkload):
        values, folder = command_values(cell), workload.folder(base)
        commands = (workload.arguments(values), workload.check_arguments(values))
        programs = [file for argv in commands if argv for file in _program_files(argv, folder)]
        return (*programs, *_dependency_files(workload, base))
    has_candidate = _candidate_entry(workload, base) is not None
    measuring = (*_MEASURING, "runner/referee/*.py") if has_candidate else _MEASURING
    package = Path(profiler.__file__).parent
    of_runner = {file.resolve() for files in measuring for file in package.glob(files)}
    return (*sorted(of_runner), *_workload_files(workload, base))


def own_files(
    workload: ModuleWorkload | CudaWorkload, base: Path, cells: Sequence[Cell]
) -> dict[str, Path]:
    """Files of the workload that a user may edit, by their path from where it imports.

    The runner is not among them. `base` is the folder of the spec.
    """
    if isinstance(workload, CudaWorkload):
        names = {cell.variant.params.get("source", workload.source) for cell in cells}
        return by_name({base / str(name) for name in names if name is not None}, base)
    entries = _entries(workload, base)
    files_by_entry = [by_name(_with_imports(entry), entry.root) for entry in entries]
    return {name: file for files in reversed(files_by_entry) for name, file in files.items()}


def by_name(files: Iterable[Path], root: Path) -> dict[str, Path]:
    """Files by their path relative to a folder; a file outside of it by its name alone."""
    base = root.resolve()
    files_by_name = {
        (path.relative_to(base).as_posix() if path.is_relative_to(base) else path.name): path
        for path in (file.resolve() for file in files)
    }
    return dict(sorted(files_by_name.items()))


_LIBRARY_VARIABLES = re.compile(
    r"(CUBLAS|CUDNN|GOMP|JAX|KMP|MKL|NUMBA|NVIDIA_TF32|OMP|OPENBLAS|PYTORCH|TORCH|TORCHINDUCTOR"
    r"|TRITON|XLA)_\w+(?<!_DIR)(?<!_HOME)(?<!_PATH)"
)
"""Environment variables by which libraries choose kernels, precision or threads."""
_NAMED_VARIABLE = re.compile(rb"""["']([A-Z][A-Z0-9_]+)["']""")
"""A text in Python code that may be the name of an environment variable."""


def variables_now(experiment: Experiment, base: Path) -> dict[str, str]:
    """Environment variables that could change a number, with their values, by name.

    Those of libraries, and those whose names stand in the files of a workload in Python.
    """
    names = set(filter(_LIBRARY_VARIABLES.fullmatch, os.environ))
    workload = experiment.workload
    if not isinstance(workload, CommandWorkload):
        for file in _workload_files(workload, base):
            with contextlib.suppress(OSError):  # the runner will say so
                found_names = _NAMED_VARIABLE.findall(file.read_bytes())
                names.update(name.decode() for name in found_names)
    return {name: os.environ[name] for name in sorted(names & os.environ.keys())}


def imported_hash(source: str, file: Path) -> str:
    """Hash of the files beside `file` that a part of its source imports; empty without imports."""
    folders = search_folders(file)
    package = file.parent.relative_to(folders[-1]).parts
    files = {
        imported
        for name in _imported_module_names(ast.parse(source), package)
        for first in _files_of(name, folders)
        for imported in _with_imports(_Entry(first, folders, None))
    }
    return hash_files(files - {file}) if files - {file} else ""


def modules_elsewhere(experiment: Experiment, base: Path) -> set[str]:
    """Names, without submodules, of what a workload imports from outside of its own folders."""
    workload = experiment.workload
    entry = None if isinstance(workload, CommandWorkload) else _entry(workload, base)
    if entry is None:
        return set()
    return {
        name.partition(".")[0]
        for file in _with_imports(entry)
        for name in _imported_names(file, entry.root)
        if not any(_files_of(name, entry.folders))
    } - {profiler.__name__, "__main__"}


def library_versions(experiment: Experiment, base: Path) -> dict[str, str]:
    """Versions by name of the installed packages that a workload imports.

    And of Triton, by which torch compiles.
    """
    names = modules_elsewhere(experiment, base)
    names |= {"triton"} if "torch" in names else set()
    versions = {name: package_version(name) for name in sorted(names)}
    return {name: version for name, version in versions.items() if version is not None}


def watched_folders(experiment: Experiment, base: Path) -> dict[str, Path]:
    """Folders whose files belong to the key of a cell once a session has opened them, by label."""
    workload = experiment.workload
    if isinstance(workload, CommandWorkload):
        return {}
    folders = {"spec": base.resolve()}
    entry = _entry(workload, base)
    if entry is not None:
        workload_folder = entry.file.resolve().parent
        if not workload_folder.is_relative_to(folders["spec"]):
            folders["workload"] = workload_folder
    return folders


def digests_now(names: Iterable[str], folders: Mapping[str, Path]) -> dict[str, str]:
    """Digest today of opened files, by their names in journals."""
    parts = {name: name.partition(":") for name in names}
    return {
        name: file_digest(folders[label] / inside)
        for name, (label, _, inside) in parts.items()
        if label in folders
    }


def opened_now(loaded: LoadedSpec, attempts: Iterable[Attempt]) -> dict[str, str]:
    """Digest today of every file that sessions opened, by its name in journals."""
    journals = (runner_journal.read_journal(attempt.journal) for attempt in attempts)
    names = {name for records in journals for name in runner_journal.opened_files(records)}
    return digests_now(names, watched_folders(loaded.experiment, loaded.base))


def edited_files(attempts: Iterable[Attempt], opened: Mapping[str, str]) -> set[str]:
    """Files whose content differs between attempts and `opened`, without their label."""
    return {
        name.partition(":")[2]
        for attempt in attempts
        for name, digest in runner_journal.opened_files(
            runner_journal.read_journal(attempt.journal)
        ).items()
        if opened.get(name, digest) != digest
    }


# ---- an external command -------------------------------------------------------------------------


def _program_files(argv: Sequence[str], folder: Path) -> tuple[Path, ...]:
    """The program, and programs among its arguments, such as the script of an interpreter.

    Other files are left out: an output that is written again each time would make every key new.
    """
    from profiler.parse.machine_code import shared_objects  # noqa: PLC0415 - 50 ms, for few

    programs = [folder / word for word in argv[1:] if _is_program(folder / word)]
    with contextlib.suppress(SpecError):  # said where the program is started
        program = find_program(argv, folder)
        programs += [program, *shared_objects(program, _library_folders())]
    return tuple(programs)


def _library_folders() -> tuple[Path, ...]:
    """Folders of LD_LIBRARY_PATH, which programs inherit."""
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    return tuple(Path(folder) for folder in folders if folder)


def _dependency_files(workload: CommandWorkload, base: Path) -> Iterator[Path]:
    """Files and files in folders that `depends` names; SpecError where one is missing."""
    for name in workload.depends:
        path = base / name
        if not path.exists():
            raise SpecError(
                f"workload.depends: {name}: there is no such file",
                remedy="Give paths relative to the experiment file.",
            )
        if path.is_dir():
            yield from sorted(file for file in path.rglob("*") if file.is_file())
        else:
            yield path


def _is_program(path: Path) -> bool:
    try:
        return path.is_file() and (path.suffix == ".py" or os.access(path, os.X_OK))
    except (OSError, ValueError):  # any word may stand here, too long for a file or with a NUL
        return False


# ---- a workload in Python ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Entry:
    """The file of a workload, and the folders where its imports are looked up."""

    file: Path
    folders: tuple[Path, ...]
    package: str | None
    """The only package whose files count; None: all do."""

    @property
    def root(self) -> Path:
        """The outermost of the folders."""
        return self.folders[-1]


def _entry(workload: ModuleWorkload | CudaWorkload, base: Path) -> _Entry | None:
    """The file of a workload; None where the runner would not find it."""
    target = workload.target(base)
    if isinstance(workload, ModuleWorkload) and is_file_name(workload.module):
        file = Path(target)
        return _Entry(file, search_folders(file), None)
    spec = find_spec(target)
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin)
    return _Entry(file, (file.parents[target.count(".")],), target.partition(".")[0])


def _candidate_entry(workload: ModuleWorkload | CudaWorkload, base: Path) -> _Entry | None:
    """The file of a candidate beside a workload; None without a candidate."""
    if not isinstance(workload, ModuleWorkload) or workload.candidate is None:
        return None
    file = (base / workload.candidate).resolve()
    return _Entry(file, search_folders(file), None)


def _entries(workload: ModuleWorkload | CudaWorkload, base: Path) -> tuple[_Entry, ...]:
    """The file of a workload, and that of a candidate beside it, as far as there are any."""
    return tuple(filter(None, (_entry(workload, base), _candidate_entry(workload, base))))


def _workload_files(workload: ModuleWorkload | CudaWorkload, base: Path) -> tuple[Path, ...]:
    return tuple(file for entry in _entries(workload, base) for file in _with_imports(entry))


def _with_imports(entry: _Entry) -> tuple[Path, ...]:
    """The file of a workload and all files that it imports from its folders, transitively."""
    files = {entry.file: None}
    names: set[str] = set()
    waiting = [entry.file]
    while waiting:
        for name in _imported_names(waiting.pop(), entry.root):
            if name in names or entry.package not in (None, name.partition(".")[0]):
                continue
            names.add(name)
            for module in _files_of(name, entry.folders):
                if module not in files:
                    files[module] = None
                    waiting.append(module)
    return tuple(files)


def _is_imported(entry: _Entry) -> bool:
    """Whether the file of a workload is imported by a file that it imports, or by itself."""
    return any(
        entry.file in _files_of(name, entry.folders)
        for file in _with_imports(entry)
        for name in _imported_names(file, entry.root)
    )


def _imported_names(file: Path, root: Path) -> tuple[str, ...]:
    """Absolute dotted names of all imports of a file, at any depth."""
    return _names_of_content(file.read_bytes(), file.relative_to(root).parent.parts)


@lru_cache(maxsize=256)
def _names_of_content(content: bytes, package: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(_imported_module_names(ast.parse(content), package))
    except (SyntaxError, ValueError):  # the runner will say so
        return ()


def _imported_module_names(tree: ast.Module, package: tuple[str, ...]) -> Iterator[str]:
    """Absolute dotted names of all imports of a module that lies in a package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent_parts = package[: max(0, len(package) - node.level + 1)] if node.level else ()
            module = ".".join([*parent_parts, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}".strip(".") for alias in node.names)


def _files_of(name: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Files in folders that an import of a dotted name runs, parent packages included."""
    parts = name.split(".")
    for folder, depth in itertools.product(folders, range(1, len(parts) + 1)):
        path = folder.joinpath(*parts[:depth])
        yield from (
            file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()
        )
