// histogram VERSION: counts bytes of two sizes, checks the counts on the host, then times itself.
#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void histogram_global(const unsigned char* x, unsigned* counts, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&counts[x[i]], 1u);
}

__global__ void histogram_shared(const unsigned char* x, unsigned* counts, int n) {
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i]], 1u);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

int main(int argc, char** argv) {
    const int version = argc > 1 ? std::atoi(argv[1]) : 1;
    for (int n : {1 << 20, 1 << 24}) {
        std::vector<unsigned char> host(n);
        std::vector<unsigned> expected(256), found(256);
        for (int i = 0; i < n; ++i) ++expected[host[i] = i % 7];  // few bins: many threads meet in one
        unsigned char* x;
        unsigned* counts;
        if (cudaMalloc(&x, n) || cudaMalloc(&counts, 1024)) return 2;
        cudaMemcpy(x, host.data(), n, cudaMemcpyHostToDevice);
        for (int launch = 0; launch < 11; ++launch) {
            cudaMemset(counts, 0, 1024);
            if (version == 1) histogram_global<<<1024, 256>>>(x, counts, n);
            else histogram_shared<<<1024, 256>>>(x, counts, n);
        }
        cudaMemcpy(found.data(), counts, 1024, cudaMemcpyDeviceToHost);
        if (cudaGetLastError() != cudaSuccess || found != expected) return std::puts("wrong counts"), 1;
        cudaFree(x), cudaFree(counts);
    }
}
