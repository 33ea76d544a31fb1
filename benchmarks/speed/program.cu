// program VERSION: one of four ways to scale 64 MB of numbers, five times.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

template <int WIDTH>
__global__ void scale(const float* from, float* to, int count, float factor) {
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * WIDTH;
    for (int i = 0; i < WIDTH; ++i)
        if (first + i < count) to[first + i] = factor * from[first + i];
}

template <int WIDTH>
void launch(const float* from, float* to, int count) {
    const int threads = 256, blocks = (count + threads * WIDTH - 1) / (threads * WIDTH);
    for (int i = 0; i < 5; ++i) scale<WIDTH><<<blocks, threads>>>(from, to, count, 2.0f);
}

int main(int argc, char** argv) {
    const int count = 1 << 24;
    float *from, *to;
    if (cudaMalloc(&from, count * sizeof(float)) || cudaMalloc(&to, count * sizeof(float))) return 1;
    if (cudaMemset(from, 0, count * sizeof(float))) return 1;
    switch (argc > 1 ? std::atoi(argv[1]) : 0) {
        case 1: launch<1>(from, to, count); break;
        case 2: launch<2>(from, to, count); break;
        case 4: launch<4>(from, to, count); break;
        case 8: launch<8>(from, to, count); break;
        default: std::fprintf(stderr, "program 1|2|4|8\n"); return 2;
    }
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
