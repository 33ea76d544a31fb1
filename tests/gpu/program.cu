// A program of somebody else's: `program KERNEL SIZE` launches one or both of two kernels.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>

__global__ void scale(float* x, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}

__global__ void scale_strided(float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] *= 2.0f;
}

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: program KERNEL SIZE\n");
        return 2;
    }
    const int n = std::atoi(argv[2]);
    float* x = nullptr;
    if (cudaMalloc(&x, n * sizeof(float)) != cudaSuccess) return 3;
    const bool both = std::strcmp(argv[1], "both") == 0;
    for (int launch = 0; launch < 4; ++launch) {
        if (both || std::strcmp(argv[1], "scale") == 0) scale<<<(n + 255) / 256, 256>>>(x, n);
        if (both || std::strcmp(argv[1], "strided") == 0) scale_strided<<<264, 512>>>(x, n);
    }
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 4;
}
