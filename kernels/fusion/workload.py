"""Fusible operators: inputs, right results, and the launch of each implementation."""

from __future__ import annotations

import functools
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend

from attention.sdpa import SdpaLaunch
from fusion import eager, inputs, references, triton_launch
from fusion.inputs import Expected, Inputs
from fusion.launches import (
    Call,
    FusionLaunch,
    compile_launch,
    make_launch,
    time_first_call,
)
from fusion.operators import (
    COMPILE,
    CUDNN,
    EAGER,
    EFFICIENT,
    FLASH,
    FUNCTIONAL,
    MODULE,
    NAIVE,
    TRITON,
    Params,
)
from fusion.space import (
    check_cell,
    flops_beside_products,
    least_bytes,
    total_flops,
)

BACKENDS = {
    FLASH: SDPBackend.FLASH_ATTENTION,
    EFFICIENT: SDPBackend.EFFICIENT_ATTENTION,
    CUDNN: SDPBackend.CUDNN_ATTENTION,
}


def make_inputs(problem: Params, device: torch.device, seed: int) -> Inputs:
    """Inputs of a problem; the same for the same seed and kind of device."""
    return inputs.make(problem, device, seed)


def expected(variant: Params, problem: Params, inputs: Inputs) -> Expected:
    """Right results, in a higher precision, and the bounds of their errors.

    They are the same for all variants; the bounds are the operator's.
    """
    del variant
    return references.expected(problem, inputs)


def prepare(variant: Params, problem: Params, inputs: Inputs, library: Path | None) -> FusionLaunch:
    """Launch of one variant, compiled and called once here if it needs compilation.

    Raises ValueError where the operator has no such implementation, RuntimeError where Triton or a
    CUDA device is missing, and what the compiler raises.
    """
    del library  # Nothing is built by the orchestrator.
    reason = check_cell(variant, problem)
    if reason is not None:
        raise ValueError(reason)
    operator, implementation = str(problem["operator"]), str(variant["implementation"])
    if implementation == COMPILE:
        mode = str(variant.get("mode", "default"))
        compiled = compile_launch(eager.FUNCTIONS[operator], inputs.arguments, mode)
        return make_launch(compiled.call, inputs.device, compiled)
    if implementation == TRITON:
        triton_launch.require_triton(inputs.device)
        call = triton_launch.make_call(operator, inputs.arguments)
        compiled = time_first_call(call, inputs.device)
        return make_launch(call, inputs.device, compiled)
    return make_launch(_torch_call(operator, implementation, inputs), inputs.device)


def flops(problem: Params) -> float:
    """Operations of the operator; only of its products if it has some."""
    return total_flops(problem)


def non_matmul_flops(problem: Params) -> float | None:
    """Operations beside products; a transcendental function counts as one."""
    return flops_beside_products(problem)


def bytes(problem: Params) -> float:  # noqa: A001 - the name that the contract gives it
    """Least traffic to device memory: every input read once, every output written once."""
    return least_bytes(problem)


def _torch_call(operator: str, implementation: str, inputs: Inputs) -> Call:
    """A call of torch's code: eager, or a form of softmax or attention."""
    if implementation in BACKENDS:
        query, key, value = inputs.split
        return SdpaLaunch(query, key, value, backend=BACKENDS[implementation], causal=True)
    forms: dict[str, eager.Function] = {
        EAGER: eager.FUNCTIONS[operator],
        NAIVE: eager.naive_softmax,
        FUNCTIONAL: eager.functional_softmax,
        MODULE: torch.nn.Softmax(dim=1),
    }
    return functools.partial(forms[implementation], *inputs.arguments)
