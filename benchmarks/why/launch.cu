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
constexpr int kShare = PLANTED ? 8 : 1;

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
constexpr int kBlock = PLANTED ? 32 : 128;
constexpr int kSteps = 24;

__global__ void __launch_bounds__(kBlock)
    occupancy_blocks(const float* __restrict__ input, float* __restrict__ output, int steps) {
  const int thread = blockIdx.x * kBlock + threadIdx.x;
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

}  // namespace why

WHY_LAUNCHER(small_grid) {
  int slots = 0;
  const cudaError_t error = why::count_slots(why::small_grid, why::kItem, &slots);
  if (error != cudaSuccess) return error;
  why::small_grid<<<slots / why::kShare, why::kItem, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), outputs / why::kItem, steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(occupancy_blocks) {
  why::occupancy_blocks<<<outputs / why::kBlock, why::kBlock, 0,
                          static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), steps);
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
