// Pairs of more.yaml about the launch: how many blocks, of what size, in how many kernels.
#include <cstdint>

#include "common.cuh"

namespace why {

// small_grid. Items of one chain for each thread, dealt out evenly to as many blocks of 1024
// threads as the GPU holds at once, or (planted) to an eighth of them: three quarters of the
// multiprocessors have none. The 8 warps of a scheduler still hide the latency of a multiply-add,
// so that idle multiprocessors are the loss. 12 items for a block take 12 * 1024 steps * 16 warps
// of a scheduler, 0.1 ms on an H200; planted 4 times as long. Shown by blocks of the grid and by
// multiprocessors that are active for a quarter of the elapsed cycles.
constexpr int kItem = 1024;

// Two blocks fit on a multiprocessor. Planted, one is on each of a quarter of these, in weaker forms
// of 1 ÷ 2.5, 1.75 and 1.375 of these: it takes so many times as long.
__host__ constexpr int blocks_of_small_grid(int slots) {
  return PLANTED ? slots * 4 / (8 + 3 * STRENGTH) : slots;
}

__global__ void __launch_bounds__(kItem)
    small_grid(const float* __restrict__ input, float* __restrict__ output, int items, int steps) {
#pragma unroll 1
  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const int index = item * kItem + threadIdx.x;
    output[index] = chain(input[index], steps);
  }
}

// occupancy_blocks. Blocks of 128 threads, or (planted) of 32: a multiprocessor takes no more than
// 32 blocks, which are then half of its 64 warps. A warp has one load of 128 bytes in flight, so
// that latency is the limit of both (the bytes of 64 warps on 132 multiprocessors are half of what
// DRAM of an H200 could bring in that time), and half of the warps take twice as long. The 24
// dependent steps after a load are another latency that more warps hide. 33792 warps are 4 waves of
// 64 warps on 132 multiprocessors; 64 loads of about 900 cycles in each take 0.12 ms. Shown by
// warps in flight and by the occupancy limit of blocks.
//
// blocks_after_<steps>. The same with so many dependent steps after a load, which take issue slots:
// the more there are, the less the missing warps cost.
//
// block_sizes. The same with blocks of 704 threads, of which an SM takes 2 (44 warps); in weaker
// forms of 768, 544 and 896 (48, 51 and 56 warps). Shown by the occupancy limit of warps.
constexpr int kSteps = 24;
constexpr int kFewThreads = PLANTED ? 32 : 128;
constexpr int kManyThreads = !PLANTED        ? 128
                             : STRENGTH == 8 ? 704
                             : STRENGTH == 4 ? 768
                             : STRENGTH == 2 ? 544
                                             : 896;

template <int kBlock, int kSteps>
__global__ void __launch_bounds__(kBlock)
    occupancy_blocks(const float* __restrict__ input, float* __restrict__ output, int threads,
                     int steps) {
  const int thread = blockIdx.x * kBlock + threadIdx.x;
  if (thread >= threads) return;  // Whole warps: there are as many threads as fill warps.
  const int lane = thread % kWarp;
  const float* chunk = input + static_cast<int64_t>(thread / kWarp) * steps * kWarp + lane;
  float value = 0.0f;
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    value += chunk[i * kWarp];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) value = step(value);
  }
  output[thread] = value;
}

// uneven_warps. A block of 8 warps adds up what 24 steps make of each value of its 512 rows. Plain,
// each warp has 64 rows; planted, two of them have all, and when the others have ended, nothing
// starts in their place before these have. In weaker forms the two have 2.5, 1.75 and 1.375 times
// their share. Which two, changes from block to block, so that no scheduler has all of them. Loads
// are the limit as in occupancy_blocks. Shown by warps in flight, of which the limits allow more.
constexpr int kUneven = 256;
constexpr int kRowsOfWarp = 64;
constexpr int kHeavyRows = PLANTED ? kRowsOfWarp + kRowsOfWarp * 3 * STRENGTH / 8 : kRowsOfWarp;
constexpr int kLightRows = (8 * kRowsOfWarp - 2 * kHeavyRows) / 6;
static_assert(2 * kHeavyRows + 6 * kLightRows == 8 * kRowsOfWarp, "all rows are dealt out");

__global__ void __launch_bounds__(kUneven)
    uneven_warps(const float* __restrict__ input, float* __restrict__ output) {
  const int lane = threadIdx.x % kWarp;
  const int place = (threadIdx.x / kWarp + blockIdx.x) % 8;
  const int heavy = place < 2 ? place : 2;
  const int first = heavy * kHeavyRows + (place - heavy) * kLightRows;
  const int rows = place < 2 ? kHeavyRows : kLightRows;
  const float* chunk = input + (static_cast<int64_t>(blockIdx.x) * 8 * kRowsOfWarp + first) * kWarp;
  float sum = 0.0f;
#pragma unroll 1
  for (int row = 0; row < rows; ++row) {
    float value = chunk[row * kWarp + lane];
#pragma unroll
    for (int k = 0; k < kSteps; ++k) value = step(value);
    sum += value;
  }
  sum = warp_sum(sum);
  if (lane == 0 && rows > 0) atomicAdd(output + blockIdx.x, sum);
}

// unfused. The chain of each of 64 million values in one kernel, or (planted) in two, of which the
// second reads from device memory what the first has written there. In weaker forms only a part of
// the values is in both. Shown by bytes of device memory beyond those of input and output.
__global__ void __launch_bounds__(kUneven)
    unfused(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kUneven + threadIdx.x;
  float value = input[index];
  for (int k = 0; k < steps; ++k) value = step(value);
  output[index] = value;
}

// The second kernel: values before `half_done` have had half of the steps.
[[maybe_unused]] __global__ void __launch_bounds__(kUneven)
    rest_of_unfused(const float* __restrict__ input, float* output, int steps, int half_done) {
  const int index = blockIdx.x * kUneven + threadIdx.x;
  const bool half = index < half_done;
  float value = half ? output[index] : input[index];
  for (int k = half ? steps / 2 : 0; k < steps; ++k) value = step(value);
  output[index] = value;
}

// launch_overhead. The chain of each thread in one kernel, or (planted) in 16 that follow each
// other, as a simulation that launches a kernel for each of its steps. One wave of full blocks, so
// that nothing else is lost: 6144 steps of 16 warps on a scheduler take 0.05 ms on an H200, and
// each of 16 parts 3 us, to which its start and its end, without a warp on any multiprocessor, add
// 2,700 to 5,500 cycles. Shown by those cycles. (Gaps between kernels are in no duration of ncu.)
[[maybe_unused]] constexpr int kLaunches = 16;

__global__ void __launch_bounds__(kItem)
    launch_overhead(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int index = blockIdx.x * kItem + threadIdx.x;
  output[index] = chain(input[index], steps);
}

// Has a name of its own, so that the account takes all 16 together against the one.
__global__ void __launch_bounds__(kItem)
    sixteenth_of_launch_overhead(const float* values, float* output, int steps) {
  const int index = blockIdx.x * kItem + threadIdx.x;
  output[index] = chain(values[index], steps);
}

template <int kBlock, int kSteps>
int launch_blocks(const void* input, void* output, int outputs, int steps, void* stream) {
  occupancy_blocks<kBlock, kSteps>
      <<<(outputs + kBlock - 1) / kBlock, kBlock, 0, static_cast<cudaStream_t>(stream)>>>(
          static_cast<const float*>(input), static_cast<float*>(output), outputs, steps);
  return cudaGetLastError();
}

}  // namespace why

WHY_LAUNCHER(small_grid) {
  int slots = 0;
  const cudaError_t error = why::count_slots(why::small_grid, why::kItem, &slots);
  if (error != cudaSuccess) return error;
  const int blocks = why::blocks_of_small_grid(slots);
  why::small_grid<<<blocks, why::kItem, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), outputs / why::kItem, steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(occupancy_blocks) {
  return why::launch_blocks<why::kFewThreads, why::kSteps>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(blocks_after_96) {
  return why::launch_blocks<why::kFewThreads, 96>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(blocks_after_128) {
  return why::launch_blocks<why::kFewThreads, 128>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(blocks_after_160) {
  return why::launch_blocks<why::kFewThreads, 160>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(block_sizes) {
  return why::launch_blocks<why::kManyThreads, why::kSteps>(input, output, outputs, steps, stream);
}

WHY_LAUNCHER(uneven_warps) {
  if (steps != 8 * why::kRowsOfWarp) return cudaErrorInvalidValue;
  const auto queue = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaMemsetAsync(output, 0, outputs * sizeof(float), queue);
  if (error != cudaSuccess) return error;
  why::uneven_warps<<<outputs, why::kUneven, 0, queue>>>(static_cast<const float*>(input),
                                                         static_cast<float*>(output));
  return cudaGetLastError();
}

WHY_LAUNCHER(unfused) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const auto* from = static_cast<const float*>(input);
  auto* to = static_cast<float*>(output);
#if PLANTED
  const int half_done = outputs / 8 * STRENGTH;
  why::unfused<<<half_done / why::kUneven, why::kUneven, 0, queue>>>(from, to, steps / 2);
  why::rest_of_unfused<<<outputs / why::kUneven, why::kUneven, 0, queue>>>(from, to, steps,
                                                                          half_done);
#else
  why::unfused<<<outputs / why::kUneven, why::kUneven, 0, queue>>>(from, to, steps);
#endif
  return cudaGetLastError();
}

WHY_LAUNCHER(launch_overhead) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const int blocks = outputs / why::kItem;
  const auto* from = static_cast<const float*>(input);
  auto* to = static_cast<float*>(output);
#if PLANTED
  for (int launch = 0; launch < why::kLaunches; ++launch) {
    why::sixteenth_of_launch_overhead<<<blocks, why::kItem, 0, queue>>>(launch == 0 ? from : to, to,
                                                                       steps / why::kLaunches);
  }
#else
  why::launch_overhead<<<blocks, why::kItem, 0, queue>>>(from, to, steps);
#endif
  return cudaGetLastError();
}
