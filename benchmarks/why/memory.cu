// Pairs whose planted kernel moves the same values in a worse pattern through L1, L2 or DRAM.
#include <cstdint>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;
constexpr int kFields = 8;  // A record of 8 four-byte fields fills a sector of 32 bytes.
constexpr int kRows = 4;    // Records of a lane.
constexpr int kChunk = kFields * kRows * kWarp;

// Position of a lane's value in the chunk of its warp. Records lie one after the other in the
// planted kernel: the lanes of a warp are 32 bytes apart, so that a request touches 32 sectors and
// uses 4 bytes of each. Plain, each field has an array of its own, and a request touches 4 sectors
// that it uses whole. The chunks of the 64 warps of a multiprocessor, 256 KiB, are more than L1
// holds, so that most sectors are fetched again for the next field; those of the whole GPU, 33 MiB,
// fit in L2, so that DRAM has about the same to do in both.
__device__ __forceinline__ int position(bool planted, int field, int row, int lane) {
  return planted ? (row * kWarp + lane) * kFields + field : (field * kRows + row) * kWarp + lane;
}

// uncoalesced_loads. Shown by sectors per request of global loads (32 against 4) and up to 8 times
// the bytes of L2; the warps wait for long_scoreboard.
__global__ void __launch_bounds__(kThreads)
    uncoalesced_loads(const float* __restrict__ input, float* __restrict__ output) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float* chunk = input + static_cast<int64_t>(warp) * kChunk;
  const bool planted = is_planted_block();
  float sum = 0.0f;
#pragma unroll 1
  for (int field = 0; field < kFields; ++field) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) sum += chunk[position(planted, field, row, lane)];
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
  const bool planted = is_planted_block();
#pragma unroll 1
  for (int field = 0; field < kFields; ++field) {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      const int index = chunk + position(planted, field, row, lane);
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
    if (is_planted(step)) {
      const uint8_t* bytes = chunk + (offset + lane);
#pragma unroll
      for (int k = 0; k < kVector; ++k) sum += bytes[k * kWarp];
    } else {
      const uint4 words = *reinterpret_cast<const uint4*>(chunk + (offset + lane * kVector));
      sum = __dp4a(words.x, 0x01010101u, sum);
      sum = __dp4a(words.y, 0x01010101u, sum);
      sum = __dp4a(words.z, 0x01010101u, sum);
      sum = __dp4a(words.w, 0x01010101u, sum);
    }
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
// DRAM. In a weaker form, the first STRENGTH passes do that, and the others are as plain. The loads
// are the same. Shown by DRAM bytes (8 times the input), the L2 hit rate (about 0
// against 7/8), and a longer wait for long_scoreboard.
__global__ void __launch_bounds__(kThreads)
    no_l2_reuse(const float* __restrict__ input, float* __restrict__ output, int steps) {
  constexpr unsigned kWholePasses = PLANTED ? STRENGTH : 0;
  constexpr unsigned kPassesOfGroup = kWholePasses < kPasses ? kPasses - kWholePasses : 1;
  const unsigned rest = blockIdx.x - kWholePasses * kBlocksOfPass;
  const bool whole = PLANTED && blockIdx.x < kWholePasses * kBlocksOfPass;
  const int pass = whole ? blockIdx.x / kBlocksOfPass
                         : kWholePasses + rest / kGroup % kPassesOfGroup;
  const int block = whole ? blockIdx.x % kBlocksOfPass
                          : rest / (kGroup * kPassesOfGroup) * kGroup + rest % kGroup;
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
constexpr unsigned kMask = PLANTED ? 0 : kCounters - 1;

// atomic_contention. A sum over all threads: each adds to one of 1024 counters, which a second
// kernel adds up. Plain, neighbours add to neighbouring counters; planted, all add to the first
// one, one after the other. The instructions are the same, and which counter it is, is an argument,
// so that the compiler cannot add up the values of a warp first. Shown by the busiest slice of L2,
// which alone spends its cycles on atomics; the warps wait for lg_throttle.
__global__ void __launch_bounds__(kThreads)
    atomic_contention(const int* __restrict__ weights, int* __restrict__ counters, int steps,
                      unsigned mask) {
  const unsigned thread = blockIdx.x * kThreads + threadIdx.x;
  const int weight = weights[thread % 2];
  int* counter = counters + (thread & mask);
#pragma unroll 1
  for (int step = 0; step < steps; ++step) atomicAdd(counter, weight + step);
}

// One warp: puts the sum of all counters into each of them.
__global__ void add_up_counters(int* counters) {
  int sum = 0;
#pragma unroll
  for (int k = 0; k < kCounters; k += kWarp) sum += counters[k + threadIdx.x];
  sum = warp_sum(sum);
#pragma unroll
  for (int k = 0; k < kCounters; k += kWarp) counters[k + threadIdx.x] = sum;
}

// hot_lines. Sums of lines of 128 bytes that all have the same values. Every load goes to L2. It
// is a relaxed one: of others the compiler moves those of eight lines or fewer out of the loop.
// Plain, the warps read 4096 lines in turn, which lie on all slices of L2; planted, 4 of them (in
// weaker forms 8, 16, 32), which lie on as many slices at most. Shown by the busiest slice of L2.
constexpr unsigned kLines = PLANTED ? 32 / STRENGTH : 4096;

__global__ void __launch_bounds__(kThreads)
    hot_lines(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const unsigned lane = threadIdx.x % kWarp;
  const unsigned warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  float sum = 0.0f;
#pragma unroll 8
  for (unsigned i = 0; i < steps; ++i) {
    float value;
    asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];"
                 : "=f"(value)
                 : "l"(input + (warp + i) % kLines * kWarp + lane));
    sum += value;
  }
  output[warp * kWarp + lane] = sum;
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
  if (outputs != why::kCounters) return cudaErrorInvalidValue;
  constexpr int kBlocks = 8192;
  const auto queue = static_cast<cudaStream_t>(stream);
  auto* counters = static_cast<int*>(output);
  const cudaError_t error = cudaMemsetAsync(counters, 0, outputs * sizeof(int), queue);
  if (error != cudaSuccess) return error;
  why::atomic_contention<<<kBlocks, why::kThreads, 0, queue>>>(static_cast<const int*>(input),
                                                               counters, steps, why::kMask);
  why::add_up_counters<<<1, why::kWarp, 0, queue>>>(counters);
  return cudaGetLastError();
}

WHY_LAUNCHER(hot_lines) {
  why::hot_lines<<<outputs / why::kThreads, why::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

extern "C" const char* why_error_string(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}
