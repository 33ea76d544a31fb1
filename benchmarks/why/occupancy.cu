// Pairs about what a multiprocessor has room for: shared memory and registers.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 128;

// Sum of the values of a lane, one load of 16 bytes in flight at a time: 64 warps keep DRAM busy
// with that, 8 do not.
__device__ __forceinline__ float sum_of_lane(const float4* __restrict__ input, int warp, int lane,
                                             int steps) {
  const float4* chunk = input + static_cast<int64_t>(warp) * steps * kWarp + lane;
  float sum = 0.0f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const float4 values = chunk[step * kWarp];
    sum += (values.x + values.y) + (values.z + values.w);
  }
  return sum;
}

// occupancy_shared_memory. One kernel; the planted launch asks for 96 KiB of shared memory for each
// block of 128 threads, which leaves room for 2 blocks (8 warps) instead of 16 (64 warps) on a
// multiprocessor. Shown by warps in flight and by the occupancy limit of shared memory.
constexpr int kReserved = PLANTED ? 96 * 1024 : 0;

__global__ void __launch_bounds__(kThreads)
    occupancy_shared_memory(const float4* __restrict__ input, float* __restrict__ output,
                            int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float sum = warp_sum(sum_of_lane(input, warp, lane, steps));
  if (lane == 0) output[warp] = sum;
}

// occupancy_registers. Each thread also adds up kHeld values of other lanes. Plain, they are
// fetched after the loads; planted, before the loads, and added up after them, so that each
// occupies a register all the time: 2 blocks fit instead of 16. Shown by registers per thread,
// warps in flight and the occupancy limit of registers. The instructions are the same.
constexpr int kHeld = 192;
constexpr int kLeastBlocks = PLANTED ? 1 : 16;

// Unlike arithmetic, a shuffle is not moved to where its value is used.
__device__ __forceinline__ float fetch(float unit, int k) {
  return __shfl_sync(0xffffffffu, unit * static_cast<float>(k + 1), k % kWarp);
}

__global__ void __launch_bounds__(kThreads, kLeastBlocks)
    occupancy_registers(const float4* __restrict__ input, float* __restrict__ output, int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float unit = reinterpret_cast<const float*>(input)[lane] / 16384.0f;
  float held[kHeld];
#if PLANTED
#pragma unroll
  for (int k = 0; k < kHeld; ++k) held[k] = fetch(unit, k);
  float sum = sum_of_lane(input, warp, lane, steps);
#else
  float sum = sum_of_lane(input, warp, lane, steps);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) held[k] = fetch(unit, k);
#endif
#pragma unroll
  for (int k = 0; k < kHeld; ++k) sum += held[k];
  sum = warp_sum(sum);
  if (lane == 0) output[warp] = sum;
}

// register_spills. A thread advances kChains independent values by one step at a time. 64 registers
// hold them; planted, the compiler may use 40, keeps a part of the values in local memory, and
// loads and stores those in every step. A multiprocessor holds one block of 1024 threads either
// way. Shown by local loads and stores; the warps wait for lg_throttle and long_scoreboard.
constexpr int kBlock = 1024;
constexpr int kChains = 48;
constexpr int kRegisters = PLANTED ? 40 : 64;

__global__ void __maxnreg__(kRegisters)
    register_spills(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kBlock + threadIdx.x;
  const float first = input[thread];
  float values[kChains];
#pragma unroll
  for (int k = 0; k < kChains; ++k) values[k] = first + static_cast<float>(k);
#pragma unroll 1  // Several steps at once would make fewer loads and stores do.
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int k = 0; k < kChains; ++k) values[k] = step(values[k]);
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kChains; ++k) sum += values[k];
  output[thread] = sum;
}

}  // namespace why

WHY_LAUNCHER(occupancy_shared_memory) {
  const cudaError_t error =
      cudaFuncSetAttribute(why::occupancy_shared_memory,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, why::kReserved);
  if (error != cudaSuccess) return error;
  why::occupancy_shared_memory<<<outputs * why::kWarp / why::kThreads, why::kThreads,
                                 why::kReserved, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float4*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(occupancy_registers) {
  why::occupancy_registers<<<outputs * why::kWarp / why::kThreads, why::kThreads, 0,
                             static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float4*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(register_spills) {
  why::register_spills<<<outputs / why::kBlock, why::kBlock, 0,
                         static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
