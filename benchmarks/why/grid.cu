// Pairs about how the work is dealt out to blocks: multiprocessors that have nothing left to do.
#include "common.cuh"

namespace why {

constexpr int kThreads = 1024;

// One item: a chain for each thread of the block.
__device__ __forceinline__ void do_item(const float* __restrict__ input, float* __restrict__ output,
                                        int item, int steps) {
  const int index = item * kThreads + threadIdx.x;
  output[index] = chain(input[index], steps);
}

// tail_wave. The items are dealt out evenly, to as many blocks as the GPU holds at once, or
// (planted) to 5 % more: each block then does a little less, but the last few start when all others
// have ended, and most multiprocessors wait for them. In weaker forms 2, 4 and 8 full waves of
// smaller blocks come before these. Shown by waves (1.05), and by multiprocessors
// that are active for a part of the elapsed cycles.
__global__ void __launch_bounds__(kThreads)
    tail_wave(const float* __restrict__ input, float* __restrict__ output, int items, int steps) {
#pragma unroll 1
  for (int item = blockIdx.x; item < items; item += gridDim.x) do_item(input, output, item, steps);
}

// First item of a block; that of the block after the last one is the number of items.
__device__ __forceinline__ int first_item(int block, int items) {
#if PLANTED
  // An eighth of the blocks have half of the items; in a weaker form fewer of them.
  const int heavy = gridDim.x / 8;
  const int heavy_items = items * (8 + 3 * STRENGTH) / 64;
  if (block < heavy) return block * heavy_items / heavy;
  const int others = gridDim.x - heavy;
  return heavy_items + (block - heavy) * (items - heavy_items) / others;
#else
  return block * items / static_cast<int>(gridDim.x);
#endif
}

// block_imbalance. As many blocks as the GPU holds at once, in one wave. Plain, all do the same;
// planted, an eighth of them does 4 times the mean, in weaker forms 2.5, 1.75 and 1.375 times. Shown
// by multiprocessors that are active for a part of the elapsed cycles, in a grid without a tail.
__global__ void __launch_bounds__(kThreads)
    block_imbalance(const float* __restrict__ input, float* __restrict__ output, int items,
                    int steps) {
  const int end = first_item(blockIdx.x + 1, items);
#pragma unroll 1
  for (int item = first_item(blockIdx.x, items); item < end; ++item) {
    do_item(input, output, item, steps);
  }
}

}  // namespace why

WHY_LAUNCHER(tail_wave) {
  int slots = 0;
  const cudaError_t error = why::count_slots(why::tail_wave, why::kThreads, &slots);
  if (error != cudaSuccess) return error;
  const int blocks = PLANTED ? slots * 8 / STRENGTH + (slots + 19) / 20 : slots;
  why::tail_wave<<<blocks, why::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), outputs / why::kThreads,
      steps);
  return cudaGetLastError();
}

WHY_LAUNCHER(block_imbalance) {
  int slots = 0;
  const cudaError_t error = why::count_slots(why::block_imbalance, why::kThreads, &slots);
  if (error != cudaSuccess) return error;
  why::block_imbalance<<<slots, why::kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const float*>(input), static_cast<float*>(output), outputs / why::kThreads,
      steps);
  return cudaGetLastError();
}
