"""Launches with the cost of making them: compilation and memory, no part of a sample."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType

import torch

from fusion.eager import Function, Result
from profiler.kernels import autotuned

Call = Callable[[], Result]


@dataclass(frozen=True)
class Compiled:
    """A call with the seconds of its first execution."""

    call: Call
    seconds: float
    """From handing the function to the compiler to the end of the first call."""
    tuned: tuple[autotuned.Row, ...] = ()
    """What inductor's autotuner tried."""


@dataclass(frozen=True)
class Memory:
    """Device memory of one call from torch's allocator, in bytes."""

    buffer_bytes: int
    """Bytes of all tensors that the call allocates, results included."""
    peak_bytes: int
    """Most bytes allocated at one time, beyond those before the call."""


@dataclass(frozen=True)
class FusionLaunch:
    """One variant of one problem, ready to launch."""

    call: Call
    compile_seconds: float | None = None
    """Seconds of compilation and first call; None without compilation."""
    buffer_bytes: int | None = None
    """None where the device does not count (a CPU)."""
    peak_bytes: int | None = None
    tuned: tuple[autotuned.Row, ...] = ()
    """What inductor's autotuner tried."""

    def __call__(self) -> Result:
        """Start the kernels; returns the results."""
        return self.call()


def make_launch(call: Call, device: torch.device, compiled: Compiled | None = None) -> FusionLaunch:
    """Launch of a call with its costs; on a CUDA device two calls measure its memory."""
    memory = memory_of(call, device)
    return FusionLaunch(
        call=call,
        compile_seconds=None if compiled is None else compiled.seconds,
        buffer_bytes=None if memory is None else memory.buffer_bytes,
        peak_bytes=None if memory is None else memory.peak_bytes,
        tuned=() if compiled is None else compiled.tuned,
    )


def memory_of(call: Call, device: torch.device) -> Memory | None:
    """Memory of one call, None on a CPU.

    The first call is not counted: libraries take their workspaces then, and keep them.
    """
    if device.type != "cuda":
        return None
    call()
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_stats(device)
    call()
    torch.cuda.synchronize(device)
    after = torch.cuda.memory_stats(device)
    requested = "requested_bytes.all"
    return Memory(
        buffer_bytes=after[f"{requested}.allocated"] - before[f"{requested}.allocated"],
        peak_bytes=after[f"{requested}.peak"] - before[f"{requested}.current"],
    )


def compile_launch(
    function: Function, arguments: Sequence[torch.Tensor], mode: str = "default"
) -> Compiled:
    """A function compiled for given tensors, and called once.

    Raises what the compiler raises; it never falls back to eager code without saying so.
    """
    device = arguments[0].device
    _start_compiler(device)
    return _compile(function, arguments, mode)


def time_first_call(call: Call, device: torch.device) -> Compiled:
    """A call after its first execution, which compiles it."""
    _wait(device)
    start = time.perf_counter()
    call()
    _wait(device)
    return Compiled(call, time.perf_counter() - start)


@functools.cache
def _start_compiler(device: torch.device) -> None:
    """Compile a small function, so that one-time work of a process is in no cell's time.

    That is importing inductor, finding the C++ compiler or loading Triton, and much else.
    """
    _compile(_one_more, (torch.zeros(8, 8, device=device),), "default")


def _one_more(x: torch.Tensor) -> torch.Tensor:
    return x + 1.0


def _compile(function: Function, arguments: Sequence[torch.Tensor], mode: str) -> Compiled:
    # Imported here, because an experiment without compiled variants can do without the second or
    # two that it takes.
    import torch._inductor.compile_fx
    import torch._inductor.config as inductor_config

    _wait(arguments[0].device)
    start = time.perf_counter()
    # In this process and thread: workers would still be there while others are measured.
    choices = mode.startswith("max-autotune")
    with inductor_config.patch(compile_threads=1), autotuned.watch(choices=choices) as tuned:
        compiled = torch.compile(fresh(function), fullgraph=True, dynamic=False, mode=mode)
        compiled(*arguments)
        _wait(arguments[0].device)
        seconds = time.perf_counter() - start
    return Compiled(functools.partial(compiled, *arguments), seconds, tuple(tuned))


def fresh(function: Function) -> Function:
    """A copy of a function with its own code object.

    Dynamo counts how often it compiled a piece of code and gives up after
    `torch._dynamo.config.recompile_limit`; with one copy per cell it never comes to that.
    """
    if not isinstance(function, FunctionType):
        raise TypeError(f"only a plain function can be copied, not {type(function)}")
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
