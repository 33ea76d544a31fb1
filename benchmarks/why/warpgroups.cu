// waited_products. One warpgroup on each multiprocessor multiplies the same two tiles again and
// again by warpgroup matrix instructions of 64 x 128 x 16, which tensor cores do in 64 cycles.
// Plain, it waits for their results after 64 of them; planted, after each one, in weaker forms after
// 2, 4 and 8: nothing is left to do for the tensor cores while it waits and starts the next one. All
// elements of a tile are the same, so that every element of the product is 16 of their products for
// each step. Shown by warps that wait for gmma. The only kernel that needs sm_90a: the experiments
// without other strengths leave it out.
#include <cuda_bf16.h>

#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 128;
constexpr int kRows = 64;
constexpr int kColumns = 128;
constexpr int kDepth = 16;
constexpr int kSums = kRows * kColumns / kThreads;
constexpr int kUnderWay = PLANTED ? 8 / STRENGTH : 64;

// Descriptor of a tile without swizzle: matrices of 8 rows of 16 bytes, the second half of the
// depth behind the first, the next 8 rows behind both.
__device__ __forceinline__ uint64_t describe(const __nv_bfloat16* tile) {
  constexpr uint64_t kNextDepth = 128;
  constexpr uint64_t kNextRows = 256;
  const auto address = static_cast<uint64_t>(__cvta_generic_to_shared(tile));
  return (kNextRows >> 4) << 32 | (kNextDepth >> 4) << 16 | (address & 0x3ffff) >> 4;
}

#define WHY_NAMES_8(a, b, c, d, e, f, g, h) \
  "%" #a ", %" #b ", %" #c ", %" #d ", %" #e ", %" #f ", %" #g ", %" #h
#define WHY_SUMS_8(i)                                                                            \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]),     \
      "+f"(sums[i + 5]), "+f"(sums[i + 6]), "+f"(sums[i + 7])

__device__ __forceinline__ void multiply(float (&sums)[kSums], uint64_t a, uint64_t b) {
  asm volatile("{\n"
               ".reg .pred add;\n"
               "setp.ne.b32 add, 1, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
               WHY_NAMES_8(0, 1, 2, 3, 4, 5, 6, 7) ", "
               WHY_NAMES_8(8, 9, 10, 11, 12, 13, 14, 15) ", "
               WHY_NAMES_8(16, 17, 18, 19, 20, 21, 22, 23) ", "
               WHY_NAMES_8(24, 25, 26, 27, 28, 29, 30, 31) ", "
               WHY_NAMES_8(32, 33, 34, 35, 36, 37, 38, 39) ", "
               WHY_NAMES_8(40, 41, 42, 43, 44, 45, 46, 47) ", "
               WHY_NAMES_8(48, 49, 50, 51, 52, 53, 54, 55) ", "
               WHY_NAMES_8(56, 57, 58, 59, 60, 61, 62, 63)
               "}, %64, %65, add, 1, 1, 0, 0;\n"
               "}\n"
               : WHY_SUMS_8(0), WHY_SUMS_8(8), WHY_SUMS_8(16), WHY_SUMS_8(24), WHY_SUMS_8(32),
                 WHY_SUMS_8(40), WHY_SUMS_8(48), WHY_SUMS_8(56)
               : "l"(a), "l"(b));
}

__global__ void __launch_bounds__(kThreads)
    waited_products(const float* __restrict__ input, float* __restrict__ output, int steps) {
  __shared__ alignas(128) __nv_bfloat16 a[kRows * kDepth];
  __shared__ alignas(128) __nv_bfloat16 b[kColumns * kDepth];
  for (int k = threadIdx.x; k < kRows * kDepth; k += kThreads) a[k] = __float2bfloat16(input[0]);
  for (int k = threadIdx.x; k < kColumns * kDepth; k += kThreads) b[k] = __float2bfloat16(input[1]);
  // The instructions read shared memory by another way than these stores.
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  const uint64_t a_tile = describe(a);
  const uint64_t b_tile = describe(b);
  float sums[kSums] = {};
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnderWay) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < kUnderWay; ++k) multiply(sums, a_tile, b_tile);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  float* tile = output + static_cast<int64_t>(blockIdx.x) * kRows * kColumns + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kSums; ++k) tile[k * kThreads] = sums[k];
}

}  // namespace why

WHY_LAUNCHER(waited_products) {
  if (steps % 64 != 0) return cudaErrorInvalidValue;
  why::waited_products<<<outputs / (why::kRows * why::kColumns), why::kThreads, 0,
                         static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
