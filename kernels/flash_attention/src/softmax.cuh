// The softmax over the keys, online: exponentials relative to a reference value per row.
//
// Any reference gives the same quotient O / sum, as long as nothing overflows. So the reference
// follows the row's maximum lazily: it moves only when a score exceeds it by more than a factor of
// 2^kSlack, and only then O and the sums are rescaled. After the first block that is rare, and a
// step of the loop needs neither a reduction across lanes nor a pass over O.
#pragma once

#include "../../attention/src/softmax_math.cuh"
#include "product.cuh"

namespace flash_attention {

class Softmax {
 public:
  float sum[kRowTiles][kHalves];  // of this lane's columns; lanes are summed at the end

  // `scale` is 1 / sqrt(d_head). With the optimised softmax the scores stay as they are and the
  // exponent is one multiply-add; otherwise they are scaled, shifted and converted one by one.
  __device__ __forceinline__ explicit Softmax(float scale)
      : scale_(kOptimizedSoftmax ? scale * kLog2E : scale) {
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        sum[row][half] = 0.0f;
        reference_[row][half] = -INFINITY;
      }
    }
  }

  // Scales the scores where that is not folded, and moves the references where they must.
  __device__ __forceinline__ void take(Scores& scores, Output& output) {
    float largest[kRowTiles][kHalves];
    bool exceeds = false;
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row) {
      if constexpr (!kOptimizedSoftmax) scale_scores(scores[row]);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        largest[row][half] = local_max(scores[row], half);
        exceeds |= exponent(largest[row][half], reference_[row][half]) > kSlack;
      }
    }
        if (!kLazyReferences || __any_sync(kAllLanes, exceeds)) move_references(largest, output);
  }

  // Turns one step's 16 columns of scores into a fragment of P, and adds them to the sums.
  __device__ __forceinline__ void probabilities(uint32_t (&p)[kRowTiles][4], const Scores& scores,
                                                int step) {
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int half = i % 2;
        const Tile& tile = scores[row][2 * step + i / 2];
        const float low = exp2_approx(exponent(tile[2 * half], reference_[row][half]));
        const float high = exp2_approx(exponent(tile[2 * half + 1], reference_[row][half]));
        sum[row][half] += low + high;
        p[row][i] = pack<kBf16>(low, high);
      }
    }
  }

 private:
  float scale_;
  float reference_[kRowTiles][kHalves];  // a power of two if optimised, otherwise a scaled score

  __device__ __forceinline__ void scale_scores(Tile (&tiles)[kScoreTiles]) const {
#pragma unroll
    for (int col = 0; col < kScoreTiles; ++col) {
#pragma unroll
      for (int i = 0; i < 4; ++i) tiles[col][i] *= scale_;
    }
  }

  static __device__ __forceinline__ float local_max(const Tile (&tiles)[kScoreTiles], int half) {
    float largest = fmaxf(tiles[0][2 * half], tiles[0][2 * half + 1]);
#pragma unroll
    for (int col = 1; col < kScoreTiles; ++col) {
      largest = fmaxf(largest, fmaxf(tiles[col][2 * half], tiles[col][2 * half + 1]));
    }
    return largest;
  }

  // Power of two of a score relative to a reference.
  __device__ __forceinline__ float exponent(float score, float reference) const {
    if constexpr (kOptimizedSoftmax) return fmaf(score, scale_, -reference);
    return (score - reference) * kLog2E;
  }

  __device__ __forceinline__ void move_references(const float (&largest)[kRowTiles][kHalves],
                                                  Output& output) {
#pragma unroll
    for (int row = 0; row < kRowTiles; ++row) {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) {
        const float highest = row_max(largest[row][half]) * (kOptimizedSoftmax ? scale_ : 1.0f);
        const float moved = fmaxf(reference_[row][half], highest);
        const float change = reference_[row][half] - moved;
        const float factor = exp2_approx(kOptimizedSoftmax ? change : change * kLog2E);
        reference_[row][half] = moved;
        sum[row][half] *= factor;
#pragma unroll
        for (int col = 0; col < kOutTiles; ++col) {
          output[row][col][2 * half] *= factor;
          output[row][col][2 * half + 1] *= factor;
        }
      }
    }
  }
};

}  // namespace flash_attention
