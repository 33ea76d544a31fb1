// no_tensor_cores. C = A * transposed B of bfloat16 matrices, by the same tiles from the
// same shared memory: plain with mma.sync m16n8k16, planted with a float multiply-add for each
// product. product_of_<depth> have another number of products of each element. Shown by tensor
// operations (none) and by FP32 multiply-adds in their place.
#include <cuda_bf16.h>

#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;
constexpr int kColumns = 2048;  // Of C, and its rows.
constexpr int kTile = 128;  // Rows and columns of a block's part of C.
constexpr int kDepth = 32;  // Columns of A and B that lie in shared memory at a time.
// Words of two values between rows: the 8 rows that a warp reads at once start on 8 different
// groups of 4 banks, so that no request conflicts.
constexpr int kPitch = kDepth / 2 + 4;

// A warp has 64 x 32 elements of C, in 4 x 4 fragments of 16 x 8, each thread 64 of them.
constexpr int kWarpRows = 64;
constexpr int kWarpColumns = 32;

__device__ __forceinline__ void load_tile(const uint4* __restrict__ matrix, uint32_t* tile, int row,
                                          int depth, int size) {
  constexpr int kChunks = kDepth / 8;  // Of 8 values, in a row.
  const unsigned first = threadIdx.x / kChunks;
  const unsigned chunk = threadIdx.x % kChunks;
#pragma unroll
  for (unsigned i = first; i < first + kTile; i += kThreads / kChunks) {
    *reinterpret_cast<uint4*>(tile + i * kPitch + chunk * 4) =
        matrix[(row + i) * (size / 8) + depth / 8 + chunk];
  }
}

#if PLANTED

// Thread (g, t) of a warp, g = lane / 4 and t = lane % 4, has rows 8 i + g and columns 4 j + t.
__device__ __forceinline__ float low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ __forceinline__ void multiply(const uint32_t* a, const uint32_t* b, float (&sums)[64]) {
  const int g = threadIdx.x % kWarp / 4;
  const int t = threadIdx.x % 4;
#pragma unroll 2
  for (int pair = 0; pair < kDepth / 2; ++pair) {
    float a_low[8], a_high[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t values = a[(8 * i + g) * kPitch + pair];
      a_low[i] = low(values);
      a_high[i] = high(values);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const uint32_t values = b[(4 * j + t) * kPitch + pair];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        sums[i * 8 + j] = fmaf(a_low[i], low(values), sums[i * 8 + j]);
        sums[i * 8 + j] = fmaf(a_high[i], high(values), sums[i * 8 + j]);
      }
    }
  }
}

__device__ __forceinline__ void store(const float (&sums)[64], float* c, int size) {
  const int g = threadIdx.x % kWarp / 4;
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) c[(8 * i + g) * size + 4 * j + t] = sums[i * 8 + j];
  }
}

#else

__device__ __forceinline__ void mma(float* sums, const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Fragments as the PTX ISA lays them out (matrix fragments for mma.m16n8k16, .bf16).
__device__ __forceinline__ void multiply(const uint32_t* a, const uint32_t* b, float (&sums)[64]) {
  const int g = threadIdx.x % kWarp / 4;
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int word = 0; word < kDepth / 2; word += 8) {
    uint32_t b_fragments[4][2];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const uint32_t* row = b + (8 * j + g) * kPitch + word + t;
      b_fragments[j][0] = row[0];
      b_fragments[j][1] = row[4];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t* upper = a + (16 * i + g) * kPitch + word + t;
      const uint32_t* lower = upper + 8 * kPitch;
      const uint32_t fragment[4] = {upper[0], lower[0], upper[4], lower[4]};
#pragma unroll
      for (int j = 0; j < 4; ++j) mma(sums + (i * 4 + j) * 4, fragment, b_fragments[j]);
    }
  }
}

__device__ __forceinline__ void store(const float (&sums)[64], float* c, int size) {
  const int g = threadIdx.x % kWarp / 4;
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float* four = sums + (i * 4 + j) * 4;
      float* upper = c + (16 * i + g) * size + 8 * j + 2 * t;
      *reinterpret_cast<float2*>(upper) = make_float2(four[0], four[1]);
      *reinterpret_cast<float2*>(upper + 8 * size) = make_float2(four[2], four[3]);
    }
  }
}

#endif

__global__ void __launch_bounds__(kThreads, 2)
    no_tensor_cores(const uint4* __restrict__ a, const uint4* __restrict__ b, float* __restrict__ c,
                    int columns, int size) {
  __shared__ alignas(16) uint32_t a_tile[kTile * kPitch];
  __shared__ alignas(16) uint32_t b_tile[kTile * kPitch];
  const int warp = threadIdx.x / kWarp;
  const int warp_row = warp / 4 * kWarpRows;
  const int warp_column = warp % 4 * kWarpColumns;
  const int row = blockIdx.y * kTile;
  const int column = blockIdx.x * kTile;
  float sums[64] = {};
#pragma unroll 1
  for (int depth = 0; depth < size; depth += kDepth) {
    load_tile(a, a_tile, row, depth, size);
    load_tile(b, b_tile, column, depth, size);
    __syncthreads();
    multiply(a_tile + warp_row * kPitch, b_tile + warp_column * kPitch, sums);
    __syncthreads();
  }
  store(sums, c + static_cast<int64_t>(row + warp_row) * columns + column + warp_column, columns);
}

}  // namespace why

// `steps` is the number of products of an element.
WHY_LAUNCHER(no_tensor_cores) {
  if (outputs != why::kColumns * why::kColumns) return cudaErrorInvalidValue;
  if (steps % why::kDepth != 0) return cudaErrorInvalidValue;
  const auto* a = static_cast<const __nv_bfloat16*>(input);
  const auto* b = a + static_cast<int64_t>(why::kColumns) * steps;
  const dim3 blocks(why::kColumns / why::kTile, why::kColumns / why::kTile);
  why::no_tensor_cores<<<blocks, why::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const uint4*>(a), reinterpret_cast<const uint4*>(b),
      static_cast<float*>(output), why::kColumns, steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(product_of_256) {
  return why_no_tensor_cores(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(product_of_1024) {
  return why_no_tensor_cores(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(product_of_4096) {
  return why_no_tensor_cores(input, output, outputs, steps, stream);
}
