"""A C library called by ctypes with raw pointers, as wrappers without torch do it."""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import torch

import profiler

SOURCE = """
void scale(const float* x, float* out, long n, float a) {
    for (long i = 0; i < n; ++i) out[i] = a * x[i];
}
"""
folder = Path(tempfile.mkdtemp())
(folder / "scale.c").write_text(SOURCE)
subprocess.run(
    ["cc", "-O3", "-shared", "-fPIC", "scale.c", "-o", "scale.so"], cwd=folder, check=True
)
library = ctypes.CDLL(str(folder / "scale.so"))

scaled = profiler.Experiment("ctypes-library", problems={"n": [1000, 100_000]})


@scaled.inputs
def inputs(n):
    return torch.randn(n)


@scaled.variant(baseline=True)
def in_c(x):
    out = torch.empty_like(x)
    count, factor = ctypes.c_long(x.numel()), ctypes.c_float(1.5)
    library.scale(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(out.data_ptr()), count, factor)
    return out


@scaled.variant
def in_torch(x):
    return 1.5 * x
