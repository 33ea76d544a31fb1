"""A Triton softmax against torch, with triton.testing."""

import torch
import triton
from softmax_kernel import softmax

WAYS = {
    "torch": lambda x: torch.softmax(x, -1),
    "triton num_warps=4": lambda x: softmax(x, 4),
    "triton num_warps=8": lambda x: softmax(x, 8),
}


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["columns"],
        x_vals=[1024, 4096],
        line_arg="way",
        line_vals=list(WAYS),
        line_names=list(WAYS),
        plot_name="softmax",
        args={"rows": 4096},
    )
)
def softmaxes(rows, columns, way):
    x = torch.randn(rows, columns, device="cuda")
    torch.testing.assert_close(WAYS[way](x), torch.softmax(x, -1))
    return triton.testing.do_bench(lambda: WAYS[way](x), quantiles=[0.5, 0.2, 0.8])


softmaxes.run(print_data=True)
