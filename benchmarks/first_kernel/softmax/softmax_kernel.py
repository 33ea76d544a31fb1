"""The kernel that every way measures: a row softmax in Triton."""

import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(y, x, columns, BLOCK: tl.constexpr):  # noqa: N803 - as Triton writes constants
    offsets = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    inside = offsets < columns
    values = tl.load(x + row + offsets, mask=inside, other=-float("inf"))
    exponentials = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + offsets, exponentials / tl.sum(exponentials, 0), mask=inside)


def softmax(x, num_warps):
    """Softmax of each row."""
    y = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    _softmax[(x.shape[0],)](y, x, x.shape[1], BLOCK=block, num_warps=num_warps)
    return y
