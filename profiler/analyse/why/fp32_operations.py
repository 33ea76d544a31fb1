"""Operations of FP32 arithmetic that a launch executed."""

from __future__ import annotations

import math
from types import MappingProxyType

import numpy as np

from profiler.analyse.why.kernel_profiles import KernelProfile
from profiler.metrics.queries import ncu_names
from profiler.parse.ncu_source import OPCODE

_COUNTERS = ncu_names(("fp32_fma", "fp32_add", "fp32_mul"))
_BY_COUNTER = dict(zip(_COUNTERS, (2, 1, 1), strict=True))
"""Operations of a thread by what ncu counts."""
_BY_OPCODE = MappingProxyType(
    {
        "FFMA": 2,
        "FFMA32I": 2,
        "FFMA2": 4,
        "FADD": 1,
        "FADD32I": 1,
        "FADD2": 2,
        "FMUL": 1,
        "FMUL32I": 1,
        "FMUL2": 2,
    }
)
"""FP32 operations of each instruction; names that end in 2 work on two numbers (Blackwell)."""
_THREADS = "predicated_on"


def fp32_operations(profile: KernelProfile) -> float:
    """2 · FMA + additions + products of all threads; NaN where neither is known.

    From ncu's counters, where they were asked for; else from the threads that executed each
    instruction of the source page. Both gave the same numbers for every launch of the recordings.
    The counters have ncu rewrite the machine code once more, which costs a kernel of 25 ms 1.1 s.
    """
    counted = sum(each * profile.value(name) for name, each in _BY_COUNTER.items())
    return _of_instructions(profile) if math.isnan(counted) else counted


def _of_instructions(profile: KernelProfile) -> float:
    instructions = profile.instructions
    if instructions is None:
        return math.nan
    names = (str(opcode).partition(".")[0] for opcode in instructions[OPCODE])
    per_thread = np.array([_BY_OPCODE.get(name, 0) for name in names])
    threads = instructions[_THREADS].to_numpy(dtype="float64")
    return float((per_thread * threads)[per_thread > 0].sum())
