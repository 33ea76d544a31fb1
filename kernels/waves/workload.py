"""Wave quantisation: the grid of a problem on this GPU, its launch, and the right values.

Every thread repeats v = v * FACTOR + ADDEND, in one or several chains, and writes the sum of its
chains. Each block does the same work, and each full wave of each variant does the same, so that the
times of two variants at the same number of waves may be compared.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import torch

from profiler.kernels.library import KernelLibrary
from waves.space import WORK, Params, blocks_of, steps_of, tuning, waves_of

FACTOR = 1.0 - 2.0**-15
ADDEND = 3.0 * 2.0**-15
"""Both exact in float32; values go from their start towards 3 and are still on their way when the
longest chain ends, so that a wrong number of steps shows."""

TOLERANCE = (0.0, 1e-4)
"""Absolute and relative: the rounding errors of up to 49152 steps."""

_STARTS = 4096


@dataclass(frozen=True)
class Shape:
    """Size of a wave on this GPU."""

    multiprocessors: int
    blocks_per_sm: int
    """Blocks by the driver's occupancy query, as many as the variant asks for."""
    shared_bytes: int
    """Dynamic shared memory of each block, to keep further blocks off a multiprocessor."""


def make_inputs(problem: Params, device: torch.device, seed: int) -> torch.Tensor:
    """Start values in [1, 2); thread i takes number i modulo their count."""
    waves_of(problem)
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.empty(_STARTS, device=device).uniform_(1.0, 2.0, generator=generator)


def expected(
    variant: Params, problem: Params, inputs: torch.Tensor
) -> tuple[torch.Tensor, tuple[float, float]]:
    """Sum of each thread in float64, by the closed form of its chains, and the error bound."""
    values = tuning(variant)
    blocks = blocks_of(waves_of(problem), _multiprocessors(inputs) * values["blocks_per_sm"])
    return chain_sums(variant, inputs, blocks * values["block_size"]), TOLERANCE


def chain_sums(variant: Params, starts: torch.Tensor, threads: int) -> torch.Tensor:
    """Right sums of the first `threads` threads, in float64."""
    chains = tuning(variant)["chains"]
    decay = FACTOR ** steps_of(variant)
    goal = ADDEND / (1.0 - FACTOR)
    # The starts of the chains of a thread are 0, 1, 2, … above its own.
    first = chains * starts.double() + chains * (chains - 1) / 2
    sums = decay * first + chains * goal * (1.0 - decay)
    return sums.repeat(-(-threads // len(starts)))[:threads]


def prepare(
    variant: Params, problem: Params, inputs: torch.Tensor, library: Path | None
) -> WavesLaunch:
    """Launch of one variant, with a grid for the multiprocessors of this GPU.

    Raises RuntimeError without a CUDA device, and where the GPU does not keep as many blocks on a
    multiprocessor as the variant asks for.
    """
    if inputs.device.type != "cuda":
        raise RuntimeError(
            f"waves are counted in multiprocessors of a GPU, and there is none on {inputs.device}"
        )
    if library is None:
        raise RuntimeError("the kernel needs its built library, and got none")
    return WavesLaunch(library, variant, waves_of(problem), inputs)


def flops(problem: Params) -> float | None:
    """Two operations for each multiply-add of a problem's waves; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    return 2.0 * WORK * waves_of(problem) * _count_multiprocessors()


class WavesLaunch:
    """One built library with the grid of one problem."""

    def __init__(self, library: Path, variant: Params, waves: float, starts: torch.Tensor) -> None:
        self._starts = starts
        loaded = KernelLibrary(library, "waves")
        self.shape = _shape(loaded)
        values = tuning(variant)
        if self.shape.blocks_per_sm != values["blocks_per_sm"]:
            raise RuntimeError(
                f"this GPU keeps {self.shape.blocks_per_sm} blocks of the kernel on a "
                f"multiprocessor, not the {values['blocks_per_sm']} that the variant asks for"
            )
        self.blocks = blocks_of(waves, self.shape.multiprocessors * self.shape.blocks_per_sm)
        output = torch.empty(self.blocks * values["block_size"], device=starts.device)
        self.outputs = (output,)
        self._arguments = (
            starts.data_ptr(),
            len(starts),
            output.data_ptr(),
            self.blocks,
            steps_of(variant),
            FACTOR,
            ADDEND,
            self.shape.shared_bytes,
        )
        self._launch = loaded.function(
            "launch",
            ctypes.c_void_p,
            ctypes.c_uint,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_float,
            ctypes.c_float,
            ctypes.c_int,
            ctypes.c_void_p,
        )

    def __call__(self) -> torch.Tensor:
        """Start the kernel on torch's current stream."""
        stream = torch.cuda.current_stream(self._starts.device).cuda_stream
        self._launch(*self._arguments, stream)
        return self.outputs[0]


def _shape(library: KernelLibrary) -> Shape:
    """Size of a wave on the current device, by the driver."""
    numbers = [ctypes.c_int() for _ in range(3)]
    library.function("shape", *[ctypes.POINTER(ctypes.c_int)] * 3)(*map(ctypes.byref, numbers))
    return Shape(*(number.value for number in numbers))


def _multiprocessors(inputs: torch.Tensor) -> int:
    """Multiprocessors of the inputs' GPU; 1 on a CPU, so that right values can be made there."""
    return _count_multiprocessors() if inputs.device.type == "cuda" else 1


def _count_multiprocessors() -> int:
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return int(properties.multi_processor_count)
