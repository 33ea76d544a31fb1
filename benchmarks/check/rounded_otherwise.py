"""Whether the check refuses right results in bfloat16 that are rounded in another way.

python benchmarks/check/rounded_otherwise.py

Each pair of functions computes the same: one in bfloat16 step by step, as plain operations of torch
do, the other in float32 inside, as fused kernels do, or in another order. Each is the baseline of
the other. Prints the pairs that are refused; exit code 1 where one is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own documents name it

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from mistakes import in_type, refused, right_result  # noqa: E402

from profiler.runner.checks.check import as_tensors  # noqa: E402

normal = torch.randn
Way = Callable[..., Any]


def fused(function: Way) -> Way:
    """A function of bfloat16 that computes in float32, and rounds its results once."""

    def computed(*inputs: torch.Tensor) -> Any:
        if inputs[0].dtype == torch.float64:
            return function(*inputs)
        return function(*(in_type(value, torch.float32) for value in inputs))

    return computed


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> Any:
    """Attention of plain operations."""
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    return scores.masked_fill(~seen, float("-inf")).softmax(-1) @ v


def in_blocks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> Any:
    """Attention with a running maximum, whose weights are rounded before the second product."""
    most = q.new_full(q.shape[:-1], -1e30)
    total, out = torch.zeros_like(most), torch.zeros_like(q)
    for part in torch.arange(k.shape[-2]).split(64):
        scores = q @ k[..., part, :].transpose(-1, -2) * q.shape[-1] ** -0.5
        scores = scores.masked_fill(~seen[:, part], -1e30)
        higher = torch.maximum(most, scores.amax(-1))
        weights, scale = (scores - higher[..., None]).exp(), (most - higher).exp()
        total = total * scale + weights.sum(-1)
        if q.dtype == torch.float32:
            weights = weights.bfloat16().float()
        out, most = out * scale[..., None] + weights @ v[..., part, :], higher
    return out / total[..., None]


def normalised(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """RMS norm that rounds before its weight, as that of transformers."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return weight * (wide * (wide.square().mean(-1, keepdim=True) + 1e-6).rsqrt()).to(x.dtype)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Layer norm of plain operations."""
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight + bias


def gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """SwiGLU."""
    return F.silu(x @ gate) * (x @ up)


def perceptron(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Two layers."""
    return F.gelu(x @ up) @ down


def block(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor, weight: torch.Tensor) -> Any:
    """Norm, two layers, residual."""
    return x + F.silu(normalised(x, weight) @ up) @ down


def many(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    """Many layers with residuals."""
    for weight in weights:
        x = torch.relu(x @ weight) + x
    return x


def in_parts(a: torch.Tensor, b: torch.Tensor, parts: int) -> torch.Tensor:
    """A product whose parts are rounded before they are added."""
    products = [x @ y for x, y in zip(a.chunk(parts, 1), b.chunk(parts, 0), strict=True)]
    return torch.stack(products).sum(0)


def entropy_gradient(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Gradient of a mean cross entropy."""
    return (x.softmax(-1) - F.one_hot(targets, x.shape[-1]).to(x.dtype)) / len(x)


def recurrence(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """A linear recurrence, step by step."""
    states = [x[:, 0]]
    for step in range(1, x.shape[1]):
        states.append(decay[:, step] * states[-1] + x[:, step])
    return torch.stack(states, 1)


def causal_convolution(x: torch.Tensor, taps: torch.Tensor) -> torch.Tensor:
    """Shifts that are added one by one."""
    padded = F.pad(x, (taps.shape[1] - 1, 0))
    parts = padded.unfold(-1, x.shape[-1], 1).unbind(-2)
    return F.silu(sum(part * tap[:, None] for part, tap in zip(parts, taps.T, strict=True)))


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of plain operations."""
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def gradients(function: Way) -> Way:
    """Gradients of the sum of squares of a function."""

    def of_inputs(*inputs: torch.Tensor) -> Any:
        leaves = [value.detach().requires_grad_() for value in inputs]
        with torch.enable_grad():
            return torch.autograd.grad(function(*leaves).square().sum(), leaves)

    return of_inputs


def _quickly(x: torch.Tensor) -> torch.Tensor:
    """GELU by a tanh that is off by 5e-4, as the GPU's own instruction."""
    wide = x.float() if x.dtype == torch.bfloat16 else x
    inner = torch.tanh(0.79788456 * (wide + 0.044715 * wide**3))
    return 0.5 * wide * (1 + inner * (1 + 5e-4 * torch.sin(50 * wide)))


def _of_attention(length: int) -> tuple[torch.Tensor, ...]:
    """Queries, keys and values."""
    return tuple(normal(3, 1, 4, length, 64).unbind())


CAUSAL = torch.ones(700, 700, dtype=torch.bool).tril()
causal = partial(attention, seen=CAUSAL)
small_causal = partial(attention, seen=CAUSAL[:256, :256])
PAIRS: dict[str, tuple[list[Way], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "causal attention": (
        [
            causal,
            fused(partial(in_blocks, seen=CAUSAL)),
            partial(F.scaled_dot_product_attention, is_causal=True),
        ],
        lambda: _of_attention(700),
    ),
    "gradients of attention": (
        [gradients(small_causal), gradients(fused(small_causal))],
        lambda: _of_attention(256),
    ),
    "RMS norm of rows of many sizes": (
        [normalised, lambda x, w: F.rms_norm(x, x.shape[-1:], w, 1e-6)],
        lambda: (normal(256, 2048) * torch.logspace(-2, 1, 256)[:, None], normal(2048)),
    ),
    "layer norm": (
        [layer_norm, fused(layer_norm)],
        lambda: (normal(256, 512) + 2, normal(512), normal(512)),
    ),
    "gradients of a layer norm": (
        [gradients(layer_norm), gradients(fused(layer_norm))],
        lambda: (normal(128, 512), normal(512), normal(512)),
    ),
    "SwiGLU": (
        [gated, fused(gated)],
        lambda: (normal(128, 512), normal(512, 1024) / 16, normal(512, 1024) / 16),
    ),
    "perceptron": (
        [perceptron, fused(perceptron)],
        lambda: (normal(128, 512), normal(512, 1024) / 16, normal(1024, 512) / 32),
    ),
    "gradients of a perceptron": (
        [gradients(perceptron), gradients(fused(perceptron))],
        lambda: (normal(128, 256), normal(256, 512) / 16, normal(512, 256) / 22),
    ),
    "block": (
        [block, fused(block)],
        lambda: (normal(128, 256), normal(256, 512) / 16, normal(512, 256) / 22, normal(256)),
    ),
    "eight layers": (
        [many, fused(many)],
        lambda: (normal(64, 256), *(normal(256, 256) / 20 for _ in range(8))),
    ),
    "GELU": (
        [F.gelu, partial(F.gelu, approximate="tanh"), _quickly],
        lambda: (2 * normal(64, 4096),),
    ),
    "softmax": (
        [partial(torch.softmax, dim=-1), softmax],
        lambda: (3 * normal(64, 4096),),
    ),
    "product in parts": (
        [torch.matmul, partial(in_parts, parts=4), partial(in_parts, parts=16)],
        lambda: (normal(256, 2048), normal(2048, 256)),
    ),
    "product of numbers of one sign": (
        [torch.matmul, partial(in_parts, parts=16)],
        lambda: (torch.rand(256, 2048), torch.rand(2048, 256)),
    ),
    "gradient of a cross entropy": (
        [entropy_gradient, fused(entropy_gradient)],
        lambda: (2 * normal(256, 2000), torch.randint(2000, (256,))),
    ),
    "recurrence": (
        [recurrence, fused(recurrence)],
        lambda: (normal(8, 256, 64), torch.rand(8, 256, 64)),
    ),
    "causal convolution": (
        [causal_convolution, fused(causal_convolution)],
        lambda: (normal(2, 64, 512), normal(64, 4)),
    ),
}


@torch.no_grad()  # as in the runner
def refused_ways(name: str) -> tuple[list[str], int]:
    """Pairs of a baseline and another way whose result is refused, by number; and all pairs."""
    ways, make = PAIRS[name]
    torch.manual_seed(0)
    inputs = tuple(in_type(value, torch.bfloat16) for value in make())
    pairs = list(permutations(range(len(ways)), 2))
    refusals = []
    for baseline, other in pairs:
        expected, rounding = right_result(ways[baseline], inputs, torch.device("cpu"))
        results = as_tensors(ways[other](*inputs), "the result")
        results = tuple(in_type(result, torch.bfloat16) for result in results)
        if refused(results, expected, rounding):
            refusals.append(f"{other} beside {baseline}")
    return refusals, len(pairs)


def main() -> int:
    """Try all pairs; 1 where one is refused."""
    total = objections = 0
    for name in PAIRS:
        refusals, count = refused_ways(name)
        total, objections = total + count, objections + len(refusals)
        for pair in refusals:
            print(f"{name}: {pair} is refused")
    print(f"{total} right results in bfloat16: {objections} refused")
    return min(objections, 1)


if __name__ == "__main__":
    raise SystemExit(main())
