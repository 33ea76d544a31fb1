// Pairs about what a multiprocessor has room for: shared memory and registers.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 128;

__device__ __forceinline__ float total(float4 values) {
  return (values.x + values.y) + (values.z + values.w);
}

__device__ __forceinline__ float total(float value) { return value; }

// Sum of the values of a lane, one load in flight at a time: with 16 bytes 64 warps keep DRAM busy,
// 8 do not; with 4 bytes every missing warp costs time.
template <typename Values>
__device__ __forceinline__ float sum_of_lane(const Values* __restrict__ input, int warp, int lane,
                                             int steps) {
  const Values* chunk = input + static_cast<int64_t>(warp) * steps * kWarp + lane;
  float sum = 0.0f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) sum += total(chunk[step * kWarp]);
  return sum;
}

// Blocks that fit on a multiprocessor, of 4 warps each, when planted.
constexpr int kBlocksOfSm = STRENGTH == 8 ? 2 : STRENGTH == 4 ? 4 : STRENGTH == 2 ? 8 : 12;

// occupancy_shared_memory. One kernel; the planted launch asks for 104 KiB of shared memory for
// each block of 128 threads, which leaves room for 2 blocks (8 warps) instead of 16 (64 warps) on a
// multiprocessor; in weaker forms for 4, 8 and 12. Shown by warps in flight and by the occupancy
// limit of shared memory. shared_reserved is the same with loads of 4 bytes.
constexpr int kReserved = PLANTED ? 208 * 1024 / kBlocksOfSm : 0;

template <typename Values>
__global__ void __launch_bounds__(kThreads)
    occupancy_shared_memory(const Values* __restrict__ input, float* __restrict__ output,
                            int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float sum = warp_sum(sum_of_lane(input, warp, lane, steps));
  if (lane == 0) output[warp] = sum;
}

// occupancy_registers. Each thread also adds up kHeld values of other lanes. Plain, they are
// fetched after the loads; planted, before the loads, and added up after them, so that each
// occupies a register all the time: 2 blocks fit instead of 16. In weaker forms a part of them is
// fetched before, and 4, 8 or 12 blocks fit. registers_held is the same with loads of 4 bytes.
// Shown by registers per thread, warps in flight and the occupancy limit of registers. The
// instructions are the same.
constexpr int kHeld = 192;
constexpr int kHeldEarly = !PLANTED        ? 0
                           : STRENGTH == 8 ? kHeld
                           : STRENGTH == 4 ? 100
                           : STRENGTH == 2 ? 46
                                           : 22;
constexpr int kLeastBlocks = PLANTED ? 1 : 16;

// Unlike arithmetic, a shuffle is not moved to where its value is used.
__device__ __forceinline__ float fetch(float unit, int k) {
  return __shfl_sync(0xffffffffu, unit * static_cast<float>(k + 1), k % kWarp);
}

template <typename Values>
__global__ void __launch_bounds__(kThreads, kLeastBlocks)
    occupancy_registers(const Values* __restrict__ input, float* __restrict__ output, int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float unit = reinterpret_cast<const float*>(input)[lane] / 16384.0f;
  float held[kHeld];
#pragma unroll
  for (int k = 0; k < kHeldEarly; ++k) held[k] = fetch(unit, k);
  float sum = sum_of_lane(input, warp, lane, steps);
#pragma unroll
  for (int k = kHeldEarly; k < kHeld; ++k) held[k] = fetch(unit, k);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) sum += held[k];
  sum = warp_sum(sum);
  if (lane == 0) output[warp] = sum;
}

// register_spills. A thread advances kChains independent values by one step at a time. 64 registers
// hold them; planted, the compiler may use 40, keeps a part of the values in local memory, and
// loads and stores those in every step: 192 bytes, and 128, 64 and 32 where it may use 44, 48 and 50
// registers. A multiprocessor holds one block of 1024 threads in all forms. Shown by local loads and
// stores; the warps wait for lg_throttle and long_scoreboard.
constexpr int kBlock = 1024;
constexpr int kChains = 48;
constexpr int kRegisters = !PLANTED        ? 64
                           : STRENGTH == 8 ? 40
                           : STRENGTH == 4 ? 44
                           : STRENGTH == 2 ? 48
                                           : 50;

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

template <typename Values>
int launch_with_shared_memory(const void* input, void* output, int outputs, int steps,
                              void* stream) {
  const cudaError_t error =
      cudaFuncSetAttribute(occupancy_shared_memory<Values>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, kReserved);
  if (error != cudaSuccess) return error;
  occupancy_shared_memory<<<outputs * kWarp / kThreads, kThreads, kReserved,
                            static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Values*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

template <typename Values>
int launch_with_registers(const void* input, void* output, int outputs, int steps, void* stream) {
  occupancy_registers<<<outputs * kWarp / kThreads, kThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(
      static_cast<const Values*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

}  // namespace why

WHY_LAUNCHER(occupancy_shared_memory) {
  return why::launch_with_shared_memory<float4>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(shared_reserved) {
  return why::launch_with_shared_memory<float>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(occupancy_registers) {
  return why::launch_with_registers<float4>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(registers_held) {
  return why::launch_with_registers<float>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(register_spills) {
  why::register_spills<<<outputs / why::kBlock, why::kBlock, 0,
                         static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
