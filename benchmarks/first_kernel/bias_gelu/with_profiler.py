"""Bias and GELU in one CuPy kernel against torch: `python -m profiler with_profiler.py`."""

import torch
from bias_gelu_kernels import elementwise, vectorised

import profiler

rows = profiler.Experiment("bias_gelu", problems={"rows": [8192], "columns": [1024, 8192]})
rows.inputs(lambda rows, columns: (torch.randn(rows, columns), torch.randn(columns)))
rows.variant(name="torch", baseline=True)(lambda x, bias: torch.nn.functional.gelu(x + bias))
rows.variant(name="cupy")(elementwise)
rows.variant(name="cupy four at a time", block=[128, 512])(vectorised)
rows.bytes(lambda rows, columns: 4 * (2 * rows * columns + columns))
