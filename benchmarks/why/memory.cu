// Pairs whose planted kernel moves the same values in a worse pattern through L1, L2 or DRAM.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;
constexpr int kFields = 8;  // A record of 8 four-byte fields fills a sector of 32 bytes.
constexpr int kRows = 16;   // Records of a lane.
constexpr int kChunk = kFields * kRows * kWarp;

// Position of a lane's value in the chunk of its warp.
// Records lie one after the other in the planted kernel: the lanes of a warp are 32 bytes apart, so
// that a request touches 32 sectors and uses 4 bytes of each. Before the next field is looked at,
// the sectors of all rows have passed through L1, which cannot hold them. Plain, each field has an
// array of its own, and a request touches 4 sectors that it uses whole.
__device__ __forceinline__ int position(int field, int row, int lane) {
  return PLANTED ? (row * kWarp + lane) * kFields + field : (field * kRows + row) * kWarp + lane;
}

// uncoalesced_loads. Shown by sectors per request of global loads (32 against 4) and the bytes of
// L2 and DRAM, 8 times as many; the warps wait for long_scoreboard.
__global__ void __launch_bounds__(kThreads)
    uncoalesced_loads(const float* __restrict__ input, float* __restrict__ output) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float* chunk = input + static_cast<int64_t>(warp) * kChunk;
  float sum = 0.0f;
#pragma unroll 1
  for (int field = 0; field < kFields; ++field) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) sum += chunk[position(field, row, lane)];
  }
  sum = warp_sum(sum);
  if (lane == 0) output[warp] = sum;
}

// uncoalesced_stores. The same for writes: sectors per request of global stores (32 against 4) and
// L2 write traffic; the warps wait for lg_throttle and, at their end, drain.
__global__ void __launch_bounds__(kThreads)
    uncoalesced_stores(const int* __restrict__ mask, int* __restrict__ output) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const int chunk = warp * kChunk;
  const int bits = *mask;
#pragma unroll 1
  for (int field = 0; field < kFields; ++field) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int index = chunk + position(field, row, lane);
      output[index] = index ^ bits;
    }
  }
}

constexpr int kPixels = 2048;  // Bytes of a warp; those of 64 warps fit in L1.
constexpr int kVector = 16;    // Bytes of the widest load.

// scalar_loads. Sums of bytes that lie in L1: 16 loads of one byte against one of 16 bytes. L1
// takes a request of a warp per cycle, and a request for one byte per lane brings 32 bytes instead
// of the 128 that it could. Shown by bytes per request, and by warps that wait for lg_throttle.
// (Four bytes against 16 make no such difference on Hopper: both bring 128 bytes a cycle.)
__global__ void __launch_bounds__(kThreads)
    scalar_loads(const uint8_t* __restrict__ pixels, int* __restrict__ output, int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const uint8_t* chunk = pixels + static_cast<int64_t>(warp) * kPixels;
  unsigned sum = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const unsigned offset = static_cast<unsigned>(step) * kWarp * kVector % kPixels;
#if PLANTED
    const uint8_t* bytes = chunk + (offset + lane);
#pragma unroll
    for (int k = 0; k < kVector; ++k) sum += bytes[k * kWarp];
#else
    const uint4 words = *reinterpret_cast<const uint4*>(chunk + (offset + lane * kVector));
    sum = __dp4a(words.x, 0x01010101u, sum);
    sum = __dp4a(words.y, 0x01010101u, sum);
    sum = __dp4a(words.z, 0x01010101u, sum);
    sum = __dp4a(words.w, 0x01010101u, sum);
#endif
  }
  const int total = warp_sum(static_cast<int>(sum));
  if (lane == 0) output[warp] = total;
}

constexpr int kPasses = 8;          // Every tile is read so often.
constexpr int kGroup = 512;         // Blocks whose tiles, 16 MiB, stay in L2 between two passes.
constexpr int kBlocksOfPass = 8192;
constexpr int kWarps = kThreads / kWarp;

// no_l2_reuse. Plain, all passes over a group of tiles come before the next group: 7 of 8 reads hit
// L2. Planted, a pass goes over all 256 MiB before the next one starts, and every read goes to
// DRAM. The loads are the same. Shown by DRAM bytes (8 times the input), the L2 hit rate (about 0
// against 7/8), and a longer wait for long_scoreboard.
__global__ void __launch_bounds__(kThreads)
    no_l2_reuse(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const unsigned group = blockIdx.x / (kGroup * kPasses);
  const int pass = PLANTED ? blockIdx.x / kBlocksOfPass : blockIdx.x / kGroup % kPasses;
  const int block = PLANTED ? blockIdx.x % kBlocksOfPass : group * kGroup + blockIdx.x % kGroup;
  const int lane = threadIdx.x % kWarp;
  const int warp = block * kWarps + threadIdx.x / kWarp;
  const float* tile = input + static_cast<int64_t>(warp) * steps * kWarp;
  float sum = 0.0f;
#pragma unroll 1  // A single load in flight: the time of a load counts, not the bandwidth of L2.
  for (int step = 0; step < steps; ++step) sum += tile[step * kWarp + lane];
  sum = warp_sum(sum) * static_cast<float>(pass + 1);
  if (lane == 0) output[pass * kBlocksOfPass * kWarps + warp] = sum;
}

constexpr int kCounters = 1024;
constexpr int kSegment = 32768;

// atomic_contention. Counts elements by segment: plain, neighbouring lanes have elements of
// neighbouring segments; planted, the elements are in order, so that all lanes of hundreds of warps
// add to one address at a time, one after the other. The atomics are as many. Shown by the share of
// cycles of the busiest slice of L2 that it spends on atomics; the warps wait for lg_throttle.
// In float, because the compiler would add up integers of a warp before it touches memory.
__global__ void __launch_bounds__(kThreads)
    atomic_contention(const float* __restrict__ weights, float* __restrict__ counters, int steps) {
  const unsigned threads = gridDim.x * kThreads;
  const unsigned thread = blockIdx.x * kThreads + threadIdx.x;
  const float even = weights[0];
  const float odd = weights[1];
#pragma unroll 4
  for (int step = 0; step < steps; ++step) {
    const unsigned index = step * threads + thread;
    const unsigned segment = PLANTED ? index / kSegment : index % kCounters;
    // Number of the element in its segment.
    const unsigned element = PLANTED ? index % kSegment : index / kCounters;
    atomicAdd(counters + segment, element % 2 == 0 ? even : odd);
  }
}

}  // namespace why

WHY_LAUNCHER(uncoalesced_loads) {
  if (steps != why::kFields * why::kRows) return cudaErrorInvalidValue;
  why::uncoalesced_loads<<<outputs * why::kWarp / why::kThreads, why::kThreads, 0,
                           static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output));
  return cudaGetLastError();
}

WHY_LAUNCHER(uncoalesced_stores) {
  if (steps != why::kFields * why::kRows) return cudaErrorInvalidValue;
  why::uncoalesced_stores<<<outputs / steps / why::kThreads, why::kThreads, 0,
                            static_cast<cudaStream_t>(stream)>>>(
      static_cast<const int*>(input), static_cast<int*>(output));
  return cudaGetLastError();
}

WHY_LAUNCHER(scalar_loads) {
  why::scalar_loads<<<outputs * why::kWarp / why::kThreads, why::kThreads, 0,
                      static_cast<cudaStream_t>(stream)>>>(static_cast<const uint8_t*>(input),
                                                           static_cast<int*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(no_l2_reuse) {
  if (outputs != why::kPasses * why::kBlocksOfPass * why::kWarps) return cudaErrorInvalidValue;
  why::no_l2_reuse<<<outputs / why::kWarps, why::kThreads, 0,
                     static_cast<cudaStream_t>(stream)>>>(static_cast<const float*>(input),
                                                          static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(atomic_contention) {
  constexpr int kElements = why::kCounters * why::kSegment;
  if (outputs != why::kCounters || kElements % (steps * why::kThreads) != 0) {
    return cudaErrorInvalidValue;
  }
  const auto queue = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaMemsetAsync(output, 0, outputs * sizeof(float), queue);
  if (error != cudaSuccess) return error;
  why::atomic_contention<<<kElements / (steps * why::kThreads), why::kThreads, 0, queue>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

extern "C" const char* why_error_string(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
