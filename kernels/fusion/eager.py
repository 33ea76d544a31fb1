"""Each operator in plain torch: the eager variant, and the input of inductor.

Each function takes the tensors that `inputs.py` makes, those that are split by rows first. It is
also the reference, when it is given the same tensors in a higher precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.nn import functional

Result = torch.Tensor | tuple[torch.Tensor, ...]
Function = Callable[..., Result]

EPSILON = 1e-5
"""Of layer norm and batch norm: torch's default."""

DROPOUT = 0.5

GELU_SCALE = 0.79788456
GELU_CUBIC = 0.044715
"""sqrt(2 / pi), and the cubic term of the tanh form (Hendrycks and Gimpel, arXiv 1606.08415)."""


def pointwise_chain(x: torch.Tensor) -> torch.Tensor:
    """Four elementwise steps; eager code writes each result to memory and reads it again."""
    y = torch.cos(x)
    x = x * y
    y = torch.maximum(x, y)
    return x + y


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax along dim 1."""
    return torch.softmax(x, dim=1)


def naive_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax written out step by step."""
    exponentials = torch.exp(x - x.amax(dim=1, keepdim=True))
    return exponentials / exponentials.sum(dim=1, keepdim=True)


def functional_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax by its name in torch.nn.functional."""
    return functional.softmax(x, dim=1)


def double_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax of a softmax, both along dim 1."""
    return torch.softmax(torch.softmax(x, dim=1), dim=1)


def softmax_backward(gradient: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Gradient of a softmax along dim 1, from its output and the output's gradient."""
    return torch._softmax_backward_data(gradient, output, 1, output.dtype)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Layer norm along dim 1, with weight and bias."""
    return functional.layer_norm(x, weight.shape, weight, bias, EPSILON)


def norm_chain(x: torch.Tensor) -> torch.Tensor:
    """Three times: multiply each row by its own sum."""
    for _ in range(3):
        x = x * torch.sum(x, dim=1, keepdim=True)
    return x


def reduction_pointwise(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Sum of each row, and the cosine of each element."""
    return torch.sum(x, dim=1), torch.cos(x)


def reduction_reduction(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Sum of each row, and its maximum."""
    return torch.sum(x, dim=1), torch.amax(x, dim=1)


def matmul_add(x: torch.Tensor, addend: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Product, plus a matrix."""
    return x @ weight + addend


def matmul_relu(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Product, then relu."""
    return torch.relu(x @ weight)


def matmul_add_relu(x: torch.Tensor, addend: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Product, plus a matrix, then relu."""
    return torch.relu(x @ weight + addend)


def matmul_matmul(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    """Two products, one after the other."""
    return x @ first @ second


def conv_add(x: torch.Tensor, addend: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Convolution, plus a tensor."""
    return _convolution(x, weight) + addend


def conv_relu(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Convolution, then relu."""
    return torch.relu(_convolution(x, weight))


def conv_batch_norm(  # noqa: PLR0913, PLR0917 - a batch norm has this many
    x: torch.Tensor,
    filters: torch.Tensor,
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
) -> torch.Tensor:
    """Convolution, then batch norm with the statistics of a finished training."""
    images = _convolution(x, filters)
    return functional.batch_norm(images, mean, variance, weight, bias, training=False, eps=EPSILON)


def bias_dropout_add(x: torch.Tensor, residual: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Residual plus dropout of x + bias; not in training, so that dropout changes nothing."""
    return residual + functional.dropout(x + bias, p=DROPOUT, training=False)


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Gelu of x + bias, in its tanh form written out."""
    y = x + bias
    return y * 0.5 * (1.0 + torch.tanh(GELU_SCALE * y * (1.0 + GELU_CUBIC * y * y)))


def fused_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Layer norm along dim 1 of x + residual."""
    return functional.layer_norm(x + residual, weight.shape, weight, bias, EPSILON)


def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Causal attention step by step; (batch, seq_len, heads, head_dim) in and out.

    `mask` is (seq_len, seq_len), 0 where a key may be seen and -inf elsewhere.
    """
    batch, length, heads, head_dim = query.shape
    rows, columns, values = (
        tensor.transpose(1, 2).reshape(batch * heads, length, head_dim)
        for tensor in (query, key, value)
    )
    # With beta = 0 the first operand is never read; any that can be broadcast will do.
    unread_operand = mask[:1, :1].unsqueeze(0)
    scale = head_dim**-0.5
    scores = torch.baddbmm(unread_operand, rows, columns.transpose(1, 2), beta=0.0, alpha=scale)
    weights = torch.softmax(scores + mask, dim=2)
    result = torch.bmm(weights, values).view(batch, heads, length, head_dim)
    return result.transpose(1, 2)


def _convolution(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return functional.conv2d(x, weight, padding="same")


FUNCTIONS: Mapping[str, Function] = {
    function.__name__: function
    for function in (
        pointwise_chain,
        softmax,
        double_softmax,
        softmax_backward,
        layer_norm,
        norm_chain,
        reduction_pointwise,
        reduction_reduction,
        matmul_add,
        matmul_relu,
        matmul_add_relu,
        matmul_matmul,
        conv_add,
        conv_relu,
        conv_batch_norm,
        attention,
        bias_dropout_add,
        bias_gelu,
        fused_norm,
    )
}
"""Every operator's function, by the names of `operators.OPERATORS`."""
