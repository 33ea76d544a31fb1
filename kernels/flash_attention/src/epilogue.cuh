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

// Nobody reads the output here, so that it need not take a place in L1.
__device__ __forceinline__ void store_chunk(char* global, const uint4& value) {
  if constexpr (kStoresBypassL1) {
    asm volatile("st.global.L1::no_allocate.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global),
                 "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
  } else {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(value.x),
                 "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
  }
}

// Writes a warp's rows of O to the tile of Q: a warp reads there only its own rows, and is done
// with them.
__device__ __forceinline__ void stage_output(const Output& output, const Softmax& softmax,
                                             uint32_t tile, int first_row, int lane) {
#pragma unroll
  for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const float total = row_sum(softmax.sum[row][half]);
      const float inverse = 1.0f / total;
      const auto divide = [&](float value) {
        return kMultiplyByInverse ? value * inverse : value / total;
      };
      const int tile_row = first_row + row * kMmaRows + half * 8 + lane / 4;
      const uint32_t start = tile + tile_offset<kBlockRows>(tile_row, 0);
#pragma unroll
      for (int col = 0; col < kOutTiles; ++col) {
        const Tile& sums = output[row][col];
        const uint32_t chunk = kStaticStores ? further<kBlockRows>(start, col)
                                             : tile + tile_offset<kBlockRows>(tile_row, col);
        store_pair(chunk + lane % 4 * 4,
                   pack<kBf16>(divide(sums[2 * half]), divide(sums[2 * half + 1])));
      }
    }
  }
}

// Stores a warp's rows of O, which start at `first_row` of the block's rows at `block_start`.
__device__ __forceinline__ void store_output(const Output& output, const Softmax& softmax,
                                             uint32_t tile, void* block_start, int64_t stride,
                                             int warp, int lane) {
  const int first_row = warp * kWarpRows;
  __syncwarp();
  stage_output(output, softmax, tile, first_row, lane);
  __syncwarp();
  constexpr int kChunks = kWarpRows * kRowChunks / kWarpSize;  // of each lane
#pragma unroll
  for (int i = 0; i < kChunks; ++i) {
    const int row = first_row + (lane + i * kWarpSize) / kRowChunks;
    const int chunk = (lane + i * kWarpSize) % kRowChunks;
    store_chunk(static_cast<char*>(block_start) + row * stride + chunk * kChunkBytes,
                load_shared(tile + tile_offset<kBlockRows>(row, chunk)));
  }
}

}  // namespace flash_attention
