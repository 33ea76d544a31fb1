"""Loops of a known length: what a comparison of kernels has to find, or not to find."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from space import THREADS

CHUNK_BYTES = 16
CACHE_BYTES = 16 * 2**20
"""Of `cache`: a third of an H200's L2 cache."""
LONGEST = 1.05
"""Iterations of the longest variant, relative to the problem's."""

Launch = Callable[[], torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """Tensors that all variants of a problem share."""

    data: torch.Tensor
    done: torch.Tensor
    """(threads,) int32: iterations that each thread made."""
    sink: torch.Tensor


def make_inputs(problem: Mapping[str, Any], device: torch.device, seed: int) -> Inputs:
    """Data to read (zeros: their value does not matter), and where to say what was done."""
    del seed
    threads = problem["blocks"] * THREADS
    return Inputs(
        torch.zeros(_chunks(problem) * CHUNK_BYTES, dtype=torch.uint8, device=device),
        torch.zeros(threads, dtype=torch.int32, device=device),
        torch.zeros(1, device=device),
    )


def _chunks(problem: Mapping[str, Any]) -> int:
    """Pieces of 16 bytes to read: none of them twice by `memory`, few of them often by `cache`."""
    per_iteration = problem["blocks"] * THREADS
    if problem["kernel"] == "compute":
        return 1
    if problem["kernel"] == "cache":
        return max(CACHE_BYTES // CHUNK_BYTES, per_iteration)
    return int(LONGEST * problem["iterations"] + 1) * per_iteration


def iterations(variant: Mapping[str, Any], problem: Mapping[str, Any]) -> int:
    """Iterations of a variant: whole percents more than the problem says."""
    return int(problem["iterations"]) * (100 + int(variant["extra_pct"])) // 100


def expected(
    variant: Mapping[str, Any], problem: Mapping[str, Any], inputs: Inputs
) -> tuple[torch.Tensor, tuple[float, float]]:
    """Every thread has made all iterations."""
    return torch.full_like(inputs.done, iterations(variant, problem)), (0.0, 0.0)


def prepare(
    variant: Mapping[str, Any], problem: Mapping[str, Any], inputs: Inputs, library: Path | None
) -> Launch:
    """The launch of one variant on torch's current stream."""
    loaded = ctypes.CDLL(str(library))
    count, blocks = iterations(variant, problem), int(problem["blocks"])
    shape = (ctypes.c_int(blocks), ctypes.c_int(THREADS), ctypes.c_int(count))
    out = (ctypes.c_void_p(inputs.done.data_ptr()), ctypes.c_void_p(inputs.sink.data_ptr()))
    if problem["kernel"] == "compute":
        function, arguments = loaded.launch_compute, (*shape, *out)
    else:
        data = ctypes.c_void_p(inputs.data.data_ptr())
        function = loaded.launch_stream
        arguments = (data, ctypes.c_longlong(_chunks(problem)), *shape, *out)

    def launch() -> torch.Tensor:
        stream = torch.cuda.current_stream(inputs.done.device).cuda_stream
        error = function(*arguments, ctypes.c_void_p(stream))
        if error:
            raise RuntimeError(f"the loop was not launched: cudaError {error}")
        return inputs.done

    launch.outputs = (inputs.done,)  # type: ignore[attr-defined]  # a function may carry any
    return launch
