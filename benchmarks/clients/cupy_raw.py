"""A raw kernel of CuPy beside its library; needs `cupy-cuda12x` or `cupy-cuda13x` and a GPU."""

import cupy

import profiler

SOURCE = r"""
extern "C" __global__
void saxpy(const float* x, const float* y, float* out, float a, int n, int stride) {
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = (thread % (n / stride)) * stride + thread / (n / stride);
    if (thread < n) out[i] = a * x[i] + y[i];
}
"""
kernel = cupy.RawKernel(SOURCE, "saxpy")
saxpy = profiler.Experiment("cupy-raw", problems={"n": [2**20, 2**25]})


@saxpy.inputs
def inputs(n, seed):
    generator = cupy.random.RandomState(seed)
    return generator.rand(n, dtype="float32"), generator.rand(n, dtype="float32")


@saxpy.variant(baseline=True)
def library(x, y):
    return 2 * x + y


@saxpy.variant(stride=[1, 32])
def raw(x, y, n, stride):
    out = cupy.empty_like(x)
    kernel((n // 256,), (256,), (x, y, out, cupy.float32(2), cupy.int32(n), cupy.int32(stride)))
    return out
