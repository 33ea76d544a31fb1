"""Pairs of kernels with one planted cause of slowness: inputs, launches and right results.

Both kernels of a pair give the same result. All values are positive, so that no sum cancels and a
relative bound is enough.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from space import ADDEND, ALL_CASES, FACTOR, Case

from profiler.kernels.library import KernelLibrary

TOLERANCES = {"float32": (0.0, 2e-4)}
"""Rounding errors of up to 12288 dependent steps; results of integers must be equal."""

Problem = Mapping[str, Any]


def make_inputs(problem: Problem, device: torch.device, seed: int) -> torch.Tensor:
    """The one input tensor of a pair: by default floats in [1, 2)."""
    generator = torch.Generator(device=device).manual_seed(seed)
    make = _INPUTS.get(problem["case"], _floats)
    return make(ALL_CASES[problem["case"]], device, generator)


def reference(problem: Problem, inputs: torch.Tensor) -> torch.Tensor:
    """Right result of both kernels of a pair, in float64 or int64."""
    return _REFERENCES[problem["case"]](ALL_CASES[problem["case"]], inputs)


def prepare(
    variant: Mapping[str, Any], problem: Problem, inputs: torch.Tensor, library: Path | None
) -> Callable[[], torch.Tensor]:
    """Make the launch of a pair's plain or planted kernel; which of them is in the library."""
    del variant
    if library is None:
        raise RuntimeError("the kernels need their built library, and got none")
    return PairLaunch(library, problem["case"], inputs)


def flops(problem: Problem) -> float | None:
    """Floating-point operations of the matrix product; None for what is not judged by them."""
    case = ALL_CASES[problem["case"]]
    return 2.0 * case.outputs * case.steps if problem["case"] in _PRODUCTS else None


def bytes(problem: Problem) -> float | None:  # noqa: A001  # the name that workloads give it
    """What must be read from device memory, and written in `unfused`; None of other kernels."""
    case = ALL_CASES[problem["case"]]
    if problem["case"] == "unfused":
        return 4.0 * (case.inputs + case.outputs)
    return 4.0 * case.inputs if problem["case"] in _STREAMS else None


class PairLaunch:
    """One kernel of a pair with its arguments."""

    def __init__(self, library: Path, name: str, inputs: torch.Tensor) -> None:
        case = ALL_CASES[name]
        self._inputs = inputs
        dtype = torch.int32 if name in _INTEGER_RESULTS else torch.float32
        self.outputs = (torch.empty(case.outputs, dtype=dtype, device=inputs.device),)
        self._arguments = (inputs.data_ptr(), self.outputs[0].data_ptr(), case.outputs, case.steps)
        self._launch = KernelLibrary(library, "why").function(
            name,
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
        )

    def __call__(self) -> torch.Tensor:
        """Launch on torch's current stream."""
        stream = torch.cuda.current_stream(self._inputs.device).cuda_stream
        self._launch(*self._arguments, stream)
        return self.outputs[0]


# ---- inputs --------------------------------------------------------------------------------------


def _floats(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    return torch.empty(case.inputs, device=device).uniform_(1.0, 2.0, generator=generator)


def _mask(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    shape = (case.inputs,)
    return torch.randint(2**20, shape, dtype=torch.int32, device=device, generator=generator)


def _bytes(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    shape = (case.inputs,)
    return torch.randint(256, shape, dtype=torch.uint8, device=device, generator=generator)


def _small_integers(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """1 to 4 as floats: sums of their products below 2**24 are exact in any order."""
    return torch.randint(1, 5, (case.inputs,), device=device, generator=generator).float()


def _weights(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    shape = (case.inputs,)
    return torch.randint(1, 5, shape, dtype=torch.int32, device=device, generator=generator)


def _words(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    shape = (case.inputs,)
    kind = torch.int32
    return torch.randint(-(2**31), 2**31, shape, dtype=kind, device=device, generator=generator)


def _records(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """Small integers, and behind them as many records of 16 values that begin with them."""
    shape = (case.inputs // 17, 1)
    values = torch.randint(1, 5, shape, device=device, generator=generator).float()
    return torch.cat((values.reshape(-1), values.repeat(1, 16).reshape(-1)))


def _angles(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """Angles up to ten million, and behind them the same modulo 2 pi."""
    far = torch.rand(case.inputs // 2, device=device, generator=generator) * 9e6 + 1e6
    near = torch.remainder(far.double(), 2 * math.pi).float()
    return torch.cat((far, near))


def _matrices(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    return _floats(case, device, generator).bfloat16()


def _lines(case: Case, device: torch.device, generator: torch.Generator) -> torch.Tensor:
    """Lines of 128 bytes that all have the same small integers."""
    line = torch.randint(1, 5, (WARP,), device=device, generator=generator).float()
    return line.repeat(case.inputs // WARP)


_PRODUCTS = ("no_tensor_cores", *(f"product_of_{depth}" for depth in (256, 1024, 4096)))
_INPUTS: Mapping[str, Callable[[Case, torch.device, torch.Generator], torch.Tensor]] = {
    "uncoalesced_stores": _mask,
    "scalar_loads": _bytes,
    "atomic_contention": _weights,
    "dependent_chain": _small_integers,
    **dict.fromkeys(_PRODUCTS, _matrices),
    "constant_misses": _records,
    "global_atomics": _weights,
    "shared_atomics": _words,
    "constant_by_lane": _small_integers,
    "shared_floats": _small_integers,
    "far_angles": _angles,
    "byte_stores": _mask,
    "counters_in_l2": _weights,
    "one_counter": _weights,
    "far_constants": _records,
    "chain_of_2": _small_integers,
    "chain_of_4": _small_integers,
    "hot_lines": _lines,
    "waited_products": _small_integers,
}
_INTEGER_RESULTS = frozenset(
    {
        *("uncoalesced_stores", "scalar_loads", "atomic_contention"),
        *("global_atomics", "shared_atomics"),
        *("byte_stores", "counters_in_l2", "one_counter"),
    }
)
_STREAMS = frozenset(
    {"uncoalesced_loads", "occupancy_shared_memory", "occupancy_registers", "no_l2_reuse"}
)


# ---- right results -------------------------------------------------------------------------------

WARP = 32
_WARPS = 8
"""Of a block of 256 threads."""


def chain(starts: torch.Tensor, steps: int, addend: float = ADDEND) -> torch.Tensor:
    """Values after so many steps of v = v * FACTOR + addend, in float64, by the closed form."""
    rest = FACTOR**steps
    return rest * starts.double() + addend / (1.0 - FACTOR) * (1.0 - rest)


def _chains(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    return chain(inputs, case.steps)


def _chunk_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of equal parts of the input, one for each output."""
    return inputs.view(case.outputs, -1).sum(1, dtype=torch.float64)


def _masked_indices(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    return torch.arange(case.outputs, device=inputs.device) ^ inputs[0].long()


def _row_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Each warp of a block adds up the rows of its tile once in 8 steps, a row for each lane."""
    sums = inputs.view(-1, WARP, WARP).sum(2, dtype=torch.float64) * (case.steps // 8)
    return _for_each_warp(sums)


def _column_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Each warp of a block adds up 64 rows of 32 once in 8 steps, a column for each lane."""
    sums = inputs.view(-1, 64, WARP).sum(1, dtype=torch.float64) * (case.steps // 8)
    return _for_each_warp(sums)


def _for_each_warp(of_lanes: torch.Tensor) -> torch.Tensor:
    """From (blocks, lanes) to one value for each thread: all warps of a block have the same."""
    return of_lanes[:, None, :].expand(-1, _WARPS, -1).reshape(-1)


def _spilled_chains(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of 48 chains, whose starts are 0, 1, 2, … above the input."""
    chains = 48
    offsets = chains * (chains - 1) / 2 * FACTOR**case.steps
    return chains * chain(inputs, case.steps) + offsets


def _sixteen_chains(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of 16 chains, likewise, each of a 16th of the steps."""
    chains = 16
    steps = case.steps // chains
    return chains * chain(inputs, steps) + chains * (chains - 1) / 2 * FACTOR**steps


def _sums_and_held(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of parts, and 192 multiples of the first 32 inputs in each of 32 lanes."""
    multiples = torch.arange(1, 193, dtype=torch.float64, device=inputs.device)
    held = (inputs[:WARP].double().repeat(6) / 16384.0 * multiples).sum()
    return _chunk_sums(case, inputs) + WARP * held


def _weights_of_threads(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Every second of 2097152 threads has the first weight; step k adds k more."""
    threads = 8192 * 256
    steps = case.steps * (case.steps - 1) // 2
    total = threads // 2 * case.steps * inputs.long().sum() + threads * steps
    return total.repeat(case.outputs)


def _passes(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of tiles, times 1 in the first pass and 8 in the last."""
    sums = inputs.view(case.outputs // 8, -1).sum(1, dtype=torch.float64)
    factors = torch.arange(1, 9, dtype=torch.float64, device=inputs.device)
    return (factors[:, None] * sums).reshape(-1)


def _products(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of products of the 8 inputs from each thread's number on."""
    threads = torch.arange(case.outputs, device=inputs.device)
    offsets = torch.arange(8, device=inputs.device)
    factors = inputs.double()[(threads[:, None] + offsets) % case.inputs]
    return case.steps * (factors * factors.roll(-1, 1)).sum(1)


def _barrier_chains(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """In 32 turns each warp makes 256 steps once, and 8 steps 31 times."""
    return chain(inputs, case.steps // 32 * (256 + 31 * 8))


def _byte_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """A warp goes round its 2048 bytes once in 4 steps."""
    return inputs.view(case.outputs, -1).sum(1, dtype=torch.int64) * (case.steps // 4)


def _matrix_product(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    a, b = inputs.view(2, -1, case.steps).double()
    return (a @ b.T).reshape(-1)


def _strided_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of every 96th element of a ring, from each thread's number on."""
    starts = torch.arange(case.inputs, device=inputs.device)
    offsets = 96 * torch.arange(case.steps, device=inputs.device)
    sums = inputs.double()[(starts[:, None] + offsets) % case.inputs].sum(1)
    return sums[torch.arange(case.outputs, device=inputs.device) % case.inputs]


def _chains_of_loads(steps: int) -> Callable[[Case, torch.Tensor], torch.Tensor]:
    """Each thread adds a value of its chunk, and makes so many steps, once for each value."""

    def result(case: Case, inputs: torch.Tensor) -> torch.Tensor:
        values = inputs.view(-1, case.steps, WARP)
        total = torch.zeros_like(values[:, 0], dtype=torch.float64)
        for loaded in values.unbind(1):
            total = chain(total + loaded, steps)
        return total.reshape(-1)

    return result


def _chains_of_paths(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Chains whose addend depends on the warp in its block, and on the half of the grid."""
    threads = torch.arange(case.outputs, device=inputs.device)
    half = threads * 2 // case.outputs
    path = half * 32 + threads // WARP % 32
    rest = FACTOR**case.steps
    return rest * inputs.double() + ADDEND * (path + 1) / (1.0 - FACTOR) * (1.0 - rest)


def _constant_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of 512 values for each pass, by one of the first 16."""
    values = inputs[: case.inputs // 17].double()
    return (case.steps * values.sum() * values[:16]).repeat(case.outputs // 16)


def _handed_on(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """32 steps at each turn."""
    return chain(inputs, 32 * case.steps)


def _sines_and_cosines(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of sin(a) cos(a) = sin(2 a) / 2 of angles that are 2**-10 apart, in closed form."""
    first = 0.5 * inputs.double()
    step = 2.0**-9
    ratio = math.sin(case.steps * step / 2) / math.sin(step / 2)
    return 0.5 * ratio * torch.sin(first + (case.steps - 1) * step / 2)


def _chain_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of 1024 times the values of a chain after each step; rounded, they are as large."""
    end = ADDEND / (1.0 - FACTOR)
    powers = FACTOR * (1.0 - FACTOR**case.steps) / (1.0 - FACTOR)
    return 1024.0 * (case.steps * end + (inputs.double() - end) * powers)


def _record_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """8 threads add to each counter of a record what its weight and the step give."""
    steps = torch.arange(case.steps, device=inputs.device)
    values = inputs.long()[:, None] ^ steps
    of_fields = 8 * values.view(2, -1, 8).sum(1)
    return of_fields.repeat(case.outputs // 16, 1).reshape(-1)


def _bin_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of the steps whose 2 bits name the bin, over the 256 threads of a block."""
    words = inputs.long().view(-1, 256)
    rounds = torch.arange(0, case.steps, 16, device=inputs.device)
    sums = torch.zeros(len(words), 4, dtype=torch.int64, device=inputs.device)
    for k in range(16):
        codes = words >> (2 * k) & 3
        weight = (rounds + k).sum()
        for name in range(4):
            sums[:, name] += (codes == name).sum(1) * weight
    return sums.reshape(-1)


def _vector_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """A warp goes round its 512 floats once in 4 steps."""
    return inputs.view(case.outputs, -1).sum(1, dtype=torch.float64) * (case.steps // 4)


def _table_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """The sum of a table for each time that a thread goes over it."""
    return (inputs.double().sum() * (case.steps // case.inputs)).repeat(case.outputs)


def _float_bins(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """64 times the sums of four threads, each to the bin after the one of the round before."""
    sums = 64 * inputs.view(-1, 64, 4).sum(2, dtype=torch.float64)
    rounds = (sums.roll(k, 1) for k in range(case.steps))
    return sum(rounds, start=torch.zeros_like(sums)).reshape(-1)


def _sines(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    angles = inputs[: case.inputs // 2].double()
    total = (1.0 + torch.sin(angles)).sum() * (case.steps // len(angles))
    return total.repeat(case.outputs)


def _repeated_byte(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """The lowest byte of the mask in each byte of the output."""
    word = (inputs[0].long() & 0xFF) * 0x01010101
    return torch.where(word < 2**31, word, word - 2**32).repeat(case.outputs)


def _own_counters(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """One thread adds to each counter of a record what its weight and the step give."""
    steps = torch.arange(case.steps, device=inputs.device)
    of_fields = (inputs.long()[:, None] ^ steps).view(2, -1, 8).sum(1)
    return of_fields.repeat(case.outputs // 16, 1).reshape(-1)


def _one_sum(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """The sum over 32 threads for each output, in the first; every second has the first weight."""
    steps = case.steps * (case.steps - 1) // 2
    result = torch.zeros(case.outputs, dtype=torch.int64, device=inputs.device)
    result[0] = 16 * case.outputs * case.steps * inputs.long().sum() + 32 * case.outputs * steps
    return result


def _divided_chains(steps: int) -> Callable[[Case, torch.Tensor], torch.Tensor]:
    """Chains of so many steps a round, and one more where a quotient by 8 is even."""

    def result(case: Case, inputs: torch.Tensor) -> torch.Tensor:
        threads = torch.arange(case.outputs, device=inputs.device)
        more = sum(((threads + k) >> 3 & 1 == 0).double() for k in range(case.steps))
        rest = FACTOR ** (steps * case.steps + more)
        return rest * inputs.double() + ADDEND / (1.0 - FACTOR) * (1.0 - rest)

    return result


def _eight_row_sums(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Each warp of a block adds up 8 rows of 32 once in 2 steps, a column for each lane."""
    sums = inputs.view(-1, 8, WARP).sum(1, dtype=torch.float64) * (case.steps // 2)
    return _for_each_warp(sums)


def _chains_of(kinds: int) -> Callable[[Case, torch.Tensor], torch.Tensor]:
    """Chains whose addend depends on the element's number modulo `kinds`."""

    def result(case: Case, inputs: torch.Tensor) -> torch.Tensor:
        columns = inputs.view(-1, kinds).unbind(1)
        chains = [chain(starts, case.steps, ADDEND * (k + 1)) for k, starts in enumerate(columns)]
        return torch.stack(chains, dim=1).reshape(-1)

    return result


def _sums_of_chains(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """Sums of what 24 steps make of each value, of equal parts of the input."""
    return chain(inputs, 24).view(case.outputs, -1).sum(1)


def _sums_of_lines(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    return (case.steps * inputs[:WARP].double()).repeat(case.outputs // WARP)


def _equal_products(case: Case, inputs: torch.Tensor) -> torch.Tensor:
    """16 products of the two values for each step, in every element."""
    return (16 * case.steps * inputs.double().prod()).repeat(case.outputs)


_REFERENCES: Mapping[str, Callable[[Case, torch.Tensor], torch.Tensor]] = {
    "uncoalesced_loads": _chunk_sums,
    "uncoalesced_stores": _masked_indices,
    "bank_conflicts_32": _row_sums,
    "bank_conflicts_2": _column_sums,
    "register_spills": _spilled_chains,
    "occupancy_shared_memory": _chunk_sums,
    "occupancy_registers": _sums_and_held,
    "tail_wave": _chains,
    "block_imbalance": _chains,
    "divergence": _chains_of(4),
    "atomic_contention": _weights_of_threads,
    "no_l2_reuse": _passes,
    "dependent_chain": _products,
    "barrier_waits": _barrier_chains,
    "scalar_loads": _byte_sums,
    **dict.fromkeys(_PRODUCTS, _matrix_product),
    "fp64_arithmetic": _chains,
    "excess_instructions": _strided_sums,
    "small_grid": _chains,
    "occupancy_blocks": _chains_of_loads(24),
    "launch_overhead": _chains,
    "instruction_fetch": _chains_of_paths,
    "constant_misses": _constant_sums,
    "sleeping": _handed_on,
    "special_functions": _sines_and_cosines,
    "conversions": _chain_sums,
    "predicated_threads": _chains_of(4),
    "global_atomics": _record_sums,
    "shared_atomics": _bin_sums,
    "local_arrays": _sixteen_chains,
    "misaligned_vectors": _vector_sums,
    "constant_by_lane": _table_sums,
    "shared_floats": _float_bins,
    "far_angles": _sines,
    "byte_stores": _repeated_byte,
    "copies_in_turn": _chunk_sums,
    "counters_in_l2": _own_counters,
    "one_counter": _one_sum,
    "long_division": _divided_chains(512),
    "far_constants": _constant_sums,
    "many_launches": _chains,
    **{f"conflicts_{ways}": _eight_row_sums for ways in (4, 8, 16)},
    **{f"divergence_{kinds}": _chains_of(kinds) for kinds in (2, 8)},
    **{f"chain_of_{sums}": _products for sums in (2, 4)},
    **{f"records_of_{fields}": _chunk_sums for fields in (2, 4, 16)},
    **{f"blocks_after_{steps}": _chains_of_loads(steps) for steps in (96, 128, 160)},
    "shared_reserved": _chunk_sums,
    "registers_held": _sums_and_held,
    "sectors_in_turn": _chunk_sums,
    "divergence_16": _chains_of(16),
    "divisions": _divided_chains(128),
    "uneven_warps": _sums_of_chains,
    "block_sizes": _chains_of_loads(24),
    "hot_lines": _sums_of_lines,
    "waited_products": _equal_products,
    "unfused": _chains,
}
