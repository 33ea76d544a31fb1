// Pairs of further.yaml whose plain kernel has nothing of the planted cause, where one of the other
// experiments still has some of it.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// counters_in_l2. As global_atomics, but a record belongs to one thread: plain, it stores its sums.
constexpr int kFields = 8;

__global__ void __launch_bounds__(kThreads)
    counters_in_l2(const int* __restrict__ weights, int* __restrict__ counters, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  const int weight = weights[thread % 2];
  int* record = counters + thread * kFields;
  int sums[kFields] = {};
#pragma unroll 1
  for (int round = 0; round < steps; round += kFields) {
#pragma unroll
    for (int k = 0; k < kFields; ++k) {
      const int value = weight ^ (round + k);
      if (is_planted(k)) {
        atomicAdd(record + k, value);
      } else {
        sums[k] += value;
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kFields; ++k) {
    if (!is_planted(k)) record[k] = sums[k];
  }
}

// one_counter. A sum over all threads. Plain, each warp adds up its own and stores it, and a second
// kernel adds up those; planted, every thread adds to one address, one after the other;
// which it is, is an argument, so that the compiler cannot add up a warp's values first.
__global__ void __launch_bounds__(kThreads)
    one_counter(const int* __restrict__ weights, int* __restrict__ sums, int steps,
                unsigned mask) {
  const unsigned thread = blockIdx.x * kThreads + threadIdx.x;
  const int weight = weights[thread % 2];
  int sum = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (is_planted(step)) {
      atomicAdd(sums + (thread & mask), weight + step);
    } else {
      sum += weight + step;
    }
  }
  if (PLANTED && STRENGTH == 8) return;
  sum = warp_sum(sum);
  // The first place is also that of the atomics.
  if (PLANTED && thread == 0) {
    atomicAdd(sums, sum);
  } else if (thread % kWarp == 0) {
    sums[thread / kWarp] = sum;
  }
}

// One block: puts the sum of all into the first.
__global__ void __launch_bounds__(kThreads) add_up_sums(int* sums, int count) {
  __shared__ int of_warps[kWarps];
  int sum = 0;
  for (int k = threadIdx.x; k < count; k += kThreads) sum += sums[k];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = sum;
  __syncthreads();
  sum = 0;
  for (int k = 0; k < kWarps; ++k) sum += of_warps[k];
  __syncthreads();
  if (threadIdx.x == 0) sums[0] = sum;
  for (int k = threadIdx.x + 1; k < count; k += kThreads) sums[k] = 0;
}

// long_division. 512 steps of a chain, then the quotient of two 64-bit integers picks whether there
// is one more. Plain, a shift gives the quotient, because the divisor is a power of two; planted, it
// is an argument of which the compiler does not know that, and a division is about 100 instructions.
// All steps are unrolled: the counter of a loop would be integer arithmetic, too.
//
// divisions. The same with a division after 128 steps.
constexpr int kShift = 3;

template <int kSteps>
__global__ void __launch_bounds__(kThreads)
    long_division(const float* __restrict__ input, float* __restrict__ output, int rounds,
                  [[maybe_unused]] unsigned long long divisor) {
  constexpr int kRoundsAtOnce = 512 / kSteps;
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float value = input[thread];
#pragma unroll 1
  for (int first = 0; first < rounds; first += kRoundsAtOnce) {
#pragma unroll
    for (int round = first; round < first + kRoundsAtOnce; ++round) {
#pragma unroll
      for (int k = 0; k < kSteps; ++k) value = step(value);
      const unsigned long long bits = (1ull << 40) + static_cast<unsigned>(round + thread);
      const unsigned long long quotient = is_planted(round) ? bits / divisor : bits >> kShift;
      value = quotient & 1 ? value : step(value);
    }
  }
  output[thread] = value;
}

// far_constants. 128 values that all threads read, each in a record of 64 bytes. Plain, they are in
// shared memory; planted, in constant memory, 8 KiB, whose cache next to a scheduler has 2 KiB.
constexpr int kRecords = 128;
constexpr int kRecordFields = 16;
[[maybe_unused]] __constant__ float far[kRecords * kRecordFields];

__global__ void __launch_bounds__(kThreads)
    far_constants(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
#if !PLANTED
  __shared__ float far[kRecords * kRecordFields];
  for (int k = threadIdx.x; k < kRecords * kRecordFields; k += kThreads) far[k] = input[kRecords + k];
  __syncthreads();
#endif
  const float factor = input[thread % 16];
  float sum = 0.0f;
#pragma unroll 1
  for (int pass = 0; pass < steps; ++pass) {
#pragma unroll 16
    for (int record = 0; record < kRecords; ++record) {
      sum = fmaf(far[record * kRecordFields], factor, sum);
    }
  }
  output[thread] = sum;
}

// many_launches. As launch_overhead with three times the steps; in weaker forms 8, 4 or 2 kernels.
constexpr int kItem = 1024;
[[maybe_unused]] constexpr int kLaunches = 2 * STRENGTH;

__global__ void __launch_bounds__(kItem)
    many_launches(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int index = blockIdx.x * kItem + threadIdx.x;
  output[index] = chain(input[index], steps);
}

__global__ void __launch_bounds__(kItem)
    part_of_many_launches(const float* values, float* output, int steps) {
  const int index = blockIdx.x * kItem + threadIdx.x;
  output[index] = chain(values[index], steps);
}

}  // namespace why

WHY_LAUNCHER(counters_in_l2) {
  const auto queue = static_cast<cudaStream_t>(stream);
  auto* counters = static_cast<int*>(output);
  const cudaError_t error = cudaMemsetAsync(counters, 0, outputs * sizeof(int), queue);
  if (error != cudaSuccess) return error;
  why::counters_in_l2<<<outputs / why::kFields / why::kThreads, why::kThreads, 0, queue>>>(
      static_cast<const int*>(input), counters, steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(one_counter) {
  const auto queue = static_cast<cudaStream_t>(stream);
  auto* sums = static_cast<int*>(output);
  const cudaError_t error = cudaMemsetAsync(sums, 0, outputs * sizeof(int), queue);
  if (error != cudaSuccess) return error;
  why::one_counter<<<outputs / why::kWarps, why::kThreads, 0, queue>>>(
      static_cast<const int*>(input), sums, steps, 0);
  why::add_up_sums<<<1, why::kThreads, 0, queue>>>(sums, outputs);
  return cudaGetLastError();
}

WHY_LAUNCHER(long_division) {
  why::long_division<512><<<outputs / why::kThreads, why::kThreads, 0,
                            static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps, 1ull << why::kShift);
  return cudaGetLastError();
}

WHY_LAUNCHER(divisions) {
  why::long_division<128><<<outputs / why::kThreads, why::kThreads, 0,
                            static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps, 1ull << why::kShift);
  return cudaGetLastError();
}

// `input` holds the values, and behind them the records that begin with them.
WHY_LAUNCHER(far_constants) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const auto* values = static_cast<const float*>(input);
#if PLANTED
  const cudaError_t error =
      cudaMemcpyToSymbolAsync(why::far, values + why::kRecords, sizeof(why::far), 0,
                              cudaMemcpyDeviceToDevice, queue);
  if (error != cudaSuccess) return error;
#endif
  why::far_constants<<<outputs / why::kThreads, why::kThreads, 0, queue>>>(
      values, static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(many_launches) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const int blocks = outputs / why::kItem;
  const auto* from = static_cast<const float*>(input);
  auto* to = static_cast<float*>(output);
#if PLANTED
  for (int launch = 0; launch < why::kLaunches; ++launch) {
    why::part_of_many_launches<<<blocks, why::kItem, 0, queue>>>(launch == 0 ? from : to, to,
                                                                 steps / why::kLaunches);
  }
#else
  why::many_launches<<<blocks, why::kItem, 0, queue>>>(from, to, steps);
#endif
  return cudaGetLastError();
}
