// One kernel that doubles a vector, and ways in which it can go wrong, chosen by MODE.
#include <cuda_runtime.h>

#define RIGHT 0
#define WRONG 1
#define ILLEGAL 2
#define HANGS 3

__global__ void twice(const float* in, float* out, long long n, volatile int* never) {
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
#if MODE == HANGS
    while (*never == 0) {
    }
#endif
    if (i < n) {
#if MODE == ILLEGAL
        out[i + (1ll << 44)] = 2 * in[i];
#elif MODE == WRONG
        out[i] = 3 * in[i];
#else
        out[i] = 2 * in[i];
#endif
    }
}

extern "C" int launch(const float* in, float* out, long long n, int* never, cudaStream_t stream) {
    twice<<<(unsigned)((n + BLOCK_SIZE - 1) / BLOCK_SIZE), BLOCK_SIZE, 0, stream>>>(in, out, n, never);
    return (int)cudaGetLastError();
}
