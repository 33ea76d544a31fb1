"""The search path of a user's modules: their folder first, but not before the standard library."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

OWN_NAME = "profiler"


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
        """Place of a module of the standard library; None for every other, and built-in ones."""
        if path is not None or fullname not in sys.stdlib_module_names:
            return None
        others = [entry for entry in sys.path if entry not in (self._folder, "")]
        return PathFinder.find_spec(fullname, others, target)


def add_folder(folder: Path) -> None:
    """Put a folder of the user in front of the search path.

    A `profiler.py` in it is what `import profiler` gives from then on; modules of this project that
    are loaded stay loaded, and find those beside them through their package.
    """
    entry = str(folder)
    if entry in sys.path[:1]:
        return
    sys.path.insert(0, entry)
    sys.meta_path.insert(0, _StandardLibraryFirst(entry))
    own = sys.modules.get(OWN_NAME)
    if own is not None and _has_module(folder, OWN_NAME) and not _lies_in(own, folder):
        del sys.modules[OWN_NAME]


def _has_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def _lies_in(module: ModuleType, folder: Path) -> bool:
    return module.__file__ is not None and Path(module.__file__).is_relative_to(folder)
