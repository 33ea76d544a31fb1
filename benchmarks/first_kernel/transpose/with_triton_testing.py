"""Three transposes and torch's, with triton.testing; CuPy compiles and launches them."""

from pathlib import Path

import cupy
import numpy
import torch
import triton

SOURCE = Path(__file__).parents[3] / "experiments/transpose.cu"
BLOCKS = {
    "transpose_naive": (32, 32),
    "transpose_tiled<32, 0>": (32, 8),
    "transpose_tiled<32, 1>": (32, 8),
}
MODULE = cupy.RawModule(code=SOURCE.read_text(), name_expressions=list(BLOCKS))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["rows"],
        x_vals=[4096, 16384],
        line_arg="way",
        line_vals=["torch", *BLOCKS],
        line_names=["torch", *BLOCKS],
        plot_name="transpose",
        args={"columns": 4096},
    )
)
def transposes(rows, columns, way):
    x = torch.randn(rows, columns, device="cuda")
    if way == "torch":
        return triton.testing.do_bench(lambda: x.T.contiguous(), quantiles=[0.5, 0.2, 0.8])
    out = torch.empty(columns, rows, device="cuda")
    sizes = numpy.int32(rows), numpy.int32(columns)
    arguments = (cupy.asarray(x), cupy.asarray(out), *sizes)
    kernel, grid = MODULE.get_function(way), (columns // 32, rows // 32)
    kernel(grid, BLOCKS[way], arguments)
    torch.testing.assert_close(out, x.T)
    return triton.testing.do_bench(
        lambda: kernel(grid, BLOCKS[way], arguments), quantiles=[0.5, 0.2, 0.8]
    )


transposes.run(print_data=True)
