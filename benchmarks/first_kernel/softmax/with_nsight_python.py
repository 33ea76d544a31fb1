"""A Triton softmax against torch, with nsight-python 1.1."""

import nsight
import torch
from softmax_kernel import softmax


@nsight.analyze.kernel(configs=[(4096, 1024), (4096, 4096)], runs=10)
def softmaxes(rows, columns):
    x = torch.randn(rows, columns, device="cuda")
    with nsight.annotate("torch"):
        expected = torch.softmax(x, -1)
    for num_warps in (4, 8):
        with nsight.annotate(f"triton num_warps={num_warps}"):
            y = softmax(x, num_warps)
        torch.testing.assert_close(y, expected)


if __name__ == "__main__":
    print(softmaxes().to_dataframe())
