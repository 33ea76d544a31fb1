"""Configurations that autotuners of inductor and Triton tried for one cell, from their objects.

Of Triton every launch of a function with `@triton.autotune` tells what runs; where it was tuned
inside, also what else was tried.

Inductor's cache on disk cannot be joined with the cells: a `*.best_config` names neither its kernel
nor the shape that it was tuned for, and kernels of one operator are called the same at every size.
In the process that compiles, it is known which compilation is whose.

What was chosen once stays chosen in a run. The cache of torch 2.11 did not give back every choice
(2.13 also reads those whose blocks were scaled), and the next process tried again: 10 of 100
compiled softmaxes had their counters from another kernel than their times. So the choice is kept
beside the kernel's file in the cache, which each run has for itself.

All of this is private to torch and Triton. Where it is not as in torch 2.11 to 2.13 and Triton 3,
nothing is told, and the compilation goes on as ever.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

Row = dict[str, Any]
"""One configuration: `operation choice config time_ns registers spills shared_bytes best`; in place
of `config` a `description` where it is a text. What is not known is None."""

_NS_PER_MS = 1e6
_CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
_CHOSEN = ".chosen.json"
_OTHERWISE = (ImportError, AttributeError, TypeError, ValueError, KeyError, IndexError)
"""Exceptions where torch's internals differ from the expected ones."""

_heard: list[Row] = []
"""Choices between templates and libraries since the last `watch` began."""


@contextmanager
def watch_launch() -> Iterator[list[Row]]:
    """A list that the body's autotuners fill with tried configurations."""
    rows: list[Row] = []
    with ExitStack() as stack:
        stack.enter_context(_recording_runs(rows))
        compiled: list[Row] = []
        if "torch._dynamo" in sys.modules:  # torch.compile imports it before anything is compiled
            compiled = stack.enter_context(watch(choices=True))
        yield rows
    rows.extend(compiled)


@contextmanager
def _recording_runs(rows: list[Row]) -> Iterator[None]:
    """While the body runs, add the configurations of each function that Triton's autotuner runs."""
    autotuner: Any = getattr(sys.modules.get("triton.runtime.autotuner"), "Autotuner", None)
    original = getattr(autotuner, "run", None)
    if original is None:
        yield
        return
    noted_tuners: set[int] = set()

    @functools.wraps(original)
    def run_and_note(self: Any, *args: Any, **kwargs: Any) -> Any:
        timings = getattr(self, "configs_timings", None)
        result = original(self, *args, **kwargs)
        with suppress(*_OTHERWISE):
            if id(self) not in noted_tuners:
                tuned = getattr(self, "configs_timings", None)
                rows.extend(_runs(self, tuned if tuned is not timings else None))
            noted_tuners.add(id(self))
        return result

    autotuner.run = run_and_note
    try:
        yield
    finally:
        autotuner.run = original


def _runs(tuner: Any, timings: Mapping[Any, Any] | None) -> Iterator[Row]:
    """Configurations that Triton's autotuner has just tried of a function, and the one it runs."""
    name = str(getattr(tuner, "base_fn", tuner.fn).__name__)
    for config in timings or {tuner.best_config: math.nan}:
        milliseconds = (timings or {}).get(config, math.nan)
        yield {
            "operation": name,
            "choice": "",
            "config": _settings(config),
            # A median and two percentiles, or one number.
            "time_ns": _nanoseconds(
                milliseconds[0] if isinstance(milliseconds, Sequence) else milliseconds
            ),
            "registers": None,
            "spills": None,
            "shared_bytes": None,
            "best": config is tuner.best_config or config == tuner.best_config,
        }


@contextmanager
def watch(*, choices: bool = False) -> Iterator[list[Row]]:
    """A list of the configurations tried in the body, complete at its end.

    `choices`: also those between templates and libraries, which only `max-autotune` makes.
    """
    rows: list[Row] = []
    _heard.clear()
    if choices:
        with suppress(*_OTHERWISE):
            _hear_choices()
    before = len(_modules())
    with _recording_benchmarks() as tried_launchers:
        yield rows
    rows.extend(_heard)
    with suppress(*_OTHERWISE):
        kernels = tuple(_kernels(before))
        rows.extend(row for kernel in kernels for row in _rows(kernel, tried_launchers))
        for kernel in kernels:
            if id(kernel) in tried_launchers:
                _keep_choice(kernel)


def _modules() -> Sequence[Any]:
    """Modules that inductor has written and loaded in this process, the newest last."""
    with suppress(*_OTHERWISE):
        from torch._inductor.codecache import PyCodeCache

        modules: Sequence[Any] = PyCodeCache.modules
        return modules
    return ()


def _kernels(before: int) -> Iterable[Any]:
    """Autotuners of the kernels in the modules after the first `before` ones."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    values = (value for module in _modules()[before:] for value in vars(module).values())
    return {id(value): value for value in values if isinstance(value, CachingAutotuner)}.values()


@contextmanager
def _recording_benchmarks() -> Iterator[dict[int, list[tuple[Any, float]]]]:
    """While the body runs, record the time of every tried launcher, by its autotuner's id.

    Of a kernel that an earlier process of the run has tuned the autotuner gets the time of that
    choice alone, and so takes it again.
    """
    tried_launchers: dict[int, list[tuple[Any, float]]] = {}
    try:
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        original = CachingAutotuner.benchmark_all_configs
    except _OTHERWISE:
        yield tried_launchers
        return

    @functools.wraps(original)
    def run_and_note(self: Any, *args: Any, **kwargs: Any) -> Any:
        timings = original(self, *args, **kwargs)
        if not isinstance(timings, Mapping):
            return timings
        tried_launchers[id(self)] = list(timings.items())
        launcher = _earlier_choice(self, timings)
        return timings if launcher is None else {launcher: timings[launcher]}

    CachingAutotuner.benchmark_all_configs = run_and_note
    try:
        yield tried_launchers
    finally:
        CachingAutotuner.benchmark_all_configs = original


def _rows(kernel: Any, tried_launchers: Mapping[int, Sequence[tuple[Any, float]]]) -> Iterator[Row]:
    """Rows of every tried configuration of a kernel, and of the one that runs."""
    if len(kernel.launchers) != 1:
        return  # It was loaded, and never launched.
    (winner,) = kernel.launchers
    timings = tried_launchers.get(id(kernel), ())
    for launcher, milliseconds in timings:
        yield _row(kernel, launcher, milliseconds, best=launcher is winner)
    if all(launcher is not winner for launcher, _ in timings):
        # The only configuration, a cached one, or one of coordinate descent.
        yield _row(kernel, winner, math.nan, best=True)


def _earlier_choice(kernel: Any, launchers: Iterable[Any]) -> Any:
    """The launcher that an earlier process of the run chose; None without such a choice."""
    with suppress(*_OTHERWISE, OSError):
        file = _choice_file(kernel)
        settings = None if file is None else json.loads(file.read_text("utf-8"))
        return next(
            (launcher for launcher in launchers if _settings(launcher.config) == settings), None
        )
    return None


def _keep_choice(kernel: Any) -> None:
    """Write the choice for a tuned kernel, unless it is written already."""
    with suppress(OSError):
        file = _choice_file(kernel)
        if file is None or file.exists() or len(kernel.launchers) != 1:
            return
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(_settings(kernel.launchers[0].config)), "utf-8")
        partial.replace(file)


def _choice_file(kernel: Any) -> Path | None:
    """File of a kernel's choice: beside its module, if that is in the cache of the run."""
    folder = os.environ.get(_CACHE_VARIABLE)
    source = Path(kernel.filename or "")
    if not folder or not source.is_relative_to(folder):
        return None
    return source.with_name(f"{source.name}{_CHOSEN}")


def _settings(config: Any) -> dict[str, str | int | float | bool | None]:
    """Block sizes, warps and stages of a configuration."""
    sizes = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {str(key): _scalar(value) for key, value in sizes.items()}


def _row(kernel: Any, launcher: Any, milliseconds: float, *, best: bool) -> Row:
    config = launcher.config
    return {
        "operation": str(kernel.inductor_meta.get("kernel_name") or kernel.fn.__name__),
        "choice": "coordinate descent" if getattr(config, "found_by_coordesc", False) else "",
        "config": _settings(config),
        "time_ns": _nanoseconds(milliseconds),
        "registers": _count(getattr(launcher, "n_regs", None)),
        "spills": _count(getattr(launcher, "n_spills", None)),
        "shared_bytes": _count(getattr(launcher, "shared", None)),
        "best": best,
    }


@functools.cache
def _hear_choices() -> None:
    """Record every choice between templates and libraries from now on."""
    from torch._inductor.select_algorithm import add_feedback_saver

    add_feedback_saver(_note_choices)


def _note_choices(timings: Mapping[Any, float], name: str, inputs: Sequence[Any], *_: Any) -> None:
    """Callback of torch: record the choices tried for one operation."""
    with suppress(*_OTHERWISE):
        shapes = ", ".join("x".join(map(str, tensor.get_size())) for tensor in inputs)
        quickest = min(timings, key=lambda choice: timings[choice], default=None)
        _heard.extend(
            {
                "operation": f"{name}({shapes})",
                "choice": str(choice.name),
                "description": str(getattr(choice, "description", "") or ""),
                "time_ns": _nanoseconds(milliseconds),
                "registers": None,
                "spills": None,
                "shared_bytes": None,
                "best": choice is quickest and math.isfinite(milliseconds),
            }
            for choice, milliseconds in timings.items()
        )


def _nanoseconds(milliseconds: float) -> float | None:
    value = float(milliseconds) * _NS_PER_MS
    return value if math.isfinite(value) else None


def _count(value: object) -> int | None:
    """A count; None where Triton gives None or a negative number for an unknown one."""
    return value if isinstance(value, int) and value >= 0 else None


def _scalar(value: object) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
