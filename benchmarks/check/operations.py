"""Operations of torch with inputs as programs have them, and gradients of small nets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as torch's own documents name it
from torch import nn

Operation = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]
"""A function, and what makes its inputs from torch's global generator."""

normal, uniform = torch.randn, torch.rand


def layer(module: nn.Module, x: torch.Tensor) -> Any:
    """Result of a module."""
    return module(x)


def gradients(module: nn.Module, x: torch.Tensor, targets: torch.Tensor) -> tuple[Any, ...]:
    """Cross entropy of a net, and its gradients by all parameters."""
    with torch.enable_grad():
        loss = F.cross_entropy(module(x), targets)
        return (loss.detach(), *torch.autograd.grad(loss, list(module.parameters())))


def gradient(loss: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Function that gives the gradient of a loss by its first argument."""

    def by_first(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(loss(leaf, *others), leaf)[0]

    return by_first


def _convolutional() -> nn.Module:
    body = (nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(16, 10))


def _deep() -> nn.Module:
    parts = [part for _ in range(8) for part in (nn.Linear(128, 128), nn.LayerNorm(128), nn.ReLU())]
    return nn.Sequential(*parts, nn.Linear(128, 1000))


def _transformer() -> nn.Module:
    block = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    return nn.Sequential(block, nn.Flatten(), nn.Linear(64 * 16, 10))


def _positive_definite() -> tuple[torch.Tensor]:
    matrix = normal(256, 256)
    return (matrix @ matrix.T + 256 * torch.eye(256),)


def _quantized(x: torch.Tensor) -> torch.Tensor:
    return (x / x.abs().amax(1, keepdim=True) * 127).round().to(torch.int8)


OPERATIONS: dict[str, Operation] = {
    "product": (torch.matmul, lambda: (normal(256, 1024), normal(1024, 256))),
    "long product": (torch.matmul, lambda: (normal(32, 131072), normal(131072, 32))),
    "matrix by vector": (torch.matmul, lambda: (normal(256, 65536), normal(65536, 1))),
    "batched product": (torch.bmm, lambda: (normal(8, 128, 256), normal(8, 256, 128))),
    "relu": (torch.relu, lambda: (normal(16, 16384),)),
    "gelu": (F.gelu, lambda: (normal(16, 16384),)),
    "sigmoid": (torch.sigmoid, lambda: (normal(16, 16384),)),
    "softplus": (F.softplus, lambda: (normal(16, 16384),)),
    "softmax": (lambda x: F.softmax(x, 1), lambda: (normal(16, 16384),)),
    "wide softmax": (lambda x: F.softmax(x, 1), lambda: (normal(16, 131072),)),
    "log softmax": (lambda x: F.log_softmax(x, 1), lambda: (normal(16, 16384),)),
    "batch norm": (layer, lambda: (nn.BatchNorm2d(64), normal(16, 64, 32, 32))),
    "group norm": (layer, lambda: (nn.GroupNorm(8, 64), normal(16, 64, 32, 32))),
    "layer norm": (layer, lambda: (nn.LayerNorm((64, 32)), normal(16, 64, 64, 32))),
    "RMS norm": (layer, lambda: (nn.RMSNorm(4096), normal(64, 4096))),
    "L2 norm": (lambda x: x / x.norm(dim=1, keepdim=True), lambda: (normal(16, 16384),)),
    "max pooling": (lambda x: F.max_pool2d(x, 3, 2), lambda: (normal(8, 16, 64, 64),)),
    "average pooling": (lambda x: F.avg_pool2d(x, 11), lambda: (normal(8, 16, 64, 64),)),
    "sum": (lambda x: x.sum(1), lambda: (normal(16, 4096, 64),)),
    "mean": (lambda x: x.mean(1), lambda: (normal(16, 4096, 64),)),
    "largest": (lambda x: x.amax(1), lambda: (normal(16, 4096, 64),)),
    "variance": (lambda x: x.var(1), lambda: (normal(512, 8192) + 100,)),
    "log sum exp": (lambda x: x.logsumexp(1), lambda: (normal(512, 8192),)),
    "running sum": (lambda x: x.cumsum(1), lambda: (normal(16, 65536),)),
    "mean squared error": (F.mse_loss, lambda: (normal(128, 4096), normal(128, 4096))),
    "cross entropy": (F.cross_entropy, lambda: (normal(4096, 10), torch.randint(10, (4096,)))),
    "convolution": (layer, lambda: (nn.Conv2d(64, 64, 3), normal(4, 64, 32, 32))),
    "transposed convolution": (
        layer,
        lambda: (nn.ConvTranspose2d(32, 16, 3), normal(4, 32, 16, 16)),
    ),
    "depthwise convolution": (
        layer,
        lambda: (nn.Conv2d(32, 32, 3, groups=32), normal(4, 32, 64, 64)),
    ),
    "attention": (
        F.scaled_dot_product_attention,
        lambda: tuple(normal(3, 2, 8, 256, 64).unbind()),
    ),
    "causal attention": (
        partial(F.scaled_dot_product_attention, is_causal=True),
        lambda: tuple(normal(3, 1, 4, 1000, 64).unbind()),
    ),
    "GRU": (layer, lambda: (nn.GRU(64, 128, 2), normal(32, 4, 64))),
    "interpolation": (
        lambda x: F.interpolate(x, scale_factor=1.5),
        lambda: (normal(4, 16, 32, 32),),
    ),
    "distances": (torch.cdist, lambda: (normal(256, 64), normal(256, 64))),
    "Cholesky": (torch.linalg.cholesky, _positive_definite),
    "spectrum": (lambda x: torch.fft.rfft(x).abs(), lambda: (normal(16, 16384),)),
    "sorting": (lambda x: x.sort(1).values, lambda: (normal(16, 16384),)),
    "quantization": (_quantized, lambda: (normal(16, 16384),)),
    "AdamW": (
        lambda p, g, m, v: p - 1e-3 * (0.9 * m + 0.1 * g) / ((v + 0.001 * g * g).sqrt() + 1e-8),
        lambda: (*normal(3, 65536).unbind(), uniform(65536)),
    ),
    "gradient of a mean squared error": (
        gradient(F.mse_loss),
        lambda: (normal(1024, 4096), normal(1024, 4096)),
    ),
    "gradient of a cross entropy": (
        gradient(F.cross_entropy),
        lambda: (0.02 * normal(64, 131072), torch.randint(131072, (64,))),
    ),
    "gradients of a convolutional net": (
        gradients,
        lambda: (_convolutional(), normal(32, 3, 32, 32), torch.randint(10, (32,))),
    ),
    "gradients of a deep net": (
        gradients,
        lambda: (_deep(), normal(256, 128), torch.randint(1000, (256,))),
    ),
    "gradients of a transformer": (
        gradients,
        lambda: (_transformer(), normal(32, 16, 64), torch.randint(10, (32,))),
    ),
}
NOT_IN_BFLOAT16 = {
    *("Cholesky", "spectrum", "quantization"),
    *("gradients of a convolutional net", "gradients of a deep net"),
}
"""Operations that torch lacks in bfloat16, or whose own result there is no right one."""
