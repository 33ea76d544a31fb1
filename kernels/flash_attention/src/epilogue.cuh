// The output: divided by the sums, converted, and stored in whole lines by way of shared memory.
#pragma once

#include "copy.cuh"
#include "softmax.cuh"

namespace flash_attention {

__device__ __forceinline__ void store_pair(uint32_t shared, uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared), "r"(value) : "memory");
}

__device__ __forceinline__ uint4 load_shared(uint32_t shared) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(shared)
               : "memory");
  return value;
}

// Nobody reads the output here, so that it need not stay in the caches.
__device__ __forceinline__ void store_chunk(char* global, const uint4& value) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(value.x),
               "r"(value.y), "r"(value.z), "r"(value.w)
               : "memory");
}

// Stores a warp's rows of O. `tile` is the tile of Q: a warp reads there only its own rows, and is
// done with them.
__device__ __forceinline__ void store_output(const Output& output, const Softmax& softmax,
                                             uint32_t tile, void* block_start, int64_t stride,
                                             int warp, int lane) {
  const int first_row = warp * kWarpRows;
  __syncwarp();
#pragma unroll
  for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const float inverse = 1.0f / row_sum(softmax.sum[row][half]);
      const int tile_row = first_row + row * kMmaRows + half * 8 + lane / 4;
#pragma unroll
      for (int col = 0; col < kOutTiles; ++col) {
        const Tile& sums = output[row][col];
        store_pair(tile + tile_offset(tile_row, col) + lane % 4 * 4,
                   pack(sums[2 * half] * inverse, sums[2 * half + 1] * inverse));
      }
    }
  }
  __syncwarp();
  constexpr int kChunks = kWarpRows * kRowChunks / kWarpSize;  // of each lane
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int row = first_row + (lane + i * kWarpSize) / kRowChunks;
    const int chunk = (lane + i * kWarpSize) % kRowChunks;
    store_chunk(static_cast<char*>(block_start) + row * stride + chunk * kChunkBytes,
                load_shared(tile + tile_offset(row, chunk)));
  }
}

}  // namespace flash_attention
