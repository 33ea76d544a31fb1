// Which tiles of the output a thread block works on, and where they lie.
#pragma once

#include "activities.cuh"

namespace flash_attention_hopper {

constexpr int kRecordedTiles = 2;  // of a block, with stamps

struct Problem {
  int batch;
  int seq_len;
  int heads;

  __host__ __device__ int row_blocks() const { return (seq_len + kBlockRows - 1) / kBlockRows; }
  __host__ __device__ int col_blocks() const { return (seq_len + kBlockCols - 1) / kBlockCols; }
  __host__ __device__ int tiles() const { return row_blocks() * heads * batch; }
};

struct Tile {
  int row;  // the first of the block's rows
  int head;
  int batch;

  // Neighbours in time share K and V where the row blocks of a head follow each other; where heads
  // do, all heads of a batch are under way at once.
  __device__ __forceinline__ Tile(const Problem& problem, int index) {
    const int row_blocks = problem.row_blocks();
    if constexpr (kHeadsInnermost) {
      head = index % problem.heads;
      row = index / problem.heads % row_blocks * kBlockRows;
    } else {
      row = index % row_blocks * kBlockRows;
      head = index / row_blocks % problem.heads;
    }
    batch = index / (row_blocks * problem.heads);
  }
};

// Calls `work(tile, timeline)` for the tiles of this block: one, or every gridDim-th.
//
// What an in-kernel timeline shows are the first tiles of a few blocks, of which `row` and `writes`
// say who writes them down. They have code of their own: all others run what is measured.
template <typename Work>
__device__ __forceinline__ void for_each_tile(const Problem& problem, int row, bool writes,
                                              Work work) {
  profiler::NoTimeline none;
  if constexpr (kPersistent) {
    const int tiles = problem.tiles();
    int index = blockIdx.x;
    if (profiler::records_block()) {
      profiler::Timeline timeline(row, writes);
#pragma unroll 1
      for (int count = 0; count < kRecordedTiles && index < tiles; ++count) {
        work(Tile(problem, index), timeline);
        index += gridDim.x;
      }
    }
#pragma unroll 1
    for (; index < tiles; index += gridDim.x) work(Tile(problem, index), none);
  } else if (profiler::records_block()) {
    profiler::Timeline timeline(row, writes);
    work(Tile(problem, blockIdx.x), timeline);
  } else {
    work(Tile(problem, blockIdx.x), none);
  }
}

}  // namespace flash_attention_hopper
