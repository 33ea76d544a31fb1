// scan_tests --filter=CASE: a test binary as those of frameworks are; each case checks itself.
#include <cstdio>
#include <cstring>
#include <vector>

__global__ void scan_serial(const int* x, int* out, int n) {
    const int row = blockIdx.x * n;
    if (threadIdx.x != 0) return;
    for (int i = 0, sum = 0; i < n; ++i) out[row + i] = sum += x[row + i];
}

__global__ void scan_parallel(const int* x, int* out, int n) {
    __shared__ int sums[256];
    const int row = blockIdx.x * n, i = threadIdx.x;
    sums[i] = x[row + i];
    for (int step = 1; step < n; step *= 2) {
        __syncthreads();
        const int before = i >= step ? sums[i - step] : 0;
        __syncthreads();
        sums[i] += before;
    }
    out[row + i] = sums[i];
}

template <class Kernel>
bool passes(const char* name, Kernel kernel) {
    const int rows = 4096, n = 256;
    std::vector<int> host(rows * n, 1);
    int *x, *out;
    if (cudaMalloc(&x, sizeof(int) * rows * n) || cudaMalloc(&out, sizeof(int) * rows * n)) return false;
    cudaMemcpy(x, host.data(), sizeof(int) * rows * n, cudaMemcpyHostToDevice);
    kernel<<<rows, 256>>>(x, out, n);
    cudaMemcpy(host.data(), out, sizeof(int) * rows * n, cudaMemcpyDeviceToHost);
    bool right = true;
    for (int i = 0; i < rows * n; ++i) right &= host[i] == i % n + 1;
    std::printf("[%s] %s\n", right ? "  OK  " : "FAILED", name);
    cudaFree(x), cudaFree(out);
    return right;
}

int main(int argc, char** argv) {
    const char* filter = argc > 1 ? std::strchr(argv[1], '=') + 1 : "";
    bool right = true;
    if (std::strstr("serial", filter)) right &= passes("serial", scan_serial);
    if (std::strstr("parallel", filter)) right &= passes("parallel", scan_parallel);
    return right ? 0 : 1;
}
