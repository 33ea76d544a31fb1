"""Clocks and checks of the runner as they were before any code of the workload ran."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch

from profiler.runner import timing
from profiler.runner.checks import check

_RUNNER = f"{__name__.rpartition('.')[0]}."


class ImplausibleError(Exception):
    """A variant gave a result that cannot come from the work that is to be measured."""


class Seal:
    """Clocks, events and checks that a workload has no reason to replace.

    A number that a replaced clock gives says nothing of the kernel.
    """

    def __init__(self) -> None:
        self._originals = tuple((owner, name, vars(owner)[name]) for owner, name in _sealed())

    def mend(self) -> tuple[str, ...]:
        """Names of replaced attributes; the originals are put back for the other variants."""
        replaced = [
            (owner, name, value)
            for owner, name, value in self._originals
            if vars(owner).get(name) is not value
        ]
        for owner, name, value in replaced:
            setattr(owner, name, value)
        return tuple(f"{owner.__name__}.{name}" for owner, name, _ in replaced)

    def require_whole(self) -> None:
        """Raise ImplausibleError where an attribute was replaced, and put the original back."""
        refuse_replaced(self.mend())


def refuse_replaced(names: tuple[str, ...]) -> None:
    """Raise ImplausibleError where a workload has replaced a clock or a check of the runner."""
    if names:
        raise ImplausibleError(f"the workload replaced {', '.join(names)}")


def _sealed() -> Iterator[tuple[Any, str]]:
    for name in ("perf_counter", "perf_counter_ns", "monotonic", "time"):
        yield time, name
    yield torch.cuda, "synchronize"
    yield torch.cuda, "Event"
    yield torch.cuda.Event, "record"
    yield torch.cuda.Event, "elapsed_time"
    yield from _functions(check)
    yield from _functions(timing)


def _functions(module: ModuleType) -> Iterator[tuple[Any, str]]:
    """Functions of the runner in a module of it."""
    for name, value in vars(module).items():
        if isinstance(value, FunctionType) and value.__module__.startswith(_RUNNER):
            yield module, name
