"""How a user's modules are found and loaded, and a file under a name of its own.

Their folders come first on the search path, but not before the standard library. A file that an
experiment names is loaded from its source.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from profiler.runner.experiment import importing

OWN_NAME = "profiler"
INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Names of folders of installed packages."""


class _StandardLibraryFirst(MetaPathFinder):
    """Finds modules of the standard library as if a folder were not on the search path.

    torch and others import many of them late, when a `queue.py` or `token.py` of the user would
    already be in front of them.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Spec of a module of the standard library; None for other and for built-in modules."""
        if path is not None or fullname not in sys.stdlib_module_names:
            return None
        other_entries = [entry for entry in sys.path if entry not in (self._folder, "")]
        return PathFinder.find_spec(fullname, other_entries, target)


def add_folder(folder: Path) -> None:
    """Put a folder of the user in front of the search path.

    A `profiler.py` in it is what `import profiler` gives from then on; modules of this project that
    are loaded stay loaded, and find modules beside them through their package.
    """
    entry = str(folder)
    if entry in sys.path[:1]:
        return
    sys.path.insert(0, entry)
    sys.meta_path.insert(0, _StandardLibraryFirst(entry))
    loaded_package = sys.modules.get(OWN_NAME)
    if (
        loaded_package is not None
        and _module_file(folder, OWN_NAME) is not None
        and not _lies_in(loaded_package, folder)
    ):
        del sys.modules[OWN_NAME]


def search_folders(file: Path) -> tuple[Path, ...]:
    """Folders that a file imports from: its own, and the one in which its outermost package lies.

    A folder with an `__init__.py` is a package: files in it, and in packages beside it, import each
    other by their names from above (`from softmax.space import DTYPES`).
    """
    outermost = file.parent
    while (outermost / "__init__.py").is_file():
        outermost = outermost.parent
    return tuple(dict.fromkeys((file.parent, outermost)))


def name_in_package(name: str, file: Path) -> str:
    """Name of a module behind the name of its file's package, from which it may import."""
    return ".".join((*file.parent.relative_to(search_folders(file)[-1]).parts, name))


@contextmanager
def importing_from(
    folders: Sequence[Path], kept_modules: dict[str, ModuleType] | None = None
) -> Iterator[None]:
    """Put folders in front of the search path while the body imports, and leave no trace.

    Modules from there are removed afterwards: in a process that reads many experiments,
    two may have modules of one name, and an edited one is read again. `kept_modules`:
    modules of earlier bodies, which stand for their names meanwhile; the body's imports are added.
    """
    kept_modules = {} if kept_modules is None else kept_modules
    hidden = {name: sys.modules.pop(name) for name in kept_modules if name in sys.modules}
    loaded, entries = set(sys.modules), [str(folder) for folder in folders]
    sys.modules.update(kept_modules)
    finders = [_StandardLibraryFirst(entry) for entry in entries]
    sys.path[:0], sys.meta_path[:0] = entries, finders
    try:
        yield
    finally:
        kept_modules.update(_forget(sys.modules.keys() - loaded, folders))
        sys.modules.update(hidden)
        for entry, finder in zip(entries, finders, strict=True):
            with suppress(ValueError):  # what was imported may have changed the path itself
                sys.path.remove(entry)
            sys.meta_path.remove(finder)


def _forget(names: Set[str], folders: Sequence[Path]) -> dict[str, ModuleType]:
    """Remove modules that were found in folders from sys.modules, with their submodules.

    Returns the removed modules by name.
    """
    top_names = {name for name in names if "." not in name}
    names_in_folders = {name for name in top_names if _folder_of(sys.modules[name]) in folders}
    return {
        name: sys.modules.pop(name) for name in names if name.partition(".")[0] in names_in_folders
    }


def _folder_of(module: ModuleType) -> Path | None:
    """Folder of the search path in which a module was found; None of a built-in one."""
    packages, file = list(getattr(module, "__path__", ())), getattr(module, "__file__", None)
    if packages:
        return Path(packages[0]).parent
    return None if file is None else Path(file).parent


def _module_file(folder: Path, name: str) -> Path | None:
    """File or package of a module in a folder, which need not be on the search path."""
    if (folder / f"{name}.py").is_file():
        return folder / f"{name}.py"
    return folder / name if (folder / name / "__init__.py").is_file() else None


_QUOTED_MODULE = re.compile(r"'(\w+)[.']")
"""Name of a module in an error of an import: `No module named 'triton.language'`."""


def name_clash(error: BaseException, file: Path) -> str:
    """Hint `numpy.py hides the installed numpy: rename it` on an error of an import; else empty.

    Where a module beside the file, or in its package, bears the name of one that the error names.
    The standard library's own come before those of a user.
    """
    if not isinstance(error, AttributeError | ImportError):
        return ""
    folders = search_folders(file)
    for name in dict.fromkeys(_QUOTED_MODULE.findall(str(error))):
        module_files = (_module_file(folder, name) for folder in folders)
        module_file = next(filter(None, module_files), None)
        if module_file is not None and name in sys.stdlib_module_names:
            return f"Python's own {name} hides {module_file.name}: rename it"
        if module_file is not None and _is_found(name, unless=folders):
            return f"{module_file.name} hides the installed {name}: rename it"
    return ""


def _is_found(name: str, *, unless: Sequence[Path]) -> bool:
    """Whether the search path without some folders has a module; other folders are no modules."""
    spec = PathFinder.find_spec(name, [entry for entry in sys.path if Path(entry) not in unless])
    return spec is not None and spec.origin is not None


def _lies_in(module: ModuleType, folder: Path) -> bool:
    return module.__file__ is not None and Path(module.__file__).is_relative_to(folder)


class _SourceLoader(SourceFileLoader):
    """Compiles a file each time, and keeps no bytecode.

    Python takes bytecode as that of any file of the same size that changed in the same second. A
    user or program that edits a kernel and measures again may be faster.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        content = self.get_data(path)
        importlib.util.decode_source(content)  # raises; Python compiles comments that are no text
        return self.source_to_code(content, path)


def import_file(path: Path) -> ModuleType:
    """Import a file, with `search_folders` on sys.path for what it imports."""
    path = path.resolve()
    for folder in reversed(search_folders(path)):
        add_folder(folder)
    # Prefixed, so that a user's `random.py` or `workload.py` does not replace another module.
    return load_module(name_in_package(f"workload_file_{path.stem}", path), path)


def load_module(
    name: str,
    file: Path,
    within: AbstractContextManager[None] = nullcontext(),  # noqa: B008 - it has no state
) -> ModuleType:
    """Execute a file as a module of this name, and return it; ImportError unless it ends in .py.

    `within` is entered once the module has its place in sys.modules, where it stays.
    """
    loader = _SourceLoader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    if spec is None or file.suffix != ".py":
        raise ImportError(f"not a Python file: {file.name}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses, compilers and pickle look their module up there while it is being executed.
    sys.modules[name] = module
    with within, importing():
        loader.exec_module(module)
    return module


class ImportLog(MetaPathFinder):
    """Notes the names of imported modules, in order; finds no module itself."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Note a name and return None: the other finders find the module."""
        del path, target
        if not (self._names and _is_being_imported(self._names[-1])):
            self._names.append(fullname)
        return None

    def begin(self) -> None:
        """Note the names of modules that are imported from now on."""
        sys.meta_path.insert(0, self)

    def end(self) -> tuple[str, ...]:
        """Names of the installed modules that were imported, without the modules these import."""
        with suppress(ValueError):  # what was imported may have changed the list itself
            sys.meta_path.remove(self)
        return tuple(name for name in dict.fromkeys(self._names) if _is_installed(name))


def _is_being_imported(name: str) -> bool:
    """Whether an installed module is being loaded, which imports other modules."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return getattr(spec, "_initializing", False) and _is_installed(name)


def _is_installed(name: str) -> bool:
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and not INSTALLED.isdisjoint(Path(file).parts)


def import_ahead(names: Iterable[str]) -> None:
    """Import modules that will be needed; a module that fails raises its error at its use."""
    for name in names:
        with suppress(Exception, SystemExit):
            importlib.import_module(name)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Keep the collector's pauses out of the body: milliseconds each with torch loaded.

    Of importing torch they are an eighth of the time, and nothing of it is garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def syntax_excerpt(error: BaseException) -> str:
    """The line of a SyntaxError with a caret below, on separate lines; empty for other errors."""
    if not isinstance(error, SyntaxError) or not error.text:
        return ""
    excerpt = traceback.format_exception_only(error)[1:-1]
    return "".join(f"\n{line.rstrip()}" for line in excerpt)
