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

from profiler.runner.capture.graphs import GraphDocument, draws_random_numbers, graph_document
from profiler.runner.capture.signatures import Key, NotReplayableError, key_of

TRITON_KERNEL, COMPILED_GRAPH, CUDA_GRAPH = "Triton kernel", "compiled graph", "CUDA graph"


@dataclass(frozen=True)
class Launch:
    """A launch around the dispatcher, with the facts for its replay."""

    kind: str
    name: str
    key: Key
    """Key that launches of one signature share."""
    left_out: str = ""
    """Why the launch is in no experiment; empty where it can be."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `calls.json` beside the arguments."""


Runner = Callable[[Callable[[], Launch], Callable[[], Any]], Any]
"""Function that counts and times a launch; takes functions that describe it and make it."""
_INDUCTOR = "torch._inductor.compile_fx"


@contextmanager
def replaced(owner: Any, name: str, wrap: Callable[..., Any]) -> Iterator[None]:
    """Call `wrap(original, *args, **kwargs)` in place of a method, in the body."""
    original = getattr(owner, name)

    def replacement(*args: Any, **kwargs: Any) -> Any:
        return wrap(original, *args, **kwargs)

    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, original)


class CompiledGraphs:
    """Graphs that torch.compile passes to inductor, by their compiled functions."""

    def __init__(self) -> None:
        self._compiled: dict[int, tuple[Any, str, GraphDocument | None, str]] = {}
        self._patches = ExitStack()
        self._is_patched = False
        self.run: Runner | None = None
        """Makes the launches of graphs, while they are recorded."""
        self.compiling = 0
        """Number of compilations under way: their calls are not the program's."""

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep graphs in the body as they are compiled."""
        if _INDUCTOR in sys.modules:
            self._patch_inductor()
        callbacks = importlib.import_module("torch._dynamo.callback").callback_handler

        def register() -> None:
            callbacks.register_start_callback(self._started)
            callbacks.register_end_callback(self._ended)

        def clear(original: Callable[[], None]) -> None:
            """Clear all callbacks but our own, for `torch._dynamo.reset()` of a program."""
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
        """Patch inductor once, when it is needed: its import takes seconds."""
        if self._is_patched:
            return
        self._is_patched = True
        inductor = importlib.import_module(_INDUCTOR)
        output_code = importlib.import_module("torch._inductor.output_code")
        self._patches.enter_context(replaced(inductor, "_compile_fx_inner", self._compile))
        self._patches.enter_context(replaced(output_code.CompiledFxGraph, "__call__", self._call))

    def _call(self, original: Any, compiled: Any, inputs: list[Any]) -> Any:
        make = partial(original, compiled, inputs)
        return (
            make() if self.run is None else self.run(partial(self._launch, compiled, inputs), make)
        )

    def _compile(self, original: Any, graph_module: Any, *args: Any, **kwargs: Any) -> Any:
        graph = graph_module.graph
        document, left_out = None, "random numbers in a compiled graph"
        if not draws_random_numbers(graph):
            try:
                document, left_out = graph_document(graph), ""
            except NotReplayableError as reason:
                left_out = str(reason)
        part = "backward" if kwargs.get("is_backward") else "forward"
        name = f"compiled.graph_{len(self._compiled)}.{part}"
        compiled = original(graph_module, *args, **kwargs)
        self._compiled[id(compiled)] = (compiled, name, document, left_out)
        return compiled

    def _launch(self, compiled: Any, inputs: list[Any]) -> Launch:
        """The launch of a graph with these inputs."""
        unknown_graph = (compiled, "compiled.graph", None, "compiled before it was captured")
        _, name, document, left_out = self._compiled.get(id(compiled), unknown_graph)
        try:
            key = key_of((COMPILED_GRAPH, id(compiled)), (inputs,), {})
        except NotReplayableError as reason:
            key, left_out = (COMPILED_GRAPH, id(compiled)), str(reason)
        if document is None or left_out:
            return Launch(COMPILED_GRAPH, name, key, left_out)
        return Launch(COMPILED_GRAPH, name, key, "", {"inputs": list(inputs)}, {"graph": document})


@contextmanager
def recorded_launches(
    run: Runner, graphs: CompiledGraphs, pause: Callable[[], Any]
) -> Iterator[None]:
    """Make launches around the dispatcher by `run`, in the body.

    `pause`: a context in which launches do not count, for autotuning.
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
        relaunch = partial(original, kernel, *args, **kwargs)
        if kwargs.get("warmup"):
            return relaunch()
        return run(partial(_triton_launch, kernel, args, kwargs), relaunch)

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
    """Classes of decorated functions, compiled and interpreted; raises ImportError."""
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
    values = {**_defaults(function), **dict(zip(names, args, strict=False)), **kwargs}
    arguments = {name: getattr(values[name], "value", values[name]) for name in names}
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
    left_out = ""
    if "<locals>" in name or function.__module__ == "__main__":
        left_out = "kernels of the program itself: a module that can be imported is needed"
    try:
        key = key_of(name, (tuple(arguments.values()), tuple(grid), *options.items()), {})
        hash(key)
    except (NotReplayableError, TypeError) as reason:
        return Launch(TRITON_KERNEL, name, (TRITON_KERNEL, name), str(reason))
    return Launch(
        TRITON_KERNEL, name, (TRITON_KERNEL, *key), left_out, arguments, {"launch": launch}
    )
