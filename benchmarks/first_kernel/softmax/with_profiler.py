"""A Triton softmax against torch: `python -m profiler with_profiler.py`."""

import torch
from softmax_kernel import softmax

import profiler

rows = profiler.Experiment("softmax", problems={"rows": [4096], "columns": [1024, 4096]})
rows.inputs(lambda rows, columns: torch.randn(rows, columns))
rows.variant(name="torch", baseline=True)(lambda x: torch.softmax(x, -1))
rows.variant(name="triton", num_warps=[4, 8])(softmax)
