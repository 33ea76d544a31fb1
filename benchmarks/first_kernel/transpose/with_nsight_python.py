"""Three transposes and torch's, with nsight-python 1.1; CuPy compiles and launches them."""

from pathlib import Path

import cupy
import nsight
import numpy
import torch

SOURCE = Path(__file__).parents[3] / "experiments/transpose.cu"
BLOCKS = {
    "transpose_naive": (32, 32),
    "transpose_tiled<32, 0>": (32, 8),
    "transpose_tiled<32, 1>": (32, 8),
}
MODULE = cupy.RawModule(code=SOURCE.read_text(), name_expressions=list(BLOCKS))


@nsight.analyze.kernel(configs=[(4096, 4096), (16384, 4096)], runs=10)
def transposes(rows, columns):
    x = torch.randn(rows, columns, device="cuda")
    with nsight.annotate("torch"):
        x.T.contiguous()
    for name, block in BLOCKS.items():
        out = torch.empty(columns, rows, device="cuda")
        sizes = numpy.int32(rows), numpy.int32(columns)
        arguments = (cupy.asarray(x), cupy.asarray(out), *sizes)
        with nsight.annotate(name):
            MODULE.get_function(name)((columns // 32, rows // 32), block, arguments)
        torch.testing.assert_close(out, x.T)


if __name__ == "__main__":
    print(transposes().to_dataframe())
