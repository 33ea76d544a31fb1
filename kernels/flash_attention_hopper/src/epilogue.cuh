// The output: divided by the sums, converted, and stored.
#pragma once

#include "attention.cuh"

namespace flash_attention_hopper {

__device__ __forceinline__ void divide(Output& output, const Softmax& softmax) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const float inverse = 1.0f / row_sum(softmax.sum[half]);
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) {
      if (half_of(i) == half) output[i] *= inverse;
    }
  }
}

// Straight from registers: four lanes store 16 bytes of a row.
__device__ __forceinline__ void store_registers(const Output& output, const Problem& problem,
                                                const Tile& tile, int first_row, int lane,
                                                void* destination) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    const int row = first_row + half * 8 + lane / 4;
    if (row >= problem.seq_len) continue;
    const int64_t token = static_cast<int64_t>(tile.batch) * problem.seq_len + row;
    uint32_t* start = static_cast<uint32_t*>(destination) +
                      (token * problem.heads + tile.head) * (kHeadDim / 2) + lane % 4;
#pragma unroll
    for (int i = 0; i < kHeadDim / 8; ++i) {
      start[4 * i] = pack<kBf16>(output[4 * i + 2 * half], output[4 * i + 2 * half + 1]);
    }
  }
}

__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t r0, uint32_t r1,
                                               uint32_t r2, uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

// Writes a warp's 16 rows to a tile of 64 rows in the layout that TMA swizzles: a chunk's place is
// its number XOR its row.
__device__ __forceinline__ void stage_output(const Output& output, uint32_t tile, int warp,
                                             int lane) {
  constexpr int kPanelChunks = kPanelRowBytes / kChunkBytes;
  const int row = warp * 16 + lane % 16;  // Lanes 0-15 name the rows of the left 8 columns,
  const int right = lane / 16;            // lanes 16-31 those of the right ones.
#pragma unroll
  for (int i = 0; i < kHeadDim / 16; ++i) {
    const int chunk = 2 * i + right;
    const uint32_t panel = tile + 2 * i / kPanelChunks * kGroupRows * kPanelRowBytes;
    const int place = (chunk % kPanelChunks) ^ (row % 8);
    const float* sums = output + 8 * i;
    store_matrices(panel + row * kPanelRowBytes + place * kChunkBytes, pack<kBf16>(sums[0], sums[1]),
                   pack<kBf16>(sums[2], sums[3]), pack<kBf16>(sums[4], sums[5]), pack<kBf16>(sums[6], sums[7]));
  }
}

// One thread of a warpgroup stores its tile: the one that must wait before the place is used again.
__device__ __forceinline__ void store_output(const Consumer& consumer, const Problem& problem,
                                             const Tile& tile, const Output& output,
                                             void* destination) {
  const int thread = threadIdx.x % kGroupThreads;
  const int warp = thread / kWarpSize;
  const int row = tile.row + consumer.group * kGroupRows;
  if constexpr (!kTensorStore) {
    store_registers(output, problem, tile, row + warp * 16, consumer.lane, destination);
    return;
  }
  const uint32_t staged = consumer.shared.output(consumer.group);
  if (kSeparateOutput && thread == 0) stores_read();  // the store before this one
  group_sync(consumer.group);  // All warps are done with the query, whose place this may be.
  stage_output(output, staged, warp, consumer.lane);
  publish_to_tma();
  group_sync(consumer.group);
  if (thread == 0) {
    store_tile(consumer.maps.output, staged, row, tile.head, tile.batch);
    if constexpr (!kSeparateOutput) stores_read();
  }
}

}  // namespace flash_attention_hopper
