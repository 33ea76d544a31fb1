"""The orchestrator: turns an experiment into a measured, explained page.

Never imports torch and never touches CUDA; code that needs them runs in the child process `runner`.
Importing it is cheap: the names in `__all__` are loaded when they are first used.
"""

import os
import sys
from itertools import pairwise  # compiled into Python


def _forget_current_folder() -> None:
    """Take the current folder, which `python -m profiler` searches first, out of the search path.

    A `numpy.py` there is not the one that is meant. Done here, because a `typing.py` there would be
    imported before `profiler.__main__` is.
    """
    try:
        current_folder = os.getcwd()  # noqa: PTH109 - pathlib is not imported so far
    except FileNotFoundError:  # it was deleted: nothing can be imported from it
        return
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if sys.path[0] in ("", current_folder) and package_parent != current_folder:
        del sys.path[0]


if sys.argv[:1] == ["-m"] and ("-m", __name__) in pairwise(sys.orig_argv):
    _forget_current_folder()

import importlib  # noqa: E402
from typing import Any  # noqa: E402

__version__ = "0.1.0"
__all__ = ["CapturedCalls", "Experiment", "Run", "capture", "evaluate", "load"]

_MODULES = {
    "CapturedCalls": "profiler.runner.capture.replay",
    "Experiment": "profiler.runner.experiment",
    "Run": "profiler.python.run",
    "capture": "profiler.runner.capture.recording",
    "evaluate": "profiler.python.run",
    "load": "profiler.python.run",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'profiler' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
