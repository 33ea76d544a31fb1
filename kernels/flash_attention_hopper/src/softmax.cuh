// The softmax over the keys, online: exponentials relative to a reference value per row.
//
// Any reference gives the same quotient O / sum, as long as nothing overflows. With kLazyRescale it
// follows the row's maximum only where a score exceeds it by more than a factor of 2^kSlack: then a
// step of the loop mostly needs neither a reduction across lanes nor a pass over O.
#pragma once

#include "../../attention/src/softmax_math.cuh"
#include "product.cuh"

namespace flash_attention_hopper {

constexpr float kLowest = -1e30f;  // a reference for rows that have seen no score yet

// Which of its two rows a lane's sum belongs to.
__device__ __forceinline__ constexpr int half_of(int index) { return index / 2 % 2; }

class Softmax {
 public:
  float sum[kHalves];  // of this lane's columns; lanes are summed at the end

  // `scale` is log2(e) / sqrt(d_head): exponents are powers of two.
  __device__ __forceinline__ explicit Softmax(float scale) : scale_(scale) {}

  // Replaces scores by exponentials, adds them up, and finds what O must be rescaled by. FIRST is
  // a row's first step: there is no sum, no reference and no O before it.
  template <bool FIRST>
  __device__ __forceinline__ void take(Scores& scores) {
    float largest[kHalves] = {scores[0], scores[2]};
#pragma unroll
    for (int i = 0; i < kBlockCols / 2; ++i) {
      largest[half_of(i)] = fmaxf(largest[half_of(i)], scores[i]);
    }
    if (FIRST || !kLazyRescale) {
      move_references<FIRST>(largest);
    } else {
      moved_ = __any_sync(kAllLanes, exceeds(largest[0], 0) || exceeds(largest[1], 1));
      if (moved_) move_references<FIRST>(largest);
    }
#pragma unroll
    for (int i = 0; i < kBlockCols / 2; ++i) {
      scores[i] = exp2_approx(fmaf(scores[i], scale_, -reference_[half_of(i)]));
      sum[half_of(i)] += scores[i];
    }
  }

  __device__ __forceinline__ void rescale(Output& output) const {
    if (kLazyRescale && !moved_) return;
#pragma unroll
    for (int i = 0; i < kHeadDim / 2; ++i) output[i] *= factor_[half_of(i)];
  }

 private:
  float scale_;
  float reference_[kHalves];  // exponent that is subtracted
  float factor_[kHalves];
  bool moved_ = false;  // the same in all lanes of a warp

  __device__ __forceinline__ bool exceeds(float score, int half) const {
    return fmaf(score, scale_, -reference_[half]) > kSlack;
  }

  template <bool FIRST>
  __device__ __forceinline__ void move_references(const float (&largest)[kHalves]) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      const float highest = row_max(largest[half]) * scale_;
      if constexpr (FIRST) {
        reference_[half] = kCausal ? fmaxf(highest, kLowest) : highest;
        sum[half] = 0.0f;
      } else {
        const float moved = fmaxf(reference_[half], highest);
        factor_[half] = exp2_approx(reference_[half] - moved);
        reference_[half] = moved;
        sum[half] *= factor_[half];
      }
    }
  }
};

__device__ __forceinline__ void pack_weights(Weights& weights, const Scores& scores) {
#pragma unroll
  for (int i = 0; i < kBlockCols / 4; ++i) {
    weights[i] = pack<kBf16>(scores[2 * i], scores[2 * i + 1]);
  }
}

// Leaves only the first `valid` columns.
__device__ __forceinline__ void mask(Scores& scores, int valid, int lane) {
#pragma unroll
  for (int i = 0; i < kBlockCols / 2; ++i) {
    const int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (col >= valid) scores[i] = -INFINITY;
  }
}

// Leaves, in each row, the columns up to its own key; `diagonal` is that of the warpgroup's first row.
__device__ __forceinline__ void mask_later(Scores& scores, int diagonal, int lane) {
  const int row = threadIdx.x % kGroupThreads / kWarpSize * 16 + lane / 4;
#pragma unroll
  for (int i = 0; i < kBlockCols / 2; ++i) {
    const int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
    if (col > diagonal + row + 8 * half_of(i)) scores[i] = -INFINITY;
  }
}

}  // namespace flash_attention_hopper
