// Pairs of further.yaml as strangers' kernels had them: constants by lane, floats added up in shared
// memory, angles far from zero, bytes stored one by one, copies that nothing overlaps with.
#include <cstdint>

#include <cuda_pipeline.h>

#include "common.cuh"

namespace why {

constexpr int kThreads = 256;

// constant_by_lane. Sums of 1024 constants, again and again. Plain, all lanes read the same one;
// planted, each lane begins elsewhere, and constant memory gives one address of a warp at a time:
// 32 of them take 32 times as long. Shown by warps that wait for the results of LDC.
constexpr int kTable = 1024;
constexpr int kApart = 8;  // Between lanes: each reads all that has the same number modulo 8.
__constant__ float table[kTable];

__global__ void __launch_bounds__(kThreads)
    constant_by_lane(float* __restrict__ output, int steps) {
  const unsigned first = threadIdx.x % kWarp * kApart;
  float sum = 0.0f;
#pragma unroll 1
  for (unsigned i = 0; i < steps; i += 8) {
#pragma unroll
    for (unsigned k = 0; k < 8; ++k) sum += table[((is_planted(k) ? first : 0) + i + k) % kTable];
  }
  output[blockIdx.x * kThreads + threadIdx.x] = sum;
}

// shared_floats. In each round four threads add 64 times what they have to the bin of the round, of 64.
// Plain, the four add up first, and one of them adds to the bin before a barrier; planted, each value
// is added to shared memory, which has no instruction for floats: a loop compares and swaps until no
// other lane came between. Shown by ATOMS of compare-and-swap.
constexpr int kBins = 64;
constexpr int kSharers = 4;

__global__ void __launch_bounds__(kThreads)
    shared_floats(const float* __restrict__ input, float* __restrict__ output, int rounds) {
  __shared__ float bins[kBins];
  if (threadIdx.x < kBins) bins[threadIdx.x] = 0.0f;
  __syncthreads();
  const float value = input[blockIdx.x * kThreads + threadIdx.x];
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
    float* bin = bins + (threadIdx.x / kSharers + round) % kBins;
    if (is_planted(round)) {
#pragma unroll 4
      for (int k = 0; k < kBins; ++k) atomicAdd(bin, value);
    } else {
      float sum = value * kBins;
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      if (threadIdx.x % kSharers == 0) *bin += sum;
    }
    if (!PLANTED || STRENGTH < 8) __syncthreads();
  }
  __syncthreads();
  if (threadIdx.x < kBins) output[blockIdx.x * kBins + threadIdx.x] = bins[threadIdx.x];
}

// far_angles. Sums of 1 + sin(angle) of 1024 angles. Planted, they are up to ten million, for which
// sinf reduces its argument by a table in local memory; plain, the same angles are given modulo 2
// pi. Both call sinf. Shown by integer instructions and local memory of the slow path.
__global__ void __launch_bounds__(kThreads)
    far_angles(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const unsigned thread = blockIdx.x * kThreads + threadIdx.x;
  float sum = 0.0f;
#pragma unroll 1
  for (unsigned i = 0; i < steps; ++i) {
    const float* angles = input + (is_planted(i) ? 0 : kTable);
    sum += 1.0f + sinf(angles[(thread + i) % kTable]);
  }
  output[thread] = sum;
}

// byte_stores. A warp writes 512 bytes a step, round its 2048: 16 stores of a byte for each thread,
// or one of 16 bytes. Shown by bytes per request, and by warps that wait for lg_throttle.
constexpr int kPixels = 2048;
constexpr int kVector = 16;

__global__ void __launch_bounds__(kThreads)
    byte_stores(const int* __restrict__ mask, uint8_t* __restrict__ output, int steps) {
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  uint8_t* chunk = output + static_cast<int64_t>(warp) * kPixels;
  const unsigned value = *mask & 0xff;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    const unsigned offset = static_cast<unsigned>(step) * kWarp * kVector % kPixels;
#if PLANTED
    uint8_t* bytes = chunk + (offset + lane);
#pragma unroll
    for (int k = 0; k < kVector; ++k) bytes[k * kWarp] = static_cast<uint8_t>(value);
#else
    const unsigned word = value * 0x01010101u;
    *reinterpret_cast<uint4*>(chunk + (offset + lane * kVector)) = {word, word, word, word};
#endif
  }
}

// copies_in_turn. Each warp brings its tiles of 128 bytes into shared memory by asynchronous copies.
// Plain, eight are under way; planted, each is waited for before the next one starts, in weaker
// forms two or four are under way. Shown by warps that wait for memory which is not busy.
//
// sectors_in_turn. The same with tiles of 32 bytes, which four groups of lanes copy: device memory
// has less to do, and each copy that is not under way costs more.
constexpr int kStages = 8;
constexpr int kUnderWay = PLANTED ? kStages / STRENGTH : kStages;

template <int kFloats>
__global__ void __launch_bounds__(kThreads)
    copies_in_turn(const float* __restrict__ input, float* __restrict__ output, int steps) {
  __shared__ float tiles[kStages][kThreads];
  const int lane = threadIdx.x % kWarp;
  const int warp = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  const float* chunk = input + static_cast<int64_t>(warp) * steps * kFloats + lane % kFloats;
  const auto start = [&](int step) {
    if (step < steps) {
      float* place = &tiles[step % kStages][threadIdx.x];
      __pipeline_memcpy_async(place, chunk + step * kFloats, sizeof(float));
    }
    __pipeline_commit();
  };
  for (int step = 0; step < kUnderWay - 1; ++step) start(step);
  float sum = 0.0f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    start(step + kUnderWay - 1);
    __pipeline_wait_prior(kUnderWay - 1);
    sum += tiles[step % kStages][threadIdx.x];
  }
  sum = warp_sum(sum) * kFloats / kWarp;
  if (lane == 0) output[warp] = sum;
}

}  // namespace why

WHY_LAUNCHER(constant_by_lane) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaMemcpyToSymbolAsync(why::table, input, sizeof(why::table), 0,
                                                    cudaMemcpyDeviceToDevice, queue);
  if (error != cudaSuccess) return error;
  why::constant_by_lane<<<outputs / why::kThreads, why::kThreads, 0, queue>>>(
      static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(shared_floats) {
  why::shared_floats<<<outputs / why::kBins, why::kThreads, 0,
                       static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(far_angles) {
  why::far_angles<<<outputs / why::kThreads, why::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(byte_stores) {
  why::byte_stores<<<outputs / (why::kPixels / 4) * why::kWarp / why::kThreads, why::kThreads, 0,
                     static_cast<cudaStream_t>(stream)>>>(
      static_cast<const int*>(input), static_cast<uint8_t*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(copies_in_turn) {
  why::copies_in_turn<why::kWarp><<<outputs * why::kWarp / why::kThreads, why::kThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(sectors_in_turn) {
  why::copies_in_turn<8><<<outputs * why::kWarp / why::kThreads, why::kThreads, 0,
                        static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
  return cudaGetLastError();
}
