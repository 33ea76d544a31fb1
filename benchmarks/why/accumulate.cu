// Pairs of more.yaml that keep what they add up, or read, in the wrong place: atomics on global and
// on shared memory, an array in local memory, vectors across the boundaries of vectors.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;

// global_atomics. A thread adds to the 8 counters of a record in turn. Plain, it adds up each of
// them in a register and adds 8 sums to memory; planted, every step is an atomic. The lanes of a
// warp add to records of 32 bytes, so that an atomic of a warp is 32 sectors; 131072 records of 4
// MiB in total lie on all slices of L2 alike. These do about 160 sectors of atomics in a
// nanosecond on an H200 (atomic_contention in the recording: 17 million additions, 2.1 million
// sectors, in 8 % of 164 us): 64 million of 2^20 threads with 64 steps take 0.4 ms, 8 million of
// the plain kernel 0.05. Shown by slices of L2 that are all busy with atomics.
constexpr int kFields = 8;
constexpr int kRecords = 131072;
constexpr int kAdders = 8;  // Threads that add to the same record; in other blocks.

__global__ void __launch_bounds__(kThreads)
    global_atomics(const int* __restrict__ weights, int* __restrict__ counters, int steps) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  const int weight = weights[thread % 2];
  int* record = counters + thread % kRecords * kFields;
#if !PLANTED
  int sums[kFields] = {};
#endif
#pragma unroll 1
  for (int round = 0; round < steps; round += kFields) {
#pragma unroll
    for (int k = 0; k < kFields; ++k) {
      const int value = weight ^ (round + k);
#if PLANTED
      atomicAdd(record + k, value);
#else
      sums[k] += value;
#endif
    }
  }
#if !PLANTED
#pragma unroll
  for (int k = 0; k < kFields; ++k) atomicAdd(record + k, sums[k]);
#endif
}

// shared_atomics. Each block adds up weights in 4 bins. Plain, each thread has bins of its own in
// shared memory, one bank for each lane, that are added up at the end; planted, all 256 threads
// have the same 4, and the atomics of about 8 lanes of each warp meet at each of them. Weights
// differ, so that no atomic is a count (which the hardware adds up by itself: ATOMS.POPC.INC). Two
// wavefronts of shared memory for each of 512 steps of 64 warps, in 4 waves, take about 0.15 ms on
// an H200. Shown by atomics that are most of the wavefronts of shared memory; the warps wait for
// mio_throttle and short_scoreboard.
constexpr int kBins = 4;
constexpr int kBinBits = 2;
constexpr int kCodes = 32 / kBinBits;  // Bins of as many steps are in a word.
constexpr bool kOwnBins = !PLANTED || STRENGTH < 8;  // Whether some steps are plain.

__global__ void __launch_bounds__(kThreads)
    shared_atomics(const int* __restrict__ input, int* __restrict__ output, int steps) {
  __shared__ int bins[kBins];
  __shared__ int own_bins[kOwnBins ? kBins * kThreads : 1];
  const int word = input[blockIdx.x * kThreads + threadIdx.x];
  if (threadIdx.x < kBins) bins[threadIdx.x] = 0;
  if (kOwnBins) {
#pragma unroll
    for (int k = 0; k < kBins; ++k) own_bins[k * kThreads + threadIdx.x] = 0;
  }
  __syncthreads();
#pragma unroll 1
  for (int round = 0; round < steps; round += kCodes) {
    unsigned codes = static_cast<unsigned>(word);
#pragma unroll
    for (int k = 0; k < kCodes; ++k) {
      const int bin = codes % kBins;
      codes /= kBins;
      if (is_planted(k)) {
        atomicAdd(bins + bin, round + k);
      } else {
        own_bins[bin * kThreads + threadIdx.x] += round + k;
      }
    }
  }
  __syncthreads();
  const int bin = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  if (bin < kBins) {
    int sum = 0;
    if (kOwnBins) {
#pragma unroll
      for (int k = 0; k < kThreads; k += kWarp) sum += own_bins[bin * kThreads + k + lane];
      sum = warp_sum(sum);
    }
    if (lane == 0) output[blockIdx.x * kBins + bin] = sum + bins[bin];
  }
}

// local_arrays. A thread advances 16 values by a step each in turn, 5 places on from one to the
// next. Plain, the compiler knows the 5 and keeps the values in registers; planted, it is an
// argument, so that the index is not known before the kernel runs, and the values are in local
// memory: those of 64 warps, 128 KiB, fit in L1. These are no spills: registers would hold them. 16
// warps on a scheduler, in 4 waves, of 1536 steps take 0.05 ms on an H200; planted, a load and a
// store of each step are two wavefronts of a multiprocessor, 0.4 ms; in weaker forms they are in
// local memory for the first part of the steps. Shown by local loads and stores.
constexpr int kValues = 16;
constexpr int kPlaces = 5;

__global__ void __launch_bounds__(kThreads)
    local_arrays(const float* __restrict__ input, float* __restrict__ output, int steps,
                 unsigned places) {
  const int thread = blockIdx.x * kThreads + threadIdx.x;
  const float first = input[thread];
  float values[kValues];
#pragma unroll
  for (int k = 0; k < kValues; ++k) values[k] = first + static_cast<float>(k);
  const int planted = PLANTED ? steps / 8 * STRENGTH : 0;
#if PLANTED
  float far[kValues];
#pragma unroll
  for (int k = 0; k < kValues; ++k) far[k] = values[k];
#pragma unroll 1
  for (unsigned i = 0; i < planted; i += kValues) {
#pragma unroll
    for (int k = 0; k < kValues; ++k) {
      const unsigned place = (i + k) * places % kValues;
      far[place] = step(far[place]);
    }
  }
#pragma unroll
  for (int k = 0; k < kValues; ++k) values[k] = far[k];
#endif
#pragma unroll 1
  for (unsigned i = planted; i < steps; i += kValues) {
#pragma unroll
    for (int k = 0; k < kValues; ++k) {
      values[k * kPlaces % kValues] = step(values[k * kPlaces % kValues]);
    }
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kValues; ++k) sum += values[k];
  output[thread] = sum;
}

// misaligned_vectors. A warp goes round its 512 floats, 4 for each lane and step, which lie in L1.
// Plain, the 4 begin at a multiple of 16 bytes, and are one load. Planted, they begin one float
// later, and are 4 loads of 4 bytes, 16 bytes apart from lane to lane: each touches all 16 sectors
// of 512 bytes, and takes as many wavefronts as the one load of 16 bytes. 33792 warps with 256
// steps of 4 wavefronts take 0.17 ms on an H200 (as scalar_loads), planted up to 4 times as long.
// Shown by sectors per request of global loads (16, of which 4 are needed).
constexpr int kFloats = 512;
constexpr int kVector = 4;

__global__ void __launch_bounds__(kThreads)
    misaligned_vectors(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float* chunk = input + static_cast<int64_t>(warp) * kFloats;
  float sum = 0.0f;
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const unsigned first = (static_cast<unsigned>(i) * kWarp + lane) * kVector % kFloats;
#if PLANTED
    const float* three = chunk + first + 1;
    sum += (three[0] + three[1]) + (three[2] + chunk[(first + kVector) % kFloats]);
#else
    const float4 four = *reinterpret_cast<const float4*>(chunk + first);
    sum += (four.x + four.y) + (four.z + four.w);
#endif
  }
  sum = warp_sum(sum);
  if (lane == 0) output[warp] = sum;
}

}  // namespace why

WHY_LAUNCHER(global_atomics) {
  if (outputs != why::kRecords * why::kFields) return cudaErrorInvalidValue;
  const auto queue = static_cast<cudaStream_t>(stream);
  auto* counters = static_cast<int*>(output);
  const cudaError_t error = cudaMemsetAsync(counters, 0, outputs * sizeof(int), queue);
  if (error != cudaSuccess) return error;
  constexpr int kBlocks = why::kRecords * why::kAdders / why::kThreads;
  why::global_atomics<<<kBlocks, why::kThreads, 0, queue>>>(static_cast<const int*>(input),
                                                            counters, steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(shared_atomics) {
  why::shared_atomics<<<outputs / why::kBins, why::kThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(static_cast<const int*>(input),
                                                             static_cast<int*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(local_arrays) {
  why::local_arrays<<<outputs / why::kThreads, why::kThreads, 0,
                      static_cast<cudaStream_t>(stream)>>>(static_cast<const float*>(input),
                                                           static_cast<float*>(output), steps,
                                                           why::kPlaces);
  return cudaGetLastError();
}

WHY_LAUNCHER(misaligned_vectors) {
  why::misaligned_vectors<<<outputs * why::kWarp / why::kThreads, why::kThreads, 0,
                            static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
