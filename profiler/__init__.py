"""The orchestrator: turns an experiment into a measured, explained page.

Never imports torch and never touches CUDA; what needs them runs in the child process `runner`.
Importing it is cheap: what a user's program may use of it is loaded when it is asked for.
"""

import os
import sys
from itertools import pairwise  # compiled into Python


def _forget_current_folder() -> None:
    """`python -m profiler` searches the current folder first: a `numpy.py` there is none of ours.

    Here, because a `typing.py` there is imported before `profiler.__main__` is.
    """
    here = os.getcwd()  # noqa: PTH109 - pathlib is not imported so far
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if sys.path[0] in ("", here) and own != here:
        del sys.path[0]


if sys.argv[:1] == ["-m"] and ("-m", __name__) in pairwise(sys.orig_argv):
    _forget_current_folder()

import importlib  # noqa: E402
from typing import Any  # noqa: E402

__version__ = "0.1.0"
__all__ = ["CapturedCalls", "Experiment", "Run", "capture", "evaluate", "load"]

_PLACES = {
    "CapturedCalls": "profiler.runner.capture.replay",
    "Experiment": "profiler.runner.experiment",
    "Run": "profiler.python.run",
    "capture": "profiler.runner.capture.recording",
    "evaluate": "profiler.python.run",
    "load": "profiler.python.run",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'profiler' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
