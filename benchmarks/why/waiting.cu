// Pairs of more.yaml whose planted kernel waits for constants, or sleeps.
#include "common.cuh"

namespace why {

// constant_misses. Every thread goes over one field of 512 records in constant memory, again and
// again. Plain, the values of the field lie next to each other, 2 KiB; planted, each lies in its
// record of 64 bytes (in weaker forms 8, 16 or 32), a line of the cache, and the 512 lines between
// two values of one are 32 KiB, where the cache next to a scheduler has 2 KiB (Jia et al., 2018, for Volta). All threads read the
// same address, so that nothing is serialized, and the compiler knows it: ULDC, whose misses hold
// back the warp itself, where those of LDC are waited for as short_scoreboard. 4 warps on a
// scheduler cannot hide the misses: 64 passes over 512 values, a load and a multiply-add each, take
// 4 * 64 * 512 * 2 issue slots, 0.13 ms on an H200. Shown by warps that wait for imc_miss.
constexpr int kThreads = 512;
constexpr int kRecords = 512;
constexpr int kFields = PLANTED ? 2 * STRENGTH : 1;
constexpr int kTable = kRecords * kFields;

__constant__ float table[kTable];

__global__ void __launch_bounds__(kThreads)
    constant_misses(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  const float factor = input[thread % 16];
  float sum = 0.0f;
#pragma unroll 1
  for (int pass = 0; pass < steps; ++pass) {
#pragma unroll 16
    for (int record = 0; record < kRecords; ++record) {
      sum = fmaf(table[record * kFields], factor, sum);
    }
  }
  output[thread] = sum;
}

// sleeping. The warps of a block hand a value on to each other, each makes 32 steps of its chain,
// and the others ask a word of shared memory whose turn it is. Planted, they sleep for about 500 ns
// between two questions, most of which passes after it is their turn. 1024 turns of 32 steps (128
// cycles) and the way through shared memory (about 100) take 0.13 ms on an H200. Blocks of 8 warps,
// 2 on a multiprocessor: more of them would take issue slots from the one whose turn it is. Shown
// by warps that wait for sleeping.
constexpr int kRing = 256;
constexpr unsigned kNanoseconds = 500;

__global__ void __launch_bounds__(kRing)
    sleeping(const float* __restrict__ input, float* __restrict__ output, int steps) {
  __shared__ volatile int turn;
  __shared__ volatile float values[kWarp];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int index = blockIdx.x * kWarp + lane;
  if (threadIdx.x == 0) turn = 0;
  if (warp == 0) values[lane] = input[index];
  __syncthreads();
#pragma unroll 1
  for (int mine = warp; mine < steps; mine += kRing / kWarp) {
#pragma unroll 1
    while (turn != mine) {
      if (is_planted(mine / (kRing / kWarp))) __nanosleep(kNanoseconds);
    }
    __syncwarp();
    float value = values[lane];
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) value = step(value);
    values[lane] = value;
    __threadfence_block();
    __syncwarp();
    if (lane == 0) turn = mine + 1;
  }
  __syncthreads();
  if (warp == 0) output[index] = values[lane];
}

}  // namespace why

// `input` holds the values of the field, and behind them records of 16 fields that all have them.
WHY_LAUNCHER(constant_misses) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const auto* values = static_cast<const float*>(input);
  void* table = nullptr;
  cudaError_t error = cudaGetSymbolAddress(&table, why::table);
  if (error != cudaSuccess) return error;
  constexpr size_t kBytes = why::kFields * sizeof(float);
  error = cudaMemcpy2DAsync(table, kBytes, values + why::kRecords, 16 * sizeof(float), kBytes,
                            why::kRecords, cudaMemcpyDeviceToDevice, queue);
  if (error != cudaSuccess) return error;
  why::constant_misses<<<outputs / why::kThreads, why::kThreads, 0, queue>>>(
      values, static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(sleeping) {
  why::sleeping<<<outputs / why::kWarp, why::kRing, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
