// What the softmax of every attention kernel is made of: exponentials, packing, rows across lanes.
#pragma once

#include <cstdint>

namespace attention {

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kSlack = 8.0f;  // Exponentials up to 2^8: far from the 65504 of fp16.
constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kHalves = 2;  // A lane holds elements of two rows of a 16-row tile.

__device__ __forceinline__ float exp2_approx(float value) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

// Two floats as a register of two 16-bit elements, `low` first in memory.
template <bool BF16>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t result;
  if constexpr (BF16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  }
  return result;
}

// Lanes 4i to 4i + 3 hold one row.
__device__ __forceinline__ float row_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}

__device__ __forceinline__ float row_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

}  // namespace attention
