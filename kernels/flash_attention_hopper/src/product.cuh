// The two matrix products of a warpgroup: S = Q K^T and O += P V. They only start them.
#pragma once

#include "wgmma.cuh"

namespace flash_attention_hopper {

using Scores = float[kBlockCols / 2];
using Output = float[kHeadDim / 2];
using Weights = uint32_t[kBlockCols / 4];  // P, two elements a register

__device__ __forceinline__ void start_scores(Scores& scores, uint32_t query, uint32_t keys) {
  constexpr int kPanelSteps = kPanelCols / kMmaDepth;
  constexpr int kStepBytes = kMmaDepth * kElementBytes;
  const uint64_t a = describe(query, 0);
  const uint64_t b = describe(keys, 0);
  products_begin();
#pragma unroll
  for (int step = 0; step < kHeadDim / kMmaDepth; ++step) {
    const int panel = step / kPanelSteps;
    const int inside = step % kPanelSteps * kStepBytes;
    Wgmma<kBlockCols>::from_shared(scores,
                                   advance(a, panel * kGroupRows * kPanelRowBytes + inside),
                                   advance(b, panel * kBlockCols * kPanelRowBytes + inside),
                                   step != 0);
  }
  products_commit();
}

__device__ __forceinline__ void start_output(Output& output, const Weights& weights,
                                             uint32_t values, bool accumulate) {
  const uint64_t b = describe(values, kBlockCols * kPanelRowBytes);
  products_begin();
#pragma unroll
  for (int step = 0; step < kBlockCols / kMmaDepth; ++step) {
    const uint32_t* a = weights + 4 * step;
    Wgmma<kHeadDim>::from_registers(output, a[0], a[1], a[2], a[3],
                                    advance(b, step * kMmaDepth * kPanelRowBytes),
                                    accumulate || step != 0);
  }
  products_commit();
}

}  // namespace flash_attention_hopper
