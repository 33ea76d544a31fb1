// What the pairs share. PLANTED is 0 or 1, FACTOR and ADDEND are the constants of every chain.
// STRENGTH, of a planted kernel, says how much of its mistake it has: 8 is all of it.
#pragma once

#include <cuda_runtime.h>

namespace why {

constexpr int kWarp = 32;

// Whether a step is one of the STRENGTH of 8 that are done in the planted way.
__device__ __forceinline__ constexpr bool is_planted(unsigned step) {
  return PLANTED && step % 8 < STRENGTH;
}

// The same of blocks. Neighbours differ, and so do those that are 132 apart, which start on the
// same multiprocessor.
__device__ __forceinline__ bool is_planted_block() {
  return is_planted(blockIdx.x + blockIdx.x / 8);
}

// One step of a chain of dependent multiply-adds.
__device__ __forceinline__ float step(float value) { return fmaf(value, FACTOR, ADDEND); }

constexpr int kUnroll = 32;  // Divides every number of steps of a chain.

__device__ __forceinline__ float chain(float value, int steps) {
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnroll) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) value = step(value);
  }
  return value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

__device__ __forceinline__ int warp_sum(int value) { return __reduce_add_sync(0xffffffffu, value); }

// Blocks of a kernel that this GPU holds at once.
template <typename Kernel>
cudaError_t count_slots(Kernel kernel, int threads, int* slots) {
  int device = 0;
  int multiprocessors = 0;
  int blocks = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);
  *slots = multiprocessors * blocks;
  return error;
}

}  // namespace why

// Each pair has a launcher `why_<case>` of this form: it starts its kernel on `stream` and returns
// the error code. `outputs` and `steps` are the sizes of the case in space.py.
#define WHY_LAUNCHER(name)                                                                      \
  extern "C" int why_##name(const void* input, void* output, int outputs, int steps, void* stream)
