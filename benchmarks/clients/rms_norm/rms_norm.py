"""RMSNorm: torch eager, its function, compiled, Liger-Kernel, and a Triton kernel of one's own."""

import torch
import triton
import triton.language as tl

import profiler

norm = profiler.Experiment("rms-norm", problems={"rows": 4096, "columns": [1024, 4096, 16384]})
EPSILON = 1e-6


@triton.jit
def rms_norm_kernel(x, weight, out, columns, epsilon, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)
    inside = place < columns
    start = tl.program_id(0) * columns
    row = tl.load(x + start + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(row * row, 0) / columns + epsilon)
    weights = tl.load(weight + place, mask=inside).to(tl.float32)
    tl.store(out + start + place, row * scale * weights, mask=inside)


@norm.inputs
def normal_bfloat16(rows, columns):
    return torch.randn(rows, columns).bfloat16(), torch.rand(columns).bfloat16()


@norm.variant(baseline=True)
def eager(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON) * weight).to(x.dtype)


@norm.variant
def functional(x, weight):
    return torch.nn.functional.rms_norm(x, weight.shape, weight, EPSILON)


@norm.variant(setup=True)
def compiled(x, weight):
    run = torch.compile(eager, dynamic=False)
    return lambda: run(x, weight)


@norm.variant(setup=True)
def liger(x, weight):
    from liger_kernel.transformers.functional import liger_rms_norm  # noqa: PLC0415

    return lambda: liger_rms_norm(x, weight, EPSILON)


@norm.variant
def own(x, weight):
    out = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    rms_norm_kernel[(len(x),)](x, weight, out, x.shape[1], EPSILON, BLOCK=block, num_warps=8)
    return out
