// Pairs of further.yaml whose planted kernel has a cause of the other experiments in another strength.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

// conflicts_<ways>. As bank_conflicts_2: lanes read words that are so far apart.
constexpr int kRows = 8;

template <int kWays>
__global__ void __launch_bounds__(kThreads)
    conflicts(const float* __restrict__ input, float* __restrict__ output, int steps) {
  constexpr int kStride = PLANTED ? kWays : 1;
  __shared__ float tile[kRows * kWarp * kWays];
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
    const float* words = tile + ((warp + step) % 2 * (kRows / 2) * kWarp + lane) * kStride;
#pragma unroll
    for (int k = 0; k < kRows / 2; ++k) sum += words[k * kWarp * kStride];
  }
  output[static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x] = sum;
}

// divergence_<kinds>. As divergence, with so many kinds of elements. A block has a warp for each.
template <int kKind>
__device__ __noinline__ float kind_of_chain(float value, int steps) {
  constexpr float kAddend = ADDEND * (kKind + 1);
#pragma unroll 1
  for (int i = 0; i < steps; i += kUnroll) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) value = fmaf(value, FACTOR, kAddend);
  }
  return value;
}

template <int kKind, int kKinds>
__device__ __forceinline__ float chain_by_kind(int kind, float value, int steps) {
  if constexpr (kKind + 1 < kKinds) {
    if (kind != kKind) return chain_by_kind<kKind + 1, kKinds>(kind, value, steps);
  }
  return kind_of_chain<kKind>(value, steps);
}

template <int kKinds, int kThreads>
__global__ void __launch_bounds__(kThreads)
    kinds(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = blockIdx.x * kThreads + warp / kKinds * kKinds * kWarp;
  const int part = warp % kKinds;
  const int index = group + (PLANTED ? part * kWarp + lane : lane * kKinds + part);
  output[index] = chain_by_kind<0, kKinds>(index % kKinds, input[index], steps);
}

// chain_of_<sums>. As dependent_chain, with so many sums in the planted kernel.
constexpr int kFactors = 8;
constexpr int kFactorTable = 4096;

template <int kPlantedSums>
__global__ void __launch_bounds__(kThreads)
    sums_of_products(const float* __restrict__ input, float* __restrict__ output, int steps) {
  constexpr int kSums = PLANTED ? kPlantedSums : kFactors;
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  float factors[kFactors];
#pragma unroll
  for (int k = 0; k < kFactors; ++k) factors[k] = input[(thread + k) % kFactorTable];
  float sums[kSums] = {};
#pragma unroll 8
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int k = 0; k < kFactors; ++k) {
      sums[k % kSums] = fmaf(factors[k], factors[(k + 1) % kFactors], sums[k % kSums]);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kSums; ++k) sum += sums[k];
  output[thread] = sum;
}

// records_of_<fields>. As uncoalesced_loads, with so many fields in a record.
template <int kFields>
__global__ void __launch_bounds__(kThreads)
    records(const float* __restrict__ input, float* __restrict__ output) {
  constexpr int kRows = 32 / kFields;
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float* chunk = input + static_cast<int64_t>(warp) * kFields * kRows * kWarp;
  float sum = 0.0f;
#pragma unroll 1
  for (int field = 0; field < kFields; ++field) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      sum += chunk[PLANTED ? (row * kWarp + lane) * kFields + field
                           : (field * kRows + row) * kWarp + lane];
    }
  }
  sum = warp_sum(sum);
  if (lane == 0) output[warp] = sum;
}


}  // namespace why

#define WHY_STRENGTH(name, kernel, blocks)                                                       \
  WHY_LAUNCHER(name) {                                                                           \
    why::kernel<<<blocks, why::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(                \
        static_cast<const float*>(input), static_cast<float*>(output), steps);                   \
    return cudaGetLastError();                                                                   \
  }

#define WHY_KINDS(name, number, threads)                                                         \
  WHY_LAUNCHER(name) {                                                                           \
    why::kinds<number, threads><<<outputs / threads, threads, 0,                                 \
                                  static_cast<cudaStream_t>(stream)>>>(                          \
        static_cast<const float*>(input), static_cast<float*>(output), steps);                   \
    return cudaGetLastError();                                                                   \
  }

WHY_STRENGTH(conflicts_4, conflicts<4>, outputs / why::kThreads)
WHY_STRENGTH(conflicts_8, conflicts<8>, outputs / why::kThreads)
WHY_STRENGTH(conflicts_16, conflicts<16>, outputs / why::kThreads)
WHY_KINDS(divergence_2, 2, 256)
WHY_KINDS(divergence_8, 8, 256)
WHY_KINDS(divergence_16, 16, 512)
WHY_STRENGTH(chain_of_2, sums_of_products<2>, outputs / why::kThreads)
WHY_STRENGTH(chain_of_4, sums_of_products<4>, outputs / why::kThreads)

#define WHY_RECORDS(name, fields)                                                                \
  WHY_LAUNCHER(name) {                                                                           \
    if (steps != 32) return cudaErrorInvalidValue;                                               \
    why::records<fields><<<outputs * why::kWarp / why::kThreads, why::kThreads, 0,               \
                           static_cast<cudaStream_t>(stream)>>>(                                 \
        static_cast<const float*>(input), static_cast<float*>(output));                          \
    return cudaGetLastError();                                                                   \
  }

WHY_RECORDS(records_of_2, 2)
WHY_RECORDS(records_of_4, 4)
WHY_RECORDS(records_of_16, 16)
