"""Three transposes with kernel_tuner 1.5; it measures kernels only, so torch is not among them."""

from pathlib import Path

import kernel_tuner
import numpy

SOURCE = Path(__file__).parents[3] / "experiments/transpose.cu"
BLOCK_ROWS = {"transpose_naive": 32, "transpose_tiled<32, 0>": 8, "transpose_tiled<32, 1>": 8}

for rows, columns in ((4096, 4096), (16384, 4096)):
    x = numpy.random.default_rng(0).random((rows, columns), dtype="float32")
    out = numpy.zeros((columns, rows), dtype="float32")
    for name, block_rows in BLOCK_ROWS.items():
        kernel_tuner.tune_kernel(
            name,
            str(SOURCE),
            (columns, rows),
            [x, out, numpy.int32(rows), numpy.int32(columns)],
            {"block_size_x": [32], "block_size_y": [block_rows]},
            grid_div_x=["32"],
            grid_div_y=["32"],
            answer=[None, x.T, None, None],
            lang="CUPY",
        )
