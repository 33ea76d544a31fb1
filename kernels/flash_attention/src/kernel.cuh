// FlashAttention-2, forward: one thread block per tile of queries, head and batch.
#pragma once

#include "epilogue.cuh"

namespace flash_attention {

// O += P V. Woven, the probabilities of a step are made while the products of the last one are
// under way.
__device__ __forceinline__ void multiply_values(Output& output, const Scores& scores,
                                                Softmax& softmax, Values& values,
                                                const ValueStep& source) {
  uint32_t p[kOutSteps][kRowTiles][4];
#pragma unroll
  for (int step = 0; step < (kWovenProducts ? 1 : kOutSteps); ++step) {
    softmax.probabilities(p[step], scores, step);
  }
  if constexpr (!kValuesAhead) values.begin(source);
#pragma unroll
  for (int step = 0; step < kOutSteps; ++step) {
    values.at_step(source, step);
    multiply_step(output, p[step], values.step(step));
    if (kWovenProducts && step + 1 < kOutSteps) {
      softmax.probabilities(p[step + 1], scores, step + 1);
    }
  }
}

__global__ void __launch_bounds__(kThreads, kMinBlocks)
    flash_attention_forward(const void* q, const void* k, const void* v, void* o, int seq_len,
                            int heads, float scale) {
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t q_tile = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const uint32_t k_tile = q_tile + kBlockRows * kRowBytes;
  const uint32_t v_tile = k_tile + kBlockCols * kRowBytes;
  const int warp = threadIdx.x / kWarpSize;
  const int lane = threadIdx.x % kWarpSize;

  const int64_t stride = static_cast<int64_t>(kStaticStride ? kStaticHeads : heads) * kRowBytes;
  const int64_t head = static_cast<int64_t>(blockIdx.z) * seq_len * stride + blockIdx.y * kRowBytes;
  const int64_t block = head + static_cast<int64_t>(blockIdx.x) * kBlockRows * stride;
  Rows k_rows(static_cast<const char*>(k) + head, stride);
  Rows v_rows(static_cast<const char*>(v) + head, stride);
  constexpr int kAdvance = kBackwards ? -kBlockCols : kBlockCols;
  if constexpr (kBackwards) {
    k_rows.advance(seq_len - kBlockCols);
    v_rows.advance(seq_len - kBlockCols);
  }

  copy_tile<kBlockRows>(q_tile, Rows(static_cast<const char*>(q) + block, stride));
  if constexpr (kEagerLoads) copy_tile<kBlockCols>(k_tile, k_rows);

  const QueryStep query_source(q_tile, warp, lane);
  const KeyStep key_source(k_tile, lane);
  const ValueStep value_source(v_tile, lane);
  Query query;
  if constexpr (kQTiles == 0) {
    tiles_arrive();
    query.begin(query_source);
  }

  Softmax softmax(scale);
  Output output;
#pragma unroll
  for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
    for (int col = 0; col < kOutTiles; ++col) {
#pragma unroll
      for (int i = 0; i < 4; ++i) output[row][col][i] = 0.0f;
    }
  }

#pragma unroll 1
  for (int left = seq_len; left > 0; left -= kBlockCols) {
    if constexpr (!kEagerLoads) copy_tile<kBlockCols>(k_tile, k_rows);
    tiles_arrive();  // K of this step; everybody is done with V of the last one.
    if constexpr (kEagerLoads) copy_tile<kBlockCols>(v_tile, v_rows);

    Scores scores;
    multiply_scores(scores, query, query_source, key_source);

    if constexpr (!kEagerLoads) copy_tile<kBlockCols>(v_tile, v_rows);
    tiles_arrive();  // V of this step; everybody is done with K.
    k_rows.advance(kAdvance);
    v_rows.advance(kAdvance);
    if constexpr (kEagerLoads) {
      if (left > kBlockCols) copy_tile<kBlockCols>(k_tile, k_rows);
    }

    Values values;
    if constexpr (kValuesAhead) values.begin(value_source);
    softmax.take(scores, output);
    multiply_values(output, scores, softmax, values, value_source);
  }

  store_output(output, softmax, q_tile, static_cast<char*>(o) + block, stride, warp, lane);
}

}  // namespace flash_attention
