// The two matrix products, S = Q K^T and O += P V, on the tensor cores.
#pragma once

#include "fragments.cuh"

namespace flash_attention {

// Sums of one 16x8 tile: a lane holds two neighbouring columns of row lane / 4 (0, 1) and of the
// row 8 below it (2, 3).
using Tile = float[4];
using Scores = Tile[kRowTiles][kScoreTiles];
using Output = Tile[kRowTiles][kOutTiles];

// c += a b. `b` is half of what one ldmatrix loads: the two registers of one 8-column tile.
__device__ __forceinline__ void multiply(Tile& c, const uint32_t (&a)[4], uint32_t b0,
                                         uint32_t b1) {
  if constexpr (kBf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

// One step along the depth: every row tile with every column tile.
template <int ROW_TILES, int COL_TILES, int QUADS>
__device__ __forceinline__ void multiply_step(Tile (&c)[ROW_TILES][COL_TILES],
                                              const uint32_t (&a)[ROW_TILES][4],
                                              const uint32_t (&b)[QUADS][4]) {
  const auto multiply_one = [&](int row, int col) {
    multiply(c[row][col], a[row], b[col / 2][col % 2 * 2], b[col / 2][col % 2 * 2 + 1]);
  };
  if constexpr (kWovenProducts) {
    // Both row tiles use a fragment of B while it is at hand.
#pragma unroll
    for (int col = 0; col < COL_TILES; ++col) {
#pragma unroll
      for (int row = 0; row < ROW_TILES; ++row) multiply_one(row, col);
    }
  } else {
#pragma unroll
    for (int row = 0; row < ROW_TILES; ++row) {
#pragma unroll
      for (int col = 0; col < COL_TILES; ++col) multiply_one(row, col);
    }
  }
}

using Query = Operand<QueryStep, kQTiles>;
using Keys = Operand<KeyStep, kKTiles>;
using Values = Operand<ValueStep, kVTiles>;

// S = Q K^T. A query that is held whole stays in its registers for the whole kernel.
__device__ __forceinline__ void multiply_scores(Scores& scores, Query& query,
                                                const QueryStep& query_source,
                                                const KeyStep& key_source) {
#pragma unroll
  for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
    for (int col = 0; col < kScoreTiles; ++col) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[row][col][i] = 0.0f;
    }
  }
  Keys keys;
  if constexpr (kQTiles != 0) query.begin(query_source);
  keys.begin(key_source);
#pragma unroll
  for (int step = 0; step < kScoreSteps; ++step) {
    if constexpr (kQTiles != 0) query.at_step(query_source, step);
    keys.at_step(key_source, step);
    multiply_step(scores, query.step(step), keys.step(step));
  }
}

}  // namespace flash_attention
