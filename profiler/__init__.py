"""The orchestrator: turns an experiment into a measured, explained page.

Never imports torch and never touches CUDA; what needs them runs in the child process `runner`.
Importing it is cheap: what a user's program may use of it is loaded when it is asked for.
"""

import importlib
from typing import Any

__version__ = "0.1.0"
__all__ = ["Experiment", "Run", "load"]

_PLACES = {
    "Experiment": "profiler.runner.experiment",
    "Run": "profiler.python.run",
    "load": "profiler.python.run",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'profiler' has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
