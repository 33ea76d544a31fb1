// Launches of a small, a middle and a large kernel, each timed by the host: what an option of ncu costs.
//
//     ncu_options [write|read] [extra GiB] [ranges]
//
// `write` and `read` empty the caches before each range, by a memset or by reading as much.
//
// Prints milliseconds a launch: `outside` of launches that no range marks, `inside` of such that
// stand each in a range of their own, and with `ranges` of those of which 20 share a range.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int kLaunches = 100;
constexpr int kOfRange = 20;
constexpr size_t kSmall = 1 << 16, kMiddle = 1 << 23, kLarge = 1 << 26;  // elements: 256 KB, 32 MB, 256 MB
constexpr size_t kFlushed = 1 << 28;  // bytes: four times the L2 of an H200

__global__ void twice(float* values, size_t n) {
    const size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) values[i] *= 2;
}

__global__ void read_all(const int4* values, size_t n, int* sum) {
    int own = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        own ^= values[i].x ^ values[i].y ^ values[i].z ^ values[i].w;
    if (own == 0x5eed) *sum = own;  // never, but the compiler does not know
}

static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(error));
        exit(1);
    }
}

static void launch(float* values, size_t n) {
    twice<<<(unsigned)((n + 255) / 256), 256>>>(values, n);
}

template <class Body>
static double median_ms(int times, Body body) {
    std::vector<double> each;
    for (int i = 0; i < times; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        body();
        check(cudaDeviceSynchronize());
        each.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::nth_element(each.begin(), each.begin() + times / 2, each.end());
    return each[times / 2];
}

int main(int count, char** arguments) {
    bool writes = false, reads = false, ranges = false;
    size_t extra = 0;
    for (int i = 1; i < count; ++i) {
        if (!strcmp(arguments[i], "write")) writes = true;
        else if (!strcmp(arguments[i], "read")) reads = true;
        else if (!strcmp(arguments[i], "ranges")) ranges = true;
        else extra = (size_t)atoll(arguments[i]) << 30;
    }
    float* values;
    char *flushed, *unused = nullptr;
    int* sum;
    check(cudaMalloc(&values, kLarge * sizeof(float)));
    check(cudaMalloc(&flushed, kFlushed));
    check(cudaMalloc(&sum, sizeof(int)));
    check(cudaMemset(flushed, 0, kFlushed));
    check(cudaMemset(values, 0, kLarge * sizeof(float)));
    if (extra) {
        check(cudaMalloc(&unused, extra));
        check(cudaMemset(unused, 0, extra));
    }
    const auto in_range = [&](size_t n, int launches) {
        if (writes) check(cudaMemset(flushed, 1, kFlushed));
        if (reads) read_all<<<1024, 256>>>((const int4*)flushed, kFlushed / sizeof(int4), sum);
        nvtxRangePushA("cell");
        for (int i = 0; i < launches; ++i) launch(values, n);
        check(cudaDeviceSynchronize());
        nvtxRangePop();
    };
    in_range(kSmall, 1);  // what ncu takes once
    printf("outside %.3f\n", median_ms(kLaunches, [&] { launch(values, kSmall); }));
    if (ranges) {
        printf("range_of_20 %.3f\n", median_ms(10, [&] { in_range(kSmall, kOfRange); }));
        return 0;
    }
    printf("small %.3f\n", median_ms(kLaunches, [&] { in_range(kSmall, 1); }));
    printf("middle %.3f\n", median_ms(kLaunches / 5, [&] { in_range(kMiddle, 1); }));
    printf("large %.3f\n", median_ms(kLaunches / 5, [&] { in_range(kLarge, 1); }));
    return 0;
}
