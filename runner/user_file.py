"""Importing a user's Python file under a name of its own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from profiler.runner.experiment import importing
from profiler.runner.import_path import add_folder, module_spec


def import_file(path: Path) -> ModuleType:
    """Import a file, with its folder on sys.path for the modules beside it."""
    path = path.resolve()
    # Prefixed, so that a user's `random.py` or `workload.py` does not replace another module.
    name = f"workload_file_{path.stem}"
    spec = module_spec(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path.name}")
    add_folder(path.parent)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look their module up there while it is still being executed.
    sys.modules[name] = module
    with importing():
        spec.loader.exec_module(module)
    return module
