// Reductions over a block, a warp, and groups of warps inside a block.
#pragma once

#include "row_io.cuh"

namespace softmax {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

struct Max {
  static __device__ __forceinline__ float identity() { return kLowest; }
  static __device__ __forceinline__ float combine(float a, float b) { return fmaxf(a, b); }
};

struct Sum {
  static __device__ __forceinline__ float identity() { return 0.0f; }
  static __device__ __forceinline__ float combine(float a, float b) { return a + b; }
};

// Textbook tree over shared memory: a barrier for each of the log2(BLOCK) steps.
template <typename Op, int BLOCK>
__device__ float reduce_tree(float value) {
  __shared__ float partial[BLOCK];
  partial[threadIdx.x] = value;
  __syncthreads();
#pragma unroll
  for (int stride = BLOCK / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      partial[threadIdx.x] = Op::combine(partial[threadIdx.x], partial[threadIdx.x + stride]);
    }
    __syncthreads();
  }
  const float result = partial[0];
  __syncthreads();  // `partial` is used again by the next reduction.
  return result;
}

// Butterfly: every lane ends with the result.
template <typename Op>
__device__ __forceinline__ float reduce_warp(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = Op::combine(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

// Reduction over each group of GROUP neighbouring threads of a block of BLOCK. Every thread of the
// block must call it. One barrier pair where a group spans warps, none where it is one warp.
template <typename Op, int BLOCK, int GROUP>
__device__ __forceinline__ float reduce_group(float value) {
  static_assert(GROUP % kWarp == 0 && BLOCK % GROUP == 0, "a group is made of whole warps");
  value = reduce_warp<Op>(value);
  if constexpr (GROUP > kWarp) {
    constexpr int kWarps = GROUP / kWarp;
    __shared__ float partial[BLOCK / kWarp];
    const int warp = threadIdx.x / kWarp;
    const int lane = threadIdx.x % kWarp;
    if (lane == 0) partial[warp] = value;
    __syncthreads();
    value = lane < kWarps ? partial[warp / kWarps * kWarps + lane] : Op::identity();
    value = reduce_warp<Op>(value);
    __syncthreads();  // `partial` is used again by the next reduction.
  }
  return value;
}

// Running maximum, and the sum of exponentials relative to it.
struct Running {
  float maximum = kLowest;
  float sum = 0.0f;

  __device__ __forceinline__ void rescale(float maximum_new) {
    sum *= fast_exp(maximum - maximum_new);
    maximum = maximum_new;
  }
};

// Joins the running values of a group; the rescaling needs only the group's maximum.
template <int BLOCK, int GROUP>
__device__ __forceinline__ Running reduce_running(Running local) {
  local.rescale(reduce_group<Max, BLOCK, GROUP>(local.maximum));
  local.sum = reduce_group<Sum, BLOCK, GROUP>(local.sum);
  return local;
}

}  // namespace softmax
