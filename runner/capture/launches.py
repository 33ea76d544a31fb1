"""Launches around torch's dispatcher: Triton kernels, replays of CUDA graphs, compiled graphs."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import torch

from profiler.runner.capture.graphs import (
    GraphDocument,
    draws_random_numbers,
    graph_document,
)
from profiler.runner.capture.signatures import Key, NotReplayableError, key_of

TRITON_KERNEL, COMPILED_GRAPH, CUDA_GRAPH = "Triton kernel", "compiled graph", "CUDA graph"


@dataclass(frozen=True)
class Launch:
    """What is launched around the dispatcher, and what it takes to do so again."""

    kind: str
    name: str
    key: Key
    """What launches of one signature have in common."""
    left_out: str = ""
    """Why it is in no experiment; empty where it can be."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)
    """What `calls.json` has of it beside the arguments."""


Runner = Callable[[Callable[[], Launch], Callable[[], Any]], Any]
"""Counts and times a launch: what tells which it is, and what makes it."""
_INDUCTOR = "torch._inductor.compile_fx"


@contextmanager
def replaced(owner: Any, name: str, wrap: Callable[..., Any]) -> Iterator[None]:
    """While inside, `wrap(original, *args, **kwargs)` is called in place of a method."""
    original = getattr(owner, name)

    def replacement(*args: Any, **kwargs: Any) -> Any:
        return wrap(original, *args, **kwargs)

    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


class CompiledGraphs:
    """Graphs that torch.compile hands to inductor, by what they become."""

    def __init__(self) -> None:
        self._compiled: dict[int, tuple[Any, str, GraphDocument | None, str]] = {}
        self._patches = ExitStack()
        self._is_patched = False
        self.run: Runner | None = None
        """Makes the launches of graphs, while they are recorded."""
        self.compiling = 0
        """How many compilations are under way: their calls are none of the program."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While inside, graphs are kept as they are compiled."""
        if _INDUCTOR in sys.modules:
            self._patch_inductor()
        callbacks = importlib.import_module("torch._dynamo.callback").callback_handler

        def register() -> None:
            callbacks.register_start_callback(self._started)
            callbacks.register_end_callback(self._ended)

        def clear(original: Callable[[], None]) -> None:
            """Clear all callbacks but these, as `torch._dynamo.reset()` of a program does."""
            original()
            register()

        register()
        try:
            # A hit of that cache would come without the graph; inductor's own cache stays.
            config = importlib.import_module("torch._functorch.config")
            without_cache = config.patch(enable_autograd_cache=False)
            with without_cache, self._patches, replaced(callbacks, "clear", clear):
                yield
        finally:
            callbacks.remove_start_callback(self._started)
            callbacks.remove_end_callback(self._ended)

    def _started(self, _: Any) -> None:
        if not self.compiling:
            self._patch_inductor()
        self.compiling += 1

    def _ended(self, _: Any) -> None:
        self.compiling -= 1

    def _patch_inductor(self) -> None:
        """Once: to import it takes seconds, which a program that compiles nothing need not wait."""
        if self._is_patched:
            return
        self._is_patched = True
        inductor = importlib.import_module(_INDUCTOR)
        output_code = importlib.import_module("torch._inductor.output_code")
        self._patches.enter_context(replaced(inductor, "_compile_fx_inner", self._compile))
        compiled_class = output_code.CompiledFxGraph
        self._patches.enter_context(replaced(compiled_class, "__call__", self._call))

    def _call(self, original: Any, compiled: Any, inputs: list[Any]) -> Any:
        make = partial(original, compiled, inputs)
        return (
            make() if self.run is None else self.run(partial(self._launch, compiled, inputs), make)
        )

    def _compile(self, original: Any, graph_module: Any, *args: Any, **kwargs: Any) -> Any:
        graph = graph_module.graph
        document, why = None, "random numbers in a compiled graph"
        if not draws_random_numbers(graph):
            try:
                document, why = graph_document(graph), ""
            except NotReplayableError as reason:
                why = str(reason)
        part = "backward" if kwargs.get("is_backward") else "forward"
        name = f"compiled.graph_{len(self._compiled)}.{part}"
        compiled = original(graph_module, *args, **kwargs)
        self._compiled[id(compiled)] = (compiled, name, document, why)
        return compiled

    def _launch(self, compiled: Any, inputs: list[Any]) -> Launch:
        """The launch of a graph with these inputs."""
        unseen = (compiled, "compiled.graph", None, "compiled before it was captured")
        _, name, document, why = self._compiled.get(id(compiled), unseen)
        try:
            key = key_of((COMPILED_GRAPH, id(compiled)), (inputs,), {})
        except NotReplayableError as reason:
            key, why = (COMPILED_GRAPH, id(compiled)), str(reason)
        if document is None or why:
            return Launch(COMPILED_GRAPH, name, key, why)
        return Launch(COMPILED_GRAPH, name, key, "", {"inputs": list(inputs)}, {"graph": document})


@contextmanager
def seen_by(run: Runner, graphs: CompiledGraphs, pause: Callable[[], Any]) -> Iterator[None]:
    """While inside, launches around the dispatcher are made by `run`.

    `pause`: a context in which nothing counts, for what is launched to tune.
    """

    def replay(original: Any, graph: Any) -> Any:
        launch = Launch(
            CUDA_GRAPH,
            "replay",
            (CUDA_GRAPH, id(graph)),
            "it reads and writes where it was recorded",
        )
        return run(lambda: launch, partial(original, graph))

    graphs.run = run
    with ExitStack() as stack:
        stack.callback(setattr, graphs, "run", None)
        stack.enter_context(replaced(torch.cuda.CUDAGraph, "replay", replay))
        if torch.cuda.is_available() or "triton" in sys.modules:
            _watch_triton(stack, run, pause)
        yield


def _watch_triton(stack: ExitStack, run: Runner, pause: Callable[[], Any]) -> None:
    try:
        knobs = importlib.import_module("triton.knobs")
        tuner = importlib.import_module("triton.runtime.autotuner").Autotuner
        kernels = triton_kernel_classes()
    except ImportError:  # none, or one before 3.4, which no torch of today comes with
        return

    def launch(original: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        again = partial(original, kernel, *args, **kwargs)
        if kwargs.get("warmup"):
            return again()
        return run(partial(_triton_launch, kernel, args, kwargs), again)

    def tune(original: Any, *args: Any, **kwargs: Any) -> Any:
        with pause():
            return original(*args, **kwargs)

    def unlaunched(metadata: Any) -> None:
        """Count a kernel that is launched without its Python function."""
        name = str(metadata.data.get("name", ""))
        key = (TRITON_KERNEL, name)
        launch = Launch(TRITON_KERNEL, name, key, "launched without its function")
        run(lambda: launch, lambda: None)

    for owner in kernels:
        stack.enter_context(replaced(owner, "run", launch))
    stack.enter_context(replaced(tuner, "_bench", tune))
    knobs.runtime.launch_enter_hook.add(unlaunched)
    stack.callback(knobs.runtime.launch_enter_hook.remove, unlaunched)


def triton_kernel_classes() -> tuple[Any, ...]:
    """Classes of what a decorated function is, compiled and interpreted; raises ImportError."""
    return (
        importlib.import_module("triton.runtime.jit").JITFunction,
        importlib.import_module("triton.runtime.interpreter").InterpretedFunction,
    )


@cache
def _defaults(function: Callable[..., Any]) -> Mapping[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not p.empty}


def _triton_launch(kernel: Any, args: Any, kwargs: Mapping[str, Any]) -> Launch:
    """The launch of a Triton kernel, with all its arguments by name."""
    function, names = kernel.fn, kernel.arg_names
    given = {**_defaults(function), **dict(zip(names, args, strict=False)), **kwargs}
    arguments = {name: getattr(given[name], "value", given[name]) for name in names}
    grid = kwargs["grid"](arguments) if callable(kwargs["grid"]) else kwargs["grid"]
    grid = [int(size) for size in (grid if isinstance(grid, tuple | list) else (grid,))]
    options = {
        name: value
        for name, value in kwargs.items()
        if name not in (*names, "grid", "warmup") and isinstance(value, int)
    }
    name = f"{function.__module__}.{function.__qualname__}"
    launch = {
        "module": function.__module__,
        "function": function.__qualname__,
        "grid": grid,
        "options": options,
    }
    why = ""
    if "<locals>" in name or function.__module__ == "__main__":
        why = "kernels of the program itself: a module that can be imported is needed"
    try:
        key = key_of(name, (tuple(arguments.values()), tuple(grid), *options.items()), {})
        hash(key)
    except (NotReplayableError, TypeError) as reason:
        return Launch(TRITON_KERNEL, name, (TRITON_KERNEL, name), str(reason))
    return Launch(TRITON_KERNEL, name, (TRITON_KERNEL, *key), why, arguments, {"launch": launch})
