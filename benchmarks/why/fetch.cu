// instruction_fetch. Each warp of a block, and each half of the grid, has another addend. Plain,
// that is a value of one loop; planted, each has a function of its own with 384 unrolled steps, 6
// KiB of instructions. The 64 warps of a multiprocessor (two blocks, one of each half of the grid)
// go through 64 of them, 384 KiB: three times the 128 KiB of instruction cache that
// microbenchmarks found on a multiprocessor of Volta (Jia et al., "Dissecting the NVIDIA Volta GPU
// architecture via microbenchmarking", 2018), so that what was read is gone before it is needed
// again, and comes from L2. In weaker forms only the first part of a warp's steps is in code of its
// own. Two warps with the same code would fetch it once: no two have. Both kernels make as many
// multiply-adds; 12288 steps of 16 warps on a scheduler take 0.1 ms on an H200. Shown by warps that
// wait for no_instruction.
#include <utility>

#include "common.cuh"

namespace why {

constexpr int kThreads = 1024;
constexpr int kPathsOfBlock = kThreads / kWarp;
[[maybe_unused]] constexpr int kPaths = 2 * kPathsOfBlock;
constexpr int kPathSteps = 384;

template <int kPath>
__device__ __noinline__ float follow(float value, int steps) {
  constexpr float kAddend = ADDEND * (kPath + 1);
#pragma unroll 1
  for (int i = 0; i < steps; i += kPathSteps) {
#pragma unroll
    for (int k = 0; k < kPathSteps; ++k) value = fmaf(value, FACTOR, kAddend);
  }
  return value;
}

template <int... kPath>
__device__ __forceinline__ float follow_path(int path, float value, int steps,
                                             std::integer_sequence<int, kPath...>) {
  float result = 0.0f;
  ((path == kPath ? (result = follow<kPath>(value, steps), true) : false) || ...);
  return result;
}

__device__ __forceinline__ float follow_together(int path, float value, int steps) {
  const float addend = ADDEND * static_cast<float>(path + 1);
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnroll) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) value = fmaf(value, FACTOR, addend);
  }
  return value;
}

__global__ void __launch_bounds__(kThreads)
    instruction_fetch(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int half = blockIdx.x * 2 / gridDim.x;
  // The same in all lanes, which the compiler cannot see.
  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / kWarp, 0);
  const int path = half * kPathsOfBlock + warp;
  const int index = blockIdx.x * kThreads + threadIdx.x;
  float value = input[index];
  const int planted = PLANTED ? steps / 8 * STRENGTH : 0;
#if PLANTED
  value = follow_path(path, value, planted, std::make_integer_sequence<int, kPaths>());
#endif
  if (planted < steps) value = follow_together(path, value, steps - planted);
  output[index] = value;
}

}  // namespace why

WHY_LAUNCHER(instruction_fetch) {
  if (steps % (8 * why::kPathSteps) != 0) return cudaErrorInvalidValue;
  why::instruction_fetch<<<outputs / why::kThreads, why::kThreads, 0,
                           static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
