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
  // do, all heads of a batch are under way at once. With a causal mask, those with most keys come
  // first.
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
    if constexpr (kCausal) row = (row_blocks - 1) * kBlockRows - row;
  }

  // Tiles of K and V that some row of the block sees.
  __device__ __forceinline__ int steps(const Problem& problem) const {
    if constexpr (!kCausal) return problem.col_blocks();
    const int keys = min(row + kBlockRows, problem.seq_len);
    return (keys + kBlockCols - 1) / kBlockCols;
  }
};

// The tile of a persistent block that comes after another: every gridDim-th. With a causal mask,
// every second round goes the other way: who has long tiles in one has short ones in the next.
__device__ __forceinline__ int next_tile(int index) {
  if constexpr (!kCausal) return index + gridDim.x;
  return index + 2 * (gridDim.x - index % gridDim.x) - 1;
}

// Calls `work(tile, timeline)` for the tiles of this block: one, or those of `next_tile`.
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
        index = next_tile(index);
      }
    }
#pragma unroll 1
    for (; index < tiles; index = next_tile(index)) work(Tile(problem, index), none);
  } else if (profiler::records_block()) {
    profiler::Timeline timeline(row, writes);
    work(Tile(problem, blockIdx.x), timeline);
  } else {
    work(Tile(problem, blockIdx.x), none);
  }
}

}  // namespace flash_attention_hopper
