"""CUDA kernels that work, and that fail in the ways only a device can."""

import torch

_SOURCE = """
extern "C" __global__ void twice(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 2.0f * in[i];
}
extern "C" __global__ void astray(const float* in, float* out, int n) {
    out[(1ull << 42) + blockIdx.x * blockDim.x + threadIdx.x] = in[0];
}
"""
_THREADS = 256


def make_inputs(problem, device, seed):
    generator = torch.Generator(device).manual_seed(seed)
    return torch.randn(problem["size"], device=device, generator=generator)


def reference(problem, inputs):
    return inputs.double() * 2.0


def bytes(problem):  # noqa: A001 - the contract's name
    return 8 * problem["size"]


def prepare(variant, problem, inputs, library):
    how = variant["how"]
    if how == "assert":
        outside = torch.full((1,), inputs.numel(), device=inputs.device)
        return lambda: inputs[outside]
    if how == "exhaust":
        return lambda: torch.empty(1 << 50, device=inputs.device)
    output = torch.empty_like(inputs)
    kernel = torch.cuda._compile_kernel(_SOURCE, "astray" if how == "astray" else "twice")
    threads = 4096 if how == "refused" else _THREADS
    size = inputs.numel()

    def launch():
        kernel((-(-size // threads), 1, 1), (threads, 1, 1), (inputs, output, size))
        return output

    launch.outputs = (output,)
    return launch
