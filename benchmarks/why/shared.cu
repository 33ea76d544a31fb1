// Pairs about what the threads of a block share: conflicts of shared memory, and barriers.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// bank_conflicts_32. Each lane adds up a row of a 32 x 32 tile. Rows of 33 words put the lanes on
// 32 banks; rows of 32 words put all of them on one bank, and a request takes 32 wavefronts. Shown
// by wavefronts per request of shared loads and by bank conflicts; the warps wait for mio_throttle
// and short_scoreboard.
constexpr int kPitch = PLANTED ? 32 : 33;

__global__ void __launch_bounds__(kThreads)
    bank_conflicts_32(const float* __restrict__ input, float* __restrict__ output, int steps) {
  __shared__ float tile[kWarp * 33];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  for (int row = warp; row < kWarp; row += kWarps) {
    tile[row * kPitch + lane] =
        input[(static_cast<int64_t>(blockIdx.x) * kWarp + row) * kWarp + lane];
  }
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    // 8 words apart, so that the compiler cannot join the four into a wider load.
    const float* words = tile + lane * kPitch + (warp + step) % 8;
#pragma unroll
    for (int k = 0; k < 4; ++k) sum += words[k * 8];
  }
  output[static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x] = sum;
}

// bank_conflicts_2. The lanes read words that lie next to each other, or two apart: then pairs of
// lanes share a bank, and a request takes 2 wavefronts. The kernel does little but read shared
// memory, so that its pipe is busy all the time in both.
constexpr int kRows = 64;
constexpr int kStride = PLANTED ? 2 : 1;

__global__ void __launch_bounds__(kThreads)
    bank_conflicts_2(const float* __restrict__ input, float* __restrict__ output, int steps) {
  __shared__ float tile[kRows * kWarp * 2];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  for (int row = warp; row < kRows; row += kWarps) {
    tile[(row * kWarp + lane) * kStride] =
        input[(static_cast<int64_t>(blockIdx.x) * kRows + row) * kWarp + lane];
  }
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const float* words = tile + ((warp + step) % 8 * 8 * kWarp + lane) * kStride;
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += words[k * kWarp * kStride];
  }
  output[static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x] = sum;
}

// barrier_waits. In each step one warp of 32 has 32 times the work of the others; it is the turn of
// each warp once in 32 steps, so that all do the same in total. Nothing is shared between them, and
// plain nobody waits. Planted, a barrier ends each step, and 31 warps wait for the busy one; in
// weaker forms it ends 3, 4 or 6 of 8 steps (with 2 of 8 there is always another warp to issue).
// Shown by warps that wait for barrier.
constexpr int kBlock = 1024;
constexpr int kBusy = 256;
constexpr int kIdle = 8;
constexpr int kBarriers = STRENGTH + 2 < 8 ? STRENGTH + 2 : 8;  // Of 8 turns, when planted.

__global__ void __launch_bounds__(kBlock)
    barrier_waits(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kBlock + threadIdx.x;
  const int warp = threadIdx.x / kWarp;
  float value = input[thread];
#pragma unroll 1
  for (int turn = 0; turn < steps; ++turn) {
    const int count = turn % kWarp == warp ? kBusy : kIdle;
#pragma unroll 1
    for (int k = 0; k < count; k += 8) {
#pragma unroll
      for (int j = 0; j < 8; ++j) value = step(value);
    }
    if (PLANTED && turn % 8 < kBarriers) __syncthreads();
  }
  output[thread] = value;
}

}  // namespace why

WHY_LAUNCHER(bank_conflicts_32) {
  why::bank_conflicts_32<<<outputs / why::kThreads, why::kThreads, 0,
                           static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(bank_conflicts_2) {
  why::bank_conflicts_2<<<outputs / why::kThreads, why::kThreads, 0,
                          static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(barrier_waits) {
  why::barrier_waits<<<outputs / why::kBlock, why::kBlock, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
